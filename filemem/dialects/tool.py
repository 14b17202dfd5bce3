"""A dialect is data: tools, resources, prompts and the wording of failures; a profile says what of it is listed.

This module is imported before anything heavy: it uses the standard library and `filemem.errors` only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

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
"""Profile name -> the module that holds its `DIALECT`. Of several tools with one name the first profile's counts."""

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

# What the tables of tools are written with.
TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": TEXT}
_READS = {"readOnlyHint": True, "openWorldHint": False}
_WRITES = {"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False}
_HOW = {"reads": _READS, "writes": _WRITES, "deletes": {**_WRITES, "destructiveHint": True}}
_SHAPES: Mapping[str, Mapping[str, Any]] = {
    "text": TEXT,
    "said": {"type": "string", "pattern": r"\S"},  # text that must say something
    "texts": _TEXTS,
    "words": {"anyOf": [TEXT, _TEXTS]},  # one word or several
    "flag": {"type": "boolean"},
    "object": {"type": "object"},
    "fraction": {"type": "number", "minimum": 0, "maximum": 1},
    "id": {"anyOf": [{"type": "integer"}, TEXT]},  # older programs pass numbers as text
}


class Tool(NamedTuple):
    """One tool: what is listed, and the function behind it."""

    name: str  # letters, digits, `_`, `-`; at most 64 characters
    description: str  # never built from stored records
    input_schema: Mapping[str, Any]  # JSON Schema 2020-12 of the arguments, an object
    call: Call  # gets the memory and arguments that satisfy the schema; returns plain JSON values, or text
    annotations: Mapping[str, bool] | None = None  # MCP's hints
    title: str = ""  # for people
    cut: bool = False  # whether its answer is cut to the dialect's budget
    unlisted: frozenset[str] = (
        frozenset()
    )  # arguments that are taken and not listed: those of other systems


class Resource(NamedTuple):
    """Something that can be read by its address."""

    uri: str  # the address, or a template with one `{name}` in it
    name: str
    description: str
    mime: str  # of the text that reading it answers
    tool: str  # listed or hidden, whose answer is that text; a template's `{name}` is its only argument


class Argument(NamedTuple):
    """An argument of a prompt; `usual` is used if the user gives none."""

    name: str
    description: str
    required: bool = False
    usual: str = ""


class Prompt(NamedTuple):
    """A request to the model that a user can choose; its `text` has a `{name}` for each argument."""

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
    hidden: tuple[
        Tool, ...
    ] = ()  # can be called and are never listed: old names, names that hosts refuse
    resources: tuple[Resource, ...] = ()
    prompts: tuple[Prompt, ...] = ()  # `profile` gives every dialect the same
    server: str = "filemem"  # the name that the handshake gives
    others: tuple[
        str, ...
    ] = ()  # profiles whose tools can be called too, if none of this dialect has the name
    readable: bool = False  # whether the text of an answer is for reading; else it is JSON
    budget: int = 8_000  # characters of an answer that is cut, at the default limit
    whole: str = "limit 1 shows the best one whole"  # how to read what was cut
    listed: tuple[Tool, ...] = ()  # what a server shows; `profile` says which

    def scoped(self, name: str, told: str, calls: Mapping[str, Call | None]) -> Dialect:
        """Let some native tools take one more `scope`; `calls`: what runs then, by verb, None for the same."""

        def wider(tool: Tool) -> Tool:
            usual, properties = tool.call, tool.input_schema["properties"]
            if usual.__module__ != DIALECTS["native"] or usual.__name__ not in calls:
                return tool
            first, *others = properties["scope"]["enum"]
            about = f"{told}; {properties['scope']['description']}" if len(others) > 1 else told
            shapes = {**properties, "scope": {"enum": [first, name, *others], "description": about}}
            special = calls[usual.__name__] or usual

            def call(memory: Memory, arguments: Mapping[str, Any]) -> Payload:
                return (special if arguments.get("scope") == name else usual)(memory, arguments)

            kept, schema = tool.unlisted - {"scope"}, {**tool.input_schema, "properties": shapes}
            return tool._replace(
                input_schema=schema, call=usual if special is usual else call, unlisted=kept
            )

        return self._replace(
            tools=tuple(map(wider, self.tools)), listed=tuple(map(wider, self.listed))
        )


# A prompt becomes the user's own words to the model: nothing that is stored stands in one, and it names no tool.
_PROMPTS = (
    Prompt(
        "resume",
        "Resume the work",
        "Go on from the latest checkpoint, knowing what was decided since.",
        (Argument("branch", "whose checkpoint", usual="the branch that is checked out"),),
        "Go on with the work on this project. Load the latest checkpoint of {branch} from the project's memory, and "
        "see what was decided since. Look at what has changed in the repository, say in a few sentences what is done "
        "and what comes next, and go on with it. Before you stop, save a new checkpoint.",
    ),
    Prompt(
        "record-decision",
        "Record a decision",
        "Save what was decided, with its reasons, knowing what holds on the topic today.",
        (
            Argument("topic", "what it is about, e.g. auth_strategy", required=True),
            Argument("decision", "what was decided", usual="take it from our conversation"),
        ),
        "Record a decision on the topic {topic} in the project's memory. See first what was decided on it so far: the "
        "new decision replaces what holds. If nothing changes, say so and save nothing.\n\nThe decision: {decision}\n\n"
        "Save topic, decision in one sentence, reasoning (why, in terms that hold in a year), rejected (each "
        "alternative, and why not), affects (the paths it governs). Ask me for what you do not know; invent nothing.",
    ),
)


def arguments(
    rows: str = "", *, closed: bool = True, **shapes: Mapping[str, Any]
) -> dict[str, Any]:
    """Read the schema of an object from rows of `name ...: shape = default # description`.

    `!` after a name says that it is required. A shape is a word of `_SHAPES` or `shapes`, whole numbers as `1..100` or
    `0..`, or words to choose from as `a|b`; a default is JSON. `closed` refuses names that are not among the rows.
    """
    properties: dict[str, Any] = {}
    required = []
    for row in filter(None, map(str.strip, rows.splitlines())):
        names, _, rest = row.partition(": ")
        rest, _, description = rest.partition(" # ")
        word, _, default = rest.partition(" = ")
        shape = {
            **_shape(word.strip(), shapes),
            **({"default": json.loads(default)} if default else {}),
        }
        for name in names.split():
            properties[name.rstrip("!")] = shape | (
                {"description": description} if description else {}
            )
            required += [name[:-1]] if name.endswith("!") else []
    needed = {"required": required} if required else {}
    return {
        "type": "object",
        "properties": properties,
        **needed,
        **({"additionalProperties": False} if closed else {}),
    }


def _shape(word: str, more: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    if bounds := re.fullmatch(r"(\d+)\.\.(\d*)", word):
        most = {"maximum": int(bounds[2])} if bounds[2] else {}
        return {"type": "integer", "minimum": int(bounds[1]), **most}
    return {"enum": word.split("|")} if "|" in word else {**_SHAPES, **more}[word]


def tools(table: str, *calls: Call, **shapes: Mapping[str, Any]) -> tuple[Tool, ...]:
    """Read a table of tools: `name reads|writes|deletes [open] [cut]: description`, and its arguments indented below.

    `open` accepts arguments that are not in the table, `cut` cuts answers to the dialect's budget; `calls` are named as
    the tools. Arguments below a row `unlisted` are accepted and not listed.
    """
    known = {call.__name__: call for call in calls}
    found = []
    for block in re.split(r"\n(?=\S)", table.strip()):
        head, _, rows = block.partition("\n")
        form, _, description = head.partition(": ")
        name, how, *rest = form.split()
        rows, _, more = rows.partition("    unlisted\n")
        schema, hidden = (
            arguments(part, closed="open" not in rest, **shapes) for part in (rows + more, more)
        )
        unlisted = frozenset(hidden["properties"])
        found.append(
            Tool(
                name,
                description,
                schema,
                known[name],
                _HOW[how],
                cut="cut" in rest,
                unlisted=unlisted,
            )
        )
    return tuple(found)


def profile(name: str, prefix: str = "") -> Dialect:
    """Look up what a profile offers. The tools of all other profiles stay callable, and the prompts are the same."""
    if name not in DIALECTS:
        raise BadInput(f"no profile named {name!r}", suggest(name, DIALECTS), field="profile")
    dialect: Dialect = import_module(DIALECTS[name]).DIALECT
    others = tuple(other for other in DIALECTS if other not in (name, _ALL))
    every = dialect.tools + dialect.hidden
    known = dialect._replace(tools=every, listed=dialect.tools, others=others, prompts=_PROMPTS)
    if name == _ALL:
        profiles = [profile(other) for other in DIALECTS if other != _ALL]
        first: dict[str, Tool] = {}
        for tool in (tool for one in profiles for tool in one.listed):
            first.setdefault(tool.name, tool)
        resources = tuple(one for other in profiles for one in other.resources)
        known = known._replace(resources=resources, listed=tuple(first.values()))
    prefix += _PREFIXES.get(name, "")
    if not prefix:
        return known
    told = dialect.instructions
    for tool in dialect.tools:
        told = told.replace(f"`{tool.name}`", f"`{prefix}{tool.name}`")
    own = tuple(_prefixed(tool, prefix) for tool in dialect.tools)
    listed = tuple(_prefixed(tool, prefix) for tool in known.listed)
    return known._replace(tools=own + every, hidden=every, instructions=told, listed=listed)


def _prefixed(tool: Tool, prefix: str) -> Tool:
    if _NAME.fullmatch(prefix + tool.name):
        return tool._replace(name=prefix + tool.name)
    raise BadInput(
        f"prefix {prefix!r} makes a tool name that hosts refuse: {prefix + tool.name!r}",
        "start with a letter; letters, digits, - and single _; at most 64 characters with the name",
        field="prefix",
    )


def tool_of(dialect: Dialect, name: str) -> tuple[Dialect, Tool]:
    """Find a tool, in another profile if needed, and its dialect."""
    for owner in chain((dialect,), map(profile, dialect.others)):
        for tool in owner.tools:
            if tool.name == name:
                return owner, tool
    raise NotFound(
        f"no tool named {name[:64]!r}", suggest(name, [tool.name for tool in dialect.listed])
    )


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
    """A failure in one sentence that names the invalid argument, for systems without a separate field for it."""
    field = error.field if isinstance(error, BadInput) else ""
    return error.message if field in error.message else f"{field}: {error.message}"


def worded(name: str, **first: object) -> Callable[[FilememError], Payload]:
    """Word failures as an object: `first`, the sentence under a name, and the hint."""
    return lambda error: {
        **first,
        name: sentence(error),
        **({"hint": error.hint} if error.hint else {}),
    }
