"""Git objects: read through one lasting `cat-file`, written as loose files, built into trees.

A loose object is a header and the data, compressed, under the name of its hash. An id never changes
its meaning, so trees are remembered.
"""

from __future__ import annotations

import os
import re
import stat
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from filemem.changes import object_id
from filemem.errors import BrokenStore, Conflict
from filemem.repo.disk import flush, write_new, write_out
from filemem.repo.modes import share
from filemem.repo.run import GitError, Helper

if TYPE_CHECKING:
    from filemem.repo import Repo

FILE = b"100644"
FOLDER = b"40000"
_FILES = (FILE, b"100755", b"100664")
_REMEMBERED = 64  # trees
_AT_ONCE = 64  # objects asked for together: few enough for a pipe to take the request
_PIECE = 1 << 20  # bytes of a large object that are passed over at a time
_CROWDED = 3_500  # loose objects that are worth a pack: some five hundred saves
_MKDIR_TRIES = 20  # a gc removes folders that are empty for a moment
_SIGNING = 60.0  # seconds; a passphrase may have to be typed
_LEVEL = 1  # of zlib: what Git uses for loose objects too
_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_ROWS = {width: re.compile(rb"([0-7]+) ([^\0]+)\0(.{%d})" % width, re.DOTALL) for width in (20, 32)}

Row = tuple[bytes, bytes]  # of a tree: octal mode and raw id
Tree = Mapping[bytes, Row]  # by name


class Item(NamedTuple):
    """One row of a tree: octal mode and object id."""

    mode: bytes
    oid: str


class Loose(NamedTuple):
    """An object on its way to disk, written at `source` first."""

    oid: str
    packed: bytes
    source: Path
    target: Path
    group: str  # see `Repo.group`

    def write(self) -> None:
        """Write the object aside, unless it is in its place."""
        try:
            os.utime(self.target)  # young again: a gc that knows nothing of us keeps it
        except FileNotFoundError:
            write_new(self.source, self.packed, 0o444)
            share(self.source, self.group)

    def move(self) -> None:
        """Put the object where Git looks for it."""
        for _ in range(_MKDIR_TRIES):
            with suppress(FileNotFoundError):
                self.source.rename(self.target)
            if not self.source.exists():
                return
            self.target.parent.mkdir(exist_ok=True)
            mode = stat.S_IMODE(self.target.parents[1].stat().st_mode)
            self.target.parent.chmod(mode)  # a group may share it


class Objects:
    """The object database.

    What is being written is in a folder of ours: among the others a gc would remove it.
    """

    def __init__(self, repo: Repo) -> None:
        self._repo = repo
        self._folder = repo.common_dir / "objects"
        self._spool = repo.shared / "objects"
        self._reader: Helper | None = None
        self._trees: dict[str, Tree] = {}
        self._root = "", ""  # the commit asked for last, and its tree
        self._lock = threading.RLock()

    # reading

    def read(self, oid: str, kind: str = "blob", most: int | None = None) -> bytes | None:
        """Read an object by its id; None if of another kind ("": any) or above `most` bytes."""
        return next(self.read_all((oid,), kind, most))

    def read_all(
        self, oids: Iterable[str], kind: str = "blob", most: int | None = None
    ) -> Iterator[bytes | None]:
        """Read objects by id, one answer for each, in order; asked for in dozens."""
        rest = iter(oids)
        while batch := list(islice(rest, _AT_ONCE)):
            names = [oid for oid in batch if _ID.fullmatch(oid)]
            with self._lock:
                answers = self._answers(names, kind, most)
            yield from map(answers.get, batch)

    def _answers(self, oids: Sequence[str], kind: str, most: int | None) -> dict[str, bytes | None]:
        try:
            return self._ask(oids, kind, most)
        except GitError as error:
            if "lazy fetching" not in error.stderr:
                raise
        # The reader ends at an object that a partial clone lacks, so each is asked for alone.
        answers: dict[str, bytes | None] = {}
        for oid in oids:
            with suppress(GitError):
                answers |= self._ask([oid], kind, most)
        return answers

    def _ask(self, oids: Sequence[str], kind: str, most: int | None) -> dict[str, bytes | None]:
        if self._reader is None or self._reader.process.poll() is not None:
            self.close()
            self._reader = Helper(self._repo.git, "cat-file", "--batch")
        reader = self._reader
        reader.send("".join(f"{oid}\n" for oid in oids).encode())
        return {oid: _next_object(reader, kind, most) for oid in oids}

    def sizes(self, oids: Iterable[str]) -> dict[str, int]:
        """Return the sizes of blobs by id, of those that are here. Raises GitError."""
        command = ("cat-file", "--batch-check=%(objectname) %(objectsize)", "--buffer")
        answer = self._repo.git.run(*command, input="".join(f"{oid}\n" for oid in oids).encode())
        cells = (row.split() for row in answer.decode().splitlines())
        return {oid: int(size) for oid, size in cells if size.isdigit()}

    def tree(self, oid: str) -> Tree:
        """A tree. Raises BrokenStore where it is not there."""
        tree = self._trees.get(oid)
        if tree is None:
            data = self.read(oid, "tree")
            if data is None:
                raise BrokenStore(f"the repository lacks the tree {oid}", "run `git fsck`")
            tree = {name: (mode, raw) for mode, name, raw in _ROWS[len(oid) // 2].findall(data)}
            self._remember(oid, tree)
        return tree

    def root(self, commit: str) -> str:
        """The id of a commit's tree; "" where there is no such commit."""
        if self._root[0] != commit:
            data = self.read(commit, "commit")
            if data is None:
                return ""
            self._root = commit, data[5 : data.index(b"\n")].decode()
        return self._root[1]

    def find(self, commit: str, path: str) -> Item | None:
        """What stands at a path in a commit, or None."""
        root = self.root(commit)
        if not root:
            return None
        item = Item(FOLDER, root)
        for part in os.fsencode(path).split(b"/"):
            row = self.tree(item.oid).get(part) if item.mode == FOLDER else None
            if row is None:
                return None
            item = Item(row[0], row[1].hex())
        return item

    def close(self) -> None:
        """Let the reader end."""
        with self._lock, suppress(GitError):  # it is gone, which is what was wanted
            reader = self._reader
            self._reader = None
            if reader is not None:
                reader.close()

    def _remember(self, oid: str, tree: Tree) -> None:
        if len(self._trees) >= _REMEMBERED:
            self._trees.clear()
        self._trees[oid] = tree

    # writing

    def prepare(self, kind: str, data: bytes) -> Loose:
        """An object to be published."""
        oid = object_id(kind, data, self._repo.hash_name)
        packed = zlib.compress(f"{kind} {len(data)}\0".encode() + data, _LEVEL)
        source = self._spool / f"{os.getpid()}-{os.urandom(6).hex()}"
        target = self._folder / oid[:2] / oid[2:]
        return Loose(oid, packed, source, target, self._repo.group)

    def restore(self, made: Sequence[Loose]) -> None:
        """Write objects again that a gc has taken, which began before anything pointed to them."""
        while gone := [loose for loose in made if self._is_gone(loose)]:
            publish(gone)

    def _is_gone(self, loose: Loose) -> bool:
        return not loose.target.exists() and self.read(loose.oid, "") is None

    def splice(self, root: str, files: Mapping[str, bytes | None]) -> tuple[str, list[Loose]]:
        """Build the tree that differs from `root` ("": empty) in some files; None removes one.

        Modes are kept. Returns its id, and the new blobs and trees to be published. Raises Conflict
        if something stands in the way.
        """
        blobs = {
            path: self.prepare("blob", data) for path, data in files.items() if data is not None
        }
        made = list(blobs.values())
        rows = {
            tuple(os.fsencode(path).split(b"/")): blobs[path].oid if path in blobs else ""
            for path in files
        }
        return self._add(self._spliced(root, rows, made), made), made

    def maintain(self) -> None:
        """Pack loose objects where there are many; never removes what nothing points to."""
        sample = self._folder / "17"  # one folder of 256, as `git gc --auto` counts
        if sample.is_dir() and sum(1 for _ in sample.iterdir()) >= _CROWDED // 256:
            self._repo.git.run("maintenance", "run", "--quiet", "--task=loose-objects", limit=300)

    def _spliced(self, root: str, rows: Mapping[tuple[bytes, ...], str], made: list[Loose]) -> Tree:
        """The tree with other blobs at some paths, which are given in parts; "" removes a file."""
        tree = dict(self.tree(root)) if root else {}
        below: dict[bytes, dict[tuple[bytes, ...], str]] = {}
        for parts, blob in rows.items():
            below.setdefault(parts[0], {})[parts[1:]] = blob
        for name, deeper in sorted(below.items()):
            old = tree.pop(name, None)
            if () in deeper:
                new = _file(name, old, deeper[()])
            else:
                new = self._folder_with(name, old, deeper, made)
            if new:
                tree[name] = new
        return tree

    def _folder_with(
        self, name: bytes, old: Row | None, rows: Mapping[tuple[bytes, ...], str], made: list[Loose]
    ) -> Row | None:
        """The row of a folder with other blobs in it; None if nothing is left in it."""
        if old and old[0] != FOLDER:
            raise _in_the_way(name, "a folder")
        tree = self._spliced(old[1].hex() if old else "", rows, made)
        return (FOLDER, bytes.fromhex(self._add(tree, made))) if tree else None

    def _add(self, tree: Tree, made: list[Loose]) -> str:
        # A folder sorts as if its name ended in a slash.
        rows = sorted(
            (name + b"/" if row[0] == FOLDER else name, name, row) for name, row in tree.items()
        )
        data = b"".join(b"%b %b\0%b" % (mode, name, raw) for _, name, (mode, raw) in rows)
        loose = self.prepare("tree", data)
        made.append(loose)
        self._remember(loose.oid, tree)
        return loose.oid


def _next_object(reader: Helper, kind: str, most: int | None) -> bytes | None:
    """What the reader answers about the next object; None as for `Objects.read`."""
    head = reader.line().decode().split(" ")
    if len(head) != 3 or not head[2].isdigit():  # "<name> missing"
        return None
    size = int(head[2])
    if most is not None and size > most:  # never in memory at once
        for at in range(0, size + 1, _PIECE):
            reader.exactly(min(_PIECE, size + 1 - at))
        return None
    data = reader.exactly(size + 1)[:-1]
    return data if kind in (head[1], "") else None


def _file(name: bytes, old: Row | None, blob: str) -> Row | None:
    """The row of a file with another blob and the old mode; None if the blob is ""."""
    if old and old[0] not in _FILES:
        raise _in_the_way(name, "a regular file")
    return (old[0] if old else FILE, bytes.fromhex(blob)) if blob else None


def _in_the_way(name: bytes, wanted: str) -> Conflict:
    return Conflict(f"{os.fsdecode(name)} stands in HEAD and is not {wanted}", "move it away first")


def commit_object(repo: Repo, tree: str, parents: Sequence[str], text: str, at: int) -> Loose:
    """A commit of a tree, signed if the user's configuration says so; no branch moves.

    `parents`: ours first; `at`: epoch milliseconds. The commit is to be published. Raises BadInput
    if Git does not know the user, Conflict if it cannot be signed.
    """
    roles = dict(zip(("author", "committer"), repo.identity(), strict=True))
    seconds = max(0, at // 1000)  # Git knows no time before 1970
    when = f"{seconds} {time.strftime('%z', time.localtime(seconds))}"
    if not repo.settings.signed:
        lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
        lines += [f"{role} {name} <{email}> {when}" for role, (name, email) in roles.items()]
        return repo.objects.prepare(
            "commit", "\n".join((*lines, "", text)).encode("utf-8", "replace")
        )
    extra = {
        f"GIT_{role.upper()}_{part}": value
        for role, (name, email) in roles.items()
        for part, value in (("NAME", name), ("EMAIL", email), ("DATE", when))
    }
    arguments = ("-S", *(part for parent in parents for part in ("-p", parent)), tree)
    try:
        made = repo.git.run(
            "commit-tree",
            *arguments,
            input=text.encode("utf-8", "replace"),
            limit=_SIGNING,
            config=("i18n.commitEncoding=utf-8",),
            extra=extra,
        )
    except GitError as error:
        message = f"the commit could not be signed: {error.message}"
        raise Conflict(message, "check your signing key") from None
    return repo.objects.prepare("commit", repo.objects.read(made.decode().strip(), "commit") or b"")


def publish(
    made: Sequence[Loose],
    besides: Sequence[Path] = (),
    move_last: Callable[[], Path] | None = None,
) -> None:
    """Put objects where Git looks for them, and wait until they are on disk.

    `besides` are files that are to be on disk too; `move_last` then changes a folder, and returns
    it.
    """
    try:
        for loose in made:
            loose.write()
        sources = (loose.source for loose in made)
        write_out([*besides, *filter(os.path.exists, sources)])
        for loose in made:
            loose.move()
        folders = {loose.target.parent for loose in made}
        folders |= {folder.parent for folder in folders}
        # On disk before a branch names what they hold.
        flush(folders, move_last() if move_last else None)
    except OSError as error:
        raise BrokenStore(
            f"objects: {error.strerror}", "check space and permissions there"
        ) from None
    finally:
        for loose in made:
            with suppress(OSError):  # what stays is in a folder of ours, and harms nothing
                loose.source.unlink()
