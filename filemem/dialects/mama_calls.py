"""What MAMA's tools do: functions (memory, arguments) -> plain dict. Times are epoch seconds, as its page shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from filemem.dialects import present
from filemem.dialects.reading import Answer, Arguments, Reader, asides, content, everything, reason, similarities
from filemem.dialects.reading import search as find
from filemem.errors import Conflict
from filemem.memory import arguments as checked
from filemem.record import CHECKPOINT, DECISION, number

if TYPE_CHECKING:
    from filemem.memory import Memory
    from filemem.memory.values import Saved
    from filemem.query import Hit

SECONDS = 1_000  # milliseconds in the unit of these tools; the HTTP routes show milliseconds
CONFIDENCE = 0.5


def save(memory: Memory, arguments: Arguments) -> Answer:
    """Save a decision or a checkpoint."""
    given = {name: value for name, value in arguments.items() if value not in ("", None, [])}
    if given.get("type") == CHECKPOINT:
        saved = memory.save(**given)
        return {**_saved(saved), "message": "Checkpoint saved" + waits(saved)}
    saved, note = decide(memory, {"confidence": CONFIDENCE, **given})
    return {**_saved(saved), "message": f"Decision saved: {given['topic']}{note}{waits(saved)}"}


def decide(memory: Memory, fields: Arguments) -> tuple[Saved, str]:
    """Save a decision; on a forked topic supersede all that hold, since these tools cannot name one.

    Returns:
        What was saved, and the words that say which decisions at once were superseded, or "".
    """
    try:
        return memory.save(**fields), ""
    except Conflict as fork:
        if not fork.heads or "supersedes" in fields:
            raise
        saved = memory.save(**fields, supersedes=list(fork.heads))
        return saved, f"; it supersedes {len(fork.heads)} decisions that held at once: {', '.join(fork.heads)}"


def save_checkpoint(memory: Memory, arguments: Arguments) -> Answer:
    """Save a checkpoint under the old name."""
    return save(memory, {**arguments, "type": CHECKPOINT})


def search(memory: Memory, arguments: Arguments) -> Answer:
    """Find records, the best first; without a query the newest first."""
    kind = arguments.get("type", "all")
    reader = Reader.of(memory)
    query = arguments.get("query", "")
    only = {} if kind == "all" else {"type": kind}
    found = find(memory, query, reader.may_see, arguments.get("limit", 10), **only)
    results = listed(found.hits, SECONDS, query)
    return {"success": True, "count": len(results), "results": results, **asides(found)}


def update(memory: Memory, arguments: Arguments) -> Answer:
    """Record what came of a decision."""
    outcome = checked.outcome("outcome", arguments["outcome"])
    saved = memory.update(arguments["id"], outcome=outcome, reason=arguments.get("reason") or None)
    return {"success": True, "message": f"Updated {saved.id} -> {outcome}{waits(saved)}"}


def load_checkpoint(memory: Memory, _: Arguments) -> Answer:
    """Return the checkpoint to go on from, or None for `checkpoint`."""
    found = memory.latest_checkpoint()
    if found is None:
        return {"success": True, "checkpoint": None, "message": "No checkpoint found", **present.lacking(memory)}
    hit, note = found
    told = {"note": note} if note else {}
    return {"success": True, "checkpoint": checkpoint(hit, SECONDS), **told, **present.lacking(memory)}


def checkpoint(hit: Hit, unit: int) -> Answer:
    """A checkpoint as it is loaded; its number is made from its id."""
    return {
        "id": number(hit.id),
        "timestamp": hit.created // unit,
        "summary": content(hit.record),
        "next_steps": hit.record.next_steps,
        "open_files": list(hit.record.open_files),
        "status": "active",
        "record": hit.id,
        "branch": hit.record.branch,
    }


def listed(hits: Sequence[Hit], unit: int, query: str) -> list[Answer]:
    """The results of a search for `query`; `unit` as for `shown`."""
    return [shown(hit, unit, near) for hit, near in zip(hits, similarities(hits, query), strict=True)]


def shown(hit: Hit, unit: int, near: float = 0.0) -> Answer:
    """One result; what another dialect wrote is told in the same keys, as far as they fit.

    Args:
        hit: the hit.
        unit: milliseconds in the unit of time of the surface.
        near: how similar it is to what was searched for.
    """
    record = hit.record
    answer: Answer = {"id": record.id, **_PARTS.get(record.type, _note)(hit)}
    answer |= {"created_at": hit.created // unit, "_type": record.type}
    if hit.scores or hit.score:
        answer["similarity"] = near
    if hit.superseded_by:
        answer["superseded_by"] = list(hit.superseded_by)
    if hit.related:
        answer["related_to"], answer["edge_reason"] = hit.related[0].target, hit.related[0].reason
        answer["related"] = [{"id": e.target, "edge": e.kind, "edge_reason": e.reason} for e in hit.related]
    return answer


def _decision(hit: Hit) -> Answer:
    record = hit.record
    told: Answer = {
        "topic": record.topic,
        "decision": record.decision,
        "reasoning": record.text,
        "confidence": record.confidence,
        "outcome": record.outcome,
    }
    if record.outcomes:
        told |= {"outcome_reason": reason(record), "outcomes": present.outcomes(record.outcomes)}
    more = {"status": "" if record.status == "accepted" else record.status, "rejected": list(record.rejected)}
    return told | {name: value for name, value in more.items() if value}


def _checkpoint(hit: Hit) -> Answer:
    record = hit.record
    files = list(record.open_files)
    return {"summary": content(record), "next_steps": record.next_steps, "open_files": files, "number": number(hit.id)}


def _note(hit: Hit) -> Answer:
    return {"topic": hit.record.kind, "decision": hit.record.title, "reasoning": everything(hit.record)}


_PARTS = {DECISION: _decision, CHECKPOINT: _checkpoint}


def _saved(saved: Saved) -> Answer:
    answer = {"success": True, "id": saved.id, "type": saved.type, "message": ""}
    if saved.similar:
        near = [{"id": s.id, "topic": s.topic, "similarity": round(s.similarity, 3)} for s in saved.similar]
        answer |= {"similar_decisions": near, "hint": saved.similar[0].hint}
    return answer


def waits(saved: Saved) -> str:
    """What else a caller must know of a write: why it is not committed, or not found yet."""
    told = f"; not committed yet: {saved.pending}" if saved.pending and not saved.commit else ""
    return told + "".join(f"; {one}" for one in (saved.degraded, saved.note) if one)
