"""What MAMA's five older tools do. Their words for outcomes differ from ours: small tables translate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from filemem.dialects import present
from filemem.dialects.mama_calls import CONFIDENCE, decide
from filemem.dialects.reading import Answer, Arguments, asides, in_words, reason, similarities
from filemem.errors import BadInput, Conflict
from filemem.memory import arguments as checked
from filemem.record import DECISION, OUTCOMES, Record, cut, format_time, one_line

if TYPE_CHECKING:
    from filemem.memory import Memory
    from filemem.query import Hit

DAY = 86_400_000
SUPERSEDED, WITHDRAWN = "superseded", "deprecated"  # theirs is an outcome; ours is derived, or said by the status
_CANDIDATES = 50  # as many as are ranked by age
_LINE = 100  # characters of a decision in a listing
_THEIRS = {"failed": "failure"}
_DECIDERS = {"user_decision": "user", "assistant_insight": "assistant"}


def save_decision(memory: Memory, arguments: Arguments) -> Answer:
    """Save a decision; where it failed already, with the reason."""
    outcome, why = _outcome(arguments, SUPERSEDED), checked.line("failure_reason", arguments.get("failure_reason", ""))
    replaced = outcome == SUPERSEDED
    fields: dict[str, Any] = {name: arguments[name] for name in ("topic", "decision", "reasoning")}
    fields["confidence"] = arguments.get("confidence", CONFIDENCE)
    fields["limitation"] = arguments.get("limitation") or None
    fields["decided_by"] = _DECIDERS.get(arguments.get("type", ""))
    fields["allow_secret"] = arguments.get("allow_secret")
    if replaced:
        fields["status"] = WITHDRAWN
    elif outcome != "pending":
        fields |= {"outcome": outcome, "reason": why or None}
    with in_words(reason="failure_reason"):
        saved, note = decide(memory, fields)
    note += f"; superseded: kept as {WITHDRAWN}, it does not hold" if replaced else ""
    message = f"Decision saved: {fields['topic']}{note}" + (f"; {saved.note}" if saved.note else "")
    return {"success": True, "decision_id": saved.id, "topic": fields["topic"], "message": message}


def recall_decision(memory: Memory, arguments: Arguments) -> Answer:
    """Tell how a topic was decided, oldest first."""
    told = memory.history(arguments["topic"])
    steps = [step for step in told.chain if not step.foreign]
    history = [
        {
            "decision_id": step.record.id,
            **_decided(step.record, step.record.created or step.at, bool(step.superseded_by)),
            **({"supersedes": list(step.supersedes)} if step.supersedes else {}),
        }
        for step in steps
    ]
    return {"success": True, "topic": told.topic, "history": history, **present.lacking(memory)}


def suggest_decision(memory: Memory, arguments: Arguments) -> Answer:
    """Find decisions for a question, by likeness and age."""
    weight, scale = arguments.get("recencyWeight", 0.3), arguments.get("recencyScale", 7)
    decay, limit = arguments.get("recencyDecay", 0.5), arguments.get("limit", 10)
    asked = arguments["userQuestion"]
    found = memory.search(asked, type=DECISION, limit=max(limit, _CANDIDATES), recency=False)
    now = memory.now()
    rated = [
        _suggested(hit, near, max(0.0, (now - hit.created) / DAY), weight, scale, decay)
        for hit, near in zip(found.hits, similarities(found.hits, asked), strict=True)
    ]
    rated.sort(key=lambda one: -one["final_score"])  # stable: among equals the known order stays
    answer: Answer = {"success": True, "suggestions": rated[:limit], **asides(found)}
    return answer if rated else answer | {"message": "nothing like it was decided yet"}


def freshness(age: float, scale: float, decay: float) -> float:
    """What an age is worth: 1 for now, `decay` at an age of `scale`, by a bell curve."""
    return float(decay ** min((age / scale) ** 2, 1e6))


def list_decisions(memory: Memory, arguments: Arguments) -> Answer:
    """List the newest decisions."""
    limit, offset = arguments.get("limit", 10), arguments.get("offset", 0)
    found = memory.search("", type=DECISION, limit=limit, offset=offset)
    decisions = [
        {"decision_id": hit.id, **_decided(hit.record, hit.created, bool(hit.superseded_by))} for hit in found.hits
    ]
    rows = [
        f"{place}. **{one['topic']}**: {cut(one_line(one['decision']), _LINE)} "
        f"({one['outcome']}, {one['timestamp'][:10]})"
        for place, one in enumerate(decisions, offset + 1)
    ]
    return {"success": True, "list": "\n".join(rows) or "No decisions.", "decisions": decisions, **asides(found)}


def update_outcome(memory: Memory, arguments: Arguments) -> Answer:
    """Record what came of a decision, named by topic or by id."""
    outcome, why = _outcome(arguments), arguments.get("failure_reason") or None
    named = arguments.get("decisionId") or arguments.get("decision_id") or _head(memory, arguments.get("topic", ""))
    told = why or arguments.get("limitation") or None
    with in_words(reason="failure_reason"):
        saved = memory.update(named, outcome=outcome, reason=told)
    theirs = _THEIRS.get(outcome, outcome)
    message = f"Updated {saved.id} -> {theirs}"
    return {"success": True, "message": message, "decision_id": saved.id, "outcome": theirs}


def _head(memory: Memory, topic: str) -> str:
    """The decision that holds on a topic, else the last one."""
    if not topic.strip():
        raise BadInput("topic is required", "or decisionId", field="topic")
    told = memory.history(topic)
    if len(told.heads) > 1:
        message = f"topic {told.topic}: {len(told.heads)} decisions hold at once"
        raise Conflict(message, f"give decisionId, one of {', '.join(told.heads)}", heads=told.heads)
    return told.heads[0] if told.heads else told.chain[-1].record.id


def _outcome(arguments: Arguments, *more: str) -> str:
    """The outcome in our words, or one of `more`; a reason for a failure says that it failed."""
    stated = arguments.get("outcome") or ("failed" if arguments.get("failure_reason") else "pending")
    word = stated.strip().casefold()
    if word in more:
        return str(word)
    try:
        return checked.outcome("outcome", stated)
    except BadInput:
        words = ", ".join((*(_THEIRS.get(word, word) for word in OUTCOMES), *more))
        hint = "save the decision that replaces it" if word == SUPERSEDED else ""
        raise BadInput(f"outcome must be one of {words}, not {stated[:64]!r}", hint, field="outcome") from None


def _shown(record: Record, replaced: bool) -> str:
    """The outcome in their words; that of a decision which does not hold is that it was superseded."""
    if record.outcome == "pending" and (replaced or record.status == WITHDRAWN):
        return SUPERSEDED
    return _THEIRS.get(record.outcome, record.outcome)


def _decided(record: Record, created: int, replaced: bool) -> Answer:
    answer: Answer = {
        "topic": record.topic,
        "decision": record.decision,
        "reasoning": record.text,
        "confidence": record.confidence,
        "outcome": _shown(record, replaced),
        "timestamp": format_time(created) if created else "",
    }
    more = {"failure_reason": reason(record) if record.outcome == "failed" else "", "limitation": record.limitation}
    return answer | {name: value for name, value in more.items() if value}


def _suggested(hit: Hit, near: float, age: float, weight: float, scale: float, decay: float) -> Answer:
    final = (1 - weight) * near + weight * freshness(age, scale, decay)
    answer: Answer = {
        "decision_id": hit.id,
        "topic": hit.record.topic,
        "decision": hit.record.decision,
        "similarity": near,
        "recency_days": round(age, 3),
        "final_score": round(final, 4),
        "outcome": _shown(hit.record, bool(hit.superseded_by)),
    }
    return answer
