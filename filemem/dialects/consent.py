"""What a person is asked where the client can ask: to save a secret, to end a fork, to remove."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from filemem.dialects.tool import Arguments, Tool
from filemem.errors import Conflict, FilememError, LooksSecret

if TYPE_CHECKING:
    from filemem.memory import Memory


class Question(NamedTuple):
    """A question that yes or no answers, and what a yes adds to the arguments of the call."""

    text: str
    added_arguments: Mapping[str, object]


def find_removal_question(memory: Memory, tool: Tool, arguments: Arguments) -> Question | None:
    """Return the question before a record is removed. Raises NotFound: there is none."""
    if "id" not in arguments or not (tool.annotations or {}).get("destructiveHint"):
        return None
    record = memory.get(arguments["id"])[0].record
    return Question(f"Remove “{record.title}” from the memory? Git's history keeps it.", {})


def find_refusal_question(tool: Tool, error: FilememError) -> Question | None:
    """Return the question that a yes would answer a refusal by, if there is one."""
    question = None
    if isinstance(error, LooksSecret):
        text = f"{error.message}. Save it all the same? Whoever reads the repository can read it."
        question = Question(text, {"allow_secret": True})
    elif isinstance(error, Conflict) and error.heads:
        text = f"{error.message}. Replace all of them by the new decision?"
        question = Question(text, {"supersedes": list(error.heads)})
    properties = tool.input_schema["properties"]
    return question if question and question.added_arguments.keys() <= properties.keys() else None


REMOVAL_REFUSAL = Conflict(
    "nobody agreed to the removal; nothing was removed",
    "ask your user; `filemem forget ID` asks nobody",
)
