"""Complete an argument of a prompt or of an address: topics, and ids of current decisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from filemem.dialects.tool import Answer

if TYPE_CHECKING:
    from filemem.memory import Memory

_MAX_VALUES = 100  # the most that the protocol allows
_MAX_TOPICS = 1_000


def complete_argument(memory: Memory, name: str, fragment: str) -> Answer:
    """Return the values of an argument that contain a fragment; none for an unknown argument."""
    folded_fragment = fragment.casefold()
    all_values = _list_values(memory, name)
    values = [value for value in all_values if folded_fragment in value.casefold()]
    return {
        "hasMore": len(values) > _MAX_VALUES,
        "total": len(values),
        "values": values[:_MAX_VALUES],
    }


def _list_values(memory: Memory, name: str) -> Sequence[str]:
    """Return all values of an argument."""
    if name not in ("topic", "id"):
        return ()
    topics = memory.topics(limit=_MAX_TOPICS).topics
    if name == "topic":
        return [topic.topic for topic in topics]
    return [id_ for topic in topics for id_ in topic.heads]
