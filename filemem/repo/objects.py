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

from filemem.changes import compute_object_id
from filemem.errors import BrokenStore, Conflict
from filemem.repo.disk import sync_files, sync_folders, write_new_file
from filemem.repo.modes import share_folder
from filemem.repo.run import GitError, GitProcess

if TYPE_CHECKING:
    from filemem.repo import Repo

FILE_MODE = b"100644"
FOLDER_MODE = b"40000"
_FILE_MODES = (FILE_MODE, b"100755", b"100664")
_MAX_CACHED_TREES = 64  # trees
_BATCH_SIZE = 64  # objects asked for together: few enough for a pipe to take the request
_PIECE_SIZE = 1 << 20  # bytes of a large object that are passed over at a time
_PACK_THRESHOLD = 3_500  # loose objects that are worth a pack: some five hundred saves
_MKDIR_TRIES = 20  # a gc removes folders that are empty for a moment
_SIGNING_TIMEOUT = 60.0  # seconds; a passphrase may have to be typed
_COMPRESSION_LEVEL = 1  # of zlib: what Git uses for loose objects too
_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_ROW_PATTERNS = {
    width: re.compile(rb"([0-7]+) ([^\0]+)\0(.{%d})" % width, re.DOTALL) for width in (20, 32)
}

TreeRow = tuple[bytes, bytes]  # of a tree: octal mode and raw id
Tree = Mapping[bytes, TreeRow]  # by name


class TreeItem(NamedTuple):
    """One row of a tree: octal mode and object id."""

    mode: bytes
    oid: str


class LooseObject(NamedTuple):
    """An object on its way to disk, written at `source` first."""

    oid: str
    compressed_data: bytes
    source: Path
    target: Path
    group: str  # see `Repo.group`

    def write(self) -> None:
        """Write the object aside, unless it is in its place."""
        try:
            os.utime(self.target)  # young again: a gc that knows nothing of us keeps it
        except FileNotFoundError:
            write_new_file(self.source, self.compressed_data, 0o444)
            share_folder(self.source, self.group)

    def move_into_place(self) -> None:
        """Put the object where Git looks for it."""
        for _ in range(_MKDIR_TRIES):
            with suppress(FileNotFoundError):
                self.source.rename(self.target)
            if not self.source.exists():
                return
            self.target.parent.mkdir(exist_ok=True)
            mode = stat.S_IMODE(self.target.parents[1].stat().st_mode)
            self.target.parent.chmod(mode)  # a group may share it


class ObjectDatabase:
    """The object database.

    What is being written is in a folder of ours: among the others a gc would remove it.
    """

    def __init__(self, repo: Repo) -> None:
        self._repo = repo
        self._folder = repo.common_dir / "objects"
        self._spool = repo.shared_folder / "objects"
        self._reader: GitProcess | None = None
        self._trees: dict[str, Tree] = {}
        self._root = "", ""  # the commit asked for last, and its tree
        self._lock = threading.RLock()

    # reading

    def read_object(
        self, oid: str, kind: str = "blob", max_size: int | None = None
    ) -> bytes | None:
        """Read an object by its id; None if of another kind ("": any) or above `most` bytes."""
        return next(self.iter_objects((oid,), kind, max_size))

    def iter_objects(
        self, oids: Iterable[str], kind: str = "blob", max_size: int | None = None
    ) -> Iterator[bytes | None]:
        """Read objects by id, one answer for each, in order; asked for in dozens."""
        remaining = iter(oids)
        while batch := list(islice(remaining, _BATCH_SIZE)):
            names = [oid for oid in batch if _ID.fullmatch(oid)]
            with self._lock:
                answers = self._read_batch(names, kind, max_size)
            yield from map(answers.get, batch)

    def _read_batch(
        self, oids: Sequence[str], kind: str, max_size: int | None
    ) -> dict[str, bytes | None]:
        try:
            return self._request_objects(oids, kind, max_size)
        except GitError as error:
            if "lazy fetching" not in error.stderr:
                raise
        # The reader ends at an object that a partial clone lacks, so each is asked for alone.
        answers: dict[str, bytes | None] = {}
        for oid in oids:
            with suppress(GitError):
                answers |= self._request_objects([oid], kind, max_size)
        return answers

    def _request_objects(
        self, oids: Sequence[str], kind: str, max_size: int | None
    ) -> dict[str, bytes | None]:
        if self._reader is None or self._reader.process.poll() is not None:
            self.close()
            self._reader = GitProcess(self._repo.git, "cat-file", "--batch")
        reader = self._reader
        reader.send("".join(f"{oid}\n" for oid in oids).encode())
        return {oid: _read_next_object(reader, kind, max_size) for oid in oids}

    def read_sizes(self, oids: Iterable[str]) -> dict[str, int]:
        """Return the sizes of blobs by id, of those that are here. Raises GitError."""
        command = ("cat-file", "--batch-check=%(objectname) %(objectsize)", "--buffer")
        answer = self._repo.git.run(
            *command, input_data="".join(f"{oid}\n" for oid in oids).encode()
        )
        cells = (row.split() for row in answer.decode().splitlines())
        return {oid: int(size) for oid, size in cells if size.isdigit()}

    def read_tree(self, oid: str) -> Tree:
        """A tree. Raises BrokenStore where it is not there."""
        tree = self._trees.get(oid)
        if tree is None:
            data = self.read_object(oid, "tree")
            if data is None:
                raise BrokenStore(f"the repository lacks the tree {oid}", "run `git fsck`")
            tree = {
                name: (mode, raw) for mode, name, raw in _ROW_PATTERNS[len(oid) // 2].findall(data)
            }
            self._cache_tree(oid, tree)
        return tree

    def read_root(self, commit: str) -> str:
        """The id of a commit's tree; "" where there is no such commit."""
        if self._root[0] != commit:
            data = self.read_object(commit, "commit")
            if data is None:
                return ""
            self._root = commit, data[5 : data.index(b"\n")].decode()
        return self._root[1]

    def find_item(self, commit: str, path: str) -> TreeItem | None:
        """What stands at a path in a commit, or None."""
        root = self.read_root(commit)
        if not root:
            return None
        item = TreeItem(FOLDER_MODE, root)
        for part in os.fsencode(path).split(b"/"):
            row = self.read_tree(item.oid).get(part) if item.mode == FOLDER_MODE else None
            if row is None:
                return None
            item = TreeItem(row[0], row[1].hex())
        return item

    def close(self) -> None:
        """Let the reader end."""
        with self._lock, suppress(GitError):  # it is gone, which is what was wanted
            reader = self._reader
            self._reader = None
            if reader is not None:
                reader.close()

    def _cache_tree(self, oid: str, tree: Tree) -> None:
        if len(self._trees) >= _MAX_CACHED_TREES:
            self._trees.clear()
        self._trees[oid] = tree

    # writing

    def build_object(self, kind: str, data: bytes) -> LooseObject:
        """An object to be published."""
        oid = compute_object_id(kind, data, self._repo.hash_name)
        compressed_data = zlib.compress(f"{kind} {len(data)}\0".encode() + data, _COMPRESSION_LEVEL)
        source = self._spool / f"{os.getpid()}-{os.urandom(6).hex()}"
        target = self._folder / oid[:2] / oid[2:]
        return LooseObject(oid, compressed_data, source, target, self._repo.group)

    def restore_objects(self, loose_objects: Sequence[LooseObject]) -> None:
        """Write objects again that a gc has taken, which began before anything pointed to them."""
        while missing_objects := [loose for loose in loose_objects if self._is_missing(loose)]:
            publish_objects(missing_objects)

    def _is_missing(self, loose: LooseObject) -> bool:
        return not loose.target.exists() and self.read_object(loose.oid, "") is None

    def splice_tree(
        self, root: str, files: Mapping[str, bytes | None]
    ) -> tuple[str, list[LooseObject]]:
        """Build the tree that differs from `root` ("": empty) in some files; None removes one.

        Modes are kept. Returns its id, and the new blobs and trees to be published. Raises Conflict
        if something stands in the way.
        """
        blobs = {
            path: self.build_object("blob", data)
            for path, data in files.items()
            if data is not None
        }
        new_objects = list(blobs.values())
        rows = {
            tuple(os.fsencode(path).split(b"/")): blobs[path].oid if path in blobs else ""
            for path in files
        }
        return self._add_tree(
            self._build_spliced_tree(root, rows, new_objects), new_objects
        ), new_objects

    def pack_loose_objects(self) -> None:
        """Pack loose objects where there are many; never removes what nothing points to."""
        sample = self._folder / "17"  # one folder of 256, as `git gc --auto` counts
        if sample.is_dir() and sum(1 for _ in sample.iterdir()) >= _PACK_THRESHOLD // 256:
            self._repo.git.run("maintenance", "run", "--quiet", "--task=loose-objects", limit=300)

    def _build_spliced_tree(
        self, root: str, rows: Mapping[tuple[bytes, ...], str], new_objects: list[LooseObject]
    ) -> Tree:
        """The tree with other blobs at some paths, which are given in parts; "" removes a file."""
        tree = dict(self.read_tree(root)) if root else {}
        rows_by_name: dict[bytes, dict[tuple[bytes, ...], str]] = {}
        for parts, blob in rows.items():
            rows_by_name.setdefault(parts[0], {})[parts[1:]] = blob
        for name, inner_rows in sorted(rows_by_name.items()):
            old_row = tree.pop(name, None)
            if () in inner_rows:
                new_row = _build_file_row(name, old_row, inner_rows[()])
            else:
                new_row = self._build_folder_row(name, old_row, inner_rows, new_objects)
            if new_row:
                tree[name] = new_row
        return tree

    def _build_folder_row(
        self,
        name: bytes,
        old_row: TreeRow | None,
        rows: Mapping[tuple[bytes, ...], str],
        new_objects: list[LooseObject],
    ) -> TreeRow | None:
        """The row of a folder with other blobs in it; None if nothing is left in it."""
        if old_row and old_row[0] != FOLDER_MODE:
            raise _build_conflict(name, "a folder")
        tree = self._build_spliced_tree(old_row[1].hex() if old_row else "", rows, new_objects)
        return (FOLDER_MODE, bytes.fromhex(self._add_tree(tree, new_objects))) if tree else None

    def _add_tree(self, tree: Tree, new_objects: list[LooseObject]) -> str:
        # A folder sorts as if its name ended in a slash.
        rows = sorted(
            (name + b"/" if row[0] == FOLDER_MODE else name, name, row)
            for name, row in tree.items()
        )
        data = b"".join(b"%b %b\0%b" % (mode, name, raw) for _, name, (mode, raw) in rows)
        loose = self.build_object("tree", data)
        new_objects.append(loose)
        self._cache_tree(loose.oid, tree)
        return loose.oid


def _read_next_object(reader: GitProcess, kind: str, max_size: int | None) -> bytes | None:
    """What the reader answers about the next object; None as for `Objects.read`."""
    head = reader.read_line().decode().split(" ")
    if len(head) != 3 or not head[2].isdigit():  # "<name> missing"
        return None
    size = int(head[2])
    if max_size is not None and size > max_size:  # never in memory at once
        for offset in range(0, size + 1, _PIECE_SIZE):
            reader.read_bytes(min(_PIECE_SIZE, size + 1 - offset))
        return None
    data = reader.read_bytes(size + 1)[:-1]
    return data if kind in (head[1], "") else None


def _build_file_row(name: bytes, old_row: TreeRow | None, blob: str) -> TreeRow | None:
    """The row of a file with another blob and the old mode; None if the blob is ""."""
    if old_row and old_row[0] not in _FILE_MODES:
        raise _build_conflict(name, "a regular file")
    return (old_row[0] if old_row else FILE_MODE, bytes.fromhex(blob)) if blob else None


def _build_conflict(name: bytes, expected: str) -> Conflict:
    return Conflict(
        f"{os.fsdecode(name)} stands in HEAD and is not {expected}", "move it away first"
    )


def build_commit(
    repo: Repo, tree: str, parents: Sequence[str], text: str, timestamp: int
) -> LooseObject:
    """A commit of a tree, signed if the user's configuration says so; no branch moves.

    `parents`: ours first; `at`: epoch milliseconds. The commit is to be published. Raises BadInput
    if Git does not know the user, Conflict if it cannot be signed.
    """
    roles = dict(zip(("author", "committer"), repo.require_identity(), strict=True))
    seconds = max(0, timestamp // 1000)  # Git knows no time before 1970
    date = f"{seconds} {time.strftime('%z', time.localtime(seconds))}"
    if not repo.settings.is_signing:
        lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
        lines += [f"{role} {name} <{email}> {date}" for role, (name, email) in roles.items()]
        return repo.objects.build_object(
            "commit", "\n".join((*lines, "", text)).encode("utf-8", "replace")
        )
    extra_environment = {
        f"GIT_{role.upper()}_{part}": value
        for role, (name, email) in roles.items()
        for part, value in (("NAME", name), ("EMAIL", email), ("DATE", date))
    }
    arguments = ("-S", *(part for parent in parents for part in ("-p", parent)), tree)
    try:
        output = repo.git.run(
            "commit-tree",
            *arguments,
            input_data=text.encode("utf-8", "replace"),
            limit=_SIGNING_TIMEOUT,
            config=("i18n.commitEncoding=utf-8",),
            extra_environment=extra_environment,
        )
    except GitError as error:
        message = f"the commit could not be signed: {error.message}"
        raise Conflict(message, "check your signing key") from None
    return repo.objects.build_object(
        "commit", repo.objects.read_object(output.decode().strip(), "commit") or b""
    )


def publish_objects(
    loose_objects: Sequence[LooseObject],
    extra_files: Sequence[Path] = (),
    move_last: Callable[[], Path] | None = None,
) -> None:
    """Put objects where Git looks for them, and wait until they are on disk.

    `besides` are files that are to be on disk too; `move_last` then changes a folder, and returns
    it.
    """
    try:
        for loose in loose_objects:
            loose.write()
        sources = (loose.source for loose in loose_objects)
        sync_files([*extra_files, *filter(os.path.exists, sources)])
        for loose in loose_objects:
            loose.move_into_place()
        folders = {loose.target.parent for loose in loose_objects}
        folders |= {folder.parent for folder in folders}
        # On disk before a branch names what they hold.
        sync_folders(folders, move_last() if move_last else None)
    except OSError as error:
        raise BrokenStore(
            f"objects: {error.strerror}", "check space and permissions there"
        ) from None
    finally:
        for loose in loose_objects:
            with suppress(OSError):  # what stays is in a folder of ours, and harms nothing
                loose.source.unlink()
