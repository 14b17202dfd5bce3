"""Where tool calls run: one thread beside the event loop, so that a slow call holds up other calls but no ping.

One thread and not many: a memory is opened, used and closed by the same thread, and calls take effect in the order
in which they came.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from filemem.dialects.calling import Reply, call, perform
from filemem.dialects.profiles import Dialect
from filemem.errors import FilememError, Locked
from filemem.server.jsonrpc import dump

if TYPE_CHECKING:
    from filemem.memory import Memory

Tell = Callable[[int, int], object]  # what is done, and what there is in all
OpenMemory = Callable[[Tell, float], "Memory"]
OnCrash = Callable[[str, BaseException], None]
Asked = TypeVar("Asked")


PATIENCE = 1.0  # seconds that the first call waits for the first look at the files; a longer one goes on beside it
PATIENT = 20.0  # the same where the caller hears how far it is
_DEFECT = ("internal error, logged", "a defect of filemem: please report it; the server goes on")


def log_crash(tool: str, error: BaseException) -> None:
    """Report a defect on standard error, with its traceback."""
    logging.getLogger(__name__).error("%s failed", tool, exc_info=error)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call answers on the wire.

    Args:
        text: the payload as compact JSON, or the text that it was.
        structure: the payload a second time, as plain JSON values, where the tool promises a schema for it.
        is_error: whether this reports a failure.
    """

    text: str
    structure: dict[str, object] | None
    is_error: bool


class Calls:
    """Runs tool calls in order, opening the memory at the first one.

    Args:
        dialect: whose tools are called.
        open_memory: called again at each call for as long as it raises FilememError, which is then the answer; gets
            whom to tell how far long work is, from any thread, and how many seconds to wait for an index to be built.
        on_crash: told the tool and the exception when a tool fails by a defect.
    """

    def __init__(self, dialect: Dialect, open_memory: OpenMemory, on_crash: OnCrash = log_crash) -> None:
        self._dialect = dialect
        self._open_memory = open_memory
        self._on_crash = on_crash
        self._structured = frozenset(tool.name for tool in dialect.tools if tool.output_schema is not None)
        self._memory: Memory | None = None
        self._ending = False
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="filemem-calls")
        self.changed: Callable[[], None] = lambda: None
        """Called, from any thread, when the memory was opened and when records may have changed."""
        self.progress: set[Tell] = set()
        """Who hears, from any thread, how far the work is that calls may wait for."""

    async def run(self, name: str, arguments: Mapping[str, object]) -> Answer:
        """Call a tool and wait for its answer; a defect in it becomes a failure answer and a crash report."""
        outcome = await _outcome(self._thread.submit(self._run, name, arguments))
        if isinstance(outcome, Answer):
            return outcome
        with suppress(OSError):  # a full disk must not turn the report into the answer
            self._on_crash(name, outcome)
        return self._answer(name, Reply(self._dialect.failure(FilememError(*_DEFECT)), is_error=True))

    def ask(self, question: Callable[[Memory], Asked]) -> Future[Asked]:
        """Run something else on the memory, in turn with the calls; failures, also to open it, are the future's."""
        return self._thread.submit(lambda: question(self._opened()))

    async def reply(self, question: Callable[[Memory], Asked]) -> Asked:
        """Ask, and wait for the answer.

        Raises:
            FilememError: as opening the memory or the question does; a defect becomes one, and a crash report.
        """
        outcome = await _outcome(self.ask(question))
        if isinstance(outcome, BaseException):
            if isinstance(outcome, FilememError):
                raise outcome
            with suppress(OSError):
                self._on_crash("a request", outcome)
            raise FilememError(*_DEFECT)
        answer: Asked = outcome
        return answer

    async def read(self, tool: str, arguments: Mapping[str, object]) -> str:
        """The answer of a tool as text; failures are raised, as by `reply`."""
        payload = await self.reply(lambda memory: perform(self._dialect, memory, tool, arguments))
        return payload if isinstance(payload, str) else dump(payload)

    @property
    def is_open(self) -> bool:
        """Whether the memory was opened already."""
        return self._memory is not None

    @property
    def on_crash(self) -> OnCrash:
        """Who is told of defects."""
        return self._on_crash

    def end(self) -> None:
        """Begin no more calls: the one under way goes on, those that wait are answered that nothing was done."""
        self._ending = True

    async def close(self, seconds: float) -> None:
        """Close the memory after the call now running, waiting no longer than `seconds`."""
        closing = self._thread.submit(self._close)
        self._thread.shutdown(wait=False)
        with suppress(TimeoutError):
            outcome = await asyncio.wait_for(_outcome(closing), seconds)
            if outcome is not None:
                self._on_crash("close", outcome)

    def _run(self, name: str, arguments: Mapping[str, object]) -> Answer:
        try:
            if self._ending:
                raise Locked("the server was told to end before this was begun", "nothing was done: call again")
            memory = self._opened()
        except FilememError as error:
            return self._answer(name, Reply(self._dialect.failure(error), is_error=True))
        return self._answer(name, call(self._dialect, memory, name, arguments))

    def _opened(self) -> Memory:
        if self._memory is None:
            self._memory = self._open_memory(self._tell, PATIENT if self.progress else PATIENCE)
            self._memory.on_change(self._stir)
            self._stir()
        return self._memory

    def _stir(self) -> None:
        self.changed()

    def _tell(self, done: int, total: int) -> None:
        for tell in tuple(self.progress):
            tell(done, total)

    def _answer(self, name: str, reply: Reply) -> Answer:
        if isinstance(reply.payload, str):
            return Answer(reply.payload.encode("utf-8", "replace").decode("utf-8"), None, reply.is_error)
        text = dump(reply.payload)
        structure = json.loads(text) if name in self._structured and not reply.is_error else None
        return Answer(text, structure, reply.is_error)

    def _close(self) -> None:
        if self._memory is not None:
            self._memory.close()


async def _outcome(future: Future[Any]) -> Any:
    """Wait for a result or an exception, whichever it is; if we are cancelled, what has not started never starts."""
    return (await asyncio.gather(asyncio.wrap_future(future), return_exceptions=True))[0]
