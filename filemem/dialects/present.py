"""How records are shown, and the parts of it that several dialects share.

Plain JSON: times as ISO 8601 UTC, collections as lists, nothing empty, nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from filemem.dialects.tool import Answer, format_count
from filemem.memory.fields import build_heading
from filemem.query import Hit, Results, compute_likelihood, compute_relevance, compute_topicality
from filemem.record import CHECKPOINT, DECISION, Outcome, Record, format_time
from filemem.record.lines import find_hidden_characters

if TYPE_CHECKING:
    from filemem.memory import Memory
    from filemem.memory.save import WriteResult


_EMPTY_VALUES: tuple[object, ...] = (None, "", [], {}, ())


def to_plain_values(values: Mapping[str, Any]) -> Answer:
    """Values as JSON has them: a list for a tuple."""
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in values.items()
    }


def strip_empty(values: Mapping[str, Any]) -> Answer:
    """The values that are not empty; 0 and False are not."""
    return {
        name: value for name, value in to_plain_values(values).items() if value not in _EMPTY_VALUES
    }


def format_timestamp(timestamp: int | None) -> str:
    """A time in epoch milliseconds as text; "" for none."""
    return format_time(timestamp) if timestamp else ""


def build_outcomes(log: Iterable[Outcome]) -> list[Answer]:
    """The outcome log, oldest first."""
    return [
        {"at": format_timestamp(entry.at), "outcome": entry.outcome, "reason": entry.reason}
        for entry in log
    ]


# -- the texts of a record


def get_content(record: Record) -> str:
    """The text as the caller gave it: decision, summary or text."""
    if record.type == DECISION:
        return record.decision
    if not record.text:
        return record.title
    starts_with_title = build_heading(record.text) == record.title
    return (
        record.text if starts_with_title or not record.title else f"{record.title}\n\n{record.text}"
    )


def render_record(record: Record) -> str:
    """A record as one text, for systems whose memories are texts."""
    parts = [get_content(record)]
    if record.type == DECISION:
        parts += [record.text, _render_list("Rejected", record.rejected)]
        if record.outcome != "pending":
            parts.append(
                f"Outcome: {record.outcome}"
                + (f": {get_reason(record)}" if get_reason(record) else "")
            )
    elif record.type == CHECKPOINT:
        parts += [f"Next steps:\n{record.next_steps}" if record.next_steps else ""]
    else:
        parts += [_render_list("Facts", record.facts)]
    return "\n\n".join(part for part in parts if part)


def _render_list(name: str, items: tuple[str, ...]) -> str:
    return "\n".join((f"{name}:", *(f"- {item}" for item in items))) if items else ""


def get_reason(record: Record) -> str:
    """The reason of the newest outcome, or ""."""
    return record.outcomes[-1].reason if record.outcomes else ""


def format_hidden_count(record: Record) -> str:
    """The number of characters in a record that a model reads and a reader cannot see."""
    texts = (
        getattr(record, name)
        for name in ("title", "topic", "decision", "text", "next_steps", "limitation")
    )
    count = len(
        find_hidden_characters("\n".join((*dict.fromkeys(texts), *record.rejected, *record.facts)))
    )
    return format_count(count, "character") if count else ""


# -- what is shown of a hit


def get_decision_text(record: Record) -> str:
    """What was decided, where the title does not say it."""
    return record.decision if record.decision != record.title else ""


def build_limits(hit: Hit) -> Answer:
    """What limits a result: what replaced it, what is left out of its chain, hidden characters."""
    return strip_empty(
        {
            "superseded_by": hit.superseded_by,
            "earlier": hit.earlier or None,
            "hidden": format_hidden_count(hit.record),
        }
    )


def build_related(hit: Hit) -> list[Answer]:
    """The edges of a hit, as MAMA shows them."""
    return [
        {"id": edge.target, "edge": edge.kind, "edge_reason": edge.reason} for edge in hit.related
    ]


def compute_similarity(hit: Hit, query: str = "") -> float:
    """How likely a hit answers a query, 0..1: what other systems call similarity.

    The meaning of a text knows nothing of the topic that it was filed under, so a topic that the
    query names counts too.
    """
    name_score = compute_topicality(query, hit.record.topic) if hit.record.topic_stated else 0.0
    # One without scores was brought in for what was found: it stands for that.
    meaning_score = (
        compute_likelihood(hit.score) if hit.scores is None else compute_relevance(hit.scores)
    )
    return round(max(name_score, meaning_score), 4)


def compute_similarities(hits: Sequence[Hit], query: str) -> list[float]:
    """The similarity of each hit, raised to that of any hit below it: the values only fall."""
    return list(accumulate((compute_similarity(hit, query) for hit in reversed(hits)), max))[::-1]


def cut_snippet(result: Answer, limit: int) -> str:
    """The part of a result's snippet, at most `limit` characters, that holds most matches."""
    snippet: str = result["snippet"]
    spans: Sequence[Sequence[int]] = result.get("highlight", ())
    if len(snippet) <= limit:
        return snippet
    starts = (0, *(max(0, span_start - limit // 4) for span_start, _ in spans))
    start = max(
        starts,
        key=lambda position: sum(
            position <= first and span_end <= position + limit - 2 for first, span_end in spans
        ),
    )
    return "…" + snippet[snippet.find(" ", start) + 1 :] if start else snippet


def build_notes(results: Results) -> Answer:
    """Notes that come before the results."""
    return strip_empty({"degraded": results.degraded, "note": results.note})


def build_degraded_note(memory: Memory) -> Answer:
    """Why the last answer may be incomplete; {} if it is complete."""
    return {"degraded": memory.degraded_reason} if memory.degraded_reason else {}


def build_pending_notes(value: WriteResult) -> Answer:
    """What keeps a save from being found; {} for nothing."""
    return strip_empty({"pending": value.pending, "degraded": value.degraded})


def build_unwritten_notes(value: WriteResult) -> Answer:
    """What keeps a save from being found, or that it was there already; {} for neither."""
    return build_pending_notes(value) | strip_empty(
        {"note": value.message if value.repeated else ""}
    )
