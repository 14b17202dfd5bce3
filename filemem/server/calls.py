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
from filemem.dialects.complete import complete_argument
from filemem.dialects.consent import Question
from filemem.dialects.tool import Answer, Dialect, Payload, Resource
from filemem.errors import BadInput, FilememError, Locked, NotFound, to_broken_store
from filemem.record.visibility import EVERYBODY
from filemem.server.wire import INTERNAL_ERROR, Refusal, dump

if TYPE_CHECKING:
    from filemem.memory import Memory

OpenMemory = Callable[[], "Memory"]
OnCrash = Callable[[str, BaseException], None]
Asked = TypeVar("Asked")
Result = dict[str, object]

RESOURCE_NOT_FOUND = -32002  # "resource not found" of the handshake protocols
_MAX_URI_SIZE = 200  # characters of an address in a message
# In `_meta`: the object of a readable answer, for programs. No client shows it to a model; of
# `structuredContent` some show it instead of the text, and some beside it.
ANSWER_KEY = "filemem/answer"
_ARENA_MAX = -8  # M_ARENA_MAX of malloc.h
_DEFECT = ("internal error, logged", "a defect of filemem: please report it; the server goes on")


class CallOutcome(NamedTuple):
    """What `tools/call` answers, unless a person says yes to a question."""

    result: Result
    question: Question | None = None


def log_crash(tool: str, error: BaseException) -> None:
    """Report a defect on standard error, with its traceback."""
    logging.getLogger(__name__).error("%s failed", tool, exc_info=error)


class CallQueue:
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
        thread_count: int = 1,
    ) -> None:
        self.dialect = dialect
        self._open_memory = open_memory
        self.on_crash = on_crash
        self._memory: Memory | None = None
        self._is_stopping = False
        # Else each thread of Tantivy keeps what it freed: 70 MB in 600 saves.
        with suppress(AttributeError, OSError, TypeError):  # of glibc alone
            ctypes.CDLL(None).mallopt(_ARENA_MAX, 2)
        self._executor = ThreadPoolExecutor(
            max_workers=thread_count, thread_name_prefix="filemem-calls"
        )

    def submit_call(
        self, name: str, arguments: Mapping[str, object], *, can_ask: bool = False
    ) -> Future[CallOutcome]:
        """Call a tool, in turn; `called` says what came of it. `asks`: a person can be asked."""
        return self.submit(lambda: self._run_call(name, arguments, can_ask=can_ask))

    def build_outcome(self, future: Future[CallOutcome], name: str) -> CallOutcome:
        """What `tools/call` answers: a defect becomes a report and a failure.

        Failures are text only: the schema is of success.
        """
        try:
            return self.require_result(future, name)
        except FilememError as error:
            return CallOutcome(
                _build_result([format_payload(self.dialect.failure(error))], is_error=True)
            )

    def submit_read(self, uri: str) -> Future[Result]:
        """Read the resource of an address, in turn; `content` says what came of it."""
        return self.submit(lambda: self._read_resource(uri))

    def build_content(
        self, future: Future[Result], uri: str, missing_code: int = RESOURCE_NOT_FOUND
    ) -> Result | Refusal:
        """What `resources/read` answers; `missing`: the code where there is no such thing."""
        try:
            return self.require_result(future, "a request")
        except FilememError as error:
            message = f"{error.message} ({error.hint})" if error.hint else error.message
            code = missing_code if isinstance(error, BadInput | NotFound) else INTERNAL_ERROR
            return Refusal(code, message, data={"uri": uri[:_MAX_URI_SIZE]})

    def submit_completion(self, name: str, fragment: str) -> Future[Result]:
        """Find what completes an argument; nothing where the memory cannot be opened."""
        return self.submit(lambda: {"completion": self._complete_argument(name, fragment)})

    def prepare_memory(self) -> None:
        """Open the memory, load what a search needs; if that fails, the first call says why."""
        self.ask(lambda memory: memory.search("prepare", limit=1))

    def ask(self, question: Callable[[Memory], Asked]) -> Future[Asked]:
        """Run another function on the memory, in turn with the calls; failures go to the future."""
        return self.submit(lambda: question(self._require_memory()))

    def submit(self, job: Callable[[], Asked]) -> Future[Asked]:
        """Run something in turn with the calls, with this thread's context variables."""
        return self._executor.submit(copy_context().run, job)

    def require_result(self, future: Future[Asked], label: str) -> Asked:
        """What a finished future holds. Raises FilememError; a defect is reported."""
        error = future.exception()
        if error is None:
            return future.result()
        if isinstance(error, FilememError):
            raise error
        if isinstance(error, OSError):
            raise to_broken_store(error)
        with suppress(OSError):  # a full disk must not turn the report into the answer
            self.on_crash(label, error)
        raise FilememError(*_DEFECT)

    def as_public(self) -> CallQueue:
        """The same calls in the same order, for callers of whom nothing is known."""
        public_queue = copy(self)
        public_queue._open_memory = lambda: self._require_memory().seen_by(EVERYBODY)
        return public_queue

    def refuse_new_calls(self) -> None:
        """Start no more calls: the running one goes on, waiting ones are told that none began."""
        self._is_stopping = True

    def close_if_moved(self, has_moved: bool) -> None:
        """Where it has moved, close the memory, in its own thread: the next call opens it anew."""
        if has_moved and self._memory is not None:
            self._memory.close()
            self._memory = None

    def close(self) -> Future[None]:
        """Close the memory after the running call; nothing is taken after that."""
        future = self._executor.submit(lambda: self._memory.close() if self._memory else None)
        self._executor.shutdown(wait=False)
        return future

    def _run_call(
        self, name: str, arguments: Mapping[str, object], *, can_ask: bool
    ) -> CallOutcome:
        if self._is_stopping:
            raise Locked("the server is stopping, so this call was not started", "call again")
        memory = self._require_memory()
        payload, is_error, readable_text, question = call(
            self.dialect, memory, name, arguments, can_ask=can_ask
        )
        notice = vars(memory).pop("notice", "")  # what the first answer says besides
        texts = [format_payload(readable_text or payload), *([notice] if notice else [])]
        result = _build_result(texts, is_error=is_error)
        if readable_text:
            extra_fields = {"notice": notice} if notice else {}
            result = {
                "_meta": {ANSWER_KEY: json.loads(format_payload(payload)) | extra_fields},
                **result,
            }
        return CallOutcome(result, question)

    def _complete_argument(self, name: str, fragment: str) -> Answer:
        try:
            return complete_argument(self._require_memory(), name, fragment)
        except FilememError:
            return {"values": []}

    def _read_resource(self, uri: str) -> Result:
        resource, arguments = _resolve_resource(self.dialect, uri)
        text = format_payload(
            perform(self.dialect, self._require_memory(), resource.tool, arguments)
        )
        return {"contents": [{"mimeType": resource.mime, "text": text, "uri": uri}]}

    def _require_memory(self) -> Memory:
        if self._memory is None:
            self._memory = self._open_memory()
        return self._memory


def _resolve_resource(dialect: Dialect, uri: str) -> tuple[Resource, Mapping[str, object]]:
    """The resource of an address, with the arguments of its tool. Raises NotFound."""
    for resource in dialect.resources:
        prefix, _, remainder = resource.uri.partition("{")
        variable, _, suffix = remainder.partition("}")
        value = uri.removeprefix(prefix).removesuffix(suffix)
        if uri == prefix + value + suffix and bool(value) == bool(variable):
            return resource, {variable: unquote(value)} if variable else {}
    names = ", ".join(resource.uri for resource in dialect.resources)
    raise NotFound(f"no resource {uri[:_MAX_URI_SIZE]}; there are {names}")


def _build_result(texts: list[str], *, is_error: bool) -> Result:
    content: list[Any] = [{"text": text, "type": "text"} for text in texts]
    return {"content": content, "isError": is_error}


def format_payload(payload: Payload) -> str:
    """The text of an answer."""
    if isinstance(payload, str):
        return payload.encode("utf-8", "replace").decode("utf-8")
    return dump(payload)
