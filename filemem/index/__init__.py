"""The search index of one work tree: derived, disposable, shared by processes. `Index` is all that others need.

Rule: it knows documents and chain facts and nothing of Git, files or the clock; and it never answers "nothing" where
the truth is "broken": what it can not use raises `IndexDamaged`, what it lacks is said in `degraded`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import RLock
from typing import Any, Self

from filemem.changes import ADDED, MODIFIED, Change, Entry, Manifest
from filemem.errors import Locked
from filemem.index import writer
from filemem.index.chains import Around
from filemem.index.document import Doc, Node, chain_node, document, node_of
from filemem.index.embed import Model, ModelUnavailable, embedder
from filemem.index.fresh import (
    IndexDamaged,
    Item,
    Noted,
    Notes,
    Seal,
    WriterLock,
    compare,
    latest,
)
from filemem.index.generation import Dates
from filemem.index.search import NOT_BUILT, Candidate, Found, Search
from filemem.index.state import NO_MODEL, Layer
from filemem.index.writer import Load, Progress

__all__ = [
    "NOT_BUILT",
    "Around",
    "Candidate",
    "Doc",
    "Found",
    "Index",
    "IndexDamaged",
    "Model",
    "ModelUnavailable",
    "Node",
    "Notes",
    "chain_node",
    "document",
    "embedder",
    "node_of",
]

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
        self._changing = RLock()
        self._writer = WriterLock(self.root)
        self._noted, self._folders = Noted(self.root / "notes.json"), Noted(self.root / "folders.json")
        self._entries: tuple[list[int] | None, dict[str, Entry]] | None = None

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
        items = self._entries_waiting()
        return len(items) >= MANY_WAITING or any(self._clock() - item.saved > LONG_WAITING for item in items[:1])

    @property
    def writable(self) -> bool:
        """Whether this process is the writer; becomes it, until `close`, if no other process is."""
        return self._writer.acquire()

    @property
    def is_writer(self) -> bool:
        """Whether this process is the writer now."""
        return self._writer.held

    @property
    def notes(self) -> Notes:
        """What was remembered by `note`."""
        return Notes(*(self._noted.get() or ()))

    @property
    def folders(self) -> Mapping[str, int]:
        """The times of folders (nanoseconds) that were remembered by `note`: many, so they stand apart."""
        found: dict[str, int] = self._folders.get() or {}
        return found

    def note(self, *, folders: Mapping[str, int] | None = None, **news: Any) -> None:
        """Remember the times of folders, or fields of `Notes`; the others stay."""
        if folders is not None and folders != self.folders:
            self._folders.put(dict(folders))
        before = self.notes
        if (after := before._replace(**news)) != before:
            self._noted.put(after)

    def saves(self) -> frozenset[str]:
        """Return what names the entries that wait to be folded in now."""
        return frozenset(item.name for item in self._entries_waiting())

    def waiting(self) -> dict[str, Entry | None]:
        """Return what waits to be folded in: path -> the file as the save left it, None for what was removed."""
        waiting = latest(self._entries_waiting())
        return {path: item.file for path, item in waiting.items()}

    def manifest(self) -> dict[str, Entry]:
        """Return what the index was built from, what waits included: path -> entry.

        Take it before scanning the store, or a record saved in between looks removed.
        """
        with self._now():
            entries = dict(self._sealed())
            for path, item in self._waiting.items():
                if item.file:
                    entries[path] = item.file
                else:
                    entries.pop(path, None)
            return entries

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
        known: Collection[str] | None = None,
    ) -> None:
        """Bring the index up to date: what waits and the given changes, all at once or not at all.

        Args:
            changes: what a look at the store found; wins over what waits.
            load: makes the document of a path; None where there is none (unreadable, gone).
            progress: called with documents done and in all.
            seen: the whole scan; renews size and time of files whose content is the same.
            known: what waited when the look began, from `saves`: what was saved since stays, and wins; None for all.

        Raises:
            Locked: another process is the writer.
            IndexDamaged: there is nothing to build upon; see `rebuild`.
        """
        with self._writing():
            self._make(list(changes), load, progress, seen or {}, known)

    def fold(self, known: Collection[str] | None = None) -> int:
        """Put what waits into a generation; return how many entries that were. `known` and errors as for `apply`."""
        with self._writing():
            return self._make((), _nothing, None, {}, known)

    def rebuild(
        self,
        listed: Manifest,
        load: Load,
        progress: Progress | None = None,
        *,
        known: Collection[str] | None = None,
    ) -> None:
        """Build the index anew from all files.

        Args:
            listed: all files of the store.
            load, progress, known: as for `apply`.
        """
        changes = [Change(ADDED, path, entry) for path, entry in listed.items()]
        with self._writing():
            self._make(changes, load, progress, {}, known, anew=True)

    def stand_back(self) -> None:
        """Let others write."""
        with self._changing:
            self._writer.release()

    def close(self) -> None:
        """Let others write; forget what is open."""
        with self._changing, self._lock:
            self._writer.release()
            self._db.close()
            self._forget()
            self._entries = None

    def _entries_waiting(self) -> tuple[Item, ...]:
        with self._lock:
            return self._fresh.items()

    def _sealed(self) -> dict[str, Entry]:
        """What the generation was built from; remembered, as a look at the store asks over and over."""
        if self._entries is None or self._entries[0] != self._opened:
            self._entries = (self._opened, self._db.manifest())
        return self._entries[1]

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Be the writer: for good if we are it already, else for this one change."""
        with self._changing:
            held = self._writer.held
            if not self._writer.acquire():
                raise Locked("another process is writing the search index", "try again in a moment")
            try:
                yield
            finally:
                if not held:
                    self._writer.release()

    def _make(
        self,
        changes: Sequence[Change],
        load: Load,
        progress: Progress | None,
        seen: Manifest,
        known: Collection[str] | None,
        *,
        anew: bool = False,
    ) -> int:
        """Make the next generation, and then forget what waited; return how many entries that were."""
        items = [item for item in self._entries_waiting() if known is None or item.name in known]
        base, before, dateless = Seal(), {}, []
        if not anew:
            with self._now():
                base, before, dateless = self._seal, self._sealed(), self._db.undated()
        if dateless and load is not _nothing:  # a commit may have dated them
            named = {change.path for change in changes}
            dated = (path for path in self._dates(dateless) if path in before and path not in named)
            changes = [*changes, *(Change(MODIFIED, path, before[path]) for path in dated)]
        work = writer.plan(items, before, changes, load, seen)
        if work.size or work.gone or work.entries or not base.name:
            writer.make(self.root, base, work, self.model, self._dates, progress)
        with self._lock:
            self._fresh.forget(items)
        return len(items)


def _nothing(_path: str) -> None:
    return None
