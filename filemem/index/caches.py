"""The caches of `index.db`: a Tantivy index and files of vectors, updated when there is time.

The database notes which documents they have, and the checksums of their files. Files that do not
match are ignored until the next update makes them again. Meanwhile, and for documents that the
caches lack, searches use the rows of the database, which give the same scores.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from filemem.index import words
from filemem.index.database import Database
from filemem.index.lookup import IndexReader
from filemem.index.storage import compute_checksum, list_names, read_file_stamp, writable_folder

if TYPE_CHECKING:
    from filemem.index.vectors import VectorSet

NOT_BUILT = "the search index is not built yet"
WORDS = "words"
VECTORS = "vectors"
ROWS_SUFFIX = ".rows"  # of files of vectors
USEARCH_SUFFIX = ".usearch"  # of the usearch indexes beside them
UNUSED_RATIO = 3  # how many documents may be kept that no longer stand, for each that does
_BATCH_SIZE = 1_000  # documents read from the database at a time
_LOCK_TIMEOUT = 5.0  # seconds that a search waits for an update by another process
_PAUSE = 0.01
_LOCK_NAME = "caches.lock"
Seal = dict[str, list[int]]  # name of a file -> [inode, bytes, time, CRC-32]


class Caches:
    """The caches in a folder, opened by one process."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._seal_text = ""
        self._parts: list[tuple[VectorSet, Any]] | None = None
        self._uses_usearch = False  # whether `_parts` were loaded with their usearch indexes
        self.words = words.build_empty_index()
        self.is_usable = False

    def reopen_if_changed(self, seal_text: str) -> bool:
        """Open the files of a seal; return whether it differs from the one before."""
        if seal_text == self._seal_text:
            return False
        self._seal_text = seal_text
        self._parts = None
        seal = json.loads(seal_text or "{}")
        self.is_usable = bool(seal) and not list_damaged_files(self._root, seal)
        if self.is_usable:
            self.words = words.WordIndex(self._root / WORDS)
        else:
            self.words = words.build_empty_index()
        return True

    @property
    def is_damaged(self) -> bool:
        """Whether there should be files, but they cannot be used."""
        return bool(self._seal_text) and not self.is_usable

    def invalidate(self) -> None:
        """Make the next question open the files again."""
        self._seal_text = ""

    def wait_for_update(self) -> bool:
        """Wait for an update by another process; return whether there was one."""
        deadline = time.monotonic() + _LOCK_TIMEOUT
        has_waited = False
        with contextlib.suppress(OSError):  # without write permission nobody updates
            while time.monotonic() < deadline:
                with exclusive_lock(self._root / _LOCK_NAME) as lock:
                    if lock:
                        return has_waited
                has_waited = True
                time.sleep(_PAUSE)
        return has_waited

    def load_parts(self) -> Sequence[tuple[VectorSet, Any]]:
        """Return the vectors of each file, with its usearch index or None."""
        from filemem.index import vectors

        uses_usearch = vectors.is_usearch_loaded()
        if self._parts is not None and self._uses_usearch == uses_usearch:
            return self._parts
        self._parts = []
        self._uses_usearch = uses_usearch
        names = json.loads(self._seal_text or "{}") if self.is_usable else {}
        for name in sorted(names):
            if not name.endswith(ROWS_SUFFIX):
                continue
            index = None
            if uses_usearch and name.removesuffix(ROWS_SUFFIX) + USEARCH_SUFFIX in names:
                index_path = (self._root / name).with_suffix(USEARCH_SUFFIX)
                index = vectors.open_usearch_index(index_path)
            self._parts.append((vectors.read_segment(self._root / name), index))
        return self._parts


class CachedReader(IndexReader):
    """An open index that knows which documents the caches have, and which they lack."""

    def _reset(self) -> None:
        super()._reset()
        self._caches = Caches(self.root)
        self._stamp = 0  # of the database when the fields below were read
        self._missing_vector_count = 0
        self._masked_numbers: set[int] = set()
        self._uncached_numbers: set[int] = set()
        # Of records that the caches lack:
        self._token_cache: dict[int, Mapping[str, Sequence[str]]] = {}
        self._uncached_vectors: tuple[frozenset[int], VectorSet] | None = None

    @contextlib.contextmanager
    def _search_snapshot(self) -> Iterator[Database]:
        """See one state of the database and its caches. Raises IndexDamaged."""
        with self._lock:
            for may_retry in (True, False):
                self._open()
                with self._database.snapshot():
                    self._refresh_state()
                    # Another process may just be replacing the files of the caches.
                    is_outdated = may_retry and self._caches.is_damaged
                    if not (is_outdated and self._caches.wait_for_update()):
                        yield self._database
                        return
                self._caches.invalidate()
                self._stamp = -1

    def _refresh_state(self) -> None:
        """Read what has changed since the last question."""
        database = self._database
        stamp = database.stamp
        if stamp == self._stamp:
            return
        has_reopened = self._caches.reopen_if_changed(database.read_state("caches") or "")
        if has_reopened or self._stamp <= 0:
            self._load_cache_state(database)
        else:
            self._apply_standing_changes(database)
        for number in list(self._token_cache):
            if number not in self._uncached_numbers:
                del self._token_cache[number]
        self._missing_vector_count = database.count_missing_vectors()
        self._stamp = stamp

    def _load_cache_state(self, database: Database) -> None:
        """Read which documents the caches have, and which they lack."""
        if self._caches.is_usable:
            self._masked_numbers = database.read_masked_numbers()
            self._uncached_numbers = database.read_uncached_numbers()
        else:
            self._masked_numbers = set()
            self._uncached_numbers = database.read_visible_numbers()
        self._token_cache = {}

    def _apply_standing_changes(self, database: Database) -> None:
        """Read which documents have come or gone since the last question."""
        for change in database.read_standing_changes(self._stamp):
            number = change.number
            self._masked_numbers.discard(number)
            self._uncached_numbers.discard(number)
            is_cached = change.is_cached and self._caches.is_usable
            if is_cached and not change.is_visible:
                self._masked_numbers.add(number)
            elif change.is_visible and not is_cached:
                self._uncached_numbers.add(number)

    def _read_tokens(self, number: int) -> Mapping[str, Sequence[str]]:
        """Return the tokens of a record that the caches lack.

        The first call reads those of all such records at once.
        """
        if number not in self._token_cache:
            missing_numbers = self._uncached_numbers - self._token_cache.keys()
            for missing_number, text in self._database.read_tokens(missing_numbers).items():
                self._token_cache[missing_number] = words.parse_exact_tokens(text)
        return self._token_cache[number]

    def _describe_gap(self, mode: str) -> str | None:
        """Return what the index lacks for a mode of search; None if it is complete."""
        if not self._database.read_state("built"):
            return NOT_BUILT
        count = self._missing_vector_count
        if not count or mode == "keyword":
            return None
        subject = "1 record has" if count == 1 else f"{count} records have"
        return f"{subject} no vectors; run `filemem index`"


def list_damaged_files(root: Path, seal: Seal, *, check_all: bool = False) -> list[str]:
    """Return the files that do not match their checksums.

    `check_all`: read also the files whose size and time have not changed.
    """
    damaged = []
    for name, (*stamp, checksum) in seal.items():
        path = root / name
        is_suspect = check_all or read_file_stamp(path) != stamp
        if is_suspect and compute_checksum(path) != checksum:
            damaged.append(name)
    return damaged


def update_caches(
    database: Database, root: Path, *, check_all: bool = False, with_usearch: bool = False
) -> bool:
    """Add to the caches what they lack; return False if another process is doing it.

    Deleted documents stay in the caches, masked, so that a checkout back is cheap. When they are
    more than the present ones, the caches are made again.

    Args:
        database: of the index.
        root: folder of the index.
        check_all: whether to read all files to find damage.
        with_usearch: whether to write usearch indexes.

    Raises:
        BrokenStore, IndexDamaged.
    """
    with writable_folder(root), exclusive_lock(root / _LOCK_NAME) as lock:
        if lock:
            _update_locked_caches(database, root, check_all=check_all, with_usearch=with_usearch)
        return bool(lock)


def _update_locked_caches(
    database: Database, root: Path, *, check_all: bool, with_usearch: bool
) -> None:
    with database.snapshot():
        old_seal: Seal = json.loads(database.read_state("caches") or "{}")
        is_rebuild = _needs_rebuild(database, root, old_seal, check_all=check_all)
        if is_rebuild:
            numbers = sorted(database.read_visible_numbers())
        else:
            numbers = sorted(database.read_uncached_numbers())
        if not numbers and not old_seal:
            return
        seal = {} if is_rebuild else old_seal
        _write_caches(database, root, numbers, seal, with_usearch=with_usearch)
    new_seal = _compute_seal(root, seal)
    if not is_rebuild and new_seal == seal:
        return
    with database.transaction():
        database.mark_cached(numbers, replace_all=is_rebuild)
        database.write_state(caches=json.dumps(new_seal))
        database.delete_unused(UNUSED_RATIO * database.count_documents())
        database.advance_stamp()
    database.truncate_log()


def _needs_rebuild(database: Database, root: Path, seal: Seal, *, check_all: bool) -> bool:
    """Whether the caches are missing or damaged, or most of their documents are deleted."""
    masked_count = len(database.read_masked_numbers())
    if not seal or masked_count > database.count_documents():
        return True
    return bool(list_damaged_files(root, seal, check_all=check_all))


def _write_caches(
    database: Database, root: Path, numbers: Sequence[int], seal: Seal, *, with_usearch: bool
) -> None:
    """Add documents to the caches; without a seal, after deleting their files."""
    if not seal:
        import shutil  # imports archive modules, which no search needs

        for part in (WORDS, VECTORS):
            shutil.rmtree(root / part, ignore_errors=True)
    if numbers:
        _add_words(database, root / WORDS, numbers)
    packs = database.read_packs(numbers)
    if packs or with_usearch:
        from filemem.index import vectors

        segment_names = [name for name in seal if name.endswith(ROWS_SUFFIX)]
        vectors.add_segment(root / VECTORS, packs, segment_names)
        if with_usearch:
            vectors.write_usearch_indexes(root / VECTORS)


def _iter_files(root: Path) -> Iterator[str]:
    """Yield the names of the files of both caches, relative to the folder."""
    for part in (WORDS, VECTORS):
        for name in list_names(root / part):
            if not name.endswith((".lock", ".tmp")):
                yield f"{part}/{name}"


def _compute_seal(root: Path, old_seal: Seal) -> Seal:
    """Return the seal of the files of both caches; only changed files are read."""
    seal: Seal = {}
    for name in _iter_files(root):
        stamp = read_file_stamp(root / name)
        if name in old_seal and old_seal[name][:-1] == stamp:
            seal[name] = old_seal[name]
        else:
            seal[name] = [*stamp, compute_checksum(root / name)]
    return seal


def _add_words(database: Database, folder: Path, numbers: Sequence[int]) -> None:
    folder.mkdir(exist_ok=True)
    words.add_documents(folder, _iter_tokens(database, numbers))


def _iter_tokens(database: Database, numbers: Sequence[int]) -> Iterator[tuple[int, str]]:
    """Yield documents as number and exact tokens."""
    for start in range(0, len(numbers), _BATCH_SIZE):
        yield from database.read_tokens(numbers[start : start + _BATCH_SIZE]).items()


@contextlib.contextmanager
def exclusive_lock(path: Path) -> Iterator[IO[bytes] | None]:
    """Hold a lock file; yield None if another process holds it. Raises OSError."""
    with contextlib.ExitStack() as stack:
        try:
            lock = stack.enter_context(path.open("ab"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        yield lock
