"""The caches of `index.db`: Tantivy's words and files of vectors, moved forward when there is time.

Rule: the database says of each document whether they hold it, and states the checksums of their
files. Files that do not match are not asked, and the next fold makes them anew; until then, and for
what they do not hold, the rows of the database answer, with the same scores.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
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
ROWS_SUFFIX = ".rows"  # files of vectors
USEARCH_SUFFIX = ".usearch"  # what usearch needs beside them
UNUSED_RATIO = 3  # contents are kept beyond those that stand, up to so many times as many
_BATCH_SIZE = 1_000  # documents read from the database at a time
_LOCK_TIMEOUT = 5.0  # seconds that a question waits for who folds
_PAUSE = 0.01
_LOCK_NAME = "caches.lock"
Seal = dict[str, list[int]]  # name of a file -> [inode, bytes, time, CRC-32]


class Caches:
    """What one process has open of the caches in a folder."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._seal_text = ""
        self._parts: list[tuple[VectorSet, Any]] | None = None
        self._uses_usearch = False  # whether they were opened for usearch
        self.words = words.build_empty_index()
        self.is_usable = False  # whether they are asked

    def reopen_if_changed(self, seal_text: str) -> bool:
        """Open what the database states; return whether that is another state than before."""
        if seal_text == self._seal_text:
            return False
        self._seal_text = seal_text
        self._parts = None
        seal = json.loads(seal_text or "{}")
        self.is_usable = bool(seal) and not list_damaged_files(self._root, seal)
        self.words = (
            words.WordIndex(self._root / WORDS) if self.is_usable else words.build_empty_index()
        )
        return True

    @property
    def is_damaged(self) -> bool:
        """Whether files are stated that cannot be asked."""
        return bool(self._seal_text) and not self.is_usable

    def invalidate(self) -> None:
        """Look at the files again at the next question."""
        self._seal_text = ""

    def wait_for_update(self) -> bool:
        """Wait for another process that folds; return whether one did."""
        deadline = time.monotonic() + _LOCK_TIMEOUT
        has_waited = False
        with contextlib.suppress(OSError):  # nobody folds where nothing can be written
            while time.monotonic() < deadline:
                with exclusive_lock(self._root / _LOCK_NAME) as lock:
                    if lock:
                        return has_waited
                has_waited = True
                time.sleep(_PAUSE)
        return has_waited

    def load_parts(self) -> Sequence[tuple[VectorSet, Any]]:
        """Return the files of vectors, each with its usearch index, if it has one."""
        from filemem.index import vectors

        if self._parts is None or self._uses_usearch != vectors.is_usearch_loaded():
            self._parts = []
            self._uses_usearch = vectors.is_usearch_loaded()
            names = json.loads(self._seal_text or "{}") if self.is_usable else {}
            for name in sorted(name for name in names if name.endswith(ROWS_SUFFIX)):
                usearch_name = name.removesuffix(ROWS_SUFFIX) + USEARCH_SUFFIX
                path = self._root / name
                by_usearch = self._uses_usearch and usearch_name in names
                index = (
                    vectors.open_usearch_index(path.with_suffix(USEARCH_SUFFIX))
                    if by_usearch
                    else None
                )
                self._parts.append((vectors.read_segment(path), index))
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
    """Return the files that do not match their checksums; `every`: read untouched ones too."""
    return [
        name
        for name, (*state, crc) in seal.items()
        if (check_all or read_file_stamp(root / name) != state)
        and compute_checksum(root / name) != crc
    ]


def update_caches(
    database: Database, root: Path, *, check_all: bool = False, with_usearch: bool = False
) -> bool:
    """Move the caches forward to what stands now; return whether this process did.

    What is gone stays in them, masked, so that a checkout back costs nothing, until it is more than
    what is there: then they are made anew. `every`: read all of their files for damage; `link`: let
    usearch compare their vectors from now on.
    Raises BrokenStore, IndexDamaged.
    """
    with writable_folder(root), exclusive_lock(root / _LOCK_NAME) as lock:
        if lock:
            _update_locked_caches(database, root, check_all=check_all, with_usearch=with_usearch)
        return bool(lock)


def _update_locked_caches(
    database: Database, root: Path, *, check_all: bool, with_usearch: bool
) -> None:
    """Fold as the only one that does."""
    with database.snapshot():
        old_seal: Seal = json.loads(database.read_state("caches") or "{}")
        is_rebuild = _needs_rebuild(database, root, old_seal, check_all=check_all)
        numbers = sorted(
            database.read_visible_numbers() if is_rebuild else database.read_uncached_numbers()
        )
        if not numbers and not old_seal:
            return  # what others know of the caches stays true
        seal = {} if is_rebuild else old_seal
        _write_caches(database, root, numbers, seal, with_usearch=with_usearch)
    new_seal = {name: _compute_seal(root, name, seal.get(name)) for name in _iter_files(root)}
    if is_rebuild or new_seal != seal:
        with database.transaction():
            database.mark_cached(numbers, replace_all=is_rebuild)
            database.write_state(caches=json.dumps(new_seal))
            database.delete_unused(UNUSED_RATIO * database.count_documents())
            database.advance_stamp()
        database.truncate_log()


def _needs_rebuild(database: Database, root: Path, seal: Seal, *, check_all: bool) -> bool:
    """Whether the caches are missing, damaged, or hold more that is gone than what is there."""
    is_mostly_masked = len(database.read_masked_numbers()) > database.count_documents()
    return not seal or is_mostly_masked or bool(list_damaged_files(root, seal, check_all=check_all))


def _write_caches(
    database: Database, root: Path, numbers: Sequence[int], seal: Seal, *, with_usearch: bool
) -> None:
    """Add documents to the files that a seal states; to none where it states none."""
    if not seal:
        import shutil  # with its archives, which no search needs

        for part in (WORDS, VECTORS):
            shutil.rmtree(root / part, ignore_errors=True)
    if numbers:
        _add_words(database, root / WORDS, numbers)
    packs = database.read_packs(numbers)
    if packs or with_usearch:
        from filemem.index import vectors

        vectors.add_segment(
            root / VECTORS, packs, [name for name in seal if name.endswith(ROWS_SUFFIX)]
        )
        if with_usearch:
            vectors.write_usearch_indexes(root / VECTORS)


def _iter_files(root: Path) -> Iterator[str]:
    """The names of the files of both caches."""
    for part in (WORDS, VECTORS):
        for name in list_names(root / part):
            if not name.endswith((".lock", ".tmp")):
                yield f"{part}/{name}"


def _compute_seal(root: Path, name: str, before: list[int] | None) -> list[int]:
    stamp = read_file_stamp(root / name)
    return before if before and before[:-1] == stamp else [*stamp, compute_checksum(root / name)]


def _add_words(database: Database, folder: Path, numbers: Sequence[int]) -> None:
    folder.mkdir(exist_ok=True)

    def iter_documents() -> Iterator[tuple[int, str]]:
        remaining = iter(numbers)
        while chunk := list(islice(remaining, _BATCH_SIZE)):
            yield from database.read_tokens(chunk).items()

    words.add_documents(folder, iter_documents())


@contextlib.contextmanager
def exclusive_lock(path: Path) -> Iterator[IO[bytes] | None]:
    """Be the only one that holds a lock; yields None where another does. Raises OSError."""
    with contextlib.ExitStack() as stack:
        try:
            lock = stack.enter_context(path.open("ab"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        yield lock
