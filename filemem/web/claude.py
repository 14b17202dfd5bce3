"""mem-claude's routes: its tools, answered with its statuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filemem.dialects import mem_claude, mem_claude_calls, present
from filemem.web.entry import Answer, Arguments, Refused, Result, Told

if TYPE_CHECKING:
    from filemem.memory import Memory

TOOLS = {tool.name: tool for tool in mem_claude.TOOLS}


def save(memory: Memory, arguments: Arguments) -> Answer:
    """Save an observation."""
    return mem_claude_calls.save(memory, arguments)


def search(memory: Memory, arguments: Arguments) -> Result:
    """Find what was observed; as a table where that is asked for."""
    return _told(mem_claude_calls.search(memory, arguments))


def timeline(memory: Memory, arguments: Arguments) -> Result:
    """Tell what was observed around an id, a time or the best hit of a query."""
    return _told(mem_claude_calls.timeline(memory, arguments))


def observation(memory: Memory, arguments: Arguments) -> Answer:
    """Return one observation."""
    found = mem_claude_calls.get_observations(memory, {**arguments, "ids": [arguments["id"]]})["observations"]
    if not found:
        raise Refused(404, "NOT_FOUND", f"Observation #{arguments['id']} not found", "GET /api/search shows ids")
    first: Answer = found[0]
    return first | present.lacking(memory)


def batch(memory: Memory, arguments: Arguments) -> Told:
    """Return whole observations as a list; ids that nobody has are left out."""
    return Told(mem_claude_calls.get_observations(memory, arguments)["observations"])


def _told(answer: Answer | str) -> Result:
    """What the real program wraps text in."""
    return {"content": [{"type": "text", "text": answer}]} if isinstance(answer, str) else answer
