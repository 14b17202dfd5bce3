"""How records are shown, and the parts of it that several dialects share.

Plain JSON: times as ISO 8601 UTC, collections as lists, nothing empty, nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from filemem.dialects.tool import Answer, counted
from filemem.memory.fields import heading
from filemem.query import Hit, Results, likely, relevance, topical
from filemem.record import CHECKPOINT, DECISION, Outcome, Record, format_time
from filemem.record.lines import hidden_characters

if TYPE_CHECKING:
    from filemem.memory import Memory
    from filemem.memory.save import Saved


_EMPTY: tuple[object, ...] = (None, "", [], {}, ())


def plain(values: Mapping[str, Any]) -> Answer:
    """Values as JSON has them: a list for a tuple."""
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in values.items()
    }


def filled(values: Mapping[str, Any]) -> Answer:
    """The values that are not empty; 0 and False are not."""
    return {name: value for name, value in plain(values).items() if value not in _EMPTY}


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


def hidden(record: Record) -> str:
    """The number of characters in a record that a model reads and a reader cannot see."""
    texts = (
        getattr(record, name)
        for name in ("title", "topic", "decision", "text", "next_steps", "limitation")
    )
    count = len(
        hidden_characters("\n".join((*dict.fromkeys(texts), *record.rejected, *record.facts)))
    )
    return counted(count, "character") if count else ""


# -- what is shown of a hit


def decided(record: Record) -> str:
    """What was decided, where the title does not say it."""
    return record.decision if record.decision != record.title else ""


def limits(hit: Hit) -> Answer:
    """What limits a result: what replaced it, what is left out of its chain, hidden characters."""
    return filled(
        {
            "superseded_by": hit.superseded_by,
            "earlier": hit.earlier or None,
            "hidden": hidden(hit.record),
        }
    )


def related(hit: Hit) -> list[Answer]:
    """The edges of a hit, as MAMA shows them."""
    return [
        {"id": edge.target, "edge": edge.kind, "edge_reason": edge.reason} for edge in hit.related
    ]


def similarity(hit: Hit, query: str = "") -> float:
    """How likely a hit answers a query, 0..1: what other systems call similarity.

    The meaning of a text knows nothing of the topic that it was filed under, so a topic that the
    query names counts too.
    """
    by_name = topical(query, hit.record.topic) if hit.record.topic_stated else 0.0
    # One without scores was brought in for what was found: it stands for that.
    by_meaning = likely(hit.score) if hit.scores is None else relevance(hit.scores)
    return round(max(by_name, by_meaning), 4)


def similarities(hits: Sequence[Hit], query: str) -> list[float]:
    """The similarity of each hit, raised to that of any hit below it: the values only fall."""
    return list(accumulate((similarity(hit, query) for hit in reversed(hits)), max))[::-1]


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


def asides(results: Results) -> Answer:
    """Notes that come before the results."""
    return filled({"degraded": results.degraded, "note": results.note})


def lacking(memory: Memory) -> Answer:
    """Why the last answer may be incomplete; {} if it is complete."""
    return {"degraded": memory.lacked} if memory.lacked else {}


def pending(value: Saved) -> Answer:
    """What keeps a save from being found; {} for nothing."""
    return filled({"pending": value.pending, "degraded": value.degraded})


def unwritten(value: Saved) -> Answer:
    """What keeps a save from being found, or that it was there already; {} for neither."""
    return pending(value) | filled({"note": value.message if value.repeated else ""})
