"""What completes an argument of a prompt or of an address: topics, ids of what holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from filemem.dialects.tool import Answer

if TYPE_CHECKING:
    from filemem.memory import Memory

_SHOWN = 100  # values at most, as the protocol says
_READ = 1_000  # topics


def completed(memory: Memory, name: str, start: str) -> Answer:
    """The values of an argument that have `start` in them; none for a name of other things."""
    values = [value for value in _values(memory, name) if start.casefold() in value.casefold()]
    return {
        "hasMore": len(values) > _SHOWN,
        "total": len(values),
        "values": values[:_SHOWN],
    }


def _values(memory: Memory, name: str) -> Sequence[str]:
    if name == "topic":
        return [topic.topic for topic in memory.topics(limit=_READ).topics]
    if name == "id":
        return [id_ for topic in memory.topics(limit=_READ).topics for id_ in topic.heads]
    return ()
