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
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from filemem.index import words
from filemem.index.database import Database
from filemem.index.storage import compute_checksum, list_names, read_file_stamp, writable_folder

if TYPE_CHECKING:
    from filemem.index.vectors import VectorSet

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
