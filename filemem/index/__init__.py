"""The search index of one work tree: derived, disposable, shared by processes.

Rule: it knows documents and chain facts, and nothing of Git, files or the clock. It never answers
"nothing" if it is broken: damage raises `IndexDamaged`, and `degraded` says what an answer lacks.
Other packages use `Index` only.
"""

from __future__ import annotations

import contextlib
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
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
from filemem.index.plan import find_synonyms, match_synonyms
from filemem.index.storage import NAME, IndexDamaged, list_names, read_file_stamp, writable_folder
from filemem.index.update import HiddenCheck, IndexWriter, Loader, Progress
from filemem.index.words import TermCounts, merge_counts

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


_FOLDER_PATTERN = re.compile(
    r"\d+\.[0-9a-f]{8}"
)  # of folders: the layout, and the rest of the form


_NUMBER_GAP = 1_000_000
_REBUILD_LOCK = "rebuild.lock"


class Notes(NamedTuple):
    """Where HEAD was, and what the work tree looked like, when the index was last found right.

    Losing them costs one full look at the store, never an answer.
    """

    head: str = ""
    looked: int = 0  # when every file was looked at last, in nanoseconds since 1970
    cost: int = 0  # how long that took, in nanoseconds
    forgotten: str = ""  # what the tombstones were then, in the caller's words


def _is_hidden(_: str) -> bool:
    return False


class Index(IndexSearcher):
    """The index of a store, open for questions and for changes.

    Errors: BrokenStore, Locked, IndexDamaged.
    """

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        """Arguments as for `Questions`."""
        super().__init__(*arguments, **keywords)
        self._write_lock = RLock()  # one change at a time
        self._write_database = Database(
            None
        )  # by which this process writes, so that questions see no half of it
        self._write_inode: list[int] = []

    # what state it is in

    @property
    def is_built(self) -> bool:
        """Whether all files were ever looked at."""
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
            # Where there is none, the model was read: loading it takes longer than all else.
            return (gap and self.model.trouble) or (self.is_built and gap) or ""

    @property
    def notes(self) -> Notes:
        """The notes kept by `note`."""
        with self._current_database() as database:
            return Notes(
                **{
                    name: database.read_state(name) or default
                    for name, default in _DEFAULT_NOTES.items()
                }
            )

    @property
    def folder_times(self) -> dict[str, int]:
        """The times of folders kept by `note`, in nanoseconds."""
        with self._current_database() as database:
            return database.read_folder_times()

    def write_notes(self, folder_times: Mapping[str, int] | None = None, **fields: Any) -> None:
        """Keep the times of folders, and some fields of `Notes`; what is not given stays."""
        with self._writable_database() as database, database.transaction():
            if folder_times is not None:
                database.write_folder_times(folder_times)
            database.write_state(**fields)

    @property
    def stamp(self) -> int:
        """A number that is another one after any change of what can be found."""
        with self._current_database() as database:
            return zlib.crc32(repr((self._inode, database.stamp)).encode())

    def check_database(self) -> list[str]:
        """Read all of the database; return what is damaged. `fold` makes damaged caches anew."""
        try:
            with self._current_database() as database:
                database.verify_integrity()
        except IndexDamaged as error:
            return [error.message]
        return []

    def read_check_results(self, state: str) -> dict[str, str]:
        """Return what was noted of a state, see `Database`; nothing where there is no index."""
        if self.in_memory or not self.is_readable:
            return {}
        with self._writable_database() as database:
            return database.read_check_results(state)

    def write_check_results(self, state: str, problems: Mapping[str, str]) -> None:
        """Keep what `check` has found, where there is an index."""
        if problems and self.is_readable and not self.in_memory:
            with self._writable_database() as database, database.transaction():
                database.write_check_results(state, problems)

    # changes

    def add_document(self, doc: Doc, entry: Entry | None = None) -> None:
        """Make a saved record findable at once by every process.

        `entry` is its file as it stands, so that the next scan need not hash it.
        """
        with self._writer(self.model) as writer:
            writer.apply_changes(
                {doc.path: entry or Entry(doc.blob)}, lambda _: doc, is_hidden=_is_hidden
            )

    def remove_document(self, path: str) -> None:
        """Make a removed record invisible to every process at once."""
        with self._writer(self.model) as writer:
            writer.apply_changes({path: None}, lambda _: None, is_hidden=_is_hidden)

    def apply_changes(
        self,
        changes: Iterable[Change],  # what a look at the store found
        load: Loader,
        progress: Progress | None = None,
        *,
        before: Manifest | None = None,  # what the index said then; what was saved since stays
        scan_manifest: Manifest
        | None = None,  # the whole scan; renews size and time of unchanged files
        is_hidden: HiddenCheck = _is_hidden,  # whether the record with an id is forgotten
        with_vectors: bool = True,  # whether to make vectors now; the next change makes what lacks
        rebuild: bool = False,  # build it anew; the changes are all files
    ) -> None:
        """Update the index after a look at the store: all who ask see it grow by batches."""
        entries = {change.path: change.entry for change in changes}
        if rebuild:
            self._rebuild(entries, load, progress, is_hidden)
            return
        with self._writer(self.model if with_vectors else None) as writer:
            writer.date_records()
            writer.add_missing_vectors()
            writer.apply_changes(
                entries, load, is_hidden=is_hidden, expected=before, progress=progress
            )
        renewed_entries = [
            (path, entry)
            for path, entry in (scan_manifest or {}).items()
            if path not in entries and (before or {}).get(path) != entry
        ]
        with self._writable_database() as database, database.transaction():
            is_first = not database.read_state("built")
            database.update_file_stats(renewed_entries)
            database.write_state(built=1)
        if is_first and not self.in_memory:
            self._remove_older_indexes()

    @property
    def has_missing_vectors(self) -> bool:
        """Whether records were indexed without the model that is here."""
        with self._current_database() as database:
            return bool(self.model and database.count_missing_vectors())

    def add_missing_vectors(self) -> None:
        """Make the vectors of these records."""
        if self.has_missing_vectors:
            with self._writer(self.model) as writer:
                writer.add_missing_vectors()

    def _remove_older_indexes(self) -> None:
        """Delete the indexes that earlier versions of filemem made of the same store."""
        import shutil  # 2 ms, for its archives; most commands build nothing

        layout = int(self.root.name.partition(".")[0])
        for name in list_names(self.root.parent):
            if _FOLDER_PATTERN.fullmatch(name) and int(name.partition(".")[0]) < layout:
                shutil.rmtree(self.root.parent / name, ignore_errors=True)

    def _rebuild(
        self,
        entries: Mapping[str, Entry | None],
        load: Loader,
        progress: Progress | None,
        is_hidden: HiddenCheck,
    ) -> None:
        """Build the index anew beside the one in use, which answers and takes saves until then."""
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
            try:
                with self._writable_database() as database:
                    database.replace_from(new_path)
            except IndexDamaged:
                with self._write_lock:
                    self._write_database.close()
                    _delete_database(root / NAME)
                    with self._writable_database() as database:
                        database.replace_from(new_path)
            _delete_database(new_path)

    def _compute_start_state(self) -> dict[str, int]:
        """Where numbers and stamps of an index begin that takes the place of this one.

        Who has read of this one keeps rows by number and stamp, and it may grow meanwhile.
        """
        try:
            with self._current_database() as database:
                return {
                    "last": database.last_number + _NUMBER_GAP,
                    "stamp": database.stamp + _NUMBER_GAP,
                }
        except IndexDamaged:  # then the file is replaced, and nobody keeps anything of it
            return {}

    def update_caches(self, *, check_all: bool = False, with_usearch: bool = False) -> bool:
        """Move the caches forward; return whether this process did.

        Arguments as for `caches.fold`.
        """
        if self.in_memory:
            return False
        with self._writable_database() as database:
            return caches.update_caches(
                database, self.root, check_all=check_all, with_usearch=with_usearch
            )

    @property
    def uncached_count(self) -> int:
        """How many records the caches do not hold."""
        with self._current_database() as database:
            return len(database.read_uncached_numbers())

    @contextlib.contextmanager
    def _writer(self, model: Model | None) -> Iterator[IndexWriter]:
        with self._writable_database() as database:
            yield IndexWriter(database, model, self._dates)

    @contextlib.contextmanager
    def _writable_database(self) -> Iterator[Database]:
        """The database, open for changes; it is made where it is not there."""
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
        """Return an index of a past: it begins as this one is; its changes stay in memory."""
        return PastIndex(self, dates)

    def release_memory(self) -> None:
        """Hold nothing in memory that the next question can open again."""
        with self._write_lock, self._lock:
            if self.in_memory or not (self._inode or self._write_inode):
                return
            self._write_database.close()
            self._write_database = Database(None)
            self._write_inode = []
            self._reset()
            # The C library keeps what is freed, 10 MB here.
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
    """The same content as an index, of which other documents stand."""

    def __init__(self, present: Index, dates: Dates) -> None:
        super().__init__(None if present.in_memory else present.root.parent, present.model, dates)

    def _connect(self, inode: list[int]) -> None:
        self._database = Database(self.root / NAME, is_past=True)
        self._inode = inode

    def _open(self) -> None:
        if not self._inode:  # once: what happens to the present does not change a past
            super()._open()

    @contextlib.contextmanager
    def _writable_database(self) -> Iterator[Database]:
        with self._write_lock, self._lock:
            self._open()
            yield self._database


_DEFAULT_NOTES = Notes()._asdict()


def _delete_database(path: Path) -> None:
    """Delete a database, with what SQLite keeps beside it."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
