"""The index folder: its lock, its notes, and what waits in it to be folded in.

Rule: a file is written whole and renamed into place, so that a reader sees the old one or the new one. An entry of
`fresh/` is deleted only after a generation that holds it is in use: whoever lists that folder first and looks at the
generation second misses nothing.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from filemem.changes import Entry
from filemem.errors import BrokenStore
from filemem.index.document import Doc, doc_from

if TYPE_CHECKING:
    from filelock import BaseFileLock

WORDS, VECTORS, DATABASE = "words", "vectors", "index.db"
GENERATION = re.compile(r"g\d{10}")
_LOCK, _FRESH = "lock", "fresh"
_CHUNK = 1 << 20
_ENTRY = re.compile(r"[0-9]{20}-[0-9a-f]{8}\.json")
_TICK = 20_000_000  # nanoseconds; a folder changed twice within it may show one time
_README = """\
This folder is filemem's search index. Everything in it is derived from the records in the work tree and may be
deleted at any time; the next `filemem` command makes it again.

index.db      what the index was built from, what records say of each other, and which generation is in use
g0000000001/  a generation: words/ (Tantivy) and vectors/
fresh/        records that were saved but are not yet part of a generation
*.json        when the work tree was last looked at
lock          held by the process that writes
"""


class IndexDamaged(BrokenStore):
    """The index can not be used and must be rebuilt; the records are not affected."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"the search index is damaged: {what}", "run `filemem index --rebuild`; the records are not affected"
        )


def refused(number: int) -> BrokenStore:
    """Return the error for something that the system refused a library, by its number."""
    full = number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return BrokenStore(
        f"the search index can not be written or read: {os.strerror(number)}",
        f"{'free some disk space' if full else 'see what the system says'}; the records are not affected",
    )


@contextlib.contextmanager
def writing(root: Path) -> Iterator[None]:
    """Make the index folder and its explanation; turn what the system refuses into `BrokenStore`."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        if not (root / "README.md").exists():
            (root / "README.md").write_text(_README, encoding="utf-8")
        yield
    except OSError as error:
        raise BrokenStore(
            f"the index folder {root} can not be written: {error.strerror or error}",
            "make it writable, free some space, or let the index live in your cache folder",
        ) from error


def replace_file(path: Path, value: object) -> None:
    """Write a value with its checksum, at once: a power cut may leave a torn file, and what it says can be lost."""
    body = json.dumps(value).encode()
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(b"%08x\n" % zlib.crc32(body) + body)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def read_file(path: Path) -> Any:
    """Read what `replace_file` wrote; None where it is torn or gone."""
    try:
        crc, _, body = path.read_bytes().partition(b"\n")
    except OSError:
        return None
    return json.loads(body) if crc == b"%08x" % zlib.crc32(body) else None


def listed(root: Path) -> list[str]:
    """Return the names in a folder; none where there is no such folder."""
    try:
        return os.listdir(root)
    except (FileNotFoundError, NotADirectoryError):
        return []


class Seal(NamedTuple):
    """What is known of one generation without opening it.

    Args:
        name: of its folder; "" for none.
        files: name relative to that -> [inode, bytes, time, CRC-32].
        docs: documents in the words.
        missing: documents that have no vectors because the model could not be had.
    """

    name: str = ""
    files: Mapping[str, list[int]] = {}
    docs: int = 0
    missing: int = 0


def mark(path: Path) -> list[int]:
    """Return what any write to a file changes: its inode, size and time; [] where it is gone."""
    try:
        found = path.stat()
    except OSError:
        return []
    return [found.st_ino, found.st_size, found.st_mtime_ns]


def checksum(path: Path) -> int:
    """Return the CRC-32 of a file; -1 where it can not be read."""
    crc = 0
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                crc = zlib.crc32(chunk, crc)
    except OSError:
        return -1
    return crc


def compare(root: Path, seal: Seal, part: str = "", *, every: bool = False) -> None:
    """Compare the files of one part of a generation with the seal; raises `IndexDamaged`."""
    for name, (*known, crc) in seal.files.items():
        path = root / seal.name / name
        if name.startswith(part) and (every or mark(path) != known) and checksum(path) != crc:
            raise IndexDamaged(f"{seal.name}/{name} does not match its checksum")


class Notes(NamedTuple):
    """Where HEAD was, and what the work tree looked like, when the index was last found right.

    Losing them costs one full look at the store, never an answer.

    Args:
        looked: when every file was looked at last, in nanoseconds since 1970.
        cost: how long that took, in nanoseconds.
        forgotten: what the tombstones were then, in the caller's words.
    """

    head: str = ""
    looked: int = 0
    cost: int = 0
    forgotten: str = ""


class Noted:
    """A value in a file of its own, read again whenever the file changed; None where there is none to read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: tuple[list[int], Any] = ([], None)

    def get(self) -> Any:
        """Return the value."""
        if (there := mark(self._path)) != self._read[0]:
            self._read = there, read_file(self._path)
        return self._read[1]

    def put(self, value: object) -> None:
        """Replace the value; raises `BrokenStore` where the folder can not be written."""
        with writing(self._path.parent):
            replace_file(self._path, value)
        self._read = mark(self._path), value


class WriterLock:
    """The right to write to an index folder; ends with the process at the latest.

    Whoever can not have it at once does something else. A lock on a file that was deleted keeps nobody out: it is none.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock: BaseFileLock | None = None
        self._file = -1  # inode of the file that is locked

    @property
    def held(self) -> bool:
        """Whether this object holds it."""
        return self._lock is not None and self._file == self._there()

    def acquire(self) -> bool:
        """Take the lock if nobody has it; return whether it is ours now."""
        if self.held:
            return True
        self.release()
        from filelock import FileLock, Timeout  # noqa: PLC0415 - costs more than a search, which never locks

        with writing(self._root):
            (self._root / _LOCK).touch()
            self._file = self._there()
            lock = FileLock(self._root / _LOCK, timeout=0, thread_local=False)
            try:
                lock.acquire()
            except Timeout:
                return False
        self._lock = lock
        if not self.held:  # deleted meanwhile: what we locked is not what others see
            self.release()
        return self._lock is not None

    def release(self) -> None:
        """Let others have it."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _there(self) -> int:
        try:
            return (self._root / _LOCK).stat().st_ino
        except OSError:
            return -2


class Item(NamedTuple):
    """One entry that waits: a document put in place of any other of its path, or a path that is gone (no `doc`).

    One without a path cannot be read: the file itself is still there, and the next look at the store finds it.
    """

    name: str
    path: str = ""
    doc: Doc | None = None
    entry: Entry | None = None

    @property
    def file(self) -> Entry | None:
        """The file as the save left it, as far as is known; None where it is gone."""
        return self.entry or (Entry(self.doc.blob) if self.doc else None)

    @property
    def saved(self) -> int:
        """When it was saved, in nanoseconds since 1970."""
        return int(self.name.partition("-")[0])


class Fresh:
    """What waits, as this process knows it: one immutable file a save.

    Args:
        root: the index folder.
        clock: nanoseconds since 1970.
    """

    def __init__(self, root: Path, clock: Callable[[], int]) -> None:
        self._root, self._folder, self._clock = root, root / _FRESH, clock
        self._seen = -1  # time of the folder when it was last listed, if it was old enough to be trusted
        self._items: dict[str, Item] = {}
        self._ours: dict[str, Item] = {}  # pushed by this process, which need not read them
        self._last = 0

    def push(self, path: str, doc: Doc | None, entry: Entry | None) -> None:
        """Add an entry; raises `BrokenStore` where the folder can not be written."""
        newest = max((item.saved for item in self._items.values()), default=0)
        self._last = max(self._clock(), self._last + 1, newest + 1)
        name = f"{self._last:020d}-{os.urandom(4).hex()}.json"
        with writing(self._root):
            self._folder.mkdir(exist_ok=True)
            replace_file(self._folder / name, {"path": path, "doc": doc, "entry": entry})
        self._ours[name] = Item(name, path, doc, entry)

    def items(self) -> tuple[Item, ...]:
        """Return the entries that wait now, oldest first."""
        try:
            changed = self._folder.stat().st_mtime_ns
        except OSError:
            changed = -2
        if changed != self._seen:
            self._seen = changed if self._clock() - changed > _TICK else -1
            known = self._items | self._ours
            names = sorted(filter(_ENTRY.fullmatch, listed(self._folder)))
            loaded = (known.get(name) or self._load(name) for name in names)
            self._items, self._ours = {item.name: item for item in loaded if item is not None}, {}
        return tuple(self._items.values())

    def forget(self, items: Iterable[Item]) -> None:
        """Delete entries that a generation in use holds."""
        for item in items:
            with contextlib.suppress(IsADirectoryError):
                (self._folder / item.name).unlink(missing_ok=True)
        self._seen = -1

    def _load(self, name: str) -> Item | None:
        """Read an entry; None where it was just folded in."""
        found = read_file(self._folder / name)
        if found is None:
            return Item(name) if (self._folder / name).exists() else None
        doc = doc_from(found["doc"]) if found["doc"] else None
        return Item(name, found["path"], doc, Entry(*found["entry"]) if found["entry"] else None)


def latest(items: Iterable[Item]) -> dict[str, Item]:
    """Return the last word on each path."""
    return {item.path: item for item in items if item.path}
