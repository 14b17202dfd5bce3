"""What completes an argument of a prompt or of an address: topics, ids of what holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from filemem.dialects.tool import Answer

if TYPE_CHECKING:
    from filemem.memory import Memory

_MAX_VALUES = 100  # values at most, as the protocol says
_MAX_TOPICS = 1_000  # topics


def complete_argument(memory: Memory, name: str, fragment: str) -> Answer:
    """The values of an argument that have `start` in them; none for a name of other things."""
    values = [
        value for value in _list_values(memory, name) if fragment.casefold() in value.casefold()
    ]
    return {
        "hasMore": len(values) > _MAX_VALUES,
        "total": len(values),
        "values": values[:_MAX_VALUES],
    }


def _list_values(memory: Memory, name: str) -> Sequence[str]:
    if name == "topic":
        return [topic.topic for topic in memory.topics(limit=_MAX_TOPICS).topics]
    if name == "id":
        return [id_ for topic in memory.topics(limit=_MAX_TOPICS).topics for id_ in topic.heads]
    return ()
