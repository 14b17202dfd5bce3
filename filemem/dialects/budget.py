"""Answers that fit into what a model reads with ease: facts whole, texts cut. Pure.

Rule: no result is dropped and no fact is cut, whatever the budget. What is left of it goes to texts, to the best result
first: what answers the question should not need a second call.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from filemem.record import cut

Answer = dict[str, Any]

LONGEST_TITLE = 160  # characters
_FACTS = frozenset(
    (
        *("id", "type", "topic", "title", "path", "created", "score", "holds", "superseded_by"),
        *("proposed", "successors", "heads", "status", "outcome", "confidence", "chain", "more", "kind"),
        *("because", "line", "drift", "evidence", "note", "by"),
    )
)
_BARE = ("id", "type", "topic", "title", "path", "status", "outcome", "score", "holds", "superseded_by")
_LEADS = ("snippet", "decision", "text")  # the first of these that a result has is the text to show if only one fits
_POINTED = ("reasons", "already_rejected")  # what came of it, and what was already turned down
_DETAILS = ("scores", "highlight", "files_read", "files_modified", "facts", "concepts", "session", "source")
_ITEM = 40  # characters of a text per item of a list


class _Step(NamedTuple):
    """How much of a result is shown, in characters per text: of its lead and what is pointed out, and so on."""

    lead: int
    decision: int
    rest: int


_STEPS = (_Step(0, 0, 0), _Step(90, 0, 0), _Step(160, 160, 0), _Step(160, 160, 160), _Step(300, 300, 300))
_LINE = 80  # characters that are worth a look at what else could be shown
_ENCODED = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_BEST = 2  # the step to which the best result is raised before any other is


def within(answer: Answer, budget: int) -> Answer:
    """Cut the texts of an answer's results until it has at most `budget` characters as JSON.

    Args:
        answer: one with `results`, the best first.
        budget: characters; exceeded only where the facts alone are more.
    """
    results: list[Answer] = answer["results"]
    empty = _size(answer | {"results": []}) + len(results)  # and a comma after each
    if empty + sum(map(_size, results)) <= budget:
        return answer
    facts = [_facts(result) for result in results]
    left = budget - empty - sum(map(_size, facts))
    if left < 0:
        bare = [{name: one[name] for name in _BARE if name in one} | {"truncated": True} for one in facts]
        return answer | {"results": bare}
    texts: list[Answer] = [{} for _ in results]
    sizes = [_size({})] * len(results)
    for at, step in _raises(len(results)):
        if left < _LINE:
            break
        more = _texts(results[at], step)
        size = _size(more)
        if 0 < size - sizes[at] <= left:
            left -= size - sizes[at]
            texts[at], sizes[at] = more, size
    told = (_told(*parts) for parts in zip(results, facts, texts, strict=True))
    return answer | {"results": list(told)}


def _raises(count: int) -> Iterator[tuple[int, int]]:
    """In which order results are shown more fully: (number of the result, step)."""
    yield from ((0, step) for step in range(1, _BEST + 1))
    yield from ((at, step) for step in range(1, len(_STEPS)) for at in range(count))


def _facts(result: Answer) -> Answer:
    """What is always shown; and, until all is, that it is not all."""
    facts = {name: value for name, value in result.items() if name in _FACTS}
    return facts | {"title": _shorter(result["title"], LONGEST_TITLE), "truncated": True}


def _texts(result: Answer, step: int) -> Answer:
    """What else is shown of a result at a step."""
    most = _STEPS[step]
    lead = next((name for name in _LEADS if name in result), "")
    limits = {"decision": most.decision} | dict.fromkeys((lead, *_POINTED), most.lead)
    details = most.rest if step == len(_STEPS) - 1 else 0
    texts = {}
    for name in result.keys() - _FACTS:
        if limit := limits.get(name, details if name in _DETAILS else most.rest):
            value = _telling(result, limit) if name == "snippet" else result[name]
            texts[name] = _shorter(value[::-1][: limit // _ITEM][::-1] if name == "reasons" else value, limit)
    return texts


def _telling(result: Answer, limit: int) -> str:
    """The snippet of a result, from where most of what was found in it fits into `limit` characters."""
    snippet: str = result["snippet"]
    found: Sequence[Sequence[int]] = result.get("highlight", ())
    if len(snippet) <= limit:
        return snippet
    starts = (0, *(max(0, first - limit // 4) for first, _ in found))
    start = max(starts, key=lambda at: sum(at <= first and last <= at + limit - 2 for first, last in found))
    return "…" + snippet[snippet.find(" ", start) + 1 :] if start else snippet


def _told(result: Answer, facts: Answer, texts: Answer) -> Answer:
    """A result as it is shown, in the order in which it came."""
    shown = facts | texts
    told = {name: shown[name] for name in result if name in shown}
    return told if told == result else told | {"truncated": True}


def _shorter(value: Any, limit: int) -> Any:
    if isinstance(value, str):
        return cut(value, limit)
    if isinstance(value, list):
        return [_shorter(item, limit) for item in value[: limit // _ITEM]]
    if isinstance(value, Mapping):
        return {key: _shorter(item, limit) for key, item in value.items()}
    return value


def _size(answer: Mapping[str, Any]) -> int:
    return len(_ENCODED(answer))
