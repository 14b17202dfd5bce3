"""What a process has open of an index folder: the generation in use, and what is saved and not yet part of it.

Rule: every question looks first for what other processes saved or built; that costs two `stat` calls.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import RLock

from filemem.changes import Entry
from filemem.documents import Doc
from filemem.index import generation, manifest, pending
from filemem.index.fresh import Fresh, Item
from filemem.index.generation import ENTRIES, WORDS, Generation, IndexDamaged
from filemem.index.keyword import Words, analyze
from filemem.index.meaning import Meaning
from filemem.index.view import View

MEASURED = 0.01  # seconds between two looks at the sizes of the files in use: one for all that a question asks


class Current:
    """The present state of an index folder.

    Args:
        root: the index folder.
        meaning: the process's embedder.
        clock: nanoseconds since 1970.
    """

    def __init__(self, root: Path, meaning: Meaning, clock: Callable[[], int]) -> None:
        self._root, self._meaning = root, meaning
        self._fresh = Fresh(root, partial(pending.read, analyze=analyze), clock)
        self._lock = RLock()  # not the writer's: a search does not wait for a rebuild
        self._known: set[tuple[str, int, int]] = set()
        self._view: View | None = None
        self._state: tuple[bool, tuple[int, int] | None] = (False, None)
        self._entries: tuple[object, dict[str, Entry]] | None = None
        self._measured = -MEASURED
        self.blank = False  # after `reset`: nothing on disk counts

    def view(self) -> View:
        """Return the present state. The fresh folder is listed first and the generation looked at second: an entry
        that is gone when we list is in the generation that we then find.

        Raises:
            IndexDamaged: what is there cannot be used.
        """
        with self._lock:
            moved = self._fresh.refresh()
            state = (self.blank, None if self.blank else generation.stamp(self._root))
            if self._view is None or state != self._state:
                self._view = self._open()
                self._state = state
            elif moved:
                self._view = self._view.beside(self._fresh.items())
            self._measure(self._view.generation)
            return self._view

    def at_least_pending(self) -> View:
        """Return the present state; where that is damaged, what is not yet part of it."""
        try:
            return self.view()
        except IndexDamaged:
            return View(None, None, self._fresh.items(), self._meaning)

    def sealed(self, current: Generation | None) -> dict[str, Entry]:
        """Return what a generation was built from; the last one asked for is remembered."""
        if current is None:
            return {}
        # Not by its name alone: where the folder was deleted meanwhile, the names begin anew.
        if self._entries is None or self._entries[0] != current.seal.files[ENTRIES]:
            self._entries = (current.seal.files[ENTRIES], manifest.read(current))
        return self._entries[1]

    def push(self, path: str, doc: Doc | None, entry: Entry | None) -> None:
        """Put a document in place of any other of its path, beside the generation; None takes it out."""
        with self._lock:
            self._fresh.push(path, doc, entry)

    def take(self, made: Generation, entries: Mapping[str, Entry], items: Sequence[Item]) -> None:
        """Go on from a generation that was just made of these entries, and of what was pending."""
        with self._lock:
            self._entries = (made.seal.files[ENTRIES], dict(entries))
            self.blank = False
            self._fresh.forget(items)

    def forget(self, items: Sequence[Item]) -> None:
        """Delete what is pending and changes nothing."""
        self._fresh.forget(items)

    def reset(self) -> None:
        """Let nothing on disk count until a generation is made."""
        with self._lock:
            self.blank = True

    def rest(self) -> None:
        """Let go of memory that the next question can read again from the files."""
        self._meaning.rest()
        self._entries = None

    def close(self) -> None:
        """Forget what is open."""
        with self._lock:
            self._view = None

    def _measure(self, used: Generation | None) -> None:
        """Find files that were cut: they are mapped into memory, and reading on in one would kill the process."""
        now = time.monotonic()
        if used is not None and now >= self._measured + MEASURED:
            used.measure()
            self._measured = now

    def _open(self) -> View:
        opened = None if self.blank else generation.load(self._root, self._opened)
        current, words = opened or (None, None)
        return View(current, words, self._fresh.items(), self._meaning)

    def _opened(self, current: Generation) -> tuple[Generation, Words]:
        current.check(WORDS, self._known)
        return current, Words(current.folder / WORDS, current.seal.total, current.seal.average)
