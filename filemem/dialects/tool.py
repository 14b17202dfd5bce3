"""A dialect is data: tools, resources, prompts and how failures are worded.

A profile says what of a dialect is listed.

This module is imported before anything heavy: it uses the standard library, `filemem.errors` and
`parameter` only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from filemem.dialects.parameter import Parameter, schema_of
from filemem.errors import BadInput, BrokenStore, Conflict, FilememError, Locked, NotFound
from filemem.hints import suggest

if TYPE_CHECKING:
    from filemem.memory import Memory

Arguments = Mapping[str, Any]
Answer = dict[str, Any]
Payload = dict[str, object] | str
Call = Callable[["Memory", Arguments], Payload]

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
"""Name of a profile -> the module with its `DIALECT`; of tools with one name the first counts."""

_PREFIXES = {"openclaw": "mama_"}
_ALL = "all"
# Hosts refuse or rename tools outside this form; `__` separates server from tool in some of them.
_NAME = re.compile(r"(?!.*__)[A-Za-z][A-Za-z0-9_-]{0,63}")
_KINDS: Mapping[type[FilememError], str] = {
    BadInput: "bad_input",
    NotFound: "not_found",
    Conflict: "conflict",
    Locked: "locked",
    BrokenStore: "broken_store",
}

# What a tool does to a memory, in MCP's hints.
READS: Mapping[str, bool] = {"readOnlyHint": True, "openWorldHint": False}
WRITES: Mapping[str, bool] = {
    "readOnlyHint": False,
    "destructiveHint": False,
    "openWorldHint": False,
}
DELETES: Mapping[str, bool] = {**WRITES, "destructiveHint": True}


class Tool(NamedTuple):
    """One tool: what is listed, and the function behind it."""

    name: str  # letters, digits, `_`, `-`; at most 64 characters
    description: str  # never built from stored records
    input_schema: Mapping[str, Any]  # JSON Schema 2020-12 of the arguments, an object
    call: Call  # gets arguments that satisfy the schema; returns plain JSON values, or text
    annotations: Mapping[str, bool] | None = None  # MCP's hints
    title: str = ""  # for people
    cut: bool = False  # whether its answer is cut to the dialect's budget
    unlisted: frozenset[str] = frozenset()  # parameters that clients are not told of


class Resource(NamedTuple):
    """Something that can be read by its address."""

    uri: str  # the address, or a template with one `{name}` in it
    name: str
    description: str
    mime: str  # of the text that reading it answers
    tool: str  # whose answer that is; the `{name}` of a template is its only argument


class Argument(NamedTuple):
    """An argument of a prompt; `usual` is used if the user gives none."""

    name: str
    description: str
    required: bool = False
    usual: str = ""


class Prompt(NamedTuple):
    """A request to the model that a user can choose; `text` has a `{name}` for each argument."""

    name: str
    title: str
    description: str
    arguments: tuple[Argument, ...]
    text: str


class Dialect(NamedTuple):
    """One set of tools with its own wording of failures."""

    name: str  # of the profile
    tools: tuple[Tool, ...]  # all that can be called
    instructions: str  # for the model that uses the tools, their names in backquotes; may be empty
    failure: Callable[[FilememError], Payload]
    hidden: tuple[Tool, ...] = ()  # never listed: old names, and names that hosts refuse
    resources: tuple[Resource, ...] = ()
    prompts: tuple[Prompt, ...] = ()  # `profile` gives every dialect the same
    server: str = "filemem"  # the name that the handshake gives
    others: tuple[str, ...] = ()  # profiles whose tools can be called, where no own has the name
    readable: bool = False  # whether the text of an answer is for reading; else it is JSON
    budget: int = 8_000  # characters of an answer that is cut, at the default limit
    whole: str = "limit 1 shows the best one whole"  # how to read what was cut
    listed: tuple[Tool, ...] = ()  # what a server shows; `profile` says which

    def scoped(self, name: str, about: str, calls: Mapping[str, Call | None]) -> Dialect:
        """Let some native tools take one more value of `scope`.

        Args:
            name: the value.
            about: what it means, for the model.
            calls: what runs then, by the name of the tool; None for the same as else.
        """

        def wider(usual: Tool) -> Tool:
            call = usual.call
            if call.__module__ != DIALECTS["native"] or call.__name__ not in calls:
                return usual
            return _scoped(usual, name, about, calls[call.__name__])

        return self._replace(
            tools=tuple(map(wider, self.tools)), listed=tuple(map(wider, self.listed))
        )


def _scoped(usual: Tool, name: str, about: str, special: Call | None) -> Tool:
    """A tool with one more value of its parameter `scope`, for which another function may run."""
    properties = usual.input_schema["properties"]
    first, *others = properties["scope"]["enum"]
    description = f"{about}; {properties['scope']['description']}" if len(others) > 1 else about
    scope = {"enum": [first, name, *others], "description": description}

    def call(memory: Memory, arguments: Arguments) -> Payload:
        chosen = special if special and arguments.get("scope") == name else usual.call
        return chosen(memory, arguments)

    return usual._replace(
        input_schema={**usual.input_schema, "properties": {**properties, "scope": scope}},
        call=call if special else usual.call,
        unlisted=usual.unlisted - {"scope"},
    )


# A prompt becomes the user's own words to the model: nothing that is stored stands in one, and
# it names no tool.
_PROMPTS = (
    Prompt(
        "resume",
        "Resume the work",
        "Go on from the latest checkpoint, knowing what was decided since.",
        (Argument("branch", "whose checkpoint", usual="the branch that is checked out"),),
        "Go on with the work on this project. Load the latest checkpoint of {branch} from the"
        " project's memory, and see what was decided since. Look at what has changed in the "
        "repository, say in a few sentences what is done and what comes next, and go on with "
        "it. Before you stop, save a new checkpoint.",
    ),
    Prompt(
        "record-decision",
        "Record a decision",
        "Save what was decided, with its reasons, knowing what holds on the topic today.",
        (
            Argument("topic", "what it is about, e.g. auth_strategy", required=True),
            Argument("decision", "what was decided", usual="take it from our conversation"),
        ),
        "Record a decision on the topic {topic} in the project's memory. See first what was "
        "decided on it so far: the new decision replaces what holds. If nothing changes, say "
        "so and save nothing.\n\n"
        "The decision: {decision}\n\n"
        "Save topic, decision in one sentence, reasoning (why, in terms that hold in a year),"
        " rejected (each alternative, and why not), affects (the paths it governs). Ask me "
        "for what you do not know; invent nothing.",
    ),
)


def tool(
    call: Call,
    hints: Mapping[str, bool],
    description: str,
    *parameters: Parameter,
    title: str = "",
    closed: bool = True,
    cut: bool = False,
) -> Tool:
    """Make the tool of a function, under its name.

    Args:
        call: the function.
        hints: READS, WRITES or DELETES.
        description: what a model should know of it.
        parameters: what it takes.
        title: for people.
        closed: whether other parameters are refused.
        cut: whether its answer is cut to the dialect's budget.
    """
    return Tool(
        call.__name__,
        description,
        schema_of(parameters, closed=closed),
        call,
        hints,
        title=title,
        cut=cut,
        unlisted=frozenset(row.name for row in parameters if not row.listed),
    )


def profile(name: str, prefix: str = "") -> Dialect:
    """Return what a profile offers; the tools of all others stay callable.

    Args:
        name: one of DIALECTS.
        prefix: what every listed name of a tool begins with.

    Raises:
        BadInput: there is no such profile, or hosts refuse names with that prefix.
    """
    if name not in DIALECTS:
        raise BadInput(f"no profile named {name!r}", suggest(name, DIALECTS), field="profile")
    dialect: Dialect = import_module(DIALECTS[name]).DIALECT
    dialect = dialect._replace(
        tools=dialect.tools + dialect.hidden,
        listed=dialect.tools,
        others=tuple(other for other in DIALECTS if other not in (name, _ALL)),
        prompts=_PROMPTS,
    )
    if name == _ALL:
        dialect = _joined(dialect)
    prefix += _PREFIXES.get(name, "")
    return _renamed(dialect, prefix) if prefix else dialect


def _joined(dialect: Dialect) -> Dialect:
    """A dialect that lists the tools and resources of all profiles."""
    profiles = [profile(name) for name in DIALECTS if name != _ALL]
    first: dict[str, Tool] = {}
    for other in profiles:
        for row in other.listed:
            first.setdefault(row.name, row)
    resources = tuple(row for other in profiles for row in other.resources)
    return dialect._replace(resources=resources, listed=tuple(first.values()))


def _renamed(dialect: Dialect, prefix: str) -> Dialect:
    """A dialect that lists its tools with a prefix, and takes their names without it too."""
    instructions = dialect.instructions
    for row in dialect.listed:
        instructions = instructions.replace(f"`{row.name}`", f"`{prefix}{row.name}`")
    listed = tuple(_prefixed(row, prefix) for row in dialect.listed)
    return dialect._replace(
        tools=listed + dialect.tools,
        hidden=dialect.tools,
        instructions=instructions,
        listed=listed,
    )


def _prefixed(tool: Tool, prefix: str) -> Tool:
    if _NAME.fullmatch(prefix + tool.name):
        return tool._replace(name=prefix + tool.name)
    raise BadInput(
        f"prefix {prefix!r} makes a tool name that hosts refuse: {prefix + tool.name!r}",
        "start with a letter; letters, digits, - and single _; at most 64 characters with the name",
        field="prefix",
    )


def tool_of(dialect: Dialect, name: str) -> tuple[Dialect, Tool]:
    """Return a tool, of another profile if needed, and its dialect. Raises NotFound."""
    for owner in chain((dialect,), map(profile, dialect.others)):
        for row in owner.tools:
            if row.name == name:
                return owner, row
    listed = [row.name for row in dialect.listed]
    raise NotFound(f"no tool named {name[:64]!r}", suggest(name, listed))


def counted(count: int, word: str) -> str:
    """A number of things."""
    return f"{count} {word}{'' if count == 1 else 's'}"


def envelope(error: FilememError) -> dict[str, object]:
    """Word a failure as the native dialect does: kind, message, hint, and the field or heads."""
    kind = next((_KINDS[cls] for cls in type(error).__mro__ if cls in _KINDS), "internal")
    failure: dict[str, object] = {"kind": kind, "message": error.message, "hint": error.hint}
    if isinstance(error, BadInput) and error.field:
        failure["field"] = error.field
    if isinstance(error, Conflict) and error.heads:
        failure["heads"] = list(error.heads)
    return {"success": False, "error": failure}


def sentence(error: FilememError) -> str:
    """A failure as one sentence, with the name of the invalid argument."""
    field = error.field if isinstance(error, BadInput) else ""
    return error.message if field in error.message else f"{field}: {error.message}"


def worded(name: str, **first: object) -> Callable[[FilememError], Payload]:
    """Word failures as an object: `first`, the sentence under a name, and the hint."""
    return lambda error: {
        **first,
        name: sentence(error),
        **({"hint": error.hint} if error.hint else {}),
    }
