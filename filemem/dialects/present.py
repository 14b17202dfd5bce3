"""How records are shown: one table of fields, from which each dialect takes some under its own names.

Plain JSON: times as ISO 8601 UTC, collections as lists, nothing empty, nothing twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from filemem.dialects.tool import Answer
from filemem.memory.fields import heading
from filemem.query import Hit, Results, likely, relevance, topical
from filemem.record import CHECKPOINT, DECISION, Outcome, Record, format_time, number
from filemem.record.lines import hidden_characters

if TYPE_CHECKING:
    from filemem.memory import Memory
    from filemem.memory.diff import Comparison
    from filemem.memory.history import History, Revision, Step, Topic
    from filemem.memory.save import Saved
    from filemem.memory.snapshot import Moment
    from filemem.memory.why import Why
    from filemem.query import Name


_STATUS = {
    "proposed": "only proposed",
    "rejected": "rejected",
    "deprecated": "deprecated",
    "unknown": 'status not understood: "{}"',
}
_SCORES = "keyword vector wording title recency final"

# Native keys, in the order in which they are shown; `fields` says what the marks mean.
_HEAD = "id type topic title path created?"
_BODY = (
    "proposed? decision=decided? text? status=standing? outcome=came? confidence? limitation? decided_by? tags? "
    "affects? guards? "
    "rejected? branch? open_files? next_steps? kind? project? facts? concepts? files_read? files_modified? "
    "department? visibility? user_id? agent_id? run_id? scope? memory_type? agent? session? source? reasons? "
    "already_rejected? heads? drift? evidence? earlier? hidden?"
)
_FROM = "repository? author? commit? link? seen_at? also_in?"  # of one from elsewhere
_WHOLE = f"{_HEAD} {_FROM} holds? superseded_by? {_BODY} drifted? gone? supersedes? metadata? other_keys=extra?"
_LISTED = (
    f"{_HEAD} {_FROM} score? holds? superseded_by? {_BODY} scores? instead? snippet? highlight?"
)


def filled(answer: Mapping[str, Any]) -> Answer:
    """An answer without empty values; False is not empty."""
    return {name: one for name, one in answer.items() if one or one is False}


def counted(count: int, word: str) -> str:
    """A number of things."""
    return f"{count} {word}{'' if count == 1 else 's'}"


def time(at: int | None) -> str:
    """A time in epoch milliseconds as text; "" for none."""
    return format_time(at) if at else ""


def outcomes(log: Iterable[Outcome]) -> list[Answer]:
    """The outcome log, oldest first."""
    return [
        {"at": time(entry.at), "outcome": entry.outcome, "reason": entry.reason} for entry in log
    ]


# -- the texts of a record


def content(record: Record) -> str:
    """The text as the caller gave it: decision, summary or text."""
    if record.type == DECISION:
        return record.decision
    if not record.text:
        return record.title
    untitled = heading(record.text) == record.title
    return record.text if untitled or not record.title else f"{record.title}\n\n{record.text}"


def everything(record: Record) -> str:
    """A record as one text, for systems whose memories are texts."""
    parts = [content(record)]
    if record.type == DECISION:
        parts += [record.text, _listed("Rejected", record.rejected)]
        if record.outcome != "pending":
            parts.append(
                f"Outcome: {record.outcome}" + (f": {reason(record)}" if reason(record) else "")
            )
    elif record.type == CHECKPOINT:
        parts += [f"Next steps:\n{record.next_steps}" if record.next_steps else ""]
    else:
        parts += [_listed("Facts", record.facts)]
    return "\n\n".join(part for part in parts if part)


def _listed(name: str, items: tuple[str, ...]) -> str:
    return "\n".join((f"{name}:", *(f"- {item}" for item in items))) if items else ""


def reason(record: Record) -> str:
    """The reason of the newest outcome, or ""."""
    return record.outcomes[-1].reason if record.outcomes else ""


def _hidden(record: Record) -> str:
    """The number of characters in a record that a model reads and a reader cannot see."""
    texts = (
        getattr(record, name)
        for name in ("title", "topic", "decision", "text", "next_steps", "limitation")
    )
    count = len(
        hidden_characters("\n".join((*dict.fromkeys(texts), *record.rejected, *record.facts)))
    )
    return counted(count, "character") if count else ""


# -- the table of fields


def _decided(record: Record) -> str:
    return record.decision if record.decision != record.title else ""


def _holds(hit: Hit) -> bool | None:
    return (
        hit.record.status == "accepted" and not hit.superseded_by
        if hit.record.type == DECISION
        else None
    )


FIELDS: Mapping[
    str, Callable[[Hit], Any]
] = {  # of a hit, besides its own parts and the keys of its record
    "number": lambda hit: number(hit.id),
    "topic": lambda hit: hit.record.topic if hit.record.type == DECISION else "",
    "created": lambda hit: time(hit.created),
    "seconds": lambda hit: hit.created // 1_000,
    "milliseconds": lambda hit: hit.created,
    "content": lambda hit: content(hit.record),
    "everything": lambda hit: everything(hit.record),
    "decided": lambda hit: _decided(hit.record),
    "holds": _holds,
    "standing": lambda hit: hit.record.status if hit.record.type == DECISION else "",
    "review": lambda hit: "" if hit.record.status == "accepted" else hit.record.status,
    "came": lambda hit: hit.record.outcome if hit.record.type == DECISION else "",
    "reason": lambda hit: reason(hit.record),
    "reasons": lambda hit: outcomes(hit.record.outcomes),
    "score": lambda hit: round(hit.score, 4) or None,
    "scores": lambda hit: (
        {k: round(v, 3) for k, v in fields(hit.scores, _SCORES).items()} if hit.scores else {}
    ),
    "instead": lambda hit: {typed: list(said) for typed, said in hit.instead.items()},
    "heads": lambda hit: list(hit.heads) if len(hit.heads) > 1 or hit.superseded_by else [],
    "drift": lambda hit: (
        str(hit.drift) if hit.drift and (hit.drift.drifted or hit.drift.reason) else ""
    ),
    "drifted": lambda hit: [*hit.drift.changed, *hit.drift.missing] if hit.drift else [],
    "gone": lambda hit: list(hit.drift.missing) if hit.drift else [],
    "evidence": lambda hit: [str(one) for one in hit.evidence],
    "guards": lambda hit: [guard.sentence for guard in hit.record.guards],
    "earlier": lambda hit: hit.earlier or None,
    "hidden": lambda hit: _hidden(hit.record),
    "snippet": lambda hit: hit.snippet.text,
    "highlight": lambda hit: [list(span) for span in hit.snippet.ranges],
    "replaced_by": lambda hit: [number(one) for one in hit.superseded_by],
    "related": lambda hit: [
        {"id": e.target, "edge": e.kind, "edge_reason": e.reason} for e in hit.related
    ],
    "author": lambda hit: hit.provenance.author if hit.repository else "",
    "commit": lambda hit: hit.provenance.commit if hit.repository else "",
    "seen_at": lambda hit: time(hit.seen_at),
    "related_to": lambda hit: hit.related[0].target if hit.related else None,
    "edge_reason": lambda hit: hit.related[0].reason if hit.related else None,
}
_EMPTY: tuple[object, ...] = (None, "", [], {}, ())


def fields(value: Any, names: str) -> Answer:
    """Show some fields: of a hit `FIELDS`, its parts, or keys of its record; of another value its attributes.

    `theirs=ours` shows one under another name; with `?` behind it is left out if it is empty, with `!` it is null then.
    """
    shown: Answer = {}
    for name in names.split():
        theirs, _, ours = name.rstrip("?!").partition("=")
        one = (
            _of_hit(value, ours or theirs)
            if isinstance(value, Hit)
            else getattr(value, ours or theirs)
        )
        if name[-1] not in "?!" or one not in _EMPTY:
            shown[theirs] = list(one) if isinstance(one, tuple) else one
        elif name[-1] == "!":
            shown[theirs] = None
    return shown


def _of_hit(hit: Hit, name: str) -> Any:
    return (
        FIELDS[name](hit)
        if name in FIELDS
        else getattr(hit if name in Hit._fields else hit.record, name)
    )


def similarity(hit: Hit, asked: str = "") -> float:
    """How likely a hit answers the question, 0..1: what other systems call similarity and set thresholds on.

    The meaning of a text knows nothing of the topic that it was filed under, so one that is asked for by name counts.
    """
    by_name = topical(asked, hit.record.topic) if hit.record.topic_stated else 0.0
    # One without scores was brought in for what was found: it stands for that.
    meant = likely(hit.score) if hit.scores is None else relevance(hit.scores)
    return round(max(by_name, meant), 4)


def similarities(hits: Sequence[Hit], asked: str) -> list[float]:
    """The similarity of each hit, raised to that of any hit below it, so that the values fall along the list."""
    return list(accumulate((similarity(hit, asked) for hit in reversed(hits)), max))[::-1]


def around(result: Answer, limit: int) -> str:
    """The part of a result's snippet, at most `limit` characters, that holds most matches."""
    snippet: str = result["snippet"]
    spans: Sequence[Sequence[int]] = result.get("highlight", ())
    if len(snippet) <= limit:
        return snippet
    starts = (0, *(max(0, first - limit // 4) for first, _ in spans))
    start = max(
        starts, key=lambda at: sum(at <= first and last <= at + limit - 2 for first, last in spans)
    )
    return "…" + snippet[snippet.find(" ", start) + 1 :] if start else snippet


def asides(found: Results) -> Answer:
    """Notes that come before the results."""
    return fields(found, "degraded? note?")


def lacking(memory: Memory) -> Answer:
    """Why the last answer may be incomplete; {} if it is complete."""
    return {"degraded": memory.lacked} if memory.lacked else {}


def unwritten(value: Saved) -> Answer:
    """What keeps a save from being found, or that it was there already; {} for neither."""
    return {
        **fields(value, "pending? degraded?"),
        **({"note": value.message} if value.repeated else {}),
    }


# -- native answers


def saved(value: Saved) -> Answer:
    """The result of a write."""
    waiting = "; written, but not committed yet" if value.pending and not value.commit else ""
    near = [
        {**fields(one, "id title topic hint"), "similarity": round(one.similarity, 3)}
        for one in value.similar
    ]
    return {
        "success": True,
        **fields(value, "id type"),
        "message": value.message + waiting,
        **fields(
            value, "path? commit? pending? superseded? replaced? would_supersede? undo? warning?"
        ),
        **({"similar": near} if near else {}),
        **fields(value, "degraded? note?"),
    }


def hit(
    value: Hit,
    *,
    whole: bool = False,
    edited: bool = False,
    names: Mapping[str, Name] = MappingProxyType({}),
) -> Answer:
    """One result: `whole` as read by id, else as found; `names`: of records that it refers to."""
    titles = {one: {"title": name.title} for one, name in names.items() if name.title}
    related = [
        {"kind": edge.kind, "id": edge.target, **titles.get(edge.target, {}), "reason": edge.reason}
        for edge in value.related
    ]
    return fields(value, _WHOLE if whole else _LISTED) | filled(
        {
            "note": _note(value, edited),
            "successors": [
                {"id": one, **names[one]._asdict()} for one in value.successors if one in names
            ],
            "related": related,
            "by": provenance(value, whole=whole),
        }
    )


def _note(value: Hit, edited: bool) -> str:
    """Everything that limits a record, in one note: its status, forks, uncommitted changes."""
    record = value.record
    status = _STATUS.get(record.status, "").format(record.status_written)
    notes = [status if record.type == DECISION else "", value.vacancy]
    notes += ["quoted from another repository"] * value.quoted
    notes += [f"contested: {len(value.heads)} decisions hold at once on its topic"] * (
        len(value.heads) > 1
    )
    notes += ["replaces a decision that was found"] * value.brought_in
    if record.visibility == "private":
        notes.append("private: never committed")
    elif not value.provenance.commit:
        notes.append("not committed yet")
    return "; ".join(filter(None, (*notes, "has uncommitted changes" if edited else "")))


def provenance(value: Hit, *, whole: bool = True) -> Answer:
    """Author, date and commit of a record, and its edits since, all or only the last."""
    by = value.provenance
    told = {**fields(by, "author agent commit"), "date": time(by.date), "branch": by.branch}
    if by.default:
        other = by.default if by.default != by.branch else ""
        told |= {"default": other, "merged": by.merged, "landed": time(by.landed)}
    last = {
        (edit.author, edit.agent): edit for edit in by.edits
    }  # each once, with their last commit
    edits = sorted(last.values(), key=lambda edit: -edit.at)
    shown = [
        filled({**fields(one, "author agent commit=id"), "date": time(one.at)}) for one in edits
    ]
    return filled(
        {**told, **fields(by, "reviewers co_authors"), "edited": shown[: None if whole else 1]}
    )


def why(value: Why, names: Mapping[str, Name]) -> Answer:
    """The decisions behind some code, the surest first."""
    results = [
        {
            **hit(one.hit, names=names),
            **fields(one, "kind because"),
            **fields(one.hit, "drifted? gone?"),
        }
        for one in value.reasons
    ]
    first, last = value.lines or (0, 0)
    lines = filled({"line": first, "last_line": last if last > first else 0})
    answer = {**fields(value, "path"), **lines, **fields(value, "note?")}
    return {**answer, "count": len(results), "total": value.total, "results": results}


def history(value: History) -> Answer:
    """A chain, oldest first."""
    chain = [_step(step) for step in value.chain]
    return {**fields(value, "note=vacancy? notes? topic heads? forked"), "chain": chain}


def _step(step: Step) -> Answer:
    hit, by = step.hit, step.hit.provenance
    told = {
        **fields(hit, "id title"),
        "author": by.author,
        "agent": by.agent or hit.record.agent,
        "commit": by.commit,
        "date": time(hit.created),
        "committed": time(by.date),
        **fields(hit.record, "topic status"),
        **fields(hit, "holds outcome decision=decided reasoning=text reasons evidence rejected"),
        **fields(step, "supersedes implied foreign"),
        **fields(hit, "superseded_by proposed path"),
        **fields(by, "co_authors reviewers"),
        "note": "" if all(one.commit for one in step.revisions) else "has uncommitted changes",
        "revisions": revisions(step.revisions),
    }
    return filled(told)


def revisions(edits: Iterable[Revision]) -> list[Answer]:
    """The edits of a record in place, oldest first; one that is not committed has no commit."""
    return [
        {
            **fields(one, "commit author agent"),
            "date": time(one.at),
            **fields(one, "subject changes"),
        }
        for one in edits
    ]


def comparison(value: Comparison) -> Answer:
    """The changes of a branch; `counts` by kind, in the order of the changes."""
    effects = [
        fields(one, "kind id? type topic? title path? details?")
        | filled({"others": [other._asdict() for other in one.others]})
        for one in value.effects
    ]
    sides = {"base": moment(value.base), "head": moment(value.head), "parted": value.parted}
    return {**sides, "counts": dict(Counter(one.kind for one in value.effects)), "effects": effects}


def moment(value: Moment) -> Answer:
    """The commit that an answer is as of, and what was asked for."""
    return {"name": value.name, "commit": value.id, "date": time(value.at)}


def topic(value: Topic) -> Answer:
    """A topic with its live decisions."""
    told = fields(value, "number? topic stated title decisions ids=heads path? note=vacancy?")
    return {**told, "heads": len(value.heads), "forked": value.forked, "latest": time(value.latest)}
