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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import IO, Any, NamedTuple, Self

from filemem.chain import Node
from filemem.changes import MODIFIED, Change, Entry, Manifest
from filemem.errors import Locked, NotFound
from filemem.index.chains import Around, Catalog, Chains
from filemem.index.counts import Counts, added
from filemem.index.document import (
    DATABASE,
    GENERATION,
    GRAPH,
    LARGE,
    SEGMENT,
    VECTORS,
    WORDS,
    Doc,
    IndexDamaged,
    Item,
    Notes,
    Seal,
    checksum,
    compare,
    document,
    key,
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
from filemem.index.plan import said_in, said_instead
from filemem.index.search import NO_MODEL, Found, Layer, Search
from filemem.index.words import WordsWriter

__all__ = ["Around", "Catalog", "Chains", "Counts", "Doc", "Found", "Index", "IndexDamaged", "Model"]
__all__ += ["ModelUnavailable", "Node", "Row", "added", "document", "embedder", "links_of", "rows_of", "said_in"]
__all__ += ["said_instead"]

MANY_WAITING = 16  # saves that wait to be folded in; each costs a query a little
LONG_WAITING = 2 * 10**9  # nanoseconds; the same
_CHUNK = 256  # documents between two looks at the model

Load = Callable[[str], Doc | None]  # path -> its document; None where there is none; NotFound: no such file any more
Progress = Callable[[int, int], object]  # documents done, documents in all


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
            gap = self._gap("vector")  # where there is none, the model was read: loading it takes longer than all else
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
        seen: Manifest | None = None,  # the whole scan; renews size and time of files whose content is the same
        waited: Iterable[Item] | None = None,  # what waited when the look began; what was saved since stays, and wins
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
                dated = (path for path in self._dates(dateless) if path in before and path not in named)
                changes += [Change(MODIFIED, path, before[path]) for path in dated]
            work = _planned(items, before, changes, load, seen or {})
            if work.size or work.gone or work.entries or not base.name:
                _make(self.root, base, work, self.model, self._dates, progress)
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
            if not name.endswith(SEGMENT) or size < LARGE or name.replace(SEGMENT, GRAPH) in files or graph.exists():
                continue
            if self.model and not self._deepening.is_alive():
                self._deepening = Thread(None, self.model.link, "filemem-graph", (folder / name, graph), daemon=True)
                self._deepening.start()

    def rest(self) -> None:
        """Hold nothing in memory that the next question can open again."""
        with self._lock:
            if self._opened or self._vectors:
                self._db.close()
                self._forget()
                self._vectors = None
                with contextlib.suppress(AttributeError, OSError):  # the C library keeps what is freed, 10 MB here
                    import ctypes

                    ctypes.CDLL(None).malloc_trim(0)

    def close(self) -> None:
        """Let another process write, and close everything."""
        with self._lock:
            self.stand_back()
            self._db.close()
            self._forget()


class _Work(NamedTuple):
    """The work of a change, computed before anything is written."""

    before: Mapping[str, Entry]  # the manifest as it is
    entries: dict[str, Entry | None]  # what it shall say of the paths that differ; None where one is gone
    docs: Iterable[Doc]  # to put in
    size: int  # how many at most
    gone: Collection[str]  # paths whose documents are to be taken out first


def _planned(
    items: Iterable[Item], before: Mapping[str, Entry], changes: Iterable[Change], load: Load, seen: Manifest
) -> _Work:
    """The content of the next generation: the old one, waiting saves, then the changes; the later wins."""
    changed = {change.path: change.entry for change in changes}
    waiting = {item.path: item for item in items if item.path not in changed}
    entries = {path: item.entry for path, item in waiting.items()} | changed
    for path, entry in seen.items():
        known = entries[path] if path in entries else before.get(path)
        if known is not None and known != entry and known.blob == entry.blob:
            entries[path] = entry
    ready = [item.doc for item in waiting.values() if item.doc]
    to_load = [path for path, entry in changed.items() if entry is not None]

    def docs() -> Iterator[Doc]:
        yield from ready
        for path in to_load:
            try:
                doc = load(path)
            except NotFound:  # a checkout took it since it was listed: should it come back, it is new
                entries[path] = doc = None
            if doc:
                entry = entries[path]
                if entry is None or doc.blob != entry.blob:  # it changed since it was listed
                    entries[path] = Entry(doc.blob)
                yield doc

    return _Work(before, entries, docs(), len(ready) + len(to_load), {*waiting, *changed})


def _make(root: Path, base: Seal, work: _Work, model: Model | None, dates: Dates, progress: Progress | None) -> None:
    """Build the next generation from another or from nothing, and use it; raises `BrokenStore`, `IndexDamaged`."""
    import shutil  # 2 ms, for its archives; most commands build nothing

    with writing(root):
        path = root / (DATABASE if base.name else f"{DATABASE}.new")
        if not base.name:
            path.unlink(missing_ok=True)
        with closing(Catalog(path, create=True)) as database:
            if base.name and not (work.size or work.gone):
                with database.writing():
                    database.note_files(work.entries)
                return
            staged = _stage(root, base)
            rows, lacking = _fill(staged, database.last + 1, work, model, dates, progress)
            files: dict[str, list[int]] = {}
            for part in (WORDS, VECTORS):
                for name in (f"{part}/{each}" for each in listed(staged / part) if not each.endswith(".lock")):
                    known, there = base.files.get(name), mark(staged / name)
                    files[name] = known if known and known[:-1] == there else [*there, checksum(staged / name)]
            last = max((int(name[1:]) for name in listed(root) if GENERATION.fullmatch(name)), default=0)
            seal = Seal(f"g{last + 1:010d}", files, base.missing + lacking)
            staged.rename(root / seal.name)
            with database.writing():
                database.note_files(work.entries)
                database.put(rows)
                database.seal = seal
        if not base.name:
            (root / f"{DATABASE}-journal").unlink(missing_ok=True)  # of the file that is replaced
            path.replace(root / DATABASE)
        for name in listed(root):
            if GENERATION.fullmatch(name) and name not in (seal.name, base.name):
                shutil.rmtree(root / name, ignore_errors=True)


def _stage(root: Path, base: Seal) -> Path:
    """Return a new private folder holding links to the files of a generation."""
    import shutil

    target = root / "next"
    shutil.rmtree(target, ignore_errors=True)
    for part in (WORDS, VECTORS):
        (target / part).mkdir(parents=True)
    compare(root, base)
    for name in base.files:
        try:
            os.link(root / base.name / name, target / name)
        except OSError:  # no hard links here
            shutil.copy2(root / base.name / name, target / name)
    graphs = {f"{crc:08x}{GRAPH}": name for name, (*_, crc) in base.files.items()}
    for made in root.glob(f"*{GRAPH}"):  # of a segment in use, or of one that was merged meanwhile
        if made.name in graphs:
            made.rename((target / graphs[made.name]).with_suffix(GRAPH))
        else:
            made.unlink()
    return target


def _fill(
    staged: Path, number: int, work: _Work, model: Model | None, dates: Dates, progress: Progress | None
) -> tuple[dict[str, Row | None], int]:
    """Write documents into a staged folder; return their rows, None for removed ones, and how many lack vectors."""
    words = WordsWriter(staged / WORDS)
    for path in work.gone:
        words.remove(path)
    rows: dict[str, Row | None] = dict.fromkeys(work.gone)
    done, docs = 0, iter(work.docs)
    lacking = model is not None and bool(model.trouble)  # the answers will say so; the words are indexed all the same
    growth = model.growth(staged / VECTORS) if model and not lacking else None
    while chunk := list(islice(docs, _CHUNK)):
        if growth:
            growth.add(chunk)
        for doc, row in zip(chunk, rows_of(dict(enumerate(chunk, number + done)), dates), strict=True):
            words.add(doc, row.number, row.written.created)
            rows[doc.path] = row
        done += len(chunk)
        if progress:
            progress(done, max(done, work.size))
    words.close()
    if growth:
        growth.write({key(entry.blob) for entry in {**work.before, **work.entries}.values() if entry})
    return rows, done if lacking else 0
