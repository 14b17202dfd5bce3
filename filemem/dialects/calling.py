"""Calling a tool: arguments are checked here, once for every transport, and failures leave in the dialect's words.

A tool sees only arguments that satisfy its own schema, and none that is null: programs send that for what they leave
open. What is no FilememError is a defect and passes through.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from filemem import schema
from filemem.dialects.profiles import Dialect, Payload, Tool, elsewhere, suggest
from filemem.errors import BadInput, FilememError, NotFound

if TYPE_CHECKING:
    from filemem.memory import Memory

MAX_DEPTH = 32  # nesting of arguments; what walks them later may recurse
_TOLD = 3  # complaints in one message
_LARGEST = 2**63  # where integers of other languages end


class Reply(NamedTuple):
    """What a tool answered: an object or text, and whether it is the report of a failure."""

    payload: Payload
    is_error: bool


def call(dialect: Dialect, memory: Memory, name: str, arguments: Mapping[str, object]) -> Reply:
    """Call one tool of a dialect.

    Args:
        dialect: whose tools and whose wording of failures.
        memory: handed to the tool.
        name: of the tool, with the prefix if one is used.
        arguments: as they came from the caller, unchecked.
    """
    try:
        dialect, tool = _find(dialect, name)
        return Reply(_performed(tool, memory, arguments), is_error=False)
    except FilememError as error:
        return Reply(dialect.failure(error), is_error=True)


def perform(dialect: Dialect, memory: Memory, name: str, arguments: Mapping[str, object]) -> Payload:
    """Call one tool as `call` does, for who words failures otherwise.

    Raises:
        FilememError: what the tool raises, or the arguments deserve.
    """
    return _performed(_find(dialect, name)[1], memory, arguments)


def _performed(tool: Tool, memory: Memory, arguments: Mapping[str, object]) -> Payload:
    given = {name: value for name, value in arguments.items() if value is not None}
    _check(tool, given)
    return tool.call(memory, _whole(given))


def _whole(arguments: Mapping[str, object]) -> dict[str, object]:
    """The arguments with `55.0` as 55, which JSON does not tell apart: what counts or cuts needs an integer."""
    integral = {k: int(v) for k, v in arguments.items() if isinstance(v, float) and v.is_integer() and abs(v) < 2**53}
    return {**arguments, **integral}


def _find(dialect: Dialect, name: str) -> tuple[Dialect, Tool]:
    """The tool of a name, and the dialect whose words it answers in."""
    tools = {tool.name: tool for tool in dialect.tools}
    if name in tools:
        return dialect, tools[name]
    if found := elsewhere(dialect, name):
        return found
    listed = [tool.name for tool in dialect.tools if tool not in dialect.hidden]
    raise NotFound(f"no tool named {_shown(name)}", suggest(name, listed))


def _check(tool: Tool, arguments: Mapping[str, object]) -> None:
    check_values(arguments)
    _check_names(tool, arguments)
    complaints = schema.errors(tool.input_schema, arguments)
    if not complaints:
        return
    told = "; ".join(
        sentence if sentence.startswith(field) else f"{field}: {sentence}" for field, sentence in complaints[:_TOLD]
    )
    raise BadInput(told, f"correct it and call {tool.name} again", field=complaints[0][0])


def _check_names(tool: Tool, arguments: Mapping[str, object]) -> None:
    """Refuse an argument that the tool does not know, before the schema does: the likely name is worth more."""
    known = tool.input_schema.get("properties", {})
    if tool.input_schema.get("additionalProperties") is not False or not isinstance(known, Mapping):
        return
    for name in arguments:
        if name not in known:
            raise BadInput(f"{tool.name} has no argument {_shown(name)}", suggest(name, known), field=name[:64])


def check_values(arguments: Mapping[str, object]) -> None:
    """Refuse what no file can hold: NUL, halves of surrogate pairs, endless numbers, bottomless nesting.

    Raises:
        BadInput: names the argument.
    """
    waiting: list[tuple[str, object, int]] = [("", arguments, 0)]
    while waiting:
        path, value, depth = waiting.pop()
        if depth > MAX_DEPTH:
            field = path.split(".")[0].split("[")[0]
            raise BadInput(f"{field}: nested deeper than {MAX_DEPTH} levels", "send it flat, or as text", field)
        if isinstance(value, str):
            _check_characters(path, value)
        elif isinstance(value, Mapping):
            for key, inner in value.items():
                _check_characters(path or "arguments", key)
                waiting.append((f"{path}.{key}" if path else key, inner, depth + 1))
        elif isinstance(value, list):
            waiting += [(f"{path}[{at}]", inner, depth + 1) for at, inner in enumerate(value)]
        elif isinstance(value, int | float) and not -_LARGEST < value < _LARGEST:
            raise BadInput(f"{path}: the number is too large", "send it as text if every digit matters", path)


def _check_characters(path: str, text: str) -> None:
    if "\0" in text:
        raise BadInput(f"{path}: holds a NUL character", "remove it; text is meant, not bytes", path)
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        raise BadInput(f"{path}: holds half of a surrogate pair", "send whole Unicode characters", path)


def _shown(name: str) -> str:
    return repr(name if len(name) <= 64 else name[:64] + "…")
