"""The native wording of values: plain JSON, times as ISO 8601 UTC, nothing empty, nothing twice; cut to a budget.

Of an answer that is cut no result is dropped and no fact, whatever the budget. What is left of it goes to texts, to the
best result first: what answers the question should not need a second call.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from filemem.dialects.tool import Answer
from filemem.record import DECISION, Outcome, cut, format_time

if TYPE_CHECKING:
    from filemem.memory import Memory
    from filemem.memory.diff import Comparison
    from filemem.memory.history import History, Revision, Step
    from filemem.memory.save import Saved
    from filemem.memory.snapshot import Moment
    from filemem.memory.timeline import Topic
    from filemem.memory.why import Why
    from filemem.query import Hit, Name


# Keys of a record that are shown if they have a value, in this order.
_RECORD = (
    "status outcome confidence limitation decided_by tags affects rejected branch open_files next_steps kind project "
    "facts concepts files_read files_modified department visibility user_id agent_id run_id scope memory_type agent "
    "session source"
)
_SCORES = "keyword vector wording title recency final"
_ALWAYS = ("id", "type", "topic", "title", "path")
_STATUS = {"proposed": "only proposed", "rejected": "rejected", "deprecated": "deprecated"}


def values(value: object, names: str) -> Answer:
    """Fields of a value under their own names, or as `ours=theirs`; collections as lists."""
    fields = (name.partition("=") for name in names.split())
    shown = ((name, getattr(value, field or name)) for name, _, field in fields)
    return {name: list(one) if isinstance(one, tuple) else one for name, one in shown}


def filled(answer: Mapping[str, Any], *keep: str) -> Answer:
    """An answer without what is empty; False is a statement, and `keep` stays in any case."""
    return {name: one for name, one in answer.items() if one or one is False or name in keep}


def counted(number: int, word: str) -> str:
    """A number of things."""
    return f"{number} {word}{'' if number == 1 else 's'}"


def time(at: int | None) -> str:
    """A time in epoch milliseconds as text; "" for none."""
    return format_time(at) if at else ""


def saved(value: Saved) -> Answer:
    """What a write did."""
    waits = "; written, but not committed yet" if value.pending and not value.commit else ""
    near = [
        {**values(one, "id title topic"), "similarity": round(one.similarity, 3), "hint": one.hint}
        for one in value.similar
    ]
    answer = {"success": True, **values(value, "id type"), "message": value.message + waits}
    answer |= {**values(value, "path commit pending superseded would_supersede"), "similar": near}
    return filled(answer | values(value, "degraded note"), "superseded")


def lacking(memory: Memory) -> Answer:
    """Why the last answer of a memory may lack something; nothing if it does not."""
    return {"degraded": memory.lacked} if memory.lacked else {}


def hit(
    value: Hit,
    *,
    whole: bool = False,
    found: bool = False,
    edited: bool = False,
    names: Mapping[str, Name] = MappingProxyType({}),
) -> Answer:
    """One result.

    Args:
        value: the hit.
        whole: add the parts that only matter when one record is read.
        found: a search brought it, so that its score and what replaced it are always given.
        edited: its file has changes that are not committed.
        names: title and path of other records that it leads to.
    """
    record, decided = value.record, value.record.type == DECISION
    answer: Answer = {
        **values(record, "id type"),
        "topic": record.topic if decided else "",
        "title": record.title,
        "path": value.path,
        "created": time(value.created),
        "score": round(value.score, 4),
        "holds": record.status == "accepted" and not value.superseded_by if decided else None,
        **values(value, "superseded_by proposed"),
        **_words(record),
        **values(record, _RECORD),
        **({} if decided else {"status": "", "outcome": ""}),
        "reasons": outcomes(record.outcomes),
        "already_rejected": list(value.already_rejected),
        "scores": {name: round(one, 3) for name, one in values(value.scores, _SCORES).items()} if value.scores else {},
        "heads": list(value.heads) if len(value.heads) > 1 or value.superseded_by else [],
        "drift": str(value.drift) if value.drift and (value.drift.drifted or value.drift.reason) else "",
        "evidence": [str(one) for one in value.evidence],
        **values(value, "chain more"),
        "note": _note(value, edited),
        "successors": [{"id": one, **names[one]._asdict()} for one in value.successors if one in names],
        "related": [
            filled({"kind": edge.kind, "id": edge.target, "title": _title(edge.target, names), "reason": edge.reason})
            | {"reason": edge.reason}
            for edge in value.related
        ],
        "by": provenance(value, whole=whole),
    }
    if whole:
        answer |= {**drifted(value), "supersedes": list(record.supersedes or ())}
        answer |= {"scores": {}, "metadata": dict(record.metadata), "other_keys": dict(record.extra)}
    else:
        answer |= {"snippet": value.snippet.text, "highlight": [list(span) for span in value.snippet.ranges]}
    sure = ("confidence",) * (record.confidence is not None)  # 0 is a statement too
    return filled(answer, *_ALWAYS, *sure, *(("score", "superseded_by") if found else ()))


def _words(record: Any) -> Answer:
    return {"decision": record.decision if record.decision != record.title else "", "text": record.text}


def _title(one: str, names: Mapping[str, Name]) -> str:
    return names[one].title if one in names else ""


def _note(value: Hit, edited: bool) -> str:
    """Everything that makes a record less than it seems, in one note."""
    record = value.record
    notes = [_STATUS.get(record.status, "") if record.type == DECISION else "", value.vacancy]
    notes += [f"contested: {len(value.heads)} decisions hold at once on its topic"] * (len(value.heads) > 1)
    notes += [f"conflict markers at line {value.conflict}: the first side is shown"] * bool(value.conflict)
    notes += ["holds today for a decision that was found"] * value.brought_in
    if record.visibility == "private":
        notes.append("private: never committed")
    elif not value.provenance.commit:
        notes.append("not committed yet")
    return "; ".join(filter(None, (*notes, "has uncommitted changes" if edited else "")))


def drifted(value: Hit) -> Answer:
    """The governed files that are not what they were, and which of them are gone."""
    drift = value.drift
    return filled({"drifted": [*drift.changed, *drift.missing], "gone": list(drift.missing)}) if drift else {}


def provenance(value: Hit, *, whole: bool = True) -> Answer:
    """Who wrote a record, when, in which commit; of who has changed it since, all or only the last."""
    by = value.provenance
    told = {**values(by, "author agent commit"), "date": time(by.date), "branch": by.branch}
    if by.default:
        other = by.default if by.default != by.branch else ""
        told |= {"default": other, "merged": by.merged, "differs": by.differs or None, "landed": time(by.landed)}
    last = {(edit.author, edit.agent): edit for edit in by.edits}  # each once, with their last commit
    edits = sorted(last.values(), key=lambda edit: -edit.at)
    shown = [filled({**values(one, "author agent commit"), "date": time(one.at)}) for one in edits]
    return filled({**told, **values(by, "reviewers co_authors"), "edited": shown[: None if whole else 1]})


def why(value: Why, names: Mapping[str, Name]) -> Answer:
    """The decisions that code rests on, the surest first."""
    results = [
        {**hit(one.hit, names=names), "kind": one.kind, "because": one.because, **drifted(one.hit)}
        for one in value.reasons
    ]
    first, last = value.lines or (0, 0)
    lines = filled({"line": first, "last_line": last if last > first else 0})
    answer = {"path": value.path, **lines, "count": len(results), "total": value.total, "results": results}
    return {**answer, **({"note": value.note} if value.note else {})}


def history(value: History) -> Answer:
    """A chain, oldest first."""
    chain = [_step(step) for step in value.chain]
    vacancy = {"note": value.vacancy} if value.vacancy else {}
    return {**values(value, "topic heads forked"), "chain": chain, **vacancy, "notes": list(value.notes)}


def _step(step: Step) -> Answer:
    record = step.record
    words = _words(record)
    return {
        **values(record, "id title"),
        **values(step, "author agent commit"),
        "date": time(step.at),
        "committed": time(step.committed),
        **values(record, "topic status"),
        "holds": step.holds,
        "outcome": record.outcome,
        "decision": words["decision"],
        "reasoning": words["text"],
        "reasons": outcomes(record.outcomes),
        "evidence": [str(one) for one in step.evidence],
        "rejected": list(record.rejected),
        **values(step, "supersedes superseded_by proposed implied foreign path co_authors reviewers"),
        "note": "has uncommitted changes" if step.edited else "",
        "revisions": revisions(step.revisions),
    }


def revisions(edits: Iterable[Revision]) -> list[Answer]:
    """The edits of a record in place, oldest first; one that is not committed has no commit."""
    return [
        {**values(one, "commit author agent"), "date": time(one.at), **values(one, "subject changes")} for one in edits
    ]


def comparison(value: Comparison) -> Answer:
    """What a branch does to the memory; `counts` by kind, in the order of the effects."""
    effects = [
        filled(
            {
                **values(one, "kind id type topic title path details"),
                "others": [other._asdict() for other in one.others],
            },
            *("kind", "type", "title"),
        )
        for one in value.effects
    ]
    sides = {"base": moment(value.base), "head": moment(value.head), "parted": value.parted}
    return {**sides, "counts": dict(Counter(one.kind for one in value.effects)), "effects": effects}


def moment(value: Moment) -> Answer:
    """The commit that an answer is as of, and what was asked for."""
    return {"name": value.name, "commit": value.id, "date": time(value.at)}


def topic(value: Topic) -> Answer:
    """A topic with what holds today."""
    told = {**values(value, "topic stated title decisions"), "heads": len(value.heads), "ids": list(value.heads)}
    told |= {"forked": value.forked, "latest": time(value.latest)}
    return told | filled({"path": value.path, "note": value.vacancy})


def outcomes(log: Iterable[Outcome]) -> list[Answer]:
    """The outcome log, oldest first."""
    return [{"at": time(entry.at), **values(entry, "outcome reason")} for entry in log]


# -- the budget

_LONGEST_TITLE = 160  # characters
_NAMES = (
    "id type topic title path created score holds superseded_by proposed successors heads status outcome confidence "
    "chain more kind because line drift evidence note by"
)
_FACTS = frozenset(_NAMES.split())  # always shown
_BARE = ("id", "type", "topic", "title", "path", "status", "outcome", "score", "holds", "superseded_by")
_LEADS = ("snippet", "decision", "text")  # the first of these that a result has is the text to show if only one fits
_DETAILS = ("scores", "highlight", "files_read", "files_modified", "facts", "concepts", "session", "source")
_ITEM = 40  # characters of a text per item of a list
# How much of a result is shown at each step, in characters: of its lead and reasons, its decision, the rest.
_STEPS = ((0, 0, 0), (90, 0, 0), (160, 160, 0), (160, 160, 160), (300, 300, 300))
_BEST = 2  # the step to which the best result is raised before any other is
_LINE = 80  # characters that are worth a look at what else could be shown
_encoded = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def within(answer: Answer, budget: int) -> Answer:
    """Cut the texts of an answer's results until it has at most `budget` characters as JSON."""
    results: list[Answer] = answer["results"]
    left = budget - len(_encoded(answer | {"results": []})) - len(results)  # and a comma after each
    if sum(len(_encoded(one)) for one in results) <= left:
        return answer
    facts = [
        {name: part for name, part in one.items() if name in _FACTS}
        | {"title": cut(one["title"], _LONGEST_TITLE), "truncated": True}
        for one in results
    ]
    left -= sum(len(_encoded(one)) for one in facts)
    if left < 0:
        bare = [{name: one[name] for name in (*_BARE, "truncated") if name in one} for one in facts]
        return answer | {"results": bare}
    texts: list[Answer] = [{} for _ in results]
    for at, step in _raises(len(results)):
        if left < _LINE:
            break
        more = _texts(results[at], step)
        size = len(_encoded(more)) - len(_encoded(texts[at]))
        if 0 < size <= left:
            left -= size
            texts[at] = more
    shown = [_merged(*parts) for parts in zip(results, facts, texts, strict=True)]
    return answer | {"results": shown}


def _raises(count: int) -> Iterator[tuple[int, int]]:
    yield from ((0, step) for step in range(1, _BEST + 1))
    yield from ((at, step) for step in range(1, len(_STEPS)) for at in range(count))


def _texts(result: Answer, step: int) -> Answer:
    """What else is shown of a result at a step."""
    lead, decision, rest = _STEPS[step]
    first = next((name for name in _LEADS if name in result), "")
    limits = {"decision": decision} | dict.fromkeys((first, "reasons", "already_rejected"), lead)
    limits |= dict.fromkeys(_DETAILS, rest if step == len(_STEPS) - 1 else 0)
    shown = {}
    for name in result.keys() - _FACTS:
        if limit := limits.get(name, rest):
            value = result[name]
            if name == "reasons":  # the newest tell most
                value = value[-(limit // _ITEM) :]
            shown[name] = _shorter(_around(result, limit) if name == "snippet" else value, limit)
    return shown


def _around(result: Answer, limit: int) -> str:
    """The snippet of a result, from where most of what was found in it fits into `limit` characters."""
    snippet: str = result["snippet"]
    spans: Sequence[Sequence[int]] = result.get("highlight", ())
    if len(snippet) <= limit:
        return snippet
    starts = (0, *(max(0, first - limit // 4) for first, _ in spans))
    start = max(starts, key=lambda at: sum(at <= first and last <= at + limit - 2 for first, last in spans))
    return "…" + snippet[snippet.find(" ", start) + 1 :] if start else snippet


def _merged(result: Answer, facts: Answer, texts: Answer) -> Answer:
    """A result as it is shown, in the order in which it came; unless that is all of it, it says `truncated`."""
    shown = facts | texts
    told = {name: shown[name] for name in result if name in shown}
    return told if told == result else told | {"truncated": True}


def _shorter(value: Any, limit: int) -> Any:
    if isinstance(value, str):
        return cut(value, limit)
    if isinstance(value, list):
        return [_shorter(item, limit) for item in value[: limit // _ITEM]]
    return {key: _shorter(item, limit) for key, item in value.items()} if isinstance(value, Mapping) else value
