"""Keeps the index up to date while a server runs. The only importer of watchfiles.

The watcher is a hint, not the truth: events get lost (new nested folders, a full kernel queue, a
replaced root). So a hint is applied at once, and a full look comes after a large batch or when HEAD
moved. Else folder times are compared, and every file is looked at, each no more often than every
TICK and PACE times its own duration. Calls come first: a look without an event waits until a second
has passed without a call.
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
from filemem.memory.catch_up import LONG, PACE

if TYPE_CHECKING:
    from filemem.memory import Memory

TICK = 2.0  # seconds between two comparisons of folder times
APPEARS = 0.2  # seconds between two looks for a store that is not there yet
LARGE = 200  # events in one batch above which events are not trusted
IDLE = 5.0  # seconds without a call after which little is held in memory
QUIET = 1.0  # seconds without a call that a look waits for
PATIENCE = 10.0  # seconds after which it waits no longer


class Watcher:
    """Watches one memory's store in a thread of its own."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        # Set when the first look has ended: until then answers may lack records.
        self.looked = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="filemem-watch", daemon=True)
        self._next_full = self._next = 0.0
        self._last = time.monotonic()  # when the last look ended

    def start(self, after: float = 0) -> None:
        """Start watching, with the first look after this many seconds."""
        self._after = after
        self._thread.start()

    def stop(self) -> None:
        """Stop, after a look that is under way."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def _run(self) -> None:
        self._stop.wait(self._after)
        self.memory.keeper.in_step(LONG, looks=True)
        self.looked.set()
        self._last = time.monotonic()
        while not self._stop.is_set():
            watched = _identity(self.memory.folder)
            try:
                if watched:
                    self._follow(self.memory.folder, watched)
                else:
                    self._await_folder()
            # Out of watches, or the folder went away under us: folder times still find everything.
            except OSError:
                self._stop.wait(TICK)
            if not self._stop.is_set():
                self._look(full=True)

    def _await_folder(self) -> None:
        """Wait until the store is there, or the watcher is stopped."""
        while _identity(self.memory.folder) is None:
            if self._stop.wait(APPEARS):
                return

    def _follow(self, root: Path, watched: tuple[int, int]) -> None:
        """Apply hints until the root is no longer the watched folder."""
        # The first look is at every file: it sees what was written before the watches stood.
        self._next_full = 0.0
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
            idle = self._apply([path for _, path in batch])
            with suppress(FilememError, OSError):  # the next question says what is wrong
                self.memory.keeper.announce()
            if idle > IDLE:
                self.memory.rest()
            if _identity(root) != watched:
                return

    def _apply(self, hints: list[str]) -> float:
        """Look after a batch of hints, or where it is time; the seconds since the last call."""
        now = time.monotonic()
        idle = now - self.memory.keeper.last_call
        quiet = idle > QUIET or now - self._last > PATIENCE
        if hints or (quiet and now >= self._next):
            full = len(hints) > LARGE or (quiet and now >= self._next_full)
            self._look(full=full, hints=hints)
        return idle

    def _look(self, *, full: bool, hints: list[str] | None = None) -> None:
        began = time.monotonic()
        changed = 0
        trouble = None
        try:
            changed = self.memory.refresh(full=full, hints=hints or ())
        except FilememError as error:  # shown with every answer; the next look tries again
            trouble = error.one_line
        except OSError as error:
            trouble = str(error)
        self.memory.keeper.trouble = trouble
        ended = time.monotonic()
        # What took changes in says nothing of what a look costs.
        pause = 0.0 if changed else PACE * (ended - began)
        if full:
            self._next_full = ended + max(TICK, pause)
        if full or not hints:
            self._last = ended
            self._next = ended if full else ended + pause


def _identity(path: Path) -> tuple[int, int] | None:
    """Device and inode of a folder: one that was deleted and created again is no longer watched."""
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return status.st_dev, status.st_ino
