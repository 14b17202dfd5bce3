"""The answers of filemem's own tools: one function for each kind of value that the memory gives.

Plain JSON, nothing empty, nothing twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from filemem.dialects.present import decided, filled, hidden, outcomes, time
from filemem.dialects.tool import Answer
from filemem.query import Hit
from filemem.record import DECISION, Edge, Record

if TYPE_CHECKING:
    from filemem.memory.advice import Similar
    from filemem.memory.diff import Comparison, Effect
    from filemem.memory.history import History, Revision, Step, Topic
    from filemem.memory.save import Saved
    from filemem.memory.snapshot import Moment
    from filemem.memory.why import Why
    from filemem.query import Name
    from filemem.query.score import Scores

_STATUS = {
    "proposed": "only proposed",
    "rejected": "rejected",
    "deprecated": "deprecated",
    "unknown": 'status not understood: "{}"',
}


def saved(value: Saved) -> Answer:
    """The result of a write."""
    waiting = "; written, but not committed yet" if value.pending and not value.commit else ""
    return {
        "success": True,
        "id": value.id,
        "type": value.type,
        "message": value.message + waiting,
        **filled(
            {
                "path": value.path,
                "commit": value.commit,
                "pending": value.pending,
                "superseded": value.superseded,
                "replaced": value.replaced,
                "would_supersede": value.would_supersede,
                "undo": value.undo,
                "warning": value.warning,
                "similar": [_near(record) for record in value.similar],
                "degraded": value.degraded,
                "note": value.note,
            }
        ),
    }


def _near(value: Similar) -> Answer:
    return {
        "id": value.id,
        "title": value.title,
        "topic": value.topic,
        "hint": value.hint,
        "similarity": round(value.similarity, 3),
    }


def hit(
    value: Hit,
    *,
    whole: bool = False,
    edited: bool = False,
    names: Mapping[str, Name] = MappingProxyType({}),
) -> Answer:
    """One result.

    Args:
        value: the hit.
        whole: as read by id, else as found.
        edited: whether its file has changes that are not committed.
        names: of records that it refers to, by id.
    """
    score = filled({"score": round(value.score, 4) or None})
    more = {
        "note": _note(value, edited),
        "successors": [
            {"id": id_, **names[id_]._asdict()} for id_ in value.successors if id_ in names
        ],
        "related": [_edge(edge, names) for edge in value.related],
        "by": provenance(value, whole=whole),
    }
    parts = (
        (_body(value), _drifted(value), _keys(value))
        if whole
        else (score, _body(value), _found(value))
    )
    answer = _head(value)
    for part in (*parts, filled(more)):
        answer |= part
    return answer


def topic_of(record: Record) -> str:
    """The topic of a decision; "" for other records."""
    return record.topic if record.type == DECISION else ""


def _holds(hit: Hit) -> bool | None:
    if hit.record.type != DECISION:
        return None
    return hit.record.status == "accepted" and not hit.superseded_by


def _drift(hit: Hit) -> str:
    drift = hit.drift
    return str(drift) if drift and (drift.drifted or drift.reason) else ""


def _drifted(hit: Hit) -> Answer:
    """The files that are not what they were."""
    drift = hit.drift
    if drift is None:
        return {}
    return filled({"drifted": drift.changed + drift.missing, "gone": drift.missing})


def _head(hit: Hit) -> Answer:
    """What a record is, and where an organisation's or a workspace's is from."""
    away = bool(hit.repository)
    return {
        "id": hit.id,
        "type": hit.record.type,
        "topic": topic_of(hit.record),
        "title": hit.title,
        "path": hit.path,
        **filled(
            {
                "created": time(hit.created),
                "repository": hit.repository,
                "author": hit.provenance.author if away else "",
                "commit": hit.provenance.commit if away else "",
                "link": hit.link,
                "seen_at": time(hit.seen_at),
                "also_in": hit.also_in,
            }
        ),
    }


def _body(hit: Hit) -> Answer:
    """What a record says, and what is known of it."""
    record = hit.record
    is_decision = record.type == DECISION
    return filled(
        {
            "holds": _holds(hit),
            "superseded_by": hit.superseded_by,
            "proposed": hit.proposed,
            "decision": decided(record),
            "text": record.text,
            "status": record.status if is_decision else "",
            "outcome": record.outcome if is_decision else "",
            "confidence": record.confidence,
            "limitation": record.limitation,
            "decided_by": record.decided_by,
            "tags": record.tags,
            "affects": record.affects,
            "guards": [guard.sentence for guard in record.guards],
            "rejected": record.rejected,
            "branch": record.branch,
            "open_files": record.open_files,
            "next_steps": record.next_steps,
            "kind": record.kind,
            "project": record.project,
            "facts": record.facts,
            "concepts": record.concepts,
            "files_read": record.files_read,
            "files_modified": record.files_modified,
            "department": record.department,
            "visibility": record.visibility,
            "user_id": record.user_id,
            "agent_id": record.agent_id,
            "run_id": record.run_id,
            "scope": record.scope,
            "memory_type": record.memory_type,
            "agent": record.agent,
            "session": record.session,
            "source": record.source,
            "reasons": outcomes(record.outcomes),
            "already_rejected": hit.already_rejected,
            "heads": hit.heads if len(hit.heads) > 1 or hit.superseded_by else (),
            "drift": _drift(hit),
            "evidence": [str(evidence) for evidence in hit.evidence],
            "earlier": hit.earlier or None,
            "hidden": hidden(record),
        }
    )


def _found(hit: Hit) -> Answer:
    """Why a hit was found."""
    return filled(
        {
            "scores": _scores(hit.scores),
            "instead": {word: list(others) for word, others in hit.instead.items()},
            "snippet": hit.snippet.text,
            "highlight": [list(span) for span in hit.snippet.ranges],
        }
    )


def _scores(scores: Scores | None) -> Answer:
    """The parts of a score, in the order in which they are explained."""
    if scores is None:
        return {}
    parts = {
        "keyword": scores.keyword,
        "vector": scores.vector,
        "wording": scores.wording,
        "title": scores.title,
        "recency": scores.recency,
        "final": scores.final,
    }
    return {name: round(part, 3) for name, part in parts.items()}


def _keys(hit: Hit) -> Answer:
    """The header of a record, as far as it is shown nowhere else."""
    record = hit.record
    return filled(
        {
            "supersedes": record.supersedes,
            "metadata": record.metadata,
            "other_keys": record.extra,
        }
    )


def _edge(edge: Edge, names: Mapping[str, Name]) -> Answer:
    name = names.get(edge.target)
    title = {"title": name.title} if name and name.title else {}
    return {"kind": edge.kind, "id": edge.target, **title, "reason": edge.reason}


def _note(value: Hit, edited: bool) -> str:
    """Everything that limits a record, in one note: its status, forks, uncommitted changes."""
    return "; ".join(filter(None, _notes(value, edited)))


def _notes(value: Hit, edited: bool) -> Iterator[str]:
    record = value.record
    if record.type == DECISION:
        yield _STATUS.get(record.status, "").format(record.status_written)
    yield value.vacancy
    if value.quoted:
        yield "quoted from another repository"
    if len(value.heads) > 1:
        yield f"contested: {len(value.heads)} decisions hold at once on its topic"
    if value.brought_in:
        yield "replaces a decision that was found"
    if record.visibility == "private":
        yield "private: never committed"
    elif not value.provenance.commit:
        yield "not committed yet"
    if edited:
        yield "has uncommitted changes"


def provenance(value: Hit, *, whole: bool = True) -> Answer:
    """Author, date and commit of a record, and its edits since, all or only the last."""
    by = value.provenance
    answer: Answer = {
        "author": by.author,
        "agent": by.agent,
        "commit": by.commit,
        "date": time(by.date),
        "branch": by.branch,
    }
    if by.default:
        answer |= {
            "default": by.default if by.default != by.branch else "",
            "merged": by.merged,
            "landed": time(by.landed),
        }
    edits = _edits(by.edits)
    answer |= {
        "reviewers": by.reviewers,
        "co_authors": by.co_authors,
        "edited": edits if whole else edits[:1],
    }
    return filled(answer)


def _edits(edits: Iterable[Any]) -> list[Answer]:
    """Who edited a record, each once with the last commit, the last of them first."""
    last = {(edit.author, edit.agent): edit for edit in edits}
    rows = sorted(last.values(), key=lambda edit: -edit.at)
    return [
        filled(
            {
                "author": edit.author,
                "agent": edit.agent,
                "commit": edit.id,
                "date": time(edit.at),
            }
        )
        for edit in rows
    ]


def why(value: Why, names: Mapping[str, Name]) -> Answer:
    """The decisions behind some code, the surest first."""
    results = [
        {
            **hit(reason.hit, names=names),
            "kind": reason.kind,
            "because": reason.because,
            **_drifted(reason.hit),
        }
        for reason in value.reasons
    ]
    first, last = value.lines or (0, 0)
    lines = {"line": first or None, "last_line": last if last > first else None}
    return {
        "path": value.path,
        **filled({**lines, "note": value.note}),
        "count": len(results),
        "total": value.total,
        "results": results,
    }


def history(value: History) -> Answer:
    """A chain, oldest first."""
    return {
        **filled({"note": value.vacancy, "notes": value.notes}),
        "topic": value.topic,
        **filled({"heads": value.heads}),
        "forked": value.forked,
        "chain": [_step(step) for step in value.chain],
    }


def _step(step: Step) -> Answer:
    hit = step.hit
    record = hit.record
    by = hit.provenance
    committed = all(revision.commit for revision in step.revisions)
    return filled(
        {
            "id": hit.id,
            "title": hit.title,
            "author": by.author,
            "agent": by.agent or record.agent,
            "commit": by.commit,
            "date": time(hit.created),
            "committed": time(by.date),
            "topic": record.topic,
            "status": record.status,
            "holds": _holds(hit),
            "outcome": record.outcome,
            "decision": decided(record),
            "reasoning": record.text,
            "reasons": outcomes(record.outcomes),
            "evidence": [str(evidence) for evidence in hit.evidence],
            "rejected": record.rejected,
            "supersedes": step.supersedes,
            "implied": step.implied,
            "foreign": step.foreign,
            "superseded_by": hit.superseded_by,
            "proposed": hit.proposed,
            "path": hit.path,
            "co_authors": by.co_authors,
            "reviewers": by.reviewers,
            "note": "" if committed else "has uncommitted changes",
            "revisions": revisions(step.revisions),
        }
    )


def revisions(edits: Iterable[Revision]) -> list[Answer]:
    """The edits of a record in place, oldest first; one that is not committed has no commit."""
    return [
        {
            "commit": edit.commit,
            "author": edit.author,
            "agent": edit.agent,
            "date": time(edit.at),
            "subject": edit.subject,
            "changes": list(edit.changes),
        }
        for edit in edits
    ]


def comparison(value: Comparison) -> Answer:
    """The changes of a branch; `counts` by kind, in the order of the changes."""
    return {
        "base": moment(value.base),
        "head": moment(value.head),
        "parted": value.parted,
        "counts": dict(Counter(effect.kind for effect in value.effects)),
        "effects": [_effect(effect) for effect in value.effects],
    }


def _effect(value: Effect) -> Answer:
    return {
        "kind": value.kind,
        **filled({"id": value.id}),
        "type": value.type,
        **filled({"topic": value.topic}),
        "title": value.title,
        **filled(
            {
                "path": value.path,
                "details": value.details,
                "others": [other._asdict() for other in value.others],
            }
        ),
    }


def moment(value: Moment) -> Answer:
    """The commit that an answer is as of, and what was asked for."""
    return {"name": value.name, "commit": value.id, "date": time(value.at)}


def topic(value: Topic) -> Answer:
    """A topic with its live decisions."""
    return {
        **filled({"number": value.number}),
        "topic": value.topic,
        "stated": value.stated,
        "title": value.title,
        "decisions": value.decisions,
        "ids": list(value.heads),
        **filled({"path": value.path, "note": value.vacancy}),
        "heads": len(value.heads),
        "forked": value.forked,
        "latest": time(value.latest),
    }
