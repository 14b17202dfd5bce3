"""The budget of an answer: its texts are cut until it fits, and no result is ever left out.

A result that is not whole says `truncated`. What room there is goes to the best result first: what answers the question
should not need a second call.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from filemem.dialects.tool import Answer
from filemem.record import cut

LISTS = ("results", "observations", "sessions", "suggestions", "decisions")
"""Keys of an answer that hold results."""
_NAMES = frozenset(
    """
    id decision_id record type _type kind topic title holds superseded_by outcome status score similarity
    final_score
    """.split()  # noqa: SIM905
)
"""What a reader follows or judges by: shown whatever the budget is."""
_FACTS = _NAMES | frozenset(
    """
    path created created_at created_at_epoch timestamp recency_days proposed successors heads chain more
    because line drift evidence note hidden confidence read_tokens project number related_to by user_id
    agent_id run_id scope memory_type
    """.split()  # noqa: SIM905
)
"""What else is shown whole, unless these alone are too much."""
_LEADS = ("snippet", "decision", "memory", "summary", "text")  # the first of these that a result has is cut last
_TITLE = 160  # characters
_ITEM = 40  # characters of a text per item of a list
# How much of a result is shown at each step: which keys; characters of its lead and reasons, its decision, the rest.
_STEPS = (
    (_NAMES, 0, 0, 0),
    (_NAMES, 30, 0, 0),
    (_FACTS, 30, 0, 0),
    *((_FACTS, *limits) for limits in ((90, 0, 0), (160, 160, 0), (160, 160, 160))),
    *((_FACTS, limit, limit, limit) for limit in (300, 600, 1_200, 2_400)),
)
_BASE, _BEST = 2, 4  # the steps to which each result and then the best is raised before any other
_encoded = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def within(answer: Answer, budget: int) -> Answer:
    """Cut the results of an answer until it has at most `budget` characters as JSON."""
    if len(_encoded(answer)) <= budget:
        return answer
    lists = [name for name in LISTS if isinstance(answer.get(name), list)]
    results = [one for name in lists for one in answer[name]]
    shown = [_shown(one, 0) for one in results]
    sizes = [len(_encoded(one)) for one in shown]
    left = budget - len(_encoded(answer | {name: [] for name in lists})) - sum(sizes) - len(results)
    for at, step in _raises(len(results)):
        more = _shown(results[at], step)
        growth = len(_encoded(more)) - sizes[at]
        if growth <= left:
            shown[at], sizes[at], left = more, sizes[at] + growth, left - growth
    rows = iter(shown)
    return answer | {name: [next(rows) for _ in answer[name]] for name in lists}


def _raises(count: int) -> Iterator[tuple[int, int]]:
    yield from ((at, step) for step in range(1, _BASE + 1) for at in range(count))
    yield from ((0, step) for step in range(_BASE + 1, _BEST + 1) if count)
    yield from ((at, step) for step in range(_BASE + 1, len(_STEPS)) for at in range(count))


def _shown(result: Any, step: int) -> Any:
    """A result as it is shown at a step, in the order in which it came; `truncated` unless that is all of it."""
    facts, lead, decision, rest = _STEPS[step]
    if isinstance(result, str):
        return cut(result, lead) if lead else "…"
    first = next((name for name in _LEADS if name in result), "")
    limits = {"decision": decision} | dict.fromkeys((first, "reasons", "already_rejected"), lead)
    shown: Answer = {}
    for name, value in result.items():
        limit = limits.get(name, rest)
        if name in facts and name != first:
            shown[name] = cut(value, _TITLE) if name == "title" else value
        elif limit:
            value = value[-max(1, limit // _ITEM) :] if name == "reasons" else value  # the newest tell most  # noqa: PLW2901
            shown[name] = _shorter(_around(result, limit) if name == "snippet" else value, limit)
    return shown if shown == result else shown | {"truncated": True}


def _around(result: Answer, limit: int) -> str:
    """The snippet of a result, from where most of what was found in it fits into `limit` characters."""
    snippet: str = result["snippet"]
    spans: Sequence[Sequence[int]] = result.get("highlight", ())
    if len(snippet) <= limit:
        return snippet
    starts = (0, *(max(0, first - limit // 4) for first, _ in spans))
    start = max(starts, key=lambda at: sum(at <= first and last <= at + limit - 2 for first, last in spans))
    return "…" + snippet[snippet.find(" ", start) + 1 :] if start else snippet


def _shorter(value: Any, limit: int) -> Any:
    if isinstance(value, str):
        return cut(value, limit)
    if isinstance(value, list):
        return [_shorter(item, limit) for item in value[: max(1, limit // _ITEM)]]
    return {key: _shorter(item, limit) for key, item in value.items()} if isinstance(value, Mapping) else value
