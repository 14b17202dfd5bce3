"""Questions to a person, if the client can ask: to save a secret, end a fork, remove a record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from filemem.dialects.tool import Arguments, Tool
from filemem.errors import Conflict, FilememError, LooksSecret

if TYPE_CHECKING:
    from filemem.memory import Memory


class Question(NamedTuple):
    """A yes-or-no question, and the arguments that a yes adds to the call."""

    text: str
    added_arguments: Mapping[str, object]


def find_removal_question(memory: Memory, tool: Tool, arguments: Arguments) -> Question | None:
    """Return the question before a record is removed; None if the tool removes none.

    Raises NotFound if there is no such record.
    """
    hints = tool.annotations or {}
    if "id" not in arguments or not hints.get("destructiveHint"):
        return None
    record = memory.get(arguments["id"])[0].record
    return Question(f"Remove “{record.title}” from the memory? Git's history keeps it.", {})


def find_refusal_question(tool: Tool, error: FilememError) -> Question | None:
    """Return the question whose yes would lift a refusal; None if there is none for the tool."""
    if isinstance(error, LooksSecret):
        text = f"{error.message}. Save it all the same? Whoever reads the repository can read it."
        question = Question(text, {"allow_secret": True})
    elif isinstance(error, Conflict) and error.heads:
        text = f"{error.message}. Replace all of them by the new decision?"
        question = Question(text, {"supersedes": list(error.heads)})
    else:
        return None
    properties = tool.input_schema["properties"]
    for name in question.added_arguments:
        if name not in properties:
            return None
    return question


REMOVAL_REFUSAL = Conflict(
    "nobody agreed to the removal; nothing was removed",
    "ask your user; `filemem forget ID` asks nobody",
)
