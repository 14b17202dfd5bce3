"""A process that brings pushes in: threads that take from the queue, and one that listens.

Rule: it ends by a signal and by nothing else. While the database is away it waits and tries again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from filemem.errors import BrokenStore
from filemem.org.hosts import Hosts
from filemem.org.log import begin, log
from filemem.org.queue import CHANNEL, Job, Queue
from filemem.org.worker import TROUBLE, Pass, reason, take, work
from filemem.repo.mirror import Silent

if TYPE_CHECKING:
    from filemem.org.postgres import Postgres

IDLE = 5.0  # seconds after which a thread looks at the queue, also if it heard nothing
RENEWED = 20.0  # seconds between two renewals of what this process holds
LONGEST = 30.0  # seconds between two attempts to reach the database


class Workers:
    """The threads of one process.

    Args:
        engine: the database.
        cache: the folder of clones.
        environment: of the calls of Git.
        pause: seconds between two looks at a repository whose pushes nobody reports.
    """

    def __init__(
        self, engine: Postgres, cache: Path, environment: Mapping[str, str], pause: float
    ) -> None:
        self._engine = engine
        self._cache = cache
        self._environment = environment
        self._pause = pause
        self._queue = Queue(engine)
        self._ended = threading.Event()
        self._news = threading.Condition()
        self._heard = 0  # how often something came in
        self._hosts = Hosts(1)
        self._running = list[threading.Thread]()
        self._spare = 0  # threads that were started as others waited
        self._changed = threading.Event()  # since the statistics were renewed
        self._changed.set()

    def once(self, names: Collection[str] = ()) -> Pass:
        """Look at every repository once, or at those of some names. Raises NotFound."""
        return work(self._engine, self._cache, self._environment, names)

    def run(self, threads: int) -> None:
        """Look at repositories until `end` is called, so many at a time."""
        begin()
        self._hosts = Hosts(threads)
        for job in (self._listen, self._count, *[self._work] * threads):
            self._start(job)
        while self._running:
            self._running.pop().join()

    def _start(self, job: Callable[[], None]) -> None:
        thread = threading.Thread(target=self._lasting, args=(job,))
        self._running.append(thread)
        thread.start()

    def _relieve(self) -> None:
        """Let a new thread go on for each that waits for a host."""
        while self._spare < self._hosts.stuck():
            self._spare += 1
            self._start(self._work)

    def end(self) -> None:
        """Let the threads end after what they are at."""
        self._ended.set()
        self._wake()

    def _lasting(self, job: Callable[[], None]) -> None:
        """Do a job again and again; wait longer each time while the database cannot be used."""
        wait = 1.0
        while not self._ended.is_set():
            try:
                job()
                wait = 1.0
            except BrokenStore as error:
                log("error", "the database cannot be used", reason=error.one_line, wait=wait)
                self._ended.wait(wait)
                wait = min(wait * 2, LONGEST)

    def _listen(self) -> None:
        with self._engine.listening(CHANNEL) as wait:
            while not self._ended.is_set():
                self._queue.fill(self._hosts.repositories())
                self._wake()  # something may have become due while no notice came through
                until = time.monotonic() + RENEWED
                while time.monotonic() < until and not self._ended.is_set():
                    if wait(1.0):
                        self._wake()
                    self._relieve()
        self._queue.free()

    def _wake(self) -> None:
        with self._news:
            self._heard += 1
            self._news.notify_all()

    def _work(self) -> None:
        heard = self._heard
        job = None if self._hosts.full() else self._queue.take(self._hosts.avoided())
        if job is None:
            with self._news:
                self._news.wait_for(lambda: self._heard != heard, IDLE)
            return
        self._hosts.begin(job.repository, job.host)
        silent = False
        try:
            silent = self._look(job)
        finally:
            self._hosts.end(job.repository, silent=silent)

    def _look(self, job: Job) -> bool:
        """Look at a repository; return whether its host was silent."""
        began = time.monotonic()
        trouble = ""
        silent = False
        changed = 0
        try:
            changed = take(self._engine, job.repository, self._cache, self._environment)
        except TROUBLE as error:
            trouble = reason(error)
            silent = isinstance(error, Silent)
            self._engine.fail(job.repository, trouble)
        self._queue.done(job, self._pause, failed=bool(trouble))
        taken = round(time.monotonic() - began, 3)
        if trouble:
            log("warning", "failed", repository=job.name, reason=trouble, seconds=taken)
        if changed:
            self._changed.set()
            log("info", "changed", repository=job.name, records=changed, seconds=taken)
        return silent

    def _count(self) -> None:
        self._changed.wait(IDLE)
        if self._changed.is_set() and not self._ended.wait(IDLE):
            self._changed.clear()
            self._engine.tidy()
