"""Show records: the parts that several dialects share.

Answers are plain JSON: times as ISO 8601 UTC, collections as lists, nothing empty, nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
    """Return values with lists for tuples, as JSON has them."""
    plain_values = dict(values)
    for name, value in values.items():
        if isinstance(value, tuple):
            plain_values[name] = list(value)
    return plain_values


def strip_empty(values: Mapping[str, Any]) -> Answer:
    """Return the values that are not empty, as JSON has them; 0 and False are kept."""
    plain_values = to_plain_values(values)
    return {name: value for name, value in plain_values.items() if value not in _EMPTY_VALUES}


def format_timestamp(timestamp: int | None) -> str:
    """Return a time in epoch milliseconds as text; "" for None or 0."""
    return format_time(timestamp) if timestamp else ""


def build_outcomes(log: Iterable[Outcome]) -> list[Answer]:
    """Return the outcome log, oldest first."""
    return [
        {"at": format_timestamp(entry.at), "outcome": entry.outcome, "reason": entry.reason}
        for entry in log
    ]


# -- the texts of a record


def get_content(record: Record) -> str:
    """Return the text as the caller gave it: decision, summary or text."""
    if record.type == DECISION:
        return record.decision
    if not record.text:
        return record.title
    if not record.title or build_heading(record.text) == record.title:
        return record.text
    return f"{record.title}\n\n{record.text}"


def render_record(record: Record) -> str:
    """Return a record as one text, for systems whose memories are texts."""
    parts = [get_content(record)]
    if record.type == DECISION:
        parts.append(record.text)
        parts.append(_render_list("Rejected", record.rejected))
        parts.append(_render_outcome(record))
    elif record.type == CHECKPOINT:
        if record.next_steps:
            parts.append(f"Next steps:\n{record.next_steps}")
    else:
        parts.append(_render_list("Facts", record.facts))
    return "\n\n".join(part for part in parts if part)


def _render_outcome(record: Record) -> str:
    if record.outcome == "pending":
        return ""
    reason = get_reason(record)
    return f"Outcome: {record.outcome}: {reason}" if reason else f"Outcome: {record.outcome}"


def _render_list(name: str, items: tuple[str, ...]) -> str:
    if not items:
        return ""
    lines = [f"- {item}" for item in items]
    return "\n".join([f"{name}:", *lines])


def get_reason(record: Record) -> str:
    """Return the reason of the newest outcome, or ""."""
    return record.outcomes[-1].reason if record.outcomes else ""


def format_hidden_count(record: Record) -> str:
    """Return how many characters of a record a model reads and a person cannot see, or ""."""
    texts = (
        record.title,
        record.topic,
        record.decision,
        record.text,
        record.next_steps,
        record.limitation,
    )
    # A title may repeat the topic or the decision, which counts once.
    parts = list(dict.fromkeys(texts))
    parts += record.rejected
    parts += record.facts
    count = len(find_hidden_characters("\n".join(parts)))
    return format_count(count, "character") if count else ""


# -- what is shown of a hit


def get_decision_text(record: Record) -> str:
    """Return what was decided; "" if the title says it."""
    return "" if record.decision == record.title else record.decision


def build_limits(hit: Hit) -> Answer:
    """Return what replaced a result, what is left out of its chain, and its hidden characters."""
    return strip_empty(
        {
            "superseded_by": hit.superseded_by,
            "earlier": hit.earlier or None,
            "hidden": format_hidden_count(hit.record),
        }
    )


def build_related(hit: Hit) -> list[Answer]:
    """Return the edges of a hit, as MAMA shows them."""
    return [
        {"id": edge.target, "edge": edge.kind, "edge_reason": edge.reason} for edge in hit.related
    ]


def compute_similarity(hit: Hit, query: str = "") -> float:
    """Return how likely a hit answers a query, 0..1: what other systems call similarity.

    The score by meaning does not know the topic of a text, so a topic that the query names counts
    too.
    """
    topic_score = 0.0
    if hit.record.topic_stated:
        topic_score = compute_topicality(query, hit.record.topic)
    if hit.scores is None:  # it was added because of another hit
        meaning_score = compute_likelihood(hit.score)
    else:
        meaning_score = compute_relevance(hit.scores)
    return round(max(topic_score, meaning_score), 4)


def compute_similarities(hits: Sequence[Hit], query: str) -> list[float]:
    """Return the similarity of each hit, at least that of any hit below it."""
    similarities = [compute_similarity(hit, query) for hit in hits]
    for index in range(len(similarities) - 2, -1, -1):
        similarities[index] = max(similarities[index], similarities[index + 1])
    return similarities


def cut_snippet(result: Answer, limit: int) -> str:
    """Return the part of a result's snippet with most matches, of at most `limit` characters."""
    snippet: str = result["snippet"]
    spans: Sequence[Sequence[int]] = result.get("highlight", ())
    if len(snippet) <= limit:
        return snippet
    best_start = 0
    best_count = _count_spans(spans, 0, limit)
    for span_start, _ in spans:
        start = max(0, span_start - limit // 4)
        count = _count_spans(spans, start, limit)
        if count > best_count:
            best_start = start
            best_count = count
    if best_start == 0:
        return snippet
    word_start = snippet.find(" ", best_start) + 1
    return f"…{snippet[word_start:]}"


def _count_spans(spans: Iterable[Sequence[int]], start: int, limit: int) -> int:
    """Return how many spans lie in `limit` characters from a start."""
    end = start + limit - 2
    return sum(start <= span_start and span_end <= end for span_start, span_end in spans)


def build_notes(results: Results) -> Answer:
    """Return notes that come before the results."""
    return strip_empty({"degraded": results.degraded, "note": results.note})


def build_degraded_note(memory: Memory) -> Answer:
    """Return why the last answer may be incomplete; {} if it is complete."""
    return {"degraded": memory.degraded_reason} if memory.degraded_reason else {}


def build_pending_notes(value: WriteResult) -> Answer:
    """Return why a save cannot be found yet; {} if it can."""
    return strip_empty({"pending": value.pending, "degraded": value.degraded})


def build_unwritten_notes(value: WriteResult) -> Answer:
    """Return why a save cannot be found yet, or that it was there before; {} for neither."""
    notes = build_pending_notes(value)
    if value.repeated and value.message:
        notes["note"] = value.message
    return notes
