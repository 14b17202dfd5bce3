"""The search index of one work tree: derived from the records, disposable, shared by processes.

It knows documents and facts about chains, and nothing about Git, files or the clock. A damaged
index raises `IndexDamaged` instead of returning nothing, and `degraded` says what an answer lacks.
Other packages use `Index` only.
"""

from __future__ import annotations

import contextlib
import re
import zlib
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

from filemem.chain import Node
from filemem.changes import Change, Entry, Manifest
from filemem.errors import Locked
from filemem.index import caches
from filemem.index.chains import (
    ChainIndex,
    ChainSet,
    Dates,
    Row,
    add_store_prefix,
    build_rows,
    list_links,
)
from filemem.index.database import Database
from filemem.index.document import Doc, build_document
from filemem.index.embed import Model, ModelUnavailable, open_model
from filemem.index.place import (
    NO_MODEL,
    CandidateSet,
    IndexSearcher,
    KnownRecord,
    Neighbour,
    search_with_predecessors,
)
from filemem.index.storage import NAME, IndexDamaged, list_names, read_file_stamp, writable_folder
from filemem.index.update import HiddenCheck, IndexWriter, Loader, Progress
from filemem.index.words import TermCounts, find_synonyms, match_synonyms, merge_counts

__all__ = [
    "CandidateSet",
    "ChainIndex",
    "ChainSet",
    "Database",
    "Doc",
    "Index",
    "IndexDamaged",
    "KnownRecord",
    "Model",
    "ModelUnavailable",
    "Neighbour",
    "Node",
    "Row",
    "TermCounts",
    "add_store_prefix",
    "build_document",
    "build_rows",
    "find_synonyms",
    "list_links",
    "match_synonyms",
    "merge_counts",
    "open_model",
    "search_with_predecessors",
]


_FOLDER_PATTERN = re.compile(r"\d+\.[0-9a-f]{8}")  # the layout, and a hash of all other formats


_NUMBER_GAP = 1_000_000
_REBUILD_LOCK = "rebuild.lock"


class Notes(NamedTuple):
    """What was known when the index last matched the files.

    If they are lost, all files are looked at once more.
    """

    head: str = ""  # commit of HEAD
    looked: int = 0  # when all files were looked at, in nanoseconds since 1970
    cost: int = 0  # how long that took, in nanoseconds
    forgotten: str = ""  # a text by which the caller recognizes the tombstones of that time


def _is_hidden(_: str) -> bool:
    return False


class Index(IndexSearcher):
    """The index of a store, open for questions and for changes.

    Errors: BrokenStore, Locked, IndexDamaged.
    """

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        """Set up an index; see `IndexReader`."""
        super().__init__(*arguments, **keywords)
        self._write_lock = RLock()  # one change at a time
        # A second connection for writes, so that searches of this process see none of them early.
        self._write_database = Database(None)
        self._write_inode: list[int] = []

    # what state it is in

    @property
    def is_built(self) -> bool:
        """Whether all files were ever indexed."""
        with self._current_database() as database:
            return bool(database.read_state("built"))

    @property
    def is_readable(self) -> bool:
        """Whether there is an index that can be read."""
        try:
            return self.is_built
        except IndexDamaged:
            return False

    @property
    def lacks_meaning(self) -> str:
        """Why search by meaning is incomplete, and what to do about it, or ""."""
        if self.model is None:
            return NO_MODEL
        with self._search_snapshot():
            gap = self._describe_gap("vector")
            if not gap:  # then the model was readable; loading it here would be slow
                return ""
            if self.model.trouble:
                return self.model.trouble
            return gap if self.is_built else ""

    @property
    def notes(self) -> Notes:
        """The notes that `write_notes` wrote."""
        notes = Notes()
        with self._current_database() as database:
            for name in Notes._fields:
                value = database.read_state(name)
                if value:
                    notes = notes._replace(**{name: value})
        return notes

    @property
    def folder_times(self) -> dict[str, int]:
        """The times of folders that `write_notes` wrote, in nanoseconds."""
        with self._current_database() as database:
            return database.read_folder_times()

    def write_notes(self, folder_times: Mapping[str, int] | None = None, **fields: Any) -> None:
        """Write some fields of `Notes`, and the times of folders unless None; keep the others."""
        with self._writable_database() as database, database.transaction():
            if folder_times is not None:
                database.write_folder_times(folder_times)
            database.write_state(**fields)

    @property
    def stamp(self) -> int:
        """A number that changes whenever a search may find something else."""
        with self._current_database() as database:
            return zlib.crc32(repr((self._inode, database.stamp)).encode())

    def check_database(self) -> list[str]:
        """Read the whole database; return what is damaged. `update_caches` repairs the caches."""
        try:
            with self._current_database() as database:
                database.verify_integrity()
        except IndexDamaged as error:
            return [error.message]
        return []

    def read_check_results(self, state: str) -> dict[str, str]:
        """Return what `check` found in a state; nothing if there is no index."""
        if self.in_memory or not self.is_readable:
            return {}
        with self._writable_database() as database:
            return database.read_check_results(state)

    def write_check_results(self, state: str, problems: Mapping[str, str]) -> None:
        """Write what `check` found, if there is an index."""
        if not problems or not self.is_readable or self.in_memory:
            return
        with self._writable_database() as database, database.transaction():
            database.write_check_results(state, problems)

    # changes

    def add_document(self, doc: Doc, entry: Entry | None = None) -> None:
        """Index a saved record, so that every process can find it.

        `entry`: its file, so that the next scan need not hash it; None if not known.
        """

        def load(_: str) -> Doc:
            return doc

        entries = {doc.path: entry or Entry(doc.blob)}
        with self._writer(self.model) as writer:
            writer.apply_changes(entries, load, is_hidden=_is_hidden)

    def remove_document(self, path: str) -> None:
        """Hide a removed record from every process."""
        with self._writer(self.model) as writer:
            writer.apply_changes({path: None}, lambda _: None, is_hidden=_is_hidden)

    def apply_changes(
        self,
        changes: Iterable[Change],
        load: Loader,
        progress: Progress | None = None,
        *,
        before: Manifest | None = None,
        scan_manifest: Manifest | None = None,
        is_hidden: HiddenCheck = _is_hidden,
        with_vectors: bool = True,
        rebuild: bool = False,
    ) -> None:
        """Index the changes that a scan of the store found, batch by batch.

        Args:
            changes: of files; all files for a rebuild.
            load: reads a document.
            progress: is called after each batch.
            before: what the index said before the scan; what was saved since then is kept.
            scan_manifest: all files, to note size and time of those with the same content.
            is_hidden: whether the record with an id was forgotten.
            with_vectors: whether to make vectors now; if not, a later change makes them.
            rebuild: whether to build the index again from nothing.
        """
        entries = {change.path: change.entry for change in changes}
        if rebuild:
            self._rebuild(entries, load, progress, is_hidden)
            return
        model = self.model if with_vectors else None
        with self._writer(model) as writer:
            writer.date_records()
            writer.add_missing_vectors()
            writer.apply_changes(
                entries, load, is_hidden=is_hidden, expected=before, progress=progress
            )
        renewed_entries = _list_renewed(scan_manifest or {}, before or {}, entries)
        with self._writable_database() as database, database.transaction():
            is_first = not database.read_state("built")
            database.update_file_stats(renewed_entries)
            database.write_state(built=1)
        if is_first and not self.in_memory:
            self._remove_older_indexes()

    @property
    def has_missing_vectors(self) -> bool:
        """Whether there is a model now and some records were indexed without it."""
        with self._current_database() as database:
            return bool(self.model and database.count_missing_vectors())

    def add_missing_vectors(self) -> None:
        """Make the vectors of records that were indexed without the model."""
        if self.has_missing_vectors:
            with self._writer(self.model) as writer:
                writer.add_missing_vectors()

    def _remove_older_indexes(self) -> None:
        """Delete the indexes that earlier versions of filemem made of the same store."""
        import shutil  # takes 2 ms; most commands build nothing

        layout = _parse_layout(self.root.name)
        for name in list_names(self.root.parent):
            if _FOLDER_PATTERN.fullmatch(name) and _parse_layout(name) < layout:
                shutil.rmtree(self.root.parent / name, ignore_errors=True)

    def _rebuild(
        self,
        entries: Mapping[str, Entry | None],
        load: Loader,
        progress: Progress | None,
        is_hidden: HiddenCheck,
    ) -> None:
        """Build a new index beside the one in use, which meanwhile answers and takes saves."""
        root = self.root
        new_path = root / f"{NAME}.new"
        with writable_folder(root), caches.exclusive_lock(root / _REBUILD_LOCK) as lock:
            if not lock:
                raise Locked("another process is rebuilding the search index", "try again later")
            _delete_database(new_path)
            database = Database(new_path, create=True)
            database.write_state(**self._compute_start_state())
            writer = IndexWriter(database, self.model, self._dates)
            writer.apply_changes(entries, load, is_hidden=is_hidden, progress=progress)
            database.write_state(built=1)
            database.close()
            self._replace_database(new_path)
            _delete_database(new_path)

    def _replace_database(self, new_path: Path) -> None:
        """Copy another database into the one in use, or into a new file if that is damaged."""
        try:
            with self._writable_database() as database:
                database.replace_from(new_path)
        except IndexDamaged:
            with self._write_lock:
                self._write_database.close()
                _delete_database(self.root / NAME)
                with self._writable_database() as database:
                    database.replace_from(new_path)

    def _compute_start_state(self) -> dict[str, int]:
        """Return the first number and stamp of an index that replaces this one.

        Other processes cache rows of this index by number and stamp, and it may grow meanwhile, so
        the new ones must be higher.
        """
        try:
            with self._current_database() as database:
                return {
                    "last": database.last_number + _NUMBER_GAP,
                    "stamp": database.stamp + _NUMBER_GAP,
                }
        except IndexDamaged:  # the file is replaced, so all caches are dropped
            return {}

    def update_caches(self, *, check_all: bool = False, with_usearch: bool = False) -> bool:
        """Add to the caches what they lack; see `caches.update_caches`."""
        if self.in_memory:
            return False
        with self._writable_database() as database:
            return caches.update_caches(
                database, self.root, check_all=check_all, with_usearch=with_usearch
            )

    @property
    def uncached_count(self) -> int:
        """How many records the caches lack."""
        with self._current_database() as database:
            return len(database.read_uncached_numbers())

    @contextlib.contextmanager
    def _writer(self, model: Model | None) -> Iterator[IndexWriter]:
        with self._writable_database() as database:
            yield IndexWriter(database, model, self._dates)

    @contextlib.contextmanager
    def _writable_database(self) -> Iterator[Database]:
        """Open the database for changes; create it if it is missing."""
        with self._write_lock:
            if self.in_memory:
                with self._lock:
                    yield self._database
                return
            inode = read_file_stamp(self.root / NAME)[:1]
            if not inode or inode != self._write_inode:
                self._write_database.close()
                with writable_folder(self.root):
                    self._write_database = Database(self.root / NAME, create=True)
                self._write_inode = read_file_stamp(self.root / NAME)[:1]
            yield self._write_database

    def open_past(self, dates: Dates) -> PastIndex:
        """Return an index that begins as this one and whose changes stay in memory."""
        return PastIndex(self, dates)

    def release_memory(self) -> None:
        """Close the database and free memory; the next question opens it again."""
        with self._write_lock, self._lock:
            is_closed = not self._inode and not self._write_inode
            if self.in_memory or is_closed:
                return
            self._write_database.close()
            self._write_database = Database(None)
            self._write_inode = []
            self._reset()
            # The C library keeps 10 MB that was freed, unless it is told to return it.
            with contextlib.suppress(AttributeError, OSError):
                import ctypes

                ctypes.CDLL(None).malloc_trim(0)

    def close(self) -> None:
        """Close everything."""
        with self._write_lock, self._lock:
            self._write_database.close()
            self._write_inode = []
            self._reset()


class PastIndex(Index):
    """An index of the past: the content of another index, of which other documents stand."""

    def __init__(self, present: Index, dates: Dates) -> None:
        folder = None if present.in_memory else present.root.parent
        super().__init__(folder, present.model, dates)

    def _connect(self, inode: list[int]) -> None:
        self._database = Database(self.root / NAME, is_past=True)
        self._inode = inode

    def _open(self) -> None:
        if not self._inode:  # only once: changes of the present must not change the past
            super()._open()

    @contextlib.contextmanager
    def _writable_database(self) -> Iterator[Database]:
        with self._write_lock, self._lock:
            self._open()
            yield self._database


def _list_renewed(
    scanned: Manifest, indexed: Manifest, changed_paths: Container[str]
) -> list[tuple[str, Entry]]:
    """Return the unchanged files of a scan whose size or time is not what the index notes."""
    renewed = []
    for path, entry in scanned.items():
        if path not in changed_paths and indexed.get(path) != entry:
            renewed.append((path, entry))
    return renewed


def _parse_layout(name: str) -> int:
    """Return the layout in the name of the folder of an index."""
    return int(name.partition(".")[0])


def _delete_database(path: Path) -> None:
    """Delete a database and the files that SQLite keeps beside it."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
