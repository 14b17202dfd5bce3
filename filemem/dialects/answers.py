"""Build the answers of filemem's own tools: a function for each kind of value of the memory.

Answers are plain JSON with nothing empty and nothing twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from filemem.dialects.present import (
    build_outcomes,
    format_hidden_count,
    format_timestamp,
    get_decision_text,
    strip_empty,
)
from filemem.dialects.tool import Answer
from filemem.query import Hit
from filemem.record import DECISION, Edge, Record

if TYPE_CHECKING:
    from filemem.memory.advice import Similar
    from filemem.memory.diff import Comparison, Effect
    from filemem.memory.history import History, Revision, Step, Topic
    from filemem.memory.save import WriteResult
    from filemem.memory.snapshot import Moment
    from filemem.memory.why import Explanation
    from filemem.query import RecordLabel
    from filemem.query.score import Scores

_STATUS = {
    "proposed": "only proposed",
    "rejected": "rejected",
    "deprecated": "deprecated",
    "unknown": 'status not understood: "{}"',
}


def build_write_answer(value: WriteResult) -> Answer:
    """Return the result of a write."""
    message = value.message
    if value.pending and not value.commit:
        message += "; written, but not committed yet"
    return {
        "success": True,
        "id": value.id,
        "type": value.type,
        "message": message,
        **strip_empty(
            {
                "path": value.path,
                "commit": value.commit,
                "pending": value.pending,
                "superseded": value.superseded,
                "replaced": value.replaced,
                "would_supersede": value.would_supersede,
                "undo": value.undo,
                "warning": value.warning,
                "similar": [_build_similar(record) for record in value.similar],
                "degraded": value.degraded,
                "note": value.note,
            }
        ),
    }


def _build_similar(value: Similar) -> Answer:
    return {
        "id": value.id,
        "title": value.title,
        "topic": value.topic,
        "hint": value.hint,
        "similarity": round(value.similarity, 3),
    }


def build_hit(
    value: Hit,
    *,
    is_full: bool = False,
    is_edited: bool = False,
    names: Mapping[str, RecordLabel] = MappingProxyType({}),
) -> Answer:
    """Return one result.

    Args:
        value: the hit.
        is_full: whether to show it as read by id, not as found.
        is_edited: whether its file has changes that are not committed.
        names: labels of records that it refers to, by id.
    """
    answer = _build_head(value)
    if is_full:
        answer |= _build_body(value)
        answer |= _build_drift(value)
        answer |= _build_header(value)
    else:
        answer |= strip_empty({"score": round(value.score, 4) or None})
        answer |= _build_body(value)
        answer |= _build_match(value)
    successor_ids = [id_ for id_ in value.successors if id_ in names]
    details = {
        "note": _format_note(value, is_edited),
        "successors": [{"id": id_, **names[id_]._asdict()} for id_ in successor_ids],
        "related": [_build_edge(edge, names) for edge in value.related],
        "by": build_provenance(value, is_full=is_full),
    }
    return answer | strip_empty(details)


def get_topic(record: Record) -> str:
    """Return the topic of a decision; "" for other records."""
    return record.topic if record.type == DECISION else ""


def _is_live(hit: Hit) -> bool | None:
    """Whether a decision is current; None for other records."""
    if hit.record.type != DECISION:
        return None
    return hit.record.status == "accepted" and not hit.superseded_by


def _format_drift(hit: Hit) -> str:
    drift = hit.drift
    if drift and (drift.has_drifted or drift.reason):
        return str(drift)
    return ""


def _build_drift(hit: Hit) -> Answer:
    """Return the files that have changed since the decision."""
    drift = hit.drift
    if drift is None:
        return {}
    return strip_empty({"drifted": drift.changed + drift.missing, "gone": drift.missing})


def _build_head(hit: Hit) -> Answer:
    """Return what a record is, and where one of an organisation or a workspace comes from."""
    answer = {
        "id": hit.id,
        "type": hit.record.type,
        "topic": get_topic(hit.record),
        "title": hit.title,
        "path": hit.path,
    }
    is_foreign = bool(hit.repository)
    return answer | strip_empty(
        {
            "created": format_timestamp(hit.created),
            "repository": hit.repository,
            "author": hit.provenance.author if is_foreign else "",
            "commit": hit.provenance.commit if is_foreign else "",
            "link": hit.link,
            "seen_at": format_timestamp(hit.seen_at),
            "also_in": hit.also_in,
        }
    )


def _build_body(hit: Hit) -> Answer:
    """Return what a record says, and what is known about it."""
    record = hit.record
    is_decision = record.type == DECISION
    return strip_empty(
        {
            "holds": _is_live(hit),
            "superseded_by": hit.superseded_by,
            "proposed": hit.proposed,
            "decision": get_decision_text(record),
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
            "reasons": build_outcomes(record.outcomes),
            "already_rejected": hit.already_rejected,
            "heads": hit.heads if len(hit.heads) > 1 or hit.superseded_by else (),
            "drift": _format_drift(hit),
            "evidence": [str(evidence) for evidence in hit.evidence],
            "earlier": hit.earlier or None,
            "hidden": format_hidden_count(record),
        }
    )


def _build_match(hit: Hit) -> Answer:
    """Return why a hit was found."""
    return strip_empty(
        {
            "scores": _build_scores(hit.scores),
            "instead": {word: list(other_words) for word, other_words in hit.instead.items()},
            "snippet": hit.snippet.text,
            "highlight": [list(span) for span in hit.snippet.ranges],
        }
    )


def _build_scores(scores: Scores | None) -> Answer:
    """Return the parts of a score, in the order of their explanation."""
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


def _build_header(hit: Hit) -> Answer:
    """Return the keys of a record header that no other part of an answer shows."""
    record = hit.record
    return strip_empty(
        {
            "supersedes": record.supersedes,
            "metadata": record.metadata,
            "other_keys": record.extra,
        }
    )


def _build_edge(edge: Edge, names: Mapping[str, RecordLabel]) -> Answer:
    answer = {"kind": edge.kind, "id": edge.target}
    label = names.get(edge.target)
    if label and label.title:
        answer["title"] = label.title
    answer["reason"] = edge.reason
    return answer


def _format_note(value: Hit, is_edited: bool) -> str:
    """Return all limits of a record as one note: its status, forks, uncommitted changes."""
    return "; ".join(note for note in _iter_notes(value, is_edited) if note)


def _iter_notes(value: Hit, is_edited: bool) -> Iterator[str]:
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
    if is_edited:
        yield "has uncommitted changes"


def build_provenance(value: Hit, *, is_full: bool = True) -> Answer:
    """Return author, date and commit of a record, and its edits; only the last unless full."""
    origin = value.provenance
    answer: Answer = {
        "author": origin.author,
        "agent": origin.agent,
        "commit": origin.commit,
        "date": format_timestamp(origin.date),
        "branch": origin.branch,
    }
    if origin.default:
        answer["default"] = origin.default if origin.default != origin.branch else ""
        answer["merged"] = origin.merged
        answer["landed"] = format_timestamp(origin.landed)
    answer["reviewers"] = origin.reviewers
    answer["co_authors"] = origin.co_authors
    edits = _build_edits(origin.edits)
    answer["edited"] = edits if is_full else edits[:1]
    return strip_empty(answer)


def _build_edits(edits: Iterable[Any]) -> list[Answer]:
    """Return the last edit of each author and agent, newest first."""
    last_edits = {(edit.author, edit.agent): edit for edit in edits}
    rows = []
    for edit in sorted(last_edits.values(), key=lambda edit: -edit.at):
        row = {
            "author": edit.author,
            "agent": edit.agent,
            "commit": edit.id,
            "date": format_timestamp(edit.at),
        }
        rows.append(strip_empty(row))
    return rows


def build_why(value: Explanation, names: Mapping[str, RecordLabel]) -> Answer:
    """Return the decisions that govern some code, the surest first."""
    results = []
    for reason in value.reasons:
        result = build_hit(reason.hit, names=names)
        result["kind"] = reason.kind
        result["because"] = reason.because
        results.append(result | _build_drift(reason.hit))
    notes: Answer = {}
    if value.lines:
        first_line, last_line = value.lines
        notes["line"] = first_line or None
        notes["last_line"] = last_line if last_line > first_line else None
    notes["note"] = value.note
    return {
        "path": value.path,
        **strip_empty(notes),
        "count": len(results),
        "total": value.total,
        "results": results,
    }


def build_history(value: History) -> Answer:
    """Return a chain, oldest first."""
    return {
        **strip_empty({"note": value.vacancy, "notes": value.notes}),
        "topic": value.topic,
        **strip_empty({"heads": value.heads}),
        "forked": value.forked,
        "chain": [_build_step(step) for step in value.chain],
    }


def _build_step(step: Step) -> Answer:
    hit = step.hit
    record = hit.record
    origin = hit.provenance
    is_committed = all(revision.commit for revision in step.revisions)
    return strip_empty(
        {
            "id": hit.id,
            "title": hit.title,
            "author": origin.author,
            "agent": origin.agent or record.agent,
            "commit": origin.commit,
            "date": format_timestamp(hit.created),
            "committed": format_timestamp(origin.date),
            "topic": record.topic,
            "status": record.status,
            "holds": _is_live(hit),
            "outcome": record.outcome,
            "decision": get_decision_text(record),
            "reasoning": record.text,
            "reasons": build_outcomes(record.outcomes),
            "evidence": [str(evidence) for evidence in hit.evidence],
            "rejected": record.rejected,
            "supersedes": step.supersedes,
            "implied": step.implied,
            "foreign": step.foreign,
            "superseded_by": hit.superseded_by,
            "proposed": hit.proposed,
            "path": hit.path,
            "co_authors": origin.co_authors,
            "reviewers": origin.reviewers,
            "note": "" if is_committed else "has uncommitted changes",
            "revisions": build_revisions(step.revisions),
        }
    )


def build_revisions(edits: Iterable[Revision]) -> list[Answer]:
    """Return the edits of a record, oldest first; an uncommitted one has no commit."""
    return [
        {
            "commit": edit.commit,
            "author": edit.author,
            "agent": edit.agent,
            "date": format_timestamp(edit.at),
            "subject": edit.subject,
            "changes": list(edit.changes),
        }
        for edit in edits
    ]


def build_comparison(value: Comparison) -> Answer:
    """Return the changes of a branch, with their counts by kind."""
    return {
        "base": build_moment(value.base),
        "head": build_moment(value.head),
        "parted": value.start,
        "counts": dict(Counter(effect.kind for effect in value.effects)),
        "effects": [_build_effect(effect) for effect in value.effects],
    }


def _build_effect(value: Effect) -> Answer:
    return {
        "kind": value.kind,
        **strip_empty({"id": value.id}),
        "type": value.type,
        **strip_empty({"topic": value.topic}),
        "title": value.title,
        **strip_empty(
            {
                "path": value.path,
                "details": value.details,
                "others": [other._asdict() for other in value.others],
            }
        ),
    }


def build_moment(value: Moment) -> Answer:
    """Return the commit whose state an answer shows, and the name that was asked for."""
    return {"name": value.name, "commit": value.id, "date": format_timestamp(value.committed_at)}


def build_topic(value: Topic) -> Answer:
    """Return a topic with its current decisions."""
    return {
        **strip_empty({"number": value.number}),
        "topic": value.topic,
        "stated": value.stated,
        "title": value.title,
        "decisions": value.decisions,
        "ids": list(value.heads),
        **strip_empty({"path": value.path, "note": value.vacancy}),
        "heads": len(value.heads),
        "forked": value.forked,
        "latest": format_timestamp(value.latest),
    }
