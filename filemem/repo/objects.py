"""Git objects: reading them through one lasting `cat-file`, writing them as loose files, and building trees.

A loose object is a header and the data, compressed, under the name of its hash. An id never changes its meaning, so
trees are remembered.
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
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from filemem.changes import object_id
from filemem.errors import BrokenStore, Conflict, FilememError
from filemem.repo.modes import share
from filemem.repo.run import GitError, Helper
from filemem.tuples import NamedTuple

if TYPE_CHECKING:
    from filemem.repo import Repo

FILE, FOLDER = b"100644", b"40000"
_FILES = (FILE, b"100755", b"100664")
_REMEMBERED = 64  # trees
_AT_ONCE = 64  # objects asked for together: few enough for a pipe to take the request; and calls made together
_PIECE = 1 << 20  # bytes of a large object that are passed over at a time
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


class Loose(NamedTuple):
    """An object on its way to disk, written at `source` first."""

    oid: str
    packed: bytes
    source: Path
    target: Path
    group: str  # see `Repo.group`

    def write(self) -> None:
        """Write the object aside, unless it is in its place, and wait until it is on disk."""
        try:
            os.utime(self.target)  # young again: a gc that knows nothing of us keeps it
        except FileNotFoundError:
            write_synced(self.source, self.packed, 0o444)
            share(self.source, self.group)

    def move(self) -> None:
        """Put the object where Git looks for it."""
        for _ in range(_MKDIR_TRIES):
            with suppress(FileNotFoundError):
                self.source.rename(self.target)
            if not self.source.exists():
                return
            self.target.parent.mkdir(exist_ok=True)
            self.target.parent.chmod(
                stat.S_IMODE(self.target.parents[1].stat().st_mode)
            )  # a group may share it


class Objects:
    """The object database. What is being written is in a folder of ours: among the others a gc would remove it."""

    def __init__(self, repo: Repo) -> None:
        self._repo, self._folder, self._spool = (
            repo,
            repo.common_dir / "objects",
            repo.shared / "objects",
        )
        self._reader: Helper | None = None
        self._trees: dict[str, Tree] = {}
        self._root = "", ""  # the commit asked for last, and its tree
        self._lock = threading.RLock()

    # reading

    def read(self, oid: str, kind: str = "blob", most: int | None = None) -> bytes | None:
        """Read an object by its id; None for one of another kind ("": any) or of more than `most` bytes."""
        return next(self.read_all((oid,), kind, most))

    def read_all(
        self, oids: Iterable[str], kind: str = "blob", most: int | None = None
    ) -> Iterator[bytes | None]:
        """Read objects by id, one answer for each, in order; asked for in dozens."""
        rest = iter(oids)
        while batch := list(islice(rest, _AT_ONCE)):
            asked, found = [oid for oid in batch if _ID.fullmatch(oid)], dict[str, bytes | None]()
            with self._lock:
                try:
                    found = self._answers(asked, kind, most)
                except (
                    GitError
                ) as lacking:  # the reader dies of what a partial clone lacks: one by one
                    if "lazy fetching" not in lacking.stderr:
                        raise
                    for oid in asked:
                        with suppress(GitError):
                            found |= self._answers([oid], kind, most)
            yield from map(found.get, batch)

    def _answers(self, oids: Sequence[str], kind: str, most: int | None) -> dict[str, bytes | None]:
        if self._reader is None or self._reader.process.poll() is not None:
            self.close()
            self._reader = Helper(self._repo.git, "cat-file", "--batch")
        self._reader.send("".join(f"{oid}\n" for oid in oids).encode())
        found = dict[str, bytes | None]()
        for oid in oids:
            head = self._reader.line().decode().split(" ")
            if len(head) == 3 and head[2].isdigit():  # else "<name> missing"
                size = int(head[2])
                if most is not None and size > most:  # never in memory at once
                    for at in range(0, size + 1, _PIECE):
                        self._reader.exactly(min(_PIECE, size + 1 - at))
                    continue
                data = self._reader.exactly(size + 1)[:-1]
                found[oid] = data if kind in (head[1], "") else None
        return found

    def tree(self, oid: str) -> Tree:
        """A tree. Raises BrokenStore where it is not there."""
        tree = self._trees.get(oid)
        if tree is None:
            if (data := self.read(oid, "tree")) is None:
                raise BrokenStore(f"the repository lacks the tree {oid}", "run `git fsck`")
            tree = {name: (mode, raw) for mode, name, raw in _ROWS[len(oid) // 2].findall(data)}
            self._remember(oid, tree)
        return tree

    def root(self, commit: str) -> str:
        """The id of a commit's tree; "" where there is no such commit."""
        if self._root[0] != commit:
            if (data := self.read(commit, "commit")) is None:
                return ""
            self._root = commit, data[5 : data.index(b"\n")].decode()
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
        with self._lock, suppress(GitError):  # it is gone, which is what was wanted
            reader, self._reader = self._reader, None
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
        while gone := [
            each for each in made if not each.target.exists() and self.read(each.oid, "") is None
        ]:
            publish(gone)

    def splice(self, root: str, files: Mapping[str, bytes | None]) -> tuple[str, list[Loose]]:
        """Build the tree that differs from `root` ("": empty) in some files, None removes; modes are kept.

        Returns its id, and the new blobs and trees, to be published. Raises Conflict: something stands in the way.
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
        tree = dict(self.tree(root)) if root else {}
        below: dict[bytes, dict[tuple[bytes, ...], str]] = {}
        for parts, blob in rows.items():
            below.setdefault(parts[0], {})[parts[1:]] = blob
        for first, deeper in sorted(below.items()):
            here = tree.pop(first, None)
            if here is not None and (here[0] not in _FILES if () in deeper else here[0] != FOLDER):
                told = "a regular file" if () in deeper else "a folder"
                raise Conflict(
                    f"{os.fsdecode(first)} stands in HEAD and is not {told}", "move it away first"
                )
            if () in deeper:
                if blob := deeper[()]:
                    tree[first] = (here[0] if here else FILE, bytes.fromhex(blob))
            elif spliced := self._spliced(here[1].hex() if here else "", deeper, made):
                tree[first] = (FOLDER, bytes.fromhex(self._add(spliced, made)))
        return tree

    def _add(self, tree: Tree, made: list[Loose]) -> str:
        # A folder sorts as if its name ended in a slash.
        rows = sorted(
            (name + b"/" if row[0] == FOLDER else name, name, row) for name, row in tree.items()
        )
        made.append(
            self.prepare(
                "tree", b"".join(b"%b %b\0%b" % (mode, name, raw) for _, name, (mode, raw) in rows)
            )
        )
        self._remember(made[-1].oid, tree)
        return made[-1].oid


def commit_object(repo: Repo, tree: str, parents: Sequence[str], text: str, at: int) -> Loose:
    """A commit of a tree, signed where the user's configuration says so; to be published, and no branch moves.

    `parents`: ours first; `at`: epoch milliseconds. Raises BadInput: nobody to commit as; Conflict: it is not signed.
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
    data, config = text.encode("utf-8", "replace"), ("i18n.commitEncoding=utf-8",)
    try:
        made = repo.git.run(
            "commit-tree", *arguments, input=data, limit=_SIGNING, config=config, extra=extra
        )
    except GitError as error:
        raise Conflict(
            f"the commit could not be signed: {error.message}", "check your signing key"
        ) from None
    return repo.objects.prepare("commit", repo.objects.read(made.decode().strip(), "commit") or b"")


def publish(made: Sequence[Loose], *besides: Callable[[], None]) -> None:
    """Wait until objects, and whatever else is given, are on disk; then put them where Git looks for them."""
    try:
        together([*besides, *(each.write for each in made)])
        for each in made:
            each.move()
        folders = {
            loose.target.parent for loose in made
        }  # on disk before a branch names what they hold
        folders |= {folder.parent for folder in folders}
        together([partial(sync_folder, folder) for folder in folders])
    except OSError as error:
        raise BrokenStore(
            f"objects: {error.strerror}", "check space and permissions there"
        ) from None
    finally:
        for each in made:
            with suppress(OSError):  # what stays is in a folder of ours, and harms nothing
                each.source.unlink()


def write_synced(file: Path, data: bytes, mode: int) -> None:
    """Write a new file into a folder that is made if need be, and wait until its bytes are on disk."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(
        os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb"
    ) as into:
        into.write(data)
        into.flush()
        os.fsync(into.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until the listing of a folder is on disk; one that is gone needs no waiting."""
    with suppress(FileNotFoundError):
        fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def together(calls: Sequence[Callable[[], object]]) -> None:
    """Run the calls, some dozens at a time, and return when all have ended; raises the first error of any."""
    errors: list[OSError | FilememError] = []

    rest = iter(calls)

    def work() -> None:
        for call in rest:
            try:
                call()
            except (OSError, FilememError) as error:
                errors.append(error)

    # Daemons: Ctrl-C while one starts can leave it waiting for ever, and the exit with it; a kill loses nothing either.
    threads = [threading.Thread(target=work, daemon=True) for _ in calls[:_AT_ONCE]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
