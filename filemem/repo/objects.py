"""Git objects: reading them through one lasting `cat-file`, writing them as loose files, and building trees.

A loose object is a header and the data, compressed, under the name of its hash. Where the repository asks for more
than that (`loose=False`) Git writes them, one process each. An id never changes its meaning, so trees are remembered.
"""

from __future__ import annotations

import os
import re
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from filemem.changes import object_id
from filemem.errors import BrokenStore, Conflict, FilememError
from filemem.repo.run import Git, GitError, Helper

if TYPE_CHECKING:
    from filemem.repo import Repo

FILE, FOLDER = b"100644", b"40000"
_FILES = (FILE, b"100755", b"100664")
_REMEMBERED = 64  # trees
_AT_ONCE = 64  # objects asked for together: few enough for a pipe to take the request
_CHUNK = 1 << 16  # bytes that are passed over at once
_CROWDED = 3_500  # loose objects that are worth a pack: some five hundred saves
_MKDIR_TRIES = 20  # a gc removes folders that are empty for a moment
_SIGNING = 60.0  # seconds; a passphrase may have to be typed
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


class Loose(NamedTuple):
    """An object on its way to disk, written at `source` first; `packed` is empty where Git has written it."""

    oid: str
    packed: bytes
    source: Path
    target: Path

    def write(self) -> None:
        """Write the object aside, unless it is in its place, and wait until it is on disk."""
        if self.packed:
            try:
                os.utime(self.target)  # young again: a gc that knows nothing of us keeps it
            except FileNotFoundError:
                write_synced(self.source, self.packed, 0o444)

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
    """The object database of one repository, of the format `hash_name`; `loose`: we write loose objects ourselves.

    `spool` is a folder for objects that are being written: among the others a gc would remove them at once.
    """

    def __init__(self, git: Git, spool: Path, hash_name: str, *, loose: bool) -> None:
        self.git, self.spool, self.hash_name, self.loose = git, spool, hash_name, loose
        self._folder = git.places.common_dir / "objects"
        self._reader: Helper | None = None
        self._trees: dict[str, Tree] = {}  # least recently used first
        self._root = "", ""  # the commit asked for last, and its tree
        self._lock = threading.Lock()

    # reading

    def read(self, oid: str, most: int | None = None) -> Object | None:
        """Read an object by its id; None where there is none here, or it has more than `most` bytes."""
        return next(self.read_all((oid,), most))

    def read_all(self, oids: Iterable[str], most: int | None = None) -> Iterator[Object | None]:
        """Read objects by id, one answer for each, in order; asked for in dozens."""
        rest = iter(oids)
        while batch := list(islice(rest, _AT_ONCE)):
            with self._lock:
                found = self._ask([oid for oid in batch if _ID.fullmatch(oid)], most)
            yield from map(found.get, batch)

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

    def root(self, commit: str) -> str:
        """The id of a commit's tree; "" where there is no such commit."""
        if self._root[0] != commit:
            found = self.read(commit)
            if found is None or found.kind != "commit":
                return ""
            self._root = commit, found.data[5 : found.data.index(b"\n")].decode()
        return self._root[1]

    def find(self, commit: str, path: str) -> Item | None:
        """What stands at a path in a commit, or None."""
        if not (root := self.root(commit)):
            return None
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

    def _ask(self, oids: Sequence[str], most: int | None) -> dict[str, Object | None]:
        try:
            return self._answers(oids, most)
        except GitError:  # the reader was killed, or died of what a partial clone lacks: once more, one by one
            found: dict[str, Object | None] = {}
            for oid in oids:
                try:
                    found |= self._answers((oid,), most)
                except GitError as error:
                    if not error.promised:
                        raise
            return found

    def _answers(self, oids: Sequence[str], most: int | None) -> dict[str, Object | None]:
        if not oids:
            return {}
        if self._reader is None:
            self._reader = Helper(self.git, "cat-file", "--batch")
        try:
            self._reader.send("".join(f"{oid}\n" for oid in oids).encode())
            return {oid: _answer(self._reader, most) for oid in oids}
        except GitError:
            self._stop()
            raise

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
        return self.written(oid, packed)

    def written(self, oid: str, packed: bytes = b"") -> Loose:
        """An object that Git has written, or that is yet to be published."""
        source = self.spool / f".object-{os.getpid()}-{os.urandom(6).hex()}"
        return Loose(oid, packed, source, self._folder / oid[:2] / oid[2:])

    def restore(self, made: Sequence[Loose]) -> None:
        """Write objects again that a gc has taken, which began before anything pointed to them."""
        while gone := [each for each in made if not each.target.exists() and self.read(each.oid) is None]:
            publish(gone)

    def splice(self, root: str, changes: Mapping[str, str]) -> tuple[str, list[Loose]]:
        """Build the tree that differs from `root` in some files only; modes of files that exist are kept.

        Args:
            root: the tree to start from; "" for nothing.
            changes: blob id by path; "" removes the file.

        Returns:
            The new tree's id, and the trees that are new, to be published.

        Raises:
            Conflict: something other than a file or folder stands in the way.
        """
        made: list[Loose] = []
        rows = {tuple(os.fsencode(path).split(b"/")): blob for path, blob in changes.items()}
        return self._add(self._spliced(root, rows, made), made), made

    def maintain(self) -> None:
        """Pack loose objects where there are many; never removes what nothing points to."""
        sample = self._folder / "17"  # one folder of 256, as `git gc --auto` counts
        if sample.is_dir() and sum(1 for _ in sample.iterdir()) >= _CROWDED // 256:
            self.git.run("maintenance", "run", "--quiet", "--task=loose-objects", limit=300)

    def _spliced(self, root: str, rows: Mapping[tuple[bytes, ...], str], made: list[Loose]) -> Tree:
        tree = dict(self.tree(root)) if root else {}
        for first in sorted({parts[0] for parts in rows}):
            here = tree.pop(first, None)
            deeper = {parts[1:]: blob for parts, blob in rows.items() if parts[0] == first}
            name = os.fsdecode(first)
            if () in deeper:
                if here is not None and here[0] not in _FILES:
                    raise Conflict(f"{name} is not a regular file in HEAD", "move it away first")
                if blob := deeper[()]:
                    tree[first] = (here[0] if here else FILE, bytes.fromhex(blob))
                continue
            if here is not None and here[0] != FOLDER:
                raise Conflict(f"{name} is a file or link in HEAD, not a folder", "move it away first")
            if below := self._spliced(here[1].hex() if here else "", deeper, made):
                tree[first] = (FOLDER, bytes.fromhex(self._add(below, made)))
        return tree

    def _add(self, tree: Tree, made: list[Loose]) -> str:
        # A folder sorts as if its name ended in a slash.
        rows = sorted((name + b"/" if row[0] == FOLDER else name, name, row) for name, row in tree.items())
        made.append(self.prepare("tree", b"".join(b"%b %b\0%b" % (mode, name, raw) for _, name, (mode, raw) in rows)))
        self._remember(made[-1].oid, tree)
        return made[-1].oid


def commit_object(repo: Repo, tree: str, parents: Sequence[str], text: str, at: int) -> Loose:
    """A commit of a tree that is to be published, signed where the user's configuration says so; no branch moves.

    Args:
        repo: the repository.
        tree: its files.
        parents: what it goes on from; of a merge, ours first.
        text: its message.
        at: epoch milliseconds.

    Raises:
        BadInput: Git does not know who commits.
        Conflict: it could not be signed.
    """
    author, committer = repo.identity()
    data, when = text.encode("utf-8", "replace"), _time(at)
    signing = repo.settings.signing
    if signing is None:
        lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
        lines += [f"author {author} {when}", f"committer {committer} {when}", "\n"]
        return repo.objects.prepare("commit", "\n".join(lines).encode("utf-8", "replace") + data)
    who = {"AUTHOR_NAME": author.name, "AUTHOR_EMAIL": author.email, "AUTHOR_DATE": when}
    who |= {"COMMITTER_NAME": committer.name, "COMMITTER_EMAIL": committer.email, "COMMITTER_DATE": when}
    asked = ["-S", *(part for parent in parents for part in ("-p", parent)), tree]
    config, extra = (*signing, "i18n.commitEncoding=utf-8"), {f"GIT_{key}": value for key, value in who.items()}
    try:
        made = repo.git.run("commit-tree", *asked, input=data, limit=_SIGNING, config=config, extra=extra)
    except GitError as error:
        raise Conflict(f"the commit could not be signed: {error.message}", "check your signing key") from None
    return repo.objects.written(made.decode().strip())


def _time(at: int) -> str:
    """Seconds and local offset, as Git writes them."""
    seconds = max(0, at // 1000)  # Git knows no time before 1970
    offset = time.localtime(seconds).tm_gmtoff // 60
    return f"{seconds} {'-' if offset < 0 else '+'}{abs(offset) // 60:02d}{abs(offset) % 60:02d}"


def publish(made: Sequence[Loose], *besides: Callable[[], None]) -> None:
    """Wait until objects, and whatever else is given, are on disk; then put them where Git looks for them.

    Git itself never waits for the folders of objects; a save does so before it is acknowledged.
    """
    try:
        together([*besides, *(each.write for each in made)])
        for each in made:
            each.move()
    except OSError as error:
        raise BrokenStore(f"objects: {error.strerror}", "check space and permissions there") from None
    finally:
        for each in made:
            each.source.unlink(missing_ok=True)


def write_synced(file: Path, data: bytes, mode: int) -> None:
    """Write a new file into a folder that is made if need be, and wait until its bytes are on disk."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        fd = os.open(file, flags, mode)
    except FileNotFoundError:
        file.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(file, flags, mode)
    try:
        rest = memoryview(data)
        while rest:  # the system may take them in parts
            rest = rest[os.write(fd, rest) :]
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_folder(folder: Path) -> None:
    """Wait until the listing of a folder is on disk; one that is gone needs no waiting."""
    with suppress(FileNotFoundError):
        fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def together(calls: Sequence[Callable[[], object]]) -> None:
    """Run the calls at the same time and return when all have ended; raises the first error of any."""
    errors: list[OSError | FilememError] = []

    def guarded(call: Callable[[], object]) -> None:
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
