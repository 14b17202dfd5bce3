"""Git objects: reading them through one lasting `cat-file`, writing them as loose files, and building trees.

A loose object is a header and the data, compressed, under the name of its hash. Where the repository asks for more
than that (`loose=False`) Git writes them, one process each. An id never changes its meaning, so trees are remembered.
"""

from __future__ import annotations

import os
import re
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from filemem.changes import object_id
from filemem.errors import BrokenStore, Conflict, FilememError
from filemem.repo.run import Git, GitError, Helper

FILE, FOLDER = b"100644", b"40000"
_FILES = (FILE, b"100755", b"100664")
_REMEMBERED = 64  # trees
_AT_ONCE = 64  # objects asked for together: few enough for a pipe to take the request
_CHUNK = 1 << 16  # bytes that are passed over at once
_CROWDED = 3_500  # loose objects that are worth a pack: some five hundred saves
_MKDIR_TRIES = 20  # a gc removes folders that are empty for a moment
_LEVEL = 1  # of zlib: what Git uses for loose objects too
_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_ROWS = {width: re.compile(rb"([0-7]+) ([^\0]+)\0(.{%d})" % width, re.DOTALL) for width in (20, 32)}

Tree = Mapping[bytes, tuple[bytes, bytes]]  # name -> mode and raw id


class Item(NamedTuple):
    """One row of a tree: octal mode and object id."""

    mode: bytes
    oid: str


class Object(NamedTuple):
    """An object as read."""

    oid: str
    kind: str
    data: bytes

    @property
    def tree(self) -> str:
        """The id of a commit's tree."""
        return self.data[5 : self.data.index(b"\n")].decode()


class Loose(NamedTuple):
    """An object on its way to disk: `write` it aside, then `move` it; `packed` is empty where Git has written it."""

    oid: str
    packed: bytes
    source: Path
    target: Path

    def write(self) -> None:
        """Write the object aside, unless it is in its place, and wait until it is on disk."""
        if not self.packed:
            return
        with suppress(FileNotFoundError):
            os.utime(self.target)  # young again: a gc that knows nothing of us keeps it
            return
        self.source.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(self.source, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)
        try:
            write_all(fd, self.packed)
            os.fsync(fd)
        finally:
            os.close(fd)

    def move(self) -> None:
        """Put the object where Git looks for it."""
        for _ in range(_MKDIR_TRIES):
            with suppress(FileNotFoundError):
                self.source.rename(self.target)
                return
            if not self.source.exists():
                return  # it is there
            self.target.parent.mkdir(exist_ok=True)
        raise FileNotFoundError(2, "a gc removes the folders of new objects at once")


class Objects:
    """The object database of one repository, of the format `hash_name`; `loose`: we write loose objects ourselves."""

    def __init__(self, git: Git, hash_name: str, loose: bool) -> None:
        self.git, self.hash_name, self.loose = git, hash_name, loose
        self._reader: Helper | None = None
        self._trees: dict[str, Tree] = {}  # least recently used first
        self._lock = threading.Lock()

    # reading

    def read(self, oid: str, most: int | None = None) -> Object | None:
        """Read an object by its id; None where there is none here, or it has more than `most` bytes."""
        return next(self.read_all((oid,), most))

    def read_all(self, oids: Iterable[str], most: int | None = None) -> Iterator[Object | None]:
        """Read objects by id, one answer for each, in order; asked for in dozens."""
        rest = iter(oids)
        while batch := list(islice(rest, _AT_ONCE)):
            yield from self._ask(batch, most)

    def tree(self, oid: str) -> Tree:
        """A tree. Raises BrokenStore where it is not there."""
        tree = self._trees.pop(oid, None)
        if tree is None:
            found = self.read(oid)
            if found is None or found.kind != "tree":
                raise BrokenStore(f"the repository lacks the tree {oid}", "run `git fsck`")
            tree = {name: (mode, raw) for mode, name, raw in _ROWS[len(oid) // 2].findall(found.data)}
        self._remember(oid, tree)
        return tree

    def find(self, root: str, path: str) -> Item | None:
        """What stands at a path below the tree `root`, or None."""
        item = Item(FOLDER, root)
        for part in os.fsencode(path).split(b"/"):
            found = self.tree(item.oid).get(part) if item.mode == FOLDER else None
            if found is None:
                return None
            item = Item(found[0], found[1].hex())
        return item

    def close(self) -> None:
        """Let the reader end."""
        with self._lock:
            self._stop()

    def _ask(self, oids: Sequence[str], most: int | None) -> list[Object | None]:
        known = [oid for oid in oids if _ID.fullmatch(oid)]
        if not known:
            return [None] * len(oids)
        with self._lock:
            try:
                found = self._answers(known, most)
            except GitError:  # the reader was killed, or died of what a partial clone lacks: once more, one by one
                self._stop()
                found = {}
                for oid in known:
                    try:
                        found |= self._answers((oid,), most)
                    except GitError as error:
                        self._stop()
                        if not error.promised:
                            raise
        return [found.get(oid) for oid in oids]

    def _answers(self, oids: Sequence[str], most: int | None) -> dict[str, Object | None]:
        if self._reader is None:
            self._reader = Helper(self.git, "cat-file", "--batch")
        self._reader.send("".join(f"{oid}\n" for oid in oids).encode())
        return {oid: _answer(self._reader, most) for oid in oids}

    def _stop(self) -> None:
        if self._reader is not None:
            with suppress(GitError):  # it is gone, which is what was wanted
                self._reader.close()
            self._reader = None

    def _remember(self, oid: str, tree: Tree) -> None:
        self._trees[oid] = tree
        while len(self._trees) > _REMEMBERED:
            del self._trees[next(iter(self._trees))]

    # writing

    def prepare(self, kind: str, data: bytes) -> Loose:
        """An object to be published."""
        oid = object_id(kind, data, self.hash_name)
        packed = zlib.compress(f"{kind} {len(data)}\0".encode() + data, _LEVEL)
        if not self.loose:
            self.git.run("hash-object", "-w", "-t", kind, "--stdin", input=data)
            packed = b""
        source = self.git.places.object_spool / f".object-{os.getpid()}-{os.urandom(6).hex()}"
        return Loose(oid, packed, source, self.git.places.common_dir / "objects" / oid[:2] / oid[2:])

    def restore(self, made: Sequence[Loose]) -> None:
        """Write objects again that a gc has taken, which began before anything pointed to them."""
        while gone := [each for each in made if not each.target.exists() and self.read(each.oid) is None]:
            publish(gone)

    def splice(self, root: str | None, changes: Mapping[str, str | None]) -> tuple[str, list[bytes]]:
        """Build the tree that differs from `root` in some files only; modes of files that exist are kept.

        Args:
            root: the tree to start from; None for nothing.
            changes: blob id by path; None removes the file.

        Returns:
            The new tree's id, and the trees that are new, deepest first.

        Raises:
            Conflict: something other than a file or folder stands in the way.
        """
        made: list[bytes] = []
        rows = {tuple(os.fsencode(path).split(b"/")): blob for path, blob in changes.items()}
        return self._add(self._spliced(root, rows, made), made), made

    def maintain(self) -> None:
        """Pack loose objects where there are many; never removes what nothing points to."""
        sample = self.git.places.common_dir / "objects" / "17"  # one folder of 256, as `git gc --auto` counts
        if sample.is_dir() and sum(1 for _ in sample.iterdir()) >= _CROWDED // 256:
            self.git.run("maintenance", "run", "--quiet", "--task=loose-objects", limit=300)

    def _spliced(self, root: str | None, rows: Mapping[tuple[bytes, ...], str | None], made: list[bytes]) -> Tree:
        tree = dict(self.tree(root)) if root is not None else {}
        for first in sorted({parts[0] for parts in rows}):
            here = tree.pop(first, None)
            deeper = {parts[1:]: blob for parts, blob in rows.items() if parts[0] == first}
            name = os.fsdecode(first)
            if () in deeper:
                if here is not None and here[0] not in _FILES:
                    raise Conflict(f"{name} is not a regular file in HEAD", "move it away first")
                if (blob := deeper[()]) is not None:
                    tree[first] = (here[0] if here else FILE, bytes.fromhex(blob))
                continue
            if here is not None and here[0] != FOLDER:
                raise Conflict(f"{name} is a file or link in HEAD, not a folder", "move it away first")
            if below := self._spliced(here[1].hex() if here else None, deeper, made):
                tree[first] = (FOLDER, bytes.fromhex(self._add(below, made)))
        return tree

    def _add(self, tree: Tree, made: list[bytes]) -> str:
        # A folder sorts as if its name ended in a slash.
        rows = sorted((name + b"/" if row[0] == FOLDER else name, name, row) for name, row in tree.items())
        data = b"".join(b"%b %b\0%b" % (mode, name, raw) for _, name, (mode, raw) in rows)
        made.append(data)
        oid = object_id("tree", data, self.hash_name)
        self._remember(oid, tree)
        return oid


def publish(made: Sequence[Loose], *besides: Callable[[], None]) -> None:
    """Wait until objects, and whatever else is given, are on disk; then put them where Git looks for them."""
    try:
        together([*besides, *(each.write for each in made)])
        for each in made:
            each.move()
        together([partial(sync_folder, folder) for folder in {each.target.parent for each in made}])
    except OSError as error:
        raise BrokenStore(f"objects: {error.strerror}", "check space and permissions there") from None
    finally:
        for each in made:
            each.source.unlink(missing_ok=True)


def write_all(fd: int, data: bytes) -> None:
    """Write all of some bytes to an open file; the system may take them in parts."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def sync_folder(folder: Path) -> None:
    """Wait until the listing of a folder is on disk; one that is gone needs no waiting."""
    with suppress(FileNotFoundError):
        fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def together(calls: Sequence[Callable[[], None]]) -> None:
    """Run the calls at the same time and return when all have ended; raises the first error of any."""
    errors: list[OSError | FilememError] = []

    def guarded(call: Callable[[], None]) -> None:
        try:
            call()
        except (OSError, FilememError) as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(call,)) for call in calls[1:]]
    for thread in threads:
        thread.start()
    for call in calls[:1]:
        guarded(call)
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def _answer(reader: Helper, most: int | None) -> Object | None:
    head = reader.line().split(b" ")
    if len(head) != 3 or not head[2].isdigit():
        return None  # "<name> missing"
    size = int(head[2])
    if most is not None and size > most:
        for start in range(0, size + 1, _CHUNK):
            reader.exactly(min(_CHUNK, size + 1 - start))
        return None
    return Object(head[0].decode(), head[1].decode(), reader.exactly(size + 1)[:-1])
