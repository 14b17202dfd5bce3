"""A queue of tool calls for every transport, without the SDK.

They run in one thread: a memory is opened, used and closed by one thread, and a slow call delays
other calls but no ping.
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
    """The answer of `tools/call`, unless a person says yes to a question."""

    result: Result
    question: Question | None = None


def log_crash(tool: str, error: BaseException) -> None:
    """Report a defect on standard error, with its traceback."""
    logging.getLogger(__name__).error("%s failed", tool, exc_info=error)


class CallQueue:
    """Runs tool calls in order.

    The first call opens the memory; if that raises FilememError, the next one tries again.
    `thread_count` is greater than 1 for a memory that takes several calls at a time. A call sees
    the context variables of its request.
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
        # Without it each thread of Tantivy keeps freed memory: 70 MB in 600 saves.
        with suppress(AttributeError, OSError, TypeError):  # only glibc has it
            ctypes.CDLL(None).mallopt(_ARENA_MAX, 2)
        self._executor = ThreadPoolExecutor(
            max_workers=thread_count, thread_name_prefix="filemem-calls"
        )

    def submit_call(
        self, name: str, arguments: Mapping[str, object], *, can_ask: bool = False
    ) -> Future[CallOutcome]:
        """Queue a tool call; `can_ask`: the client can ask a person."""

        def run() -> CallOutcome:
            return self._run_call(name, arguments, can_ask=can_ask)

        return self.submit(run)

    def build_outcome(self, future: Future[CallOutcome], name: str) -> CallOutcome:
        """Return what `tools/call` answers; a defect is reported and answered as a failure.

        Failures are text only: the schema is of success.
        """
        try:
            return self.require_result(future, name)
        except FilememError as error:
            text = format_payload(self.dialect.failure(error))
            return CallOutcome(_build_result([text], is_error=True))

    def submit_read(self, uri: str) -> Future[Result]:
        """Queue the reading of a resource."""

        def run() -> Result:
            return self._read_resource(uri)

        return self.submit(run)

    def build_content(
        self, future: Future[Result], uri: str, missing_code: int = RESOURCE_NOT_FOUND
    ) -> Result | Refusal:
        """Return what `resources/read` answers; `missing_code`: of a missing resource."""
        try:
            return self.require_result(future, "a request")
        except FilememError as error:
            message = error.message
            if error.hint:
                message = f"{message} ({error.hint})"
            code = INTERNAL_ERROR
            if isinstance(error, BadInput | NotFound):
                code = missing_code
            return Refusal(code, message, data={"uri": uri[:_MAX_URI_SIZE]})

    def submit_completion(self, name: str, fragment: str) -> Future[Result]:
        """Queue the completion of an argument; nothing completes it if no memory can be opened."""

        def run() -> Result:
            return {"completion": self._complete_argument(name, fragment)}

        return self.submit(run)

    def prepare_memory(self) -> None:
        """Open the memory and load what a search needs; the first call reports a failure."""

        def search(memory: Memory) -> object:
            return memory.search("prepare", limit=1)

        self.ask(search)

    def ask(self, question: Callable[[Memory], Asked]) -> Future[Asked]:
        """Queue another function on the memory; failures go to the future."""

        def run() -> Asked:
            return question(self._require_memory())

        return self.submit(run)

    def submit(self, job: Callable[[], Asked]) -> Future[Asked]:
        """Queue a job, with the context variables of this thread."""
        return self._executor.submit(copy_context().run, job)

    def require_result(self, future: Future[Asked], label: str) -> Asked:
        """Return the result of a finished future. Raises FilememError; a defect is reported."""
        error = future.exception()
        if error is None:
            return future.result()
        if isinstance(error, FilememError):
            raise error
        if isinstance(error, OSError):
            raise to_broken_store(error)
        with suppress(OSError):  # a full disk must not hide the answer
            self.on_crash(label, error)
        raise FilememError(*_DEFECT)

    def as_public(self) -> CallQueue:
        """Return the same queue for unknown callers, without private records."""

        def open_public_memory() -> Memory:
            return self._require_memory().seen_by(EVERYBODY)

        public_queue = copy(self)
        public_queue._open_memory = open_public_memory
        return public_queue

    def refuse_new_calls(self) -> None:
        """Start no more calls: the running one ends, waiting ones are answered as not started."""
        self._is_stopping = True

    def close_if_moved(self, has_moved: bool) -> None:
        """Close the memory if another one is served, in its thread: the next call opens it."""
        if has_moved:
            self._close_memory()

    def close(self) -> Future[None]:
        """Close the memory after the running call, and take no more calls."""
        future = self._executor.submit(self._close_memory)
        self._executor.shutdown(wait=False)
        return future

    def _close_memory(self) -> None:
        if self._memory is not None:
            self._memory.close()
            self._memory = None

    def _run_call(
        self, name: str, arguments: Mapping[str, object], *, can_ask: bool
    ) -> CallOutcome:
        if self._is_stopping:
            raise Locked("the server is stopping, so this call was not started", "call again")
        memory = self._require_memory()
        payload, is_error, readable_text, question = call(
            self.dialect, memory, name, arguments, can_ask=can_ask
        )
        texts = [format_payload(readable_text or payload)]
        notice = vars(memory).pop("notice", "")  # shown with the first answer
        if notice:
            texts.append(notice)
        result = _build_result(texts, is_error=is_error)
        if not readable_text:
            return CallOutcome(result, question)
        answer = json.loads(format_payload(payload))
        if notice:
            answer["notice"] = notice
        return CallOutcome({"_meta": {ANSWER_KEY: answer}, **result}, question)

    def _complete_argument(self, name: str, fragment: str) -> Answer:
        try:
            return complete_argument(self._require_memory(), name, fragment)
        except FilememError:
            return {"values": []}

    def _read_resource(self, uri: str) -> Result:
        resource, arguments = _resolve_resource(self.dialect, uri)
        payload = perform(self.dialect, self._require_memory(), resource.tool, arguments)
        text = format_payload(payload)
        return {"contents": [{"mimeType": resource.mime, "text": text, "uri": uri}]}

    def _require_memory(self) -> Memory:
        if self._memory is None:
            self._memory = self._open_memory()
        return self._memory


def _resolve_resource(dialect: Dialect, uri: str) -> tuple[Resource, Mapping[str, object]]:
    """Find the resource of an address, and the arguments of its tool. Raises NotFound."""
    for resource in dialect.resources:
        prefix, _, remainder = resource.uri.partition("{")
        variable, _, suffix = remainder.partition("}")
        value = uri.removeprefix(prefix).removesuffix(suffix)
        if uri != prefix + value + suffix:
            continue
        if variable and value:
            return resource, {variable: unquote(value)}
        if not variable and not value:
            return resource, {}
    names = ", ".join(resource.uri for resource in dialect.resources)
    raise NotFound(f"no resource {uri[:_MAX_URI_SIZE]}; there are {names}")


def _build_result(texts: list[str], *, is_error: bool) -> Result:
    content: list[Any] = [{"text": text, "type": "text"} for text in texts]
    return {"content": content, "isError": is_error}


def format_payload(payload: Payload) -> str:
    """Format an answer as text."""
    if isinstance(payload, str):
        return payload.encode("utf-8", "replace").decode("utf-8")
    return dump(payload)
