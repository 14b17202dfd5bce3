"""Keep the index up to date while a server runs. Only this module imports watchfiles.

Events are hints, as some get lost (new nested folders, a full kernel queue, a replaced root). A
hint is applied at once, and a full scan follows a large batch or a move of HEAD. Otherwise folder
times are compared and all files scanned, each at most every TICK seconds and SCAN_COST_FACTOR times
its duration. Calls come first: a scan without an event waits until a second has passed without a
call.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import watchfiles

from filemem.errors import FilememError
from filemem.memory.catch_up import SCAN_COST_FACTOR, WRITE_TIMEOUT

if TYPE_CHECKING:
    from filemem.memory import Memory

TICK = 2.0  # seconds between two comparisons of folder times
APPEAR_INTERVAL = 0.2  # seconds between two checks for a missing store
LARGE_BATCH = 200  # a batch with more events is followed by a full scan
IDLE_TIME = 5.0  # seconds without a call after which caches are freed
QUIET_TIME = 1.0  # seconds without a call for which a scan waits
MAX_WAIT = 10.0  # seconds after which a scan waits no longer


class Watcher:
    """Watches the store of a memory in a separate thread."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        # Set when the first scan has ended; until then answers may lack records.
        self.first_look = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="filemem-watch", daemon=True)
        self._next_full_time = 0.0
        self._next_time = 0.0
        self._last_time = time.monotonic()  # when the last scan ended

    def start(self, delay: float = 0) -> None:
        """Start watching, with the first scan after this number of seconds."""
        self._delay = delay
        self._thread.start()

    def stop(self) -> None:
        """Stop after a scan under way."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def _run(self) -> None:
        """Scan, then follow changes until the watcher is stopped."""
        self._stop.wait(self._delay)
        self.memory.keeper.ensure_current(WRITE_TIMEOUT, should_scan=True)
        self.first_look.set()
        self._last_time = time.monotonic()
        while not self._stop.is_set():
            identity = _read_identity(self.memory.folder)
            try:
                if identity:
                    self._follow_changes(self.memory.folder, identity)
                else:
                    self._await_folder()
            except OSError:
                # No watches are left, or the folder was deleted. Folder times still find changes.
                self._stop.wait(TICK)
            if not self._stop.is_set():
                self._refresh_index(full=True)

    def _await_folder(self) -> None:
        """Wait until the store exists, or the watcher is stopped."""
        while _read_identity(self.memory.folder) is None:
            if self._stop.wait(APPEAR_INTERVAL):
                return

    def _follow_changes(self, root: Path, identity: tuple[int, int]) -> None:
        """Apply hints until the root is no longer the watched folder."""
        # A full scan comes first: files may have been written before the watches were set.
        self._next_full_time = 0.0
        batches = watchfiles.watch(
            root,
            watch_filter=None,
            step=10,
            debounce=200,
            rust_timeout=int(TICK * 1000),
            yield_on_timeout=True,
            stop_event=self._stop,
            raise_interrupt=False,
            ignore_permission_denied=True,
        )
        for batch in batches:
            idle_time = self._apply_hints([path for _, path in batch])
            with suppress(FilememError, OSError):  # the next question reports it
                self.memory.keeper.announce()
            if idle_time > IDLE_TIME:
                self.memory.free_caches()
            if _read_identity(root) != identity:
                return

    def _apply_hints(self, hints: list[str]) -> float:
        """Scan after a batch of hints or if it is due; return the seconds since the last call."""
        now = time.monotonic()
        idle_time = now - self.memory.keeper.last_call_time
        is_quiet = idle_time > QUIET_TIME or now - self._last_time > MAX_WAIT
        is_due = is_quiet and now >= self._next_time
        is_full_due = is_quiet and now >= self._next_full_time
        if hints or is_due:
            is_full = is_full_due or len(hints) > LARGE_BATCH
            self._refresh_index(full=is_full, hints=hints)
        return idle_time

    def _refresh_index(self, *, full: bool, hints: list[str] | None = None) -> None:
        """Scan, note an error for the answers, and set the times of the next scans."""
        start_time = time.monotonic()
        change_count = 0
        error_text = None
        try:
            change_count = self.memory.refresh(full=full, hints=hints or ())
        except FilememError as error:  # shown with every answer; the next scan tries again
            error_text = error.one_line
        except OSError as error:
            error_text = str(error)
        self.memory.keeper.trouble = error_text
        end_time = time.monotonic()
        pause = 0.0
        if not change_count:  # otherwise most of the time went into the changes
            pause = SCAN_COST_FACTOR * (end_time - start_time)
        if full:
            self._next_full_time = end_time + max(TICK, pause)
        if full or not hints:
            self._last_time = end_time
            self._next_time = end_time if full else end_time + pause


def _read_identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode of a folder, which a deleted and recreated folder changes.

    None if the folder is missing.
    """
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return status.st_dev, status.st_ino
