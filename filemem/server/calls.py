"""Runs tool calls in order, for every transport, without the SDK.

They run in one thread: a memory is opened, used and closed by the same thread, and a slow call
delays other calls but no ping.
"""

from __future__ import annotations

import ctypes
import json
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import unquote

from filemem.dialects.call import call, perform
from filemem.dialects.complete import completed
from filemem.dialects.consent import Question
from filemem.dialects.tool import Answer, Dialect, Payload, Resource
from filemem.errors import BadInput, FilememError, Locked, NotFound, refused
from filemem.record.visibility import EVERYBODY
from filemem.server.wire import INTERNAL_ERROR, Refusal, dump

if TYPE_CHECKING:
    from filemem.memory import Memory

OpenMemory = Callable[[], "Memory"]
OnCrash = Callable[[str, BaseException], None]
Asked = TypeVar("Asked")
Result = dict[str, object]

MISSING = -32002  # "resource not found" of the handshake protocols
_SHOWN = 200  # characters of an address in a message
# In `_meta`: the object of a readable answer, for programs. No client shows it to a model; of
# `structuredContent` some show it instead of the text, and some beside it.
ANSWER = "filemem/answer"
_ARENA_MAX = -8  # M_ARENA_MAX of malloc.h
_DEFECT = ("internal error, logged", "a defect of filemem: please report it; the server goes on")


class Called(NamedTuple):
    """What `tools/call` answers, unless a person says yes to a question."""

    result: Result
    question: Question | None = None


def log_crash(tool: str, error: BaseException) -> None:
    """Report a defect on standard error, with its traceback."""
    logging.getLogger(__name__).error("%s failed", tool, exc_info=error)


class Calls:
    """Runs tool calls in order.

    The first call opens the memory; if that raises FilememError, the next tries again. A memory
    that takes several calls at a time is given `threads`. A call sees the context variables of its
    request.
    """

    def __init__(
        self,
        dialect: Dialect,
        open_memory: OpenMemory,
        on_crash: OnCrash = log_crash,
        threads: int = 1,
    ) -> None:
        self.dialect = dialect
        self._open_memory = open_memory
        self.on_crash = on_crash
        self._memory: Memory | None = None
        self._ending = False
        # Else each thread of Tantivy keeps what it freed: 70 MB in 600 saves.
        with suppress(AttributeError, OSError, TypeError):  # of glibc alone
            ctypes.CDLL(None).mallopt(_ARENA_MAX, 2)
        self._thread = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="filemem-calls")

    def begin(
        self, name: str, arguments: Mapping[str, object], *, asks: bool = False
    ) -> Future[Called]:
        """Call a tool, in turn; `called` says what came of it. `asks`: a person can be asked."""
        return self.submit(lambda: self._run(name, arguments, asks=asks))

    def called(self, future: Future[Called], name: str) -> Called:
        """What `tools/call` answers: a defect becomes a report and a failure.

        Failures are text only: the schema is of success.
        """
        try:
            return self.outcome(future, name)
        except FilememError as error:
            return Called(_result([text_of(self.dialect.failure(error))], is_error=True))

    def read(self, uri: str) -> Future[Result]:
        """Read the resource of an address, in turn; `content` says what came of it."""
        return self.submit(lambda: self._read(uri))

    def content(self, future: Future[Result], uri: str, missing: int = MISSING) -> Result | Refusal:
        """What `resources/read` answers; `missing`: the code where there is no such thing."""
        try:
            return self.outcome(future, "a request")
        except FilememError as error:
            message = f"{error.message} ({error.hint})" if error.hint else error.message
            code = missing if isinstance(error, BadInput | NotFound) else INTERNAL_ERROR
            return Refusal(code, message, data={"uri": uri[:_SHOWN]})

    def complete(self, name: str, start: str) -> Future[Result]:
        """Find what completes an argument; nothing where the memory cannot be opened."""
        return self.submit(lambda: {"completion": self._completed(name, start)})

    def prepare(self) -> None:
        """Open the memory, load what a search needs; if that fails, the first call says why."""
        self.ask(lambda memory: memory.search("prepare", limit=1))

    def ask(self, question: Callable[[Memory], Asked]) -> Future[Asked]:
        """Run another function on the memory, in turn with the calls; failures go to the future."""
        return self.submit(lambda: question(self._opened()))

    def submit(self, job: Callable[[], Asked]) -> Future[Asked]:
        """Run something in turn with the calls, with this thread's context variables."""
        return self._thread.submit(copy_context().run, job)

    def outcome(self, future: Future[Asked], what: str) -> Asked:
        """What a finished future holds. Raises FilememError; a defect is reported."""
        error = future.exception()
        if error is None:
            return future.result()
        if isinstance(error, FilememError):
            raise error
        if isinstance(error, OSError):
            raise refused(error)
        with suppress(OSError):  # a full disk must not turn the report into the answer
            self.on_crash(what, error)
        raise FilememError(*_DEFECT)

    def without_private(self) -> Calls:
        """The same calls in the same order, for callers of whom nothing is known."""
        other = copy(self)
        other._open_memory = lambda: self._opened().seen_by(EVERYBODY)
        return other

    def end(self) -> None:
        """Start no more calls: the running one goes on, waiting ones are told that none began."""
        self._ending = True

    def reopen(self, moved: bool) -> None:
        """Where it has moved, close the memory, in its own thread: the next call opens it anew."""
        if moved and self._memory is not None:
            self._memory.close()
            self._memory = None

    def close(self) -> Future[None]:
        """Close the memory after the running call; nothing is taken after that."""
        closing = self._thread.submit(lambda: self._memory.close() if self._memory else None)
        self._thread.shutdown(wait=False)
        return closing

    def _run(self, name: str, arguments: Mapping[str, object], *, asks: bool) -> Called:
        if self._ending:
            raise Locked("the server is stopping, so this call was not started", "call again")
        memory = self._opened()
        payload, is_error, words, question = call(self.dialect, memory, name, arguments, asks=asks)
        notice = vars(memory).pop("notice", "")  # what the first answer says besides
        texts = [text_of(words or payload), *([notice] if notice else [])]
        result = _result(texts, is_error=is_error)
        if words:
            further = {"notice": notice} if notice else {}
            result = {"_meta": {ANSWER: json.loads(text_of(payload)) | further}, **result}
        return Called(result, question)

    def _completed(self, name: str, start: str) -> Answer:
        try:
            return completed(self._opened(), name, start)
        except FilememError:
            return {"values": []}

    def _read(self, uri: str) -> Result:
        resource, arguments = _resource(self.dialect, uri)
        text = text_of(perform(self.dialect, self._opened(), resource.tool, arguments))
        return {"contents": [{"mimeType": resource.mime, "text": text, "uri": uri}]}

    def _opened(self) -> Memory:
        if self._memory is None:
            self._memory = self._open_memory()
        return self._memory


def _resource(dialect: Dialect, uri: str) -> tuple[Resource, Mapping[str, object]]:
    """The resource of an address, with the arguments of its tool. Raises NotFound."""
    for resource in dialect.resources:
        before, _, rest = resource.uri.partition("{")
        variable, _, after = rest.partition("}")
        value = uri.removeprefix(before).removesuffix(after)
        if uri == before + value + after and bool(value) == bool(variable):
            return resource, {variable: unquote(value)} if variable else {}
    names = ", ".join(resource.uri for resource in dialect.resources)
    raise NotFound(f"no resource {uri[:_SHOWN]}; there are {names}")


def _result(texts: list[str], *, is_error: bool) -> Result:
    content: list[Any] = [{"text": text, "type": "text"} for text in texts]
    return {"content": content, "isError": is_error}


def text_of(payload: Payload) -> str:
    """The text of an answer."""
    if isinstance(payload, str):
        return payload.encode("utf-8", "replace").decode("utf-8")
    return dump(payload)
