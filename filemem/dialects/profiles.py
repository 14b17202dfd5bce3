"""What a dialect is, as data, and what each profile advertises.

This module answers `tools/list` before anything heavy is imported, so it imports nothing beyond the standard library
and `filemem.errors`; checking arguments and calling is `filemem.dialects.calling`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from filemem.errors import BadInput, BrokenStore, Conflict, FilememError, Locked, NotFound

if TYPE_CHECKING:
    from filemem.memory import Memory

Payload = dict[str, object] | str

DIALECTS: Mapping[str, str] = {
    "native": "filemem.dialects.native",
    "mama": "filemem.dialects.mama",
    "mama-v1": "filemem.dialects.mama_v1",
    "openclaw": "filemem.dialects.mama",
    "powermem": "filemem.dialects.powermem",
    "mem-claude": "filemem.dialects.mem_claude",
    "project-memory": "filemem.dialects.project_memory",
    "all": "filemem.dialects.native",
}
"""Profile name -> the module that holds its `DIALECT`. Where a name has several tools, the first profile's counts."""

_PREFIXES = {"openclaw": "mama_"}
_EVERYTHING = "all"

# Hosts refuse or rename tools outside this form; `__` separates server from tool in some of them.
_NAME = re.compile(r"(?!.*__)[A-Za-z][A-Za-z0-9_-]{0,63}")

_KINDS: Mapping[type[FilememError], str] = {
    BadInput: "bad_input",
    NotFound: "not_found",
    Conflict: "conflict",
    Locked: "locked",
    BrokenStore: "broken_store",
}


Call = Callable[["Memory", Mapping[str, object]], Payload]


class Tool(NamedTuple):
    """One tool: what is advertised, and the function behind it.

    Args:
        name: letters, digits, `_`, `-`; at most 64 characters.
        description: static text; never built from stored records.
        input_schema: JSON Schema 2020-12 of the arguments, an object.
        call: gets the memory and arguments that satisfy `input_schema`; returns plain JSON values, or text.
        title: name for people; may be empty.
        output_schema: JSON Schema of what `call` returns on success, or None where it returns text.
        annotations: MCP hints: readOnlyHint, destructiveHint, idempotentHint, openWorldHint.
    """

    name: str
    description: str
    input_schema: Mapping[str, object]
    call: Call
    title: str = ""
    output_schema: Mapping[str, object] | None = None
    annotations: Mapping[str, bool] | None = None


class Resource(NamedTuple):
    """Something that can be read by its address.

    Args:
        uri: the address; one with a `{name}` in it is a template for many.
        name: name for people.
        description: static text.
        mime: media type of the text that reading it answers.
        tool: the tool, listed or hidden, whose answer is that text; a template's `{name}` is its only argument.
        complete: of a template, gets `value`, the beginning or a part of a name; returns `values`, the likeliest first.
        listed: of a template, whether what `complete` knows is listed one by one.
    """

    uri: str
    name: str
    description: str
    mime: str
    tool: str
    complete: Call | None = None
    listed: bool = False

    @property
    def variable(self) -> str:
        """The name that stands in a template; empty where this is none."""
        return self.uri.partition("{")[2].partition("}")[0]

    @property
    def around(self) -> tuple[str, str]:
        """What stands before and after the name in a template."""
        before, _, rest = self.uri.partition("{")
        return before, rest.partition("}")[2]


class Argument(NamedTuple):
    """What a prompt asks the user for; `complete` as for a resource."""

    name: str
    description: str
    required: bool = False
    complete: Call | None = None


class Prompt(NamedTuple):
    """A request to the model that a user can choose, such as a command of a chat program.

    Args:
        name: letters, digits, `_`, `-`.
        title: name for people.
        description: static text.
        arguments: what the user may fill in, as text.
        call: gets the memory and the arguments; returns the text of the request.
    """

    name: str
    title: str
    description: str
    arguments: tuple[Argument, ...]
    call: Call


class Dialect(NamedTuple):
    """One set of tools with its own wording of failures.

    Args:
        name: the profile name.
        tools: all that can be called.
        instructions: text for the model that uses the tools, their names in backquotes; may be empty.
        failure: turns an error into the dialect's own reply.
        hidden: tools that can be called and are never listed: old names, names that hosts refuse.
        resources: what can be read by its address.
        prompts: what a user can choose to ask.
        server: the name that the handshake says.
        others: profiles whose tools can be called too, where none of this dialect has the name.
    """

    name: str
    tools: tuple[Tool, ...]
    instructions: str
    failure: Callable[[FilememError], Payload]
    hidden: tuple[Tool, ...] = ()
    resources: tuple[Resource, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    server: str = "filemem"
    others: tuple[str, ...] = ()


class Advertised(NamedTuple):
    """What a server offers: `dialect.tools` can be called, `tools` are listed."""

    dialect: Dialect
    tools: tuple[Tool, ...]


def later(module: str, name: str) -> Call:
    """Name a tool's function without importing it: what is listed must not pay for what may never be called.

    Args:
        module: the module that holds the function.
        name: the function.
    """

    def call(memory: Memory, arguments: Mapping[str, object]) -> Payload:
        answer: Payload = getattr(import_module(module), name)(memory, arguments)
        return answer

    return call


def profile(name: str, prefix: str = "") -> Advertised:
    """Look up what a profile advertises. The tools of all other profiles stay callable.

    Args:
        name: a key of DIALECTS.
        prefix: put before every advertised name; the bare names stay callable.

    Raises:
        BadInput: there is no such profile, or a prefixed name would not be a legal tool name.
    """
    if name not in DIALECTS:
        raise BadInput(f"no profile named {name!r}", suggest(name, DIALECTS), field="profile")
    dialect: Dialect = import_module(DIALECTS[name]).DIALECT
    others = tuple(other for other in DIALECTS if other not in (name, _EVERYTHING))
    listed = _everything() if name == _EVERYTHING else dialect.tools
    known = dialect._replace(tools=dialect.tools + dialect.hidden, others=others)
    if name == _EVERYTHING:
        known = known._replace(resources=tuple(one for other in others for one in profile(other).dialect.resources))
    prefix += _PREFIXES.get(name, "")
    if not prefix:
        return Advertised(known, listed)
    tools = tuple(_prefixed(tool, prefix) for tool in listed)
    told = dialect.instructions
    for tool in dialect.tools:
        told = told.replace(f"`{tool.name}`", f"`{prefix}{tool.name}`")
    own = tuple(_prefixed(tool, prefix) for tool in dialect.tools)
    hidden = dialect.tools + dialect.hidden
    return Advertised(known._replace(tools=own + known.tools, hidden=hidden, instructions=told), tools)


def _prefixed(tool: Tool, prefix: str) -> Tool:
    if _NAME.fullmatch(prefix + tool.name):
        return tool._replace(name=prefix + tool.name)
    raise BadInput(
        f"prefix {prefix!r} makes a tool name that hosts refuse: {prefix + tool.name!r}",
        "start with a letter; letters, digits, - and single _; at most 64 characters with the name",
        field="prefix",
    )


def _everything() -> tuple[Tool, ...]:
    """One tool for each name that any profile lists."""
    tools: dict[str, Tool] = {}
    for name in DIALECTS:
        for tool in profile(name).tools if name != _EVERYTHING else ():
            tools.setdefault(tool.name, tool)
    return tuple(tools.values())


def elsewhere(dialect: Dialect, name: str) -> tuple[Dialect, Tool] | None:
    """Find a tool that the dialect itself does not have, and the dialect whose words it answers in."""
    for other in dialect.others:
        there = profile(other).dialect
        for tool in there.tools:
            if tool.name == name:
                return there, tool
    return None


def envelope(error: FilememError) -> dict[str, object]:
    """Word a failure as the native dialect does: kind, message, hint, and the field or the heads in question."""
    kind = next((_KINDS[cls] for cls in type(error).__mro__ if cls in _KINDS), "internal")
    told: dict[str, object] = {"kind": kind, "message": error.message, "hint": error.hint}
    if isinstance(error, BadInput) and error.field:
        told["field"] = error.field
    if isinstance(error, Conflict) and error.heads:
        told["heads"] = list(error.heads)
    return {"success": False, "error": told}


def sentence(error: FilememError) -> str:
    """A failure in one sentence that names the argument at fault, for systems that have no place of its own for it."""
    field = error.field if isinstance(error, BadInput) else ""
    return error.message if field in error.message else f"{field}: {error.message}"


def suggest(word: str, choices: Iterable[str]) -> str:
    """Say which of `choices` was probably meant by `word`, or list them all."""
    from difflib import get_close_matches  # noqa: PLC0415 - for a wrong word only

    names = sorted(choices)
    near = get_close_matches(word[:64], names, n=1)
    return f"did you mean {near[0]!r}?" if near else "choose one of " + ", ".join(names)
