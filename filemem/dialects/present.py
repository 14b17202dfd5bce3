"""The native wording of values: plain JSON, times as ISO 8601 UTC, nothing empty, nothing twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from filemem.dialects import cautions
from filemem.record import DECISION, Edge, Outcome, Record, format_time

if TYPE_CHECKING:
    from filemem.memory import Memory
    from filemem.memory.values import Comparison, History, Revision, Saved, Topic, Why
    from filemem.query import Hit, Name, Provenance
    from filemem.repo.revisions import Moment

Answer = dict[str, Any]

_PARTS = ("keyword", "vector", "wording", "title", "recency", "final")
_ALWAYS = ("id", "type", "topic", "title", "path")
_FOUND = ("score", "superseded_by")
_RECORD_KEYS = (  # keys of a record that are shown where they have a value, in this order
    "status",
    "outcome",
    "confidence",
    "limitation",
    "decided_by",
    "tags",
    "affects",
    "rejected",
    "branch",
    "open_files",
    "next_steps",
    "kind",
    "project",
    "facts",
    "concepts",
    "files_read",
    "files_modified",
    "department",
    "visibility",
    "user_id",
    "agent_id",
    "run_id",
    "scope",
    "memory_type",
    "agent",
    "session",
    "source",
)


def saved(value: Saved) -> Answer:
    """What a write did."""
    answer: Answer = {
        "success": True,
        "id": value.id,
        "type": value.type,
        "message": value.message + ("; written, but not committed yet" if value.pending and not value.commit else ""),
        "path": value.path,
        "commit": value.commit,
        "pending": value.pending,
        "superseded": list(value.superseded),
        "would_supersede": list(value.would_supersede),
        "similar": [
            {"id": s.id, "title": s.title, "topic": s.topic, "similarity": round(s.similarity, 3), "hint": s.hint}
            for s in value.similar
        ],
        "degraded": value.degraded,
        "note": value.note,
    }
    return _filled(answer, keep=("success", "superseded"))


def lacking(memory: Memory) -> Answer:
    """Why the last answer of a memory may lack something; nothing where it does not."""
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
        found: a search brought it, so that its score and what replaced it are always said.
        edited: its file has changes that are not committed.
        names: title and path of other records that it leads to.
    """
    record = value.record
    dated = record.created is not None or not cautions.is_shallow(value.provenance)
    answer: Answer = {
        "id": record.id,
        "type": record.type,
        "topic": record.topic if record.type == DECISION else "",
        "title": record.title,
        "path": value.path,
        "created": _time(value.created) if dated else "",
        "score": round(value.score, 4),
        "holds": record.status == "accepted" and not value.superseded_by if record.type == DECISION else None,
        "superseded_by": list(value.superseded_by),
        "proposed": list(value.proposed),
        "decision": record.decision if record.decision != record.title else "",
        "text": record.text,
        **_record(record),
        "reasons": outcomes(record.outcomes),
        "already_rejected": list(value.already_rejected),
        "scores": {name: round(getattr(value.scores, name), 3) for name in _PARTS} if value.scores else {},
        "heads": list(value.heads) if len(value.heads) > 1 or value.superseded_by else [],
        "drift": _drift(value),
        "evidence": [str(one) for one in value.evidence],
        "chain": value.chain,
        "more": value.more,
        "note": cautions.of_hit(value, edited),
        "successors": [{"id": one, **names[one]._asdict()} for one in value.successors if one in names],
        "related": [_related(edge, names) for edge in value.related],
        "by": provenance(value, whole=whole),
        "snippet": value.snippet.text,
        "highlight": [list(span) for span in value.snippet.ranges],
    }
    if whole:
        answer |= _drifted(value)
        more = {"metadata": dict(record.metadata), "other_keys": dict(record.extra)}  # what a file says stands apart
        answer |= {"supersedes": list(record.supersedes or ()), **more}
        answer = {name: part for name, part in answer.items() if name not in ("snippet", "highlight", "scores")}
    sure = ("confidence",) * (record.confidence is not None)  # 0 is a statement too
    return _filled(answer, keep=(*_ALWAYS, *sure, *(_FOUND if found else ())))


def why(value: Why, names: Mapping[str, Name]) -> Answer:
    """The decisions that code rests on, the surest first."""
    results = [
        {**hit(reason.hit, names=names), "kind": reason.kind, "because": reason.because, **_drifted(reason.hit)}
        for reason in value.reasons
    ]
    first, last = value.lines or (0, 0)
    lines = {"line": first, "last_line": last} if last > first else {"line": first} if first else {}
    answer = {"path": value.path, **lines, "count": len(results), "total": value.total, "results": results}
    return {**answer, **({"note": value.note} if value.note else {})}


def _drifted(value: Hit) -> Answer:
    """The governed files that are not what they were, and which of them are gone."""
    drift = value.drift
    return _filled({"drifted": [*drift.changed, *drift.missing], "gone": list(drift.missing)}) if drift else {}


def _drift(value: Hit) -> str:
    """How the code stands, where it was looked at: silent where nothing changed alone."""
    drift = value.drift
    return str(drift) if drift and (drift.drifted or drift.reason) else ""


def provenance(value: Hit, *, whole: bool = True) -> Answer:
    """Who wrote a record, when, in which commit; of who has changed it since, all or only the last."""
    by = value.provenance
    if cautions.is_shallow(by):
        return _filled({"shallow": True, "branch": by.branch})
    date = _time(by.date) if by.date is not None else ""
    told: Answer = {"author": by.author, "agent": by.agent, "commit": by.commit, "date": date, "branch": by.branch}
    if by.default:
        landed = _time(by.landed) if by.landed is not None else cautions.COPIED if by.copied else ""
        other = by.default if by.default != by.branch else ""
        told |= {"default": other, "merged": by.merged, "differs": by.differs or None, "landed": landed}
    return _filled(
        told
        | {
            "reviewers": list(by.reviewers),
            "co_authors": list(by.co_authors),
            "edited": _edits(by)[: None if whole else 1],
        }
    )


def _edits(by: Provenance) -> list[Answer]:
    """Who changed a record since, the last first; each once, with their last commit."""
    last = {(edit.author, edit.agent): edit for edit in by.edits}
    newest = sorted(last.values(), key=lambda edit: -edit.at)
    return [
        _filled({"author": one.author, "agent": one.agent, "commit": one.commit, "date": _time(one.at)})
        for one in newest
    ]


def history(value: History) -> Answer:
    """A chain, oldest first."""
    return {
        "topic": value.topic,
        "heads": list(value.heads),
        "forked": value.forked,
        "chain": [
            {
                "id": step.record.id,
                "title": step.record.title,
                "author": step.author,
                "agent": step.agent,
                "commit": step.commit,
                "date": _time(step.at),
                "committed": _time(step.committed) if step.committed else "",
                "topic": step.record.topic,
                "status": step.record.status,
                "holds": step.holds,
                "outcome": step.record.outcome,
                "decision": step.record.decision if step.record.decision != step.record.title else "",
                "reasoning": step.record.text,
                "reasons": outcomes(step.record.outcomes),
                "evidence": [str(one) for one in step.evidence],
                "rejected": list(step.record.rejected),
                "supersedes": list(step.supersedes),
                "superseded_by": list(step.superseded_by),
                "proposed": list(step.proposed),
                "implied": step.implied,
                "foreign": step.foreign,
                "path": step.path,
                "co_authors": list(step.co_authors),
                "reviewers": list(step.reviewers),
                "note": cautions.of_step(step),
                "revisions": revisions(step.revisions),
            }
            for step in value.chain
        ],
        **({"note": value.vacancy} if value.vacancy else {}),
        "notes": list(value.notes),
    }


def revisions(edits: Iterable[Revision]) -> list[Answer]:
    """The edits of a record in place, oldest first; one that is not committed has no commit."""
    return [
        {
            "commit": edit.commit,
            "author": edit.author,
            "agent": edit.agent,
            "date": _time(edit.at),
            "subject": edit.subject,
            "changes": list(edit.changes),
        }
        for edit in edits
    ]


def comparison(value: Comparison) -> Answer:
    """What a branch does to the memory; `counts` by kind, in the order in which they are told."""
    return {
        "base": moment(value.base),
        "head": moment(value.head),
        "parted": value.parted,
        "counts": dict(Counter(effect.kind for effect in value.effects)),
        "effects": [
            _filled(
                {
                    "kind": effect.kind,
                    "id": effect.id,
                    "type": effect.type,
                    "topic": effect.topic,
                    "title": effect.title,
                    "path": effect.path,
                    "details": list(effect.details),
                    "others": [other._asdict() for other in effect.others],
                },
                keep=("kind", "type", "title"),
            )
            for effect in value.effects
        ],
    }


def moment(value: Moment) -> Answer:
    """The commit that an answer is as of, and what was asked for."""
    return {"name": value.name, "commit": value.commit, "date": _time(value.at)}


def topic(value: Topic) -> Answer:
    """A topic with what holds today."""
    told = {
        "topic": value.topic,
        "stated": value.stated,
        "title": value.title,
        "decisions": value.decisions,
        "heads": len(value.heads),
        "ids": list(value.heads),
        "forked": value.forked,
        "latest": _time(value.latest),
    }
    more = {"path": value.path, "note": value.contest or value.vacancy}
    return told | {name: one for name, one in more.items() if one}


def outcomes(log: Iterable[Outcome]) -> list[Answer]:
    """The outcome log, oldest first."""
    return [{"at": _time(entry.at), "outcome": entry.outcome, "reason": entry.reason} for entry in log]


def _record(record: Record) -> Answer:
    values = {name: getattr(record, name) for name in _RECORD_KEYS}
    if record.type != DECISION:
        values |= {"status": "", "outcome": ""}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _related(edge: Edge, names: Mapping[str, Name]) -> Answer:
    title = names[edge.target].title if edge.target in names else ""
    return _filled({"kind": edge.kind, "id": edge.target, "title": title, "reason": edge.reason}, keep=("reason",))


def _time(at: int) -> str:
    return format_time(at) if at else ""


def _filled(answer: Mapping[str, Any], keep: Iterable[str] = ()) -> Answer:
    return {
        k: v for k, v in answer.items() if k in keep or (v not in ("", None, 0) and v != [] and v != {}) or v is False
    }
