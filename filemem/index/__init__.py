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
from filemem.index.chains import Around, Chains, Dates, Row, addressed, links_of, rows_of
from filemem.index.database import NAME, Database
from filemem.index.document import Doc, document
from filemem.index.embed import Model, ModelUnavailable, embedder
from filemem.index.folder import IndexDamaged, listed, mark, writing
from filemem.index.place import NO_MODEL, Found, Known, Near, Questions, with_leading
from filemem.index.plan import Counts, added, said_in, said_instead
from filemem.index.update import Hidden, Load, Progress, Writer

__all__ = [
    "Around",
    "Chains",
    "Counts",
    "Database",
    "Doc",
    "Found",
    "Index",
    "IndexDamaged",
    "Known",
    "Model",
    "ModelUnavailable",
    "Near",
    "Node",
    "Row",
    "added",
    "addressed",
    "document",
    "embedder",
    "links_of",
    "rows_of",
    "said_in",
    "said_instead",
    "with_leading",
]


_FORMS = re.compile(r"\d+\.[0-9a-f]{8}")  # of folders: the layout, and the rest of the form


_FAR = 1_000_000
_LOCK = "rebuild.lock"


class Notes(NamedTuple):
    """Where HEAD was, and what the work tree looked like, when the index was last found right.

    Losing them costs one full look at the store, never an answer.
    """

    head: str = ""
    looked: int = 0  # when every file was looked at last, in nanoseconds since 1970
    cost: int = 0  # how long that took, in nanoseconds
    forgotten: str = ""  # what the tombstones were then, in the caller's words


def _nothing(_: str) -> bool:
    return False


class Index(Questions):
    """The index of a store, open for questions and for changes.

    Errors: BrokenStore, Locked, IndexDamaged.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        """Arguments as for `Questions`."""
        super().__init__(*arguments, **named)
        self._writing = RLock()  # one change at a time
        self._own = Database(
            None
        )  # by which this process writes, so that questions see no half of it
        self._own_inode: list[int] = []

    # what state it is in

    @property
    def exists(self) -> bool:
        """Whether all files were ever looked at."""
        with self._now() as database:
            return bool(database.state("built"))

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
        with self._searching():
            gap = self._gap("vector")
            # Where there is none, the model was read: loading it takes longer than all else.
            return (gap and self.model.trouble) or (self.exists and gap) or ""

    @property
    def notes(self) -> Notes:
        """The notes kept by `note`."""
        with self._now() as database:
            return Notes(**{name: database.state(name) or of for name, of in _UNNOTED.items()})

    @property
    def folders(self) -> dict[str, int]:
        """The times of folders kept by `note`, in nanoseconds."""
        with self._now() as database:
            return database.folders()

    def note(self, folders: Mapping[str, int] | None = None, **news: Any) -> None:
        """Keep the times of folders, and some fields of `Notes`; what is not given stays."""
        with self._changing() as database, database.writing():
            if folders is not None:
                database.note_folders(folders)
            database.note(**news)

    @property
    def stamp(self) -> int:
        """A number that is another one after any change of what can be found."""
        with self._now() as database:
            return zlib.crc32(repr((self._inode, database.stamp)).encode())

    def verify(self) -> list[str]:
        """Read all of the database; return what is damaged. `fold` makes damaged caches anew."""
        try:
            with self._now() as database:
                database.check()
        except IndexDamaged as error:
            return [error.message]
        return []

    def checked(self, state: str) -> dict[str, str]:
        """Return what was noted of a state, see `Database`; nothing where there is no index."""
        if self.in_memory or not self.sound:
            return {}
        with self._changing() as database:
            return database.checked(state)

    def note_checked(self, state: str, problems: Mapping[str, str]) -> None:
        """Keep what `check` has found, where there is an index."""
        if problems and self.sound and not self.in_memory:
            with self._changing() as database, database.writing():
                database.note_checked(state, problems)

    # changes

    def push(self, doc: Doc, entry: Entry | None = None) -> None:
        """Make a saved record findable at once by every process.

        `entry` is its file as it stands, so that the next scan need not hash it.
        """
        with self._writer(self.model) as writer:
            writer.apply({doc.path: entry or Entry(doc.blob)}, lambda _: doc, hidden=_nothing)

    def push_removed(self, path: str) -> None:
        """Make a removed record invisible to every process at once."""
        with self._writer(self.model) as writer:
            writer.apply({path: None}, lambda _: None, hidden=_nothing)

    def apply(
        self,
        changes: Iterable[Change],  # what a look at the store found
        load: Load,
        progress: Progress | None = None,
        *,
        before: Manifest | None = None,  # what the index said then; what was saved since stays
        seen: Manifest | None = None,  # the whole scan; renews size and time of unchanged files
        hidden: Hidden = _nothing,  # whether the record with an id is forgotten
        meaning: bool = True,  # whether to make vectors now; the next change makes what lacks
        anew: bool = False,  # build it anew; the changes are all files
    ) -> None:
        """Update the index after a look at the store: all who ask see it grow by batches."""
        entries = {change.path: change.entry for change in changes}
        if anew:
            self._rebuild(entries, load, progress, hidden)
            return
        with self._writer(self.model if meaning else None) as writer:
            writer.date()
            writer.complete()
            writer.apply(entries, load, hidden=hidden, expected=before, progress=progress)
        touched = [
            (path, entry)
            for path, entry in (seen or {}).items()
            if path not in entries and (before or {}).get(path) != entry
        ]
        with self._changing() as database, database.writing():
            first = not database.state("built")
            database.renew(touched)
            database.note(built=1)
        if first and not self.in_memory:
            self._remove_older()

    @property
    def incomplete(self) -> bool:
        """Whether records were indexed without the model that is here."""
        with self._now() as database:
            return bool(self.model and database.lacking())

    def complete(self) -> None:
        """Make the vectors of these records."""
        if self.incomplete:
            with self._writer(self.model) as writer:
                writer.complete()

    def _remove_older(self) -> None:
        """Delete the indexes that earlier versions of filemem made of the same store."""
        import shutil  # 2 ms, for its archives; most commands build nothing

        layout = int(self.root.name.partition(".")[0])
        for name in listed(self.root.parent):
            if _FORMS.fullmatch(name) and int(name.partition(".")[0]) < layout:
                shutil.rmtree(self.root.parent / name, ignore_errors=True)

    def _rebuild(
        self,
        entries: Mapping[str, Entry | None],
        load: Load,
        progress: Progress | None,
        hidden: Hidden,
    ) -> None:
        """Build the index anew beside the one in use, which answers and takes saves until then."""
        root = self.root
        new = root / f"{NAME}.new"
        with writing(root), caches.alone(root / _LOCK) as lock:
            if not lock:
                raise Locked("another process is rebuilding the search index", "try again later")
            _remove(new)
            database = Database(new, create=True)
            database.note(**self._far_above())
            writer = Writer(database, self.model, self._dates)
            writer.apply(entries, load, hidden=hidden, progress=progress)
            database.note(built=1)
            database.close()
            try:
                with self._changing() as database:
                    database.take(new)
            except IndexDamaged:
                with self._writing:
                    self._own.close()
                    _remove(root / NAME)
                    with self._changing() as database:
                        database.take(new)
            _remove(new)

    def _far_above(self) -> dict[str, int]:
        """Where numbers and stamps of an index begin that takes the place of this one.

        Who has read of this one keeps rows by number and stamp, and it may grow meanwhile.
        """
        try:
            with self._now() as database:
                return {"last": database.last + _FAR, "stamp": database.stamp + _FAR}
        except IndexDamaged:  # then the file is replaced, and nobody keeps anything of it
            return {}

    def fold(self, *, every: bool = False, link: bool = False) -> bool:
        """Move the caches forward; return whether this process did.

        Arguments as for `caches.fold`.
        """
        if self.in_memory:
            return False
        with self._changing() as database:
            return caches.fold(database, self.root, every=every, link=link)

    @property
    def behind(self) -> int:
        """How many records the caches do not hold."""
        with self._now() as database:
            return len(database.young())

    @contextlib.contextmanager
    def _writer(self, model: Model | None) -> Iterator[Writer]:
        with self._changing() as database:
            yield Writer(database, model, self._dates)

    @contextlib.contextmanager
    def _changing(self) -> Iterator[Database]:
        """The database, open for changes; it is made where it is not there."""
        with self._writing:
            if self.in_memory:
                with self._lock:
                    yield self._database
                return
            inode = mark(self.root / NAME)[:1]
            if not inode or inode != self._own_inode:
                self._own.close()
                with writing(self.root):
                    self._own = Database(self.root / NAME, create=True)
                self._own_inode = mark(self.root / NAME)[:1]
            yield self._own

    def past(self, dates: Dates) -> Past:
        """Return an index of a past: it begins as this one is; its changes stay in memory."""
        return Past(self, dates)

    def rest(self) -> None:
        """Hold nothing in memory that the next question can open again."""
        with self._writing, self._lock:
            if self.in_memory or not (self._inode or self._own_inode):
                return
            self._own.close()
            self._own = Database(None)
            self._own_inode = []
            self._forget()
            # The C library keeps what is freed, 10 MB here.
            with contextlib.suppress(AttributeError, OSError):
                import ctypes

                ctypes.CDLL(None).malloc_trim(0)

    def close(self) -> None:
        """Close everything."""
        with self._writing, self._lock:
            self._own.close()
            self._own_inode = []
            self._forget()


class Past(Index):
    """The same content as an index, of which other documents stand."""

    def __init__(self, present: Index, dates: Dates) -> None:
        super().__init__(None if present.in_memory else present.root.parent, present.model, dates)

    def _connect(self, inode: list[int]) -> None:
        self._database = Database(self.root / NAME, past=True)
        self._inode = inode

    def _open(self) -> None:
        if not self._inode:  # once: what happens to the present does not change a past
            super()._open()

    @contextlib.contextmanager
    def _changing(self) -> Iterator[Database]:
        with self._writing, self._lock:
            self._open()
            yield self._database


_UNNOTED = Notes()._asdict()


def _remove(path: Path) -> None:
    """Delete a database, with what SQLite keeps beside it."""
    for end in ("", "-wal", "-shm", "-journal"):
        Path(f"{path}{end}").unlink(missing_ok=True)
