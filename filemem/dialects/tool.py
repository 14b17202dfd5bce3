"""A dialect is data: tools, resources, prompts and how failures are worded.

A profile says what of a dialect is listed.

This module is imported before anything heavy: it uses the standard library, `filemem.errors` and
`parameter` only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from filemem.dialects.parameter import Parameter, build_schema
from filemem.errors import BadInput, BrokenStore, Conflict, FilememError, Locked, NotFound
from filemem.hints import suggest_choice

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
_ALL_PROFILES = "all"
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
READ_HINTS: Mapping[str, bool] = {"readOnlyHint": True, "openWorldHint": False}
WRITE_HINTS: Mapping[str, bool] = {
    "readOnlyHint": False,
    "destructiveHint": False,
    "openWorldHint": False,
}
DELETE_HINTS: Mapping[str, bool] = {**WRITE_HINTS, "destructiveHint": True}


class Tool(NamedTuple):
    """One tool: what is listed, and the function behind it."""

    name: str  # letters, digits, `_`, `-`; at most 64 characters
    description: str  # never built from stored records
    input_schema: Mapping[str, Any]  # JSON Schema 2020-12 of the arguments, an object
    call: Call  # gets arguments that satisfy the schema; returns plain JSON values, or text
    annotations: Mapping[str, bool] | None = None  # MCP's hints
    title: str = ""  # for people
    is_cut: bool = False  # whether its answer is cut to the dialect's budget
    hidden_parameters: frozenset[str] = frozenset()  # parameters that clients are not told of


class Resource(NamedTuple):
    """Something that can be read by its address."""

    uri: str  # the address, or a template with one `{name}` in it
    name: str
    description: str
    mime: str  # of the text that reading it answers
    tool: str  # whose answer that is; the `{name}` of a template is its only argument


class Argument(NamedTuple):
    """An argument of a prompt; `default` is used if the user gives none."""

    name: str
    description: str
    is_required: bool = False
    default: str = ""


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
    hidden_tools: tuple[Tool, ...] = ()  # never listed: old names, and names that hosts refuse
    resources: tuple[Resource, ...] = ()
    prompts: tuple[Prompt, ...] = ()  # `profile` gives every dialect the same
    server_name: str = "filemem"  # the name that the handshake gives
    other_profiles: tuple[str, ...] = ()  # their tools can be called too; own tools come first
    has_readable_text: bool = False  # whether the text of an answer is for reading; else it is JSON
    budget: int = 8_000  # characters of an answer that is cut, at the default limit
    full_text_hint: str = "limit 1 shows the best one whole"  # how to read what was cut
    listed_tools: tuple[Tool, ...] = ()  # what a server shows; `profile` says which

    def add_scope(self, name: str, description: str, calls: Mapping[str, Call | None]) -> Dialect:
        """Return the dialect with one more value of `scope` in some native tools.

        Args:
            name: the value.
            description: what it means, for the model.
            calls: the function for that value by the name of the tool; None for the usual one.
        """

        def extend_tool(base_tool: Tool) -> Tool:
            call = base_tool.call
            if call.__module__ != DIALECTS["native"] or call.__name__ not in calls:
                return base_tool
            return _add_scope_value(base_tool, name, description, calls[call.__name__])

        return self._replace(
            tools=tuple(extend_tool(tool) for tool in self.tools),
            listed_tools=tuple(extend_tool(tool) for tool in self.listed_tools),
        )


def _add_scope_value(base_tool: Tool, name: str, description: str, scope_call: Call | None) -> Tool:
    """Return a tool with one more value of its parameter `scope`, with a function for it."""
    properties = base_tool.input_schema["properties"]
    values = list(properties["scope"]["enum"])
    if len(values) > 2:  # then other values were added before, with a description
        description = f"{description}; {properties['scope']['description']}"
    values.insert(1, name)
    scope = {"enum": values, "description": description}
    schema = {**base_tool.input_schema, "properties": {**properties, "scope": scope}}

    def call(memory: Memory, arguments: Arguments) -> Payload:
        if scope_call and arguments.get("scope") == name:
            return scope_call(memory, arguments)
        return base_tool.call(memory, arguments)

    return base_tool._replace(
        input_schema=schema,
        call=call if scope_call else base_tool.call,
        hidden_parameters=base_tool.hidden_parameters - {"scope"},
    )


# A prompt becomes the user's own words to the model: nothing that is stored stands in one, and
# it names no tool.
_PROMPTS = (
    Prompt(
        "resume",
        "Resume the work",
        "Go on from the latest checkpoint, knowing what was decided since.",
        (Argument("branch", "whose checkpoint", default="the branch that is checked out"),),
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
            Argument("topic", "what it is about, e.g. auth_strategy", is_required=True),
            Argument("decision", "what was decided", default="take it from our conversation"),
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


def build_tool(
    call: Call,
    hints: Mapping[str, bool],
    description: str,
    *parameters: Parameter,
    title: str = "",
    is_strict: bool = True,
    is_cut: bool = False,
) -> Tool:
    """Return the tool of a function, with its name.

    Args:
        call: the function.
        hints: READ_HINTS, WRITE_HINTS or DELETE_HINTS.
        description: for the model.
        parameters: of the function.
        title: for people.
        is_strict: whether other parameters are refused.
        is_cut: whether the answer is cut to the dialect's budget.
    """
    hidden_names = [row.name for row in parameters if not row.is_listed]
    return Tool(
        name=call.__name__,
        description=description,
        input_schema=build_schema(parameters, is_strict=is_strict),
        call=call,
        annotations=hints,
        title=title,
        is_cut=is_cut,
        hidden_parameters=frozenset(hidden_names),
    )


def load_profile(name: str, prefix: str = "") -> Dialect:
    """Return the dialect of a profile; the tools of all other profiles can be called too.

    Args:
        name: one of DIALECTS.
        prefix: of the name of every listed tool.

    Raises:
        BadInput: there is no such profile, or hosts refuse names with that prefix.
    """
    if name not in DIALECTS:
        raise BadInput(
            f"no profile named {name!r}", suggest_choice(name, DIALECTS), field="profile"
        )
    dialect: Dialect = import_module(DIALECTS[name]).DIALECT
    other_names = [other for other in DIALECTS if other not in (name, _ALL_PROFILES)]
    dialect = dialect._replace(
        tools=dialect.tools + dialect.hidden_tools,
        listed_tools=dialect.tools,
        other_profiles=tuple(other_names),
        prompts=_PROMPTS,
    )
    if name == _ALL_PROFILES:
        dialect = _merge_profiles(dialect)
    full_prefix = prefix + _PREFIXES.get(name, "")
    return _add_prefix(dialect, full_prefix) if full_prefix else dialect


def _merge_profiles(dialect: Dialect) -> Dialect:
    """Return a dialect that lists the tools and resources of all profiles."""
    tools_by_name: dict[str, Tool] = {}
    resources: list[Resource] = []
    for name in DIALECTS:
        if name == _ALL_PROFILES:
            continue
        profile = load_profile(name)
        resources += profile.resources
        for tool in profile.listed_tools:
            tools_by_name.setdefault(tool.name, tool)
    tools = tuple(tools_by_name.values())
    return dialect._replace(resources=tuple(resources), listed_tools=tools)


def _add_prefix(dialect: Dialect, prefix: str) -> Dialect:
    """Return a dialect that lists its tools with a prefix; their own names can be called too."""
    instructions = dialect.instructions
    listed_tools = []
    for tool in dialect.listed_tools:
        instructions = instructions.replace(f"`{tool.name}`", f"`{prefix}{tool.name}`")
        listed_tools.append(_add_tool_prefix(tool, prefix))
    return dialect._replace(
        tools=(*listed_tools, *dialect.tools),
        hidden_tools=dialect.tools,
        instructions=instructions,
        listed_tools=tuple(listed_tools),
    )


def _add_tool_prefix(tool: Tool, prefix: str) -> Tool:
    if _NAME.fullmatch(prefix + tool.name):
        return tool._replace(name=prefix + tool.name)
    raise BadInput(
        f"prefix {prefix!r} makes a tool name that hosts refuse: {prefix + tool.name!r}",
        "start with a letter; letters, digits, - and single _; at most 64 characters with the name",
        field="prefix",
    )


def resolve_tool(dialect: Dialect, name: str) -> tuple[Dialect, Tool]:
    """Return a tool, of another profile if needed, and its dialect. Raises NotFound."""
    for tool in dialect.tools:
        if tool.name == name:
            return dialect, tool
    for profile in dialect.other_profiles:
        other_dialect = load_profile(profile)
        for tool in other_dialect.tools:
            if tool.name == name:
                return other_dialect, tool
    tool_names = [tool.name for tool in dialect.listed_tools]
    raise NotFound(f"no tool named {name[:64]!r}", suggest_choice(name, tool_names))


def format_count(count: int, word: str) -> str:
    """Return a number of things, such as `3 files`."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def build_failure(error: FilememError) -> dict[str, object]:
    """Word a failure as the native dialect does: kind, message, hint, and the field or heads."""
    failure: dict[str, object] = {
        "kind": _get_kind(error),
        "message": error.message,
        "hint": error.hint,
    }
    if isinstance(error, BadInput) and error.field:
        failure["field"] = error.field
    if isinstance(error, Conflict) and error.heads:
        failure["heads"] = list(error.heads)
    return {"success": False, "error": failure}


def _get_kind(error: FilememError) -> str:
    """Return the kind of the nearest class of an error."""
    for error_class in type(error).__mro__:
        if error_class in _KINDS:
            return _KINDS[error_class]
    return "internal"


def format_error(error: FilememError) -> str:
    """Return a failure as one sentence with the name of the invalid argument."""
    field = error.field if isinstance(error, BadInput) else ""
    return error.message if field in error.message else f"{field}: {error.message}"


def build_failure_formatter(
    name: str, **leading_fields: object
) -> Callable[[FilememError], Payload]:
    """Return a function that words failures: leading fields, the sentence, and the hint."""

    def format_failure(error: FilememError) -> Payload:
        failure = {**leading_fields, name: format_error(error)}
        if error.hint:
            failure["hint"] = error.hint
        return failure

    return format_failure
