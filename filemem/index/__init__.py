"""The search index of one work tree: derived, disposable, shared by processes. `Index` is all that others need.

Rule: it knows documents and chain facts and nothing of Git, files or the clock; and it never answers "nothing" where
the truth is "broken": what it can not use raises `IndexDamaged`, what it lacks is said in `degraded`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from filemem.chain import Node
from filemem.changes import MODIFIED, Change, Entry, Manifest
from filemem.errors import Locked
from filemem.index import writer
from filemem.index.chains import Around
from filemem.index.document import (
    Doc,
    IndexDamaged,
    Item,
    Notes,
    Seal,
    compare,
    document,
    mark,
    read_file,
    replace_file,
    writing,
)
from filemem.index.embed import Model, ModelUnavailable, embedder
from filemem.index.generation import Dates
from filemem.index.search import NO_MODEL, Found, Layer, Search
from filemem.index.writer import Load, Progress

if TYPE_CHECKING:
    from filelock import BaseFileLock

__all__ = ["Around", "Doc", "Found", "Index", "IndexDamaged", "Model", "ModelUnavailable", "Node", "document"]
__all__ += ["embedder"]

MANY_WAITING = 16  # saves that wait to be folded in; each costs a query a little
LONG_WAITING = 2 * 10**9  # nanoseconds; the same


class Index(Search):
    """The index of a store, open for questions and, if this process is the writer, for changes.

    Args:
        folder: of the indexes of a store: each format has its own in it, so that an old server that still runs and a
            new command do not undo each other's.
        model: turns texts into vectors; None for keyword search only.
        dates: first-commit dates (epoch milliseconds) of store paths; asked only for records that state none.
        clock: nanoseconds since 1970.
        layer: see `overlaid`.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._writer: BaseFileLock | None = None
        self._inode: list[int] = []  # of the file that is locked

    def overlaid(self, layer: Layer, dates: Dates, *, alone: bool = False) -> Self:
        """Return this index with other documents in place of some; nothing is written, and its vectors are used.

        Args:
            layer: what differs, by path, given what the index was built from; None for what is not there.
            dates: as for the class, for the documents of the layer.
            alone: what the layer has is all there is; nothing is read, and nothing found by meaning.
        """
        if alone:
            return type(self)(Path(os.devnull), None, dates, layer=layer)
        return type(self)(self.root.parent, self.model, dates, layer=layer)

    # what state it is in

    @property
    def exists(self) -> bool:
        """Whether anything was ever built."""
        with self._now():
            return bool(self._seal.name)

    @property
    def sound(self) -> bool:
        """Whether something was built that can be read."""
        try:
            return self.exists
        except IndexDamaged:
            return False

    @property
    def outdated(self) -> bool:
        """Whether building anew would give vectors that are missing."""
        with self._now():
            return bool(self.model and self._seal.missing and not self.model.trouble)

    @property
    def lacks_meaning(self) -> str:
        """Why nothing, or not everything, is found by meaning and what to do, or ""; asks the model."""
        with self._now():
            return (self.model.trouble if self.model else NO_MODEL) or (self.exists and self._gap("vector")) or ""

    @property
    def crowded(self) -> bool:
        """Whether what waits should be folded in now: it is much, or the first of it has waited for long."""
        items = self.waiting()
        return len(items) >= MANY_WAITING or any(self._clock() - item.saved > LONG_WAITING for item in items[:1])

    @property
    def is_writer(self) -> bool:
        """Whether this process is the writer now; a lock on a file that was deleted keeps nobody out: it is none."""
        return self._writer is not None and self._inode == mark(self.root / "lock")[:1]

    @property
    def writable(self) -> bool:
        """Whether this process is the writer; becomes it, until `close`, if no other process is."""
        if self.is_writer:
            return True
        self.stand_back()
        from filelock import FileLock, Timeout  # costs more than a search, which never locks

        with writing(self.root):
            lock = FileLock(self.root / "lock", timeout=0, thread_local=False)
            try:
                lock.acquire()
            except Timeout:
                return False
        self._writer, self._inode = lock, mark(self.root / "lock")[:1]
        return True

    def stand_back(self) -> None:
        """Let others write."""
        if self._writer is not None:
            self._writer.release()
            self._writer = None

    @property
    def notes(self) -> Notes:
        """What was remembered by `note`."""
        return Notes(**(read_file(self.root / "notes.json") or {}))

    def note(self, **news: Any) -> None:
        """Remember fields of `Notes`; the others stay."""
        before = self.notes
        if (after := before._replace(**news)) != before:
            with writing(self.root):
                replace_file(self.root / "notes.json", after._asdict())

    def waiting(self) -> tuple[Item, ...]:
        """Return the saves that wait to be folded in, oldest first."""
        with self._lock:
            return self._fresh.items()

    def manifest(self) -> dict[str, Entry]:
        """Return what the index was built from, what waits included: path -> entry.

        Take it before scanning the store, or a record saved in between looks removed.
        """
        with self._now():
            entries: dict[str, Entry | None] = {**self._db.manifest()}
            entries |= {path: item.entry for path, item in self._waiting.items()}
            return {path: entry for path, entry in entries.items() if entry}

    def verify(self) -> list[str]:
        """Compare every file in use with its checksum; return what is wrong."""
        try:
            with self._now():
                if self._seal.name:
                    self._db.check()
                    compare(self.root, self._seal, every=True)
        except IndexDamaged as error:
            return [error.message]
        return []

    # changes

    def push(self, doc: Doc, entry: Entry | None = None) -> None:
        """Make a saved record findable at once by every process; needs no lock.

        Args:
            doc: the document.
            entry: its file as it stands, so that the next scan need not hash it.

        Raises:
            BrokenStore: the folder can not be written; so do all that change the index.
        """
        with self._lock:
            self._fresh.push(doc.path, doc, entry)

    def push_removed(self, path: str) -> None:
        """Take a record out of what every process finds, at once; needs no lock."""
        with self._lock:
            self._fresh.push(path, None, None)

    def apply(
        self,
        changes: Iterable[Change],
        load: Load,
        progress: Progress | None = None,
        *,
        seen: Manifest | None = None,
        waited: Iterable[Item] | None = None,
        anew: bool = False,
    ) -> None:
        """Bring the index up to date: what waits and the given changes, all at once or not at all.

        Args:
            changes: what a look at the store found; wins over what waits.
            load: makes the document of a path; None where there is none (unreadable, gone).
            progress: called with documents done and in all.
            seen: the whole scan; renews size and time of files whose content is the same.
            waited: what waited when the look began: what was saved since stays, and wins; None for all.
            anew: build it anew; the changes are all files.

        Raises:
            Locked: another process is the writer.
            IndexDamaged: there is nothing to build upon.
        """
        held = self.is_writer
        if not self.writable:
            raise Locked("another process is writing the search index", "try again in a moment")
        try:
            items, changes = self.waiting() if waited is None else tuple(waited), list(changes)
            base, before, dateless = Seal(), {}, []
            if not anew:
                with self._now():
                    base, before, dateless = self._seal, self._db.manifest(), self._db.undated()
            if dateless:  # a commit may have dated them
                named = {change.path for change in changes}
                dated = (path for path in self._dates(dateless) if path in before and path not in named)
                changes += [Change(MODIFIED, path, before[path]) for path in dated]
            work = writer.plan(items, before, changes, load, seen or {})
            if work.size or work.gone or work.entries or not base.name:
                writer.make(self.root, base, work, self.model, self._dates, progress)
            self._fresh.forget(items)
        finally:
            if not held:
                self.stand_back()

    def close(self) -> None:
        """Let others write; forget what is open."""
        with self._lock:
            self.stand_back()
            self._db.close()
            self._forget()
