"""What a route is: a row of a table. Values only; nothing here knows Starlette.

A row's function runs either on the memory (`remembered`), or beside it, where it waits for something else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from filemem.dialects.calling import call
from filemem.dialects.profiles import Dialect, Tool
from filemem.errors import BadInput, FilememError

if TYPE_CHECKING:
    from filemem.memory import Memory
    from filemem.web.log import Log

Arguments = Mapping[str, Any]
Answer = dict[str, Any]
Asked = TypeVar("Asked")


class Ask(Protocol):
    """Runs a function on the memory, one at a time."""

    def __call__(self, question: Callable[[Memory], Asked], /) -> Future[Asked]:
        """Ask; the future fails with what opening the memory or the function raises."""


class Slack(NamedTuple):
    """How Slack is reached: the bot's token, empty where none is configured, and another address than Slack's own."""

    token: str = ""
    url: str = ""

    def __repr__(self) -> str:
        return "Slack(...)"


class Context(NamedTuple):
    """What functions may use besides their arguments.

    Args:
        ask: reaches the memory.
        log: of this server, or None where it has none.
        slack: how Slack is reached.
        running: limits how many sandboxes there are at once.
    """

    ask: Ask
    log: Log | None
    slack: Slack
    running: asyncio.Semaphore


class Told(NamedTuple):
    """An answer that is not simply an object with status 200."""

    body: object
    status: int = 200
    media: str = "application/json"
    headers: Mapping[str, str] = {}


Result = Answer | Told
Work = Callable[[Context, Arguments], Awaitable[Result]]


class Refused(FilememError):
    """A failure with a status and a code of its own."""

    def __init__(self, status: int, code: str, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.status, self.code = status, code


def installing(extra: str) -> str:
    """How to have what an extra of filemem brings."""
    return f"in a clone of filemem: uv tool install '.[{extra}]'; or: pipx install --force '.[{extra}]'"


class Failure(NamedTuple):
    """A failure on its way out: what a style words.

    Args:
        status: of HTTP.
        message: what is wrong.
        hint: what to do about it; may be empty.
        code: a word for programs.
        field: the argument at fault; may be empty.
    """

    status: int
    message: str
    hint: str = ""
    code: str = ""
    field: str = ""


Style = Callable[[Failure], Answer]


class Entry(NamedTuple):
    """One route.

    Args:
        method: GET or POST.
        path: as Starlette writes it, with `{id}` for a part of the path.
        summary: one line for the OpenAPI document.
        schema: JSON Schema of the arguments, wherever they come from.
        work: what answers.
        style: how failures are worded.
        writes: it changes or runs something, so it needs the token in any case.
        keys: what is in every answer of status 200; none where that is no JSON object.
        codes: further statuses that it answers, with what they mean.
        lacking: MAMA's code for a required argument that is not there.
        failed: MAMA's code for what went wrong on our side.
        media: the types that the answer can have.
        aliases: other paths that answer the same.
    """

    method: str
    path: str
    summary: str
    schema: Mapping[str, Any]
    work: Work
    style: Style
    writes: bool = False
    keys: tuple[str, ...] = ()
    codes: Mapping[int, str] = {}
    lacking: str = "MISSING_FIELDS"
    failed: str = "FAILED"
    medias: tuple[str, ...] = ("application/json",)
    aliases: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path that leads here."""
        return (self.path, *self.aliases)


def mama(failure: Failure) -> Answer:
    """Word a failure as MAMA's routes do."""
    told: Answer = {"error": True, "code": failure.code, "message": failure.message}
    return told | _more(failure)


def plain(failure: Failure) -> Answer:
    """Word a failure as mem-claude's routes do, and MCP's."""
    return {"error": failure.message} | _more(failure)


def _more(failure: Failure) -> Answer:
    return {name: value for name in ("hint", "field") if (value := getattr(failure, name))}


def remembered(function: Callable[[Memory, Arguments], Result]) -> Work:
    """Make the work of a route from a function on the memory."""

    async def work(context: Context, arguments: Arguments) -> Result:
        return await asyncio.wrap_future(context.ask(lambda memory: function(memory, arguments)))

    return work


def checked(entry: Entry, arguments: Arguments, path: str) -> Arguments:
    """Return arguments that satisfy the row's schema; `path` is the one that was asked.

    Raises:
        BadInput: they do not; by the rules that hold for the tools.
    """
    # A tool that returns its arguments, and a dialect that raises its failures: the rules of `calling`, nothing else.
    same = Tool(f"{entry.method} {path}", "", entry.schema, lambda _, given: dict(given))
    reply = call(Dialect("http", (same,), "", _again), None, same.name, arguments)  # type: ignore[arg-type]
    assert isinstance(reply.payload, dict)  # noqa: S101  what the tool above returns
    return reply.payload


def _again(error: FilememError) -> Any:
    raise error


def lacks(entry: Entry, arguments: Arguments, error: BadInput) -> bool:
    """Whether what is wrong is that something required is not there."""
    return error.field in entry.schema.get("required", ()) and not str(arguments.get(error.field, "")).strip()
