"""The budget of an answer: its texts are cut until it fits, and no result is ever left out.

A result that is not whole says `truncated`. The best result is shown more fully than the others: what answers the
question should not need a second call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
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
# How much of a result is shown at each step: which keys; characters of its lead and reasons, and of its other texts.
_STEPS = (
    *((_FACTS, limit, limit) for limit in (2_400, 1_200, 600, 300, 160)),
    *((_FACTS, 90, 0), (_FACTS, 30, 0), (_NAMES, 30, 0), (_NAMES, 0, 0)),
)
_BEST = 2  # steps by which the best result is shown more fully
_encoded = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def within(answer: Answer, budget: int) -> Answer:
    """Cut the results of an answer until it has at most `budget` characters as JSON."""
    lists = [name for name in LISTS if isinstance(answer.get(name), list)]
    shown, step = answer, 0
    while len(_encoded(shown)) > budget and step < len(_STEPS) + _BEST:
        best, others = min(max(0, step - _BEST), len(_STEPS) - 1), min(step, len(_STEPS) - 1)
        first = next((name for name in lists if answer[name]), "")
        shown = answer | {
            name: [_shown(one, best if name == first and at == 0 else others) for at, one in enumerate(answer[name])]
            for name in lists
        }
        step += 1
    return shown


def _shown(result: Any, step: int) -> Any:
    """A result as it is shown at a step, in the order in which it came; `truncated` unless that is all of it."""
    facts, lead, rest = _STEPS[step]
    if isinstance(result, str):
        return cut(result, lead) if lead else "…"
    first = next((name for name in _LEADS if name in result), "")
    limits = dict.fromkeys((first, "reasons", "already_rejected"), lead)
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
