"""Git objects: reading them through one lasting `cat-file`, writing them as loose files.

A loose object is a header and the data, compressed, under the name of its hash. Where the repository asks for more
than that (`loose=False`) Git writes them, one process each.
"""

from __future__ import annotations

import os
import re
import threading
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from filemem.changes import object_id
from filemem.errors import BrokenStore
from filemem.repo import trees
from filemem.repo.disk import write_all
from filemem.repo.git import PROMISED, Git, GitError
from filemem.repo.helper import Helper
from filemem.repo.loose import Loose, publish
from filemem.repo.stamps import millis

_REMEMBERED = 64  # trees
_CHUNK = 1 << 16  # bytes that are passed over at once
CROWDED = 3_500  # loose objects that are worth a pack: some five hundred saves
_ID = re.compile(r"[0-9a-f]{40,64}")
_MADE = re.compile(rb"^committer .* (-?\d+) [+-]\d{4}$", re.MULTILINE)
_LEVEL = 1  # of zlib: what Git uses for loose objects too


class Object(NamedTuple):
    """An object as read."""

    oid: str
    kind: str
    data: bytes

    @property
    def tree(self) -> str:
        """The id of a commit's tree."""
        return self.data[5 : self.data.index(b"\n")].decode()

    @property
    def parents(self) -> tuple[str, ...]:
        """The ids of a commit's parents."""
        lines = self.data.partition(b"\n\n")[0].split(b"\n")
        return tuple(line[7:].decode() for line in lines if line.startswith(b"parent "))

    @property
    def made(self) -> int:
        """When a commit was made, in epoch milliseconds; 0 where it states no time."""
        stated = _MADE.search(self.data)
        return millis(stated[1]) if stated else 0


@dataclass(slots=True)
class Objects:
    """The object database of one repository.

    Args:
        git: runs Git there.
        hash_name: object format, "sha1" or "sha256".
        loose: whether we write loose objects ourselves.
    """

    git: Git
    hash_name: str
    loose: bool
    _reader: Helper | None = None
    _trees: dict[str, trees.Tree] = field(default_factory=dict)  # least recently used first
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def warm(self) -> None:
        """Start the reader now, so that it is ready when needed."""
        with self._lock:
            self._running()

    def read(self, name: str, most: int | None = None) -> Object | None:
        """Read an object by id or by a name like `HEAD`; None where there is none, or it has more than `most` bytes."""
        if "\n" in name or "\0" in name:
            return None
        with self._lock:
            try:
                return self._ask(name, most)
            except GitError:  # the reader was killed, or died of a repository changed under it: once more
                self._stop()
            try:
                return self._ask(name, most)
            except GitError as error:
                self._stop()
                if PROMISED in error.stderr:
                    return None
                raise

    def read_all(self, oids: Sequence[str]) -> list[Object]:
        """Read a few dozen objects by id, asked for together: an answer for each takes longer than all reading."""
        with self._lock:
            try:
                return self._ask_all(oids)
            except GitError:
                self._stop()
        # One that a partial clone lacks ends the reader: what is there is found one by one.
        return [found for oid in oids if (found := self.read(oid)) is not None]

    @property
    def width(self) -> int:
        """Size of an object id in bytes."""
        return len(bytes.fromhex(object_id("blob", b"", self.hash_name)))

    def write(self, kind: str, data: bytes) -> str:
        """Write an object durably, and return its id. Raises BrokenStore."""
        loose = self.prepare(kind, data)
        try:
            publish([loose])
        finally:
            loose.discard()
        return loose.oid

    def heal(self, objects: Mapping[str, bytes]) -> int:
        """Put objects back that are missing or damaged, from their packed form; returns how many."""
        again = [self.restore(oid, packed) for oid, packed in objects.items() if not self.sound(oid)]
        try:
            publish(again)
        finally:
            for loose in again:
                loose.discard()
        return len(again)

    def existing(self, oid: str) -> Loose:
        """An object that Git has just written, in the form of one we wrote.

        Raises:
            BrokenStore: it is not there.
        """
        found = self.read(oid)
        if found is None:
            raise BrokenStore(f"Git did not keep the object {oid}", "run `git fsck`")
        return Loose(oid, _pack(found.kind, found.data), self._target(oid))

    def tree(self, oid: str) -> trees.Tree:
        """A tree; the last ones are remembered, since an id never changes its meaning.

        Raises:
            BrokenStore: it is not there.
        """
        tree = self._trees.pop(oid, None)
        if tree is None:
            found = self.read(oid)
            if found is None or found.kind != "tree":
                raise BrokenStore(f"the repository lacks the tree {oid}", "run `git fsck`")
            tree = trees.parse(found.data, self.width)
        self._remember(oid, tree)
        return tree

    def keep_tree(self, data: bytes, tree: trees.Tree) -> str:
        """The id of a new tree, which is remembered for the next save."""
        oid = object_id("tree", data, self.hash_name)
        self._remember(oid, tree)
        return oid

    def _remember(self, oid: str, tree: trees.Tree) -> None:
        self._trees[oid] = tree
        while len(self._trees) > _REMEMBERED:
            del self._trees[next(iter(self._trees))]

    def prepare(self, kind: str, data: bytes) -> Loose:
        """Write an object aside, to be synced and published with others.

        Raises:
            BrokenStore: the disk or Git refuses.
        """
        oid = object_id(kind, data, self.hash_name)
        packed = _pack(kind, data)
        if self.loose:
            return self.restore(oid, packed)
        made = self.git.run("hash-object", "-w", "-t", kind, "--stdin", input=data).decode().strip()
        if made != oid:
            raise BrokenStore(f"Git named an object {made}, expected {oid}", "report this")
        return Loose(oid, packed, self._target(oid))

    def restore(self, oid: str, packed: bytes) -> Loose:
        """Write an object aside again from its packed form."""
        target = self._target(oid)
        spool = self.git.places.object_spool
        source = spool / f".object-{os.getpid()}-{os.urandom(6).hex()}"
        loose = Loose(oid, packed, target)
        try:
            if not spool.is_dir():
                spool.mkdir(parents=True, exist_ok=True)
            loose.fd = os.open(source, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)
            loose.source = source
            write_all(loose.fd, packed)
        except OSError as error:
            loose.discard()
            raise BrokenStore(f"{source.parent}: {error.strerror}", "check space and permissions there") from None
        return loose

    def has(self, oid: str) -> bool:
        """Whether an object is there; what a power cut leaves of one is empty."""
        try:
            return self._target(oid).stat().st_size > 0
        except OSError:
            return self.read(oid) is not None

    def sound(self, oid: str) -> bool:
        """Whether an object is there and whole."""
        try:
            packed = self._target(oid).read_bytes()
            header, _, data = zlib.decompress(packed).partition(b"\0")
            return object_id(header.split()[0].decode(), data, self.hash_name) == oid
        except FileNotFoundError:
            return self.read(oid) is not None
        except (OSError, zlib.error, IndexError, UnicodeDecodeError):
            return False

    def maintain(self) -> None:
        """Pack loose objects where there are many; never removes what nothing points to."""
        sample = self.git.places.common_dir / "objects" / "17"  # one folder of 256, as `git gc --auto` counts
        if sample.is_dir() and sum(1 for _ in sample.iterdir()) >= CROWDED // 256:
            self.git.run("maintenance", "run", "--quiet", "--task=loose-objects", limit=300)

    def close(self) -> None:
        """Let the reader end."""
        with self._lock:
            self._stop()

    def _target(self, oid: str) -> Path:
        return self.git.places.common_dir / "objects" / oid[:2] / oid[2:]

    def _ask_all(self, oids: Sequence[str]) -> list[Object]:
        reader = self._running()
        reader.send("".join(f"{oid}\n" for oid in oids).encode())
        return [found for found in (self._answer(reader) for _ in oids) if found is not None]

    def _ask(self, name: str, most: int | None) -> Object | None:
        if self._reader is not None and not _ID.fullmatch(name) and self._reader.outdated:
            self._stop()
        reader = self._running()
        reader.send(os.fsencode(name) + b"\n")
        return self._answer(reader, most)

    def _answer(self, reader: Helper, most: int | None = None) -> Object | None:
        answer = reader.line()
        head = answer.split(b" ")
        if len(head) != 3 or not head[2].isdigit():
            return None  # "<name> missing", "<name> ambiguous"
        size = int(head[2])
        if most is not None and size > most:
            for start in range(0, size + 1, _CHUNK):
                reader.exactly(min(_CHUNK, size + 1 - start))
            return None
        data = reader.exactly(size + 1)[:-1]
        return Object(head[0].decode(), head[1].decode(), data)

    def _running(self) -> Helper:
        if self._reader is None:
            self._reader = Helper(self.git, "cat-file", "--batch")
        return self._reader

    def _stop(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None


def _pack(kind: str, data: bytes) -> bytes:
    return zlib.compress(f"{kind} {len(data)}\0".encode() + data, _LEVEL)
