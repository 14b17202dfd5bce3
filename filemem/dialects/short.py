"""Shorten the results of a search to a budget of characters; `get` shows whole records.

The best result keeps most of its text, so that a caller need not read it again; the others keep the
part that was found.
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
DEFAULT_LIMIT = 5  # results of a search without limit; with detail it is HITS
_MIN_TEXT_SIZE = 60  # characters of the text of a result
_MAX_TITLE_SIZE = 160  # characters of a decision that may be shown as the title
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
    """Return the hits that are not far below the best; none if no hit is close."""
    if results.far or not results.hits:
        return ()
    threshold = WEAK_SHARE * results.hits[0].score
    return [hit for hit in results.hits if hit.score >= threshold or hit.brought_in]


def build_weaker_note(results: Results, count: int) -> Answer:
    """Return how many hits are not among the `count` that are shown, and how to see them."""
    weaker_count = len(results.hits) - count
    if not weaker_count:
        return {}
    if results.far:
        return {"note": f"nothing is close; ask with other terms, or limit {HITS} for the nearest"}
    return {"weaker": f"{weaker_count}; limit {HITS} shows them"}


def shorten_results(full_results: Sequence[Answer], limit: int = HITS) -> list[Answer]:
    """Shorten the results of a search.

    Args:
        full_results: as `answers.build_hit` builds them, the best first.
        limit: of the search; the budget grows with it.
    """
    titles = _build_titles(full_results)
    rows = [_build_row(result, titles) for result in full_results]
    if len(rows) < 2:
        return rows
    remaining_size = BUDGET * max(limit, DEFAULT_LIMIT) // HITS
    for row in rows:
        facts = row | {"decision": "", "text": ""}
        remaining_size -= len(str(facts))
    share = max(_MIN_TEXT_SIZE, remaining_size // (len(rows) + 2))
    _cut_text(rows[0], full_results[0], 3 * share)
    for index in range(1, len(rows)):
        _cut_text(rows[index], full_results[index], share)
    return rows


def _build_titles(full_results: Sequence[Answer]) -> dict[str, str]:
    """Return the titles of results and of what replaced them, by id."""
    titles: dict[str, str] = {}
    for result in full_results:
        titles[result["id"]] = result["title"]
        for successor in result.get("successors", ()):
            titles[successor["id"]] = successor["title"]
    return titles


def _cut_text(row: Answer, result: Answer, max_size: int) -> None:
    """Cut the texts of a row to `max_size` characters: of its snippet, if it has one."""
    if len(row.get("decision", "")) + len(row.get("text", "")) <= max_size:
        return
    row.pop("decision", None)
    text = result.get("text", "")
    if result.get("snippet"):
        text = present.cut_snippet(result, max_size)
    row["text"] = shorten_line(text, max_size)
    row["truncated"] = True


def _build_row(result: Answer, titles: Mapping[str, str]) -> Answer:
    """Return a result as a search shows it."""
    row = _select_keys(result)
    if "created" in row:
        row["created"] = row["created"][:_DATE_SIZE]
    if row.get("heads") == row.get("superseded_by"):
        row.pop("heads", None)
    for name in ("superseded_by", "proposed"):
        if name in row:
            row[name] = [{"id": id_, "title": titles.get(id_, "")} for id_ in row[name]]
    if "superseded_by" in row and "repository" not in row:
        del row["path"]  # the reader needs what replaced it
    _join_title(row)
    return row


def _select_keys(result: Answer) -> Answer:
    """Return the values that a search shows, in order, without usual ones."""
    row: Answer = {}
    for name in _KEYS:
        if name in result and result[name] != _DEFAULT_VALUES.get(name):
            row[name] = result[name]
    return row


def _join_title(row: Answer) -> None:
    """Replace a title that is the beginning of a short decision by the decision."""
    decision = row.get("decision", "")
    if not decision or len(decision) > _MAX_TITLE_SIZE:
        return
    if decision.startswith(row["title"].removesuffix("…")):
        row["title"] = row.pop("decision")
