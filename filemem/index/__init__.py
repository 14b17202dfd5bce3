"""The search index of one work tree: derived, disposable, shared by processes. Other packages use `Index` only.

Rule: it knows documents and chain facts, and nothing of Git, files or the clock. It never answers "nothing" if it is
broken: damage raises `IndexDamaged`, and `degraded` says what an answer lacks. Nothing that the writer makes is visible
until the database is committed; checksums show what a power cut lost.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import zlib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from threading import Thread
from typing import IO, Any, Self

from filemem.chain import Node
from filemem.changes import MODIFIED, Change, Entry, Manifest
from filemem.errors import Locked
from filemem.index.chains import Around, Catalog, Chains
from filemem.index.document import (
    DATABASE,
    GRAPH,
    LARGE,
    SEGMENT,
    Doc,
    IndexDamaged,
    Item,
    Notes,
    Seal,
    compare,
    document,
    listed,
    mark,
    read_file,
    read_times,
    replace_file,
    write_times,
    writing,
)
from filemem.index.embed import Model, ModelUnavailable, embedder
from filemem.index.generation import Dates, Row, links_of, rows_of
from filemem.index.plan import Counts, added, said_in, said_instead
from filemem.index.search import NO_MODEL, Found, Layer, Near, Search
from filemem.index.writer import Load, Progress, make, planned

__all__ = [
    "Around",
    "Catalog",
    "Chains",
    "Counts",
    "Doc",
    "Found",
    "Index",
    "IndexDamaged",
    "Model",
]
__all__ += [
    "ModelUnavailable",
    "Near",
    "Node",
    "Row",
    "added",
    "document",
    "embedder",
    "links_of",
    "rows_of",
    "said_in",
]
__all__ += ["said_instead"]

MANY_WAITING = 16  # saves that wait to be folded in; each costs a query a little
LONG_WAITING = 2 * 10**9  # nanoseconds; the same


class Index(Search):
    """The index of a store, open for queries and, if this process is the writer, for changes."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._writer: IO[bytes] | None = None
        self._inode: list[int] = []  # of the file that is locked
        self._deepening = Thread()  # makes a graph

    def overlaid(self, layer: Layer, dates: Dates, *, alone: bool = False) -> Self:
        """Return this index with some documents replaced in memory; nothing is written, and its vectors are used.

        `alone`: the layer is the whole content; nothing is read, and nothing is found by meaning.
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
        """Whether there is an index that can be read."""
        try:
            return self.exists
        except IndexDamaged:
            return False

    @property
    def lacks_meaning(self) -> str:
        """Why search by meaning is incomplete, and what to do about it, or ""."""
        if self.model is None:
            return NO_MODEL
        with self._now():
            gap = self._gap(
                "vector"
            )  # where there is none, the model was read: loading it takes longer than all else
            return (gap and self.model.trouble) or (self.exists and gap) or ""

    def crowded(self, *, old: bool) -> bool:
        """Whether waiting saves should be folded in now: there are many or, if that counts, the first is `old`."""
        items = self.waiting()
        waited = any(self._clock() - item.saved > LONG_WAITING for item in items[:1])
        return len(items) >= MANY_WAITING or (old and waited)

    @property
    def is_writer(self) -> bool:
        """Whether this process is the writer now; a lock on a deleted file does not count."""
        return self._writer is not None and self._inode == mark(self.root / "lock")[:1]

    @property
    def writable(self) -> bool:
        """Become the writer until `close`, if no other process is; return whether this process is the writer."""
        if self.is_writer:
            return True
        self.stand_back()
        with writing(self.root):
            lock = (self.root / "lock").open("ab")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.close()
                return False
        self._writer, self._inode = lock, mark(self.root / "lock")[:1]
        return True

    def stand_back(self) -> None:
        """Let another process write."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    @property
    def notes(self) -> Notes:
        """The notes kept by `note`."""
        return Notes(**(read_file(self.root / "notes.json") or {}))

    @property
    def folders(self) -> dict[str, int]:
        """The times of folders kept by `note`, in nanoseconds."""
        return read_times(self.root / "folders")

    def note(self, folders: Mapping[str, int] | None = None, **news: Any) -> None:
        """Keep the times of folders, and some fields of `Notes`; what is not given stays."""
        if folders is not None:
            with writing(self.root):
                write_times(self.root / "folders", folders)
        before = self.notes
        if (after := before._replace(**news)) != before:
            with writing(self.root):
                replace_file(self.root / "notes.json", after._asdict())

    @property
    def stamp(self) -> int:
        """A number that is another one after any change of what can be found. It takes no lock."""
        state = (self.root, mark(self.root / DATABASE), sorted(listed(self.root / "fresh")))
        return zlib.crc32(repr(state).encode("utf-8", "surrogateescape"))

    def waiting(self) -> tuple[Item, ...]:
        """Return the saves that wait to be folded in, oldest first."""
        with self._lock:
            return self._fresh.items()

    def manifest(self, folders: Collection[str] = ("",)) -> dict[str, Entry]:
        """Return what the index was built from below some folders, and all waiting saves: path -> entry.

        Take it before scanning the store, or a record saved in between looks removed.
        """
        with self._now():
            entries: dict[str, Entry | None] = {**self._db.manifest(below=folders)}
            entries |= {path: item.entry for path, item in self._waiting.items()}
            return {path: entry for path, entry in entries.items() if entry}

    def verify(self) -> list[str]:
        """Compare every file in use with its checksum; return the damaged ones."""
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
        """Make a saved record findable at once by every process; needs no lock, and raises BrokenStore.

        `entry` is its file as it stands, so that the next scan need not hash it.
        """
        with self._lock:
            self._fresh.push(doc.path, doc, entry)

    def push_removed(self, path: str) -> None:
        """Make a removed record invisible to every process at once; needs no lock."""
        with self._lock:
            self._fresh.push(path, None, None)

    def apply(
        self,
        changes: Iterable[Change],  # what a look at the store found; wins over what waits
        load: Load,
        progress: Progress | None = None,
        *,
        seen: Manifest
        | None = None,  # the whole scan; renews size and time of files whose content is the same
        waited: Iterable[Item]
        | None = None,  # what waited when the look began; what was saved since stays, and wins
        anew: bool = False,  # build it anew; the changes are all files
    ) -> None:
        """Update the index with waiting saves and the given changes, all or nothing.

        Raises Locked: another process is the writer; IndexDamaged: there is nothing to build upon.
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
                dated = (
                    path for path in self._dates(dateless) if path in before and path not in named
                )
                changes += [Change(MODIFIED, path, before[path]) for path in dated]
            work = planned(items, before, changes, load, seen or {})
            if work.size or work.gone or work.entries or not base.name:
                make(self.root, base, work, self.model, self._dates, progress)
            self._fresh.forget(items)
        finally:
            if not held:
                self.stand_back()

    def deepen(self) -> None:
        """Make the graph of a large segment of vectors that has none, in a thread; the next change takes it in."""
        with self._now():
            files, folder = self._seal.files, self.root / self._seal.name
        for name, (_, size, _, crc) in files.items():
            graph = self.root / f"{crc:08x}{GRAPH}"
            if (
                not name.endswith(SEGMENT)
                or size < LARGE
                or name.replace(SEGMENT, GRAPH) in files
                or graph.exists()
            ):
                continue
            if self.model and not self._deepening.is_alive():
                from filemem.index.vectors import link

                self._deepening = Thread(
                    None, link, "filemem-graph", (folder / name, graph), daemon=True
                )
                self._deepening.start()

    def rest(self) -> None:
        """Hold nothing in memory that the next question can open again."""
        with self._lock:
            if self._opened or self._vectors:
                self._db.close()
                self._forget()
                self._vectors = None
                with contextlib.suppress(
                    AttributeError, OSError
                ):  # the C library keeps what is freed, 10 MB here
                    import ctypes

                    ctypes.CDLL(None).malloc_trim(0)

    def close(self) -> None:
        """Let another process write, and close everything."""
        with self._lock:
            self.stand_back()
            self._db.close()
            self._forget()
