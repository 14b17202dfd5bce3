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
from filemem.index.folder import checksum, listed, mark, writing

if TYPE_CHECKING:
    from filemem.index.vectors import Rows

WORDS = "words"
VECTORS = "vectors"
ROWS = ".rows"  # files of vectors
LINKED = ".usearch"  # what usearch needs beside them
UNUSED = 3  # contents are kept beyond those that stand, up to so many times as many
_CHUNK = 1_000  # documents read from the database at a time
_PATIENCE = 5.0  # seconds that a question waits for who folds
_PAUSE = 0.01
_LOCK = "caches.lock"
Seal = dict[str, list[int]]  # name of a file -> [inode, bytes, time, CRC-32]


class Caches:
    """What one process has open of the caches in a folder."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._stated = ""
        self._parts: list[tuple[Rows, Any]] | None = None
        self._linked = False  # whether they were opened for usearch
        self.words = words.nothing()
        self.sound = False  # whether they are asked

    def follow(self, stated: str) -> bool:
        """Open what the database states; return whether that is another state than before."""
        if stated == self._stated:
            return False
        self._stated = stated
        self._parts = None
        seal = json.loads(stated or "{}")
        self.sound = bool(seal) and not damaged(self._root, seal)
        self.words = words.Words(self._root / WORDS) if self.sound else words.nothing()
        return True

    @property
    def lacks(self) -> bool:
        """Whether files are stated that cannot be asked."""
        return bool(self._stated) and not self.sound

    def forget(self) -> None:
        """Look at the files again at the next question."""
        self._stated = ""

    def awaited(self) -> bool:
        """Wait for another process that folds; return whether one did."""
        stop = time.monotonic() + _PATIENCE
        waited = False
        with contextlib.suppress(OSError):  # nobody folds where nothing can be written
            while time.monotonic() < stop:
                with alone(self._root / _LOCK) as lock:
                    if lock:
                        return waited
                waited = True
                time.sleep(_PAUSE)
        return waited

    def parts(self) -> Sequence[tuple[Rows, Any]]:
        """Return the files of vectors, each with its usearch index, if it has one."""
        from filemem.index import vectors

        if self._parts is None or self._linked != vectors.is_loaded():
            self._parts = []
            self._linked = vectors.is_loaded()
            names = json.loads(self._stated or "{}") if self.sound else {}
            for name in sorted(name for name in names if name.endswith(ROWS)):
                beside = name.removesuffix(ROWS) + LINKED
                path = self._root / name
                by_usearch = self._linked and beside in names
                index = vectors.linked(path.with_suffix(LINKED)) if by_usearch else None
                self._parts.append((vectors.read(path), index))
        return self._parts


def damaged(root: Path, seal: Seal, *, every: bool = False) -> list[str]:
    """Return the files that do not match their checksums; `every`: read untouched ones too."""
    return [
        name
        for name, (*state, crc) in seal.items()
        if (every or mark(root / name) != state) and checksum(root / name) != crc
    ]


def fold(database: Database, root: Path, *, every: bool = False, link: bool = False) -> bool:
    """Move the caches forward to what stands now; return whether this process did.

    What is gone stays in them, masked, so that a checkout back costs nothing, until it is more than
    what is there: then they are made anew. `every`: read all of their files for damage; `link`: let
    usearch compare their vectors from now on.
    Raises BrokenStore, IndexDamaged.
    """
    with writing(root), alone(root / _LOCK) as lock:
        if lock:
            _fold(database, root, every=every, link=link)
        return bool(lock)


def _fold(database: Database, root: Path, *, every: bool, link: bool) -> None:
    """Fold as the only one that does."""
    with database.reading():
        before: Seal = json.loads(database.state("caches") or "{}")
        anew = _must_begin_anew(database, root, before, every=every)
        numbers = sorted(database.visible() if anew else database.young())
        if not numbers and not before:
            return  # what others know of the caches stays true
        seal = {} if anew else before
        _write(database, root, numbers, seal, link=link)
    after = {name: _sealed(root, name, seal.get(name)) for name in _files(root)}
    if anew or after != seal:
        with database.writing():
            database.note_cached(numbers, anew=anew)
            database.note(caches=json.dumps(after))
            database.drop_unused(UNUSED * database.size())
            database.next_stamp()
        database.shrink()


def _must_begin_anew(database: Database, root: Path, seal: Seal, *, every: bool) -> bool:
    """Whether the caches are missing, damaged, or hold more that is gone than what is there."""
    dead = len(database.masked()) > database.size()
    return not seal or dead or bool(damaged(root, seal, every=every))


def _write(
    database: Database, root: Path, numbers: Sequence[int], seal: Seal, *, link: bool
) -> None:
    """Add documents to the files that a seal states; to none where it states none."""
    if not seal:
        import shutil  # with its archives, which no search needs

        for part in (WORDS, VECTORS):
            shutil.rmtree(root / part, ignore_errors=True)
    if numbers:
        _add_words(database, root / WORDS, numbers)
    packs = database.packs(numbers)
    if packs or link:
        from filemem.index import vectors

        vectors.extend(root / VECTORS, packs, [name for name in seal if name.endswith(ROWS)])
        if link:
            vectors.link_all(root / VECTORS)


def _files(root: Path) -> Iterator[str]:
    """The names of the files of both caches."""
    for part in (WORDS, VECTORS):
        for name in listed(root / part):
            if not name.endswith((".lock", ".tmp")):
                yield f"{part}/{name}"


def _sealed(root: Path, name: str, before: list[int] | None) -> list[int]:
    now = mark(root / name)
    return before if before and before[:-1] == now else [*now, checksum(root / name)]


def _add_words(database: Database, folder: Path, numbers: Sequence[int]) -> None:
    folder.mkdir(exist_ok=True)

    def documents() -> Iterator[tuple[int, str]]:
        left = iter(numbers)
        while chunk := list(islice(left, _CHUNK)):
            yield from database.tokens(chunk).items()

    words.add(folder, documents())


@contextlib.contextmanager
def alone(path: Path) -> Iterator[IO[bytes] | None]:
    """Be the only one that holds a lock; yields None where another does. Raises OSError."""
    with contextlib.ExitStack() as stack:
        try:
            lock = stack.enter_context(path.open("ab"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        yield lock
