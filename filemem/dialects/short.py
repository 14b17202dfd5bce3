"""Results as a search shows them: without what `get` says too, and within a budget of characters.

The best result has most of its text, the others what was found in theirs: what answers the question
should not need a second call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from filemem.config import HITS
from filemem.dialects import present
from filemem.dialects.tool import Answer
from filemem.query import WEAK_SHARE
from filemem.record import shorten_line

if TYPE_CHECKING:
    from filemem.query import Hit, Results

BUDGET = 4_000  # characters of an answer with ten results
DEFAULT_LIMIT = 5  # results of a search that names no limit; of one that names detail: HITS
_MIN_TEXT_SIZE = 60  # characters of the text of a result
_MAX_TITLE_SIZE = (
    160  # characters of a decision that is shown as the title, where that is its beginning
)
_DATE_SIZE = 10  # characters of a time
_KEYS = (  # of a result, in this order
    *("id", "type", "kind", "topic", "title", "created", "holds", "status", "outcome"),
    *("superseded_by", "proposed", "heads", "note", "already_rejected", "evidence", "drift"),
    *("reasons", "earlier", "hidden", "session", "branch", "repository", "author", "commit"),
    *("link", "seen_at", "also_in", "path", "decision", "text"),
)
_DEFAULT_VALUES: Mapping[str, object] = {
    "status": "accepted",
    "outcome": "pending",
    "topic": "",
    "superseded_by": [],
}


def filter_near(results: Results) -> Sequence[Hit]:
    """The hits without those far below the best; none where nothing is close."""
    if results.far:
        return ()
    threshold = WEAK_SHARE * results.hits[0].score if results.hits else 0.0
    return [hit for hit in results.hits if hit.score >= threshold or hit.brought_in]


def build_weaker_note(results: Results, count: int) -> Answer:
    """How many weaker hits are not among the `count` that are shown, and how to see them."""
    weaker_count = len(results.hits) - count
    if not weaker_count:
        return {}
    if results.far:
        return {"note": f"nothing is close; ask with other terms, or limit {HITS} for the nearest"}
    return {"weaker": f"{weaker_count}; limit {HITS} shows them"}


def shorten_results(full_results: Sequence[Answer], limit: int = HITS) -> list[Answer]:
    """Shorten the results of a search.

    Args:
        whole: results as `answers.hit` shows them, the best first.
        limit: how many were asked for; the budget grows with it.
    """
    titles = _build_titles(full_results)
    rows = [_build_row(result, titles) for result in full_results]
    if len(rows) < 2:
        return rows
    facts = sum(len(str({**row, "decision": "", "text": ""})) for row in rows)
    remaining_size = BUDGET * max(limit, DEFAULT_LIMIT) // HITS - facts
    share = max(_MIN_TEXT_SIZE, remaining_size // (len(rows) + 2))
    for index, (row, result) in enumerate(zip(rows, full_results, strict=True)):
        _cut_text(row, result, share if index else 3 * share)
    return rows


def _build_titles(full_results: Sequence[Answer]) -> dict[str, str]:
    """The titles of results and of what replaced them, by id."""
    titles: dict[str, str] = {}
    for result in full_results:
        titles[result["id"]] = result["title"]
        titles.update((record["id"], record["title"]) for record in result.get("successors", ()))
    return titles


def _cut_text(row: Answer, result: Answer, max_size: int) -> None:
    """Leave a result `most` characters of text: of the part that was found, where that is known."""
    if len(row.get("decision", "")) + len(row.get("text", "")) <= max_size:
        return
    row.pop("decision", None)
    snippet = result.get("snippet")
    text = present.cut_snippet(result, max_size) if snippet else result.get("text", "")
    row["text"] = shorten_line(text, max_size)
    row["truncated"] = True


def _build_row(result: Answer, titles: Mapping[str, str]) -> Answer:
    row = {
        name: result[name]
        for name in _KEYS
        if name in result and result[name] != _DEFAULT_VALUES.get(name)
    }
    if "created" in row:
        row["created"] = row["created"][:_DATE_SIZE]
    if row.get("heads") == row.get("superseded_by"):
        row.pop("heads", None)
    for name in ("superseded_by", "proposed"):
        if name in row:
            row[name] = [{"id": id_, "title": titles.get(id_, "")} for id_ in row[name]]
    if "superseded_by" in row and "repository" not in row:
        del row["path"]  # who goes on reads what replaced it
    _join_title(row)
    return row


def _join_title(row: Answer) -> None:
    """Show a short decision as the title that is its beginning."""
    decision = row.get("decision", "")
    if (
        decision
        and len(decision) <= _MAX_TITLE_SIZE
        and decision.startswith(row["title"].removesuffix("…"))
    ):
        row["title"] = row.pop("decision")
