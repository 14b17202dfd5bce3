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
from filemem.org.log import log, set_up_logging
from filemem.org.queue import CHANNEL, Job, Queue
from filemem.org.worker import (
    SYNC_ERRORS,
    SyncResult,
    format_reason,
    sync_repositories,
    sync_repository,
)
from filemem.repo.mirror import HostTimeout

if TYPE_CHECKING:
    from filemem.org.postgres import Postgres

IDLE_SECONDS = 5.0  # seconds after which a thread looks at the queue, also if it heard nothing
RENEW_SECONDS = 20.0  # seconds between two renewals of what this process holds
MAX_WAIT = 30.0  # seconds between two attempts to reach the database


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
        self._stop_event = threading.Event()
        self._news_condition = threading.Condition()
        self._news_count = 0  # how often threads were woken
        self._hosts = Hosts(1)
        self._threads = list[threading.Thread]()
        self._spare_count = 0  # threads that were started while others waited for hosts
        self._changed_event = (
            threading.Event()
        )  # set if records changed since the statistics were updated
        self._changed_event.set()

    def run_once(self, names: Collection[str] = ()) -> SyncResult:
        """Look at every repository once, or at those of some names. Raises NotFound."""
        return sync_repositories(self._engine, self._cache, self._environment, names)

    def run(self, threads: int) -> None:
        """Look at repositories until `stop` is called, `threads` at a time."""
        set_up_logging()
        self._hosts = Hosts(threads)
        self._start_thread(self._listen)
        self._start_thread(self._update_statistics)
        for _ in range(threads):
            self._start_thread(self._process_next_job)
        while self._threads:
            self._threads.pop().join()

    def _start_thread(self, job: Callable[[], None]) -> None:
        thread = threading.Thread(target=self._run_repeatedly, args=(job,))
        self._threads.append(thread)
        thread.start()

    def _start_spare_threads(self) -> None:
        """Start one more thread for each that waits for a host."""
        while self._spare_count < self._hosts.count_stuck():
            self._spare_count += 1
            self._start_thread(self._process_next_job)

    def stop(self) -> None:
        """Let the threads end after their current work."""
        self._stop_event.set()
        self._wake_threads()

    def _run_repeatedly(self, job: Callable[[], None]) -> None:
        """Run a job repeatedly; wait longer each time while the database cannot be used."""
        wait = 1.0
        while not self._stop_event.is_set():
            try:
                job()
                wait = 1.0
            except BrokenStore as error:
                log("error", "the database cannot be used", reason=error.one_line, wait=wait)
                self._stop_event.wait(wait)
                wait = min(wait * 2, MAX_WAIT)

    def _listen(self) -> None:
        """Wake the threads at each notice of a push, and renew what this process holds."""
        with self._engine.listen(CHANNEL) as wait:
            while not self._stop_event.is_set():
                self._queue.add_missing_and_renew(self._hosts.list_repositories())
                self._wake_threads()  # something may have become due while no notice came through
                until = time.monotonic() + RENEW_SECONDS
                while time.monotonic() < until and not self._stop_event.is_set():
                    if wait(1.0):
                        self._wake_threads()
                    self._start_spare_threads()
        self._queue.release_jobs()

    def _wake_threads(self) -> None:
        with self._news_condition:
            self._news_count += 1
            self._news_condition.notify_all()

    def _process_next_job(self) -> None:
        """Look at the next repository that is due, or wait for news."""
        known_count = self._news_count
        job = None
        if not self._hosts.is_full():
            avoided_hosts = self._hosts.list_avoided_hosts()
            job = self._queue.take_job(avoided_hosts)
        if job is None:
            self._wait_for_news(known_count)
            return
        self._hosts.begin_look(job.repository, job.host)
        is_silent = False
        try:
            is_silent = self._sync_repository(job)
        finally:
            self._hosts.end_look(job.repository, is_silent=is_silent)

    def _wait_for_news(self, known_count: int) -> None:
        """Wait some seconds, or until the threads are woken."""

        def has_news() -> bool:
            return self._news_count != known_count

        with self._news_condition:
            self._news_condition.wait_for(has_news, IDLE_SECONDS)

    def _sync_repository(self, job: Job) -> bool:
        """Look at a repository; return whether its host was silent."""
        start_time = time.monotonic()
        trouble = ""
        is_silent = False
        changed_count = 0
        try:
            changed_count = sync_repository(
                self._engine, job.repository, self._cache, self._environment
            )
        except SYNC_ERRORS as error:
            trouble = format_reason(error)
            is_silent = isinstance(error, HostTimeout)
            self._engine.note_failure(job.repository, trouble)
        self._queue.finish_job(job, self._pause, has_failed=bool(trouble))
        seconds = round(time.monotonic() - start_time, 3)
        if trouble:
            log("warning", "failed", repository=job.name, reason=trouble, seconds=seconds)
        if changed_count:
            self._changed_event.set()
            log("info", "changed", repository=job.name, records=changed_count, seconds=seconds)
        return is_silent

    def _update_statistics(self) -> None:
        """Update the statistics of the database some seconds after records changed."""
        self._changed_event.wait(IDLE_SECONDS)
        if self._changed_event.is_set() and not self._stop_event.wait(IDLE_SECONDS):
            self._changed_event.clear()
            self._engine.update_statistics()
