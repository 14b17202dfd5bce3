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
from filemem.repo.disk import share_folder, sync_files, sync_folders, write_new_file
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


class TreeRow(NamedTuple):
    """One row of a tree as Git stores it."""

    mode: bytes  # octal
    raw_id: bytes


Tree = Mapping[bytes, TreeRow]  # by name


class TreeItem(NamedTuple):
    """What is at a path in a commit."""

    mode: bytes  # octal
    oid: str


class LooseObject(NamedTuple):
    """An object to be written: at `source` first, then moved to `target`."""

    oid: str
    compressed_data: bytes
    source: Path
    target: Path
    group: str  # see `Repo.group`

    def write(self) -> None:
        """Write the object aside, unless it is in its place."""
        try:
            os.utime(self.target)  # a gc keeps objects that are young
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
            objects_folder = self.target.parents[1]
            mode = stat.S_IMODE(objects_folder.stat().st_mode)
            self.target.parent.chmod(mode)  # a group may share it


class ObjectDatabase:
    """The object database.

    Objects are written in our own folder first: in Git's, a gc would remove unfinished ones.
    """

    def __init__(self, repo: Repo) -> None:
        self._repo = repo
        self._folder = repo.common_dir / "objects"
        self._spool = repo.shared_folder / "objects"
        self._reader: GitProcess | None = None
        self._trees: dict[str, Tree] = {}
        self._root_cache: dict[str, str] = {}  # the root of the commit that was read last
        self._lock = threading.RLock()

    # reading

    def read_object(
        self, oid: str, kind: str = "blob", max_size: int | None = None
    ) -> bytes | None:
        """Read an object by its id; None if it is missing, of another kind or too large.

        `kind`: "" for any. `max_size`: in bytes; None for no limit.
        """
        for data in self.iter_objects([oid], kind, max_size):
            return data
        return None

    def iter_objects(
        self, oids: Iterable[str], kind: str = "blob", max_size: int | None = None
    ) -> Iterator[bytes | None]:
        """Read objects by id, in order; see `read_object`."""
        remaining = iter(oids)
        while batch := list(islice(remaining, _BATCH_SIZE)):
            valid_ids = [oid for oid in batch if _ID.fullmatch(oid)]
            with self._lock:
                answers = self._read_batch(valid_ids, kind, max_size)
            for oid in batch:
                yield answers.get(oid)

    def _read_batch(
        self, oids: Sequence[str], kind: str, max_size: int | None
    ) -> dict[str, bytes | None]:
        try:
            return self._request_objects(oids, kind, max_size)
        except GitError as error:
            if "lazy fetching" not in error.stderr:
                raise
        # The reader ends at an object that a partial clone lacks, so each is requested alone.
        answers: dict[str, bytes | None] = {}
        for oid in oids:
            with suppress(GitError):
                answers |= self._request_objects([oid], kind, max_size)
        return answers

    def _request_objects(
        self, oids: Sequence[str], kind: str, max_size: int | None
    ) -> dict[str, bytes | None]:
        reader = self._require_reader()
        reader.send(_join_lines(oids))
        return {oid: _read_next_object(reader, kind, max_size) for oid in oids}

    def _require_reader(self) -> GitProcess:
        """Return the process that reads objects; start it if it does not run."""
        if self._reader is None or self._reader.process.poll() is not None:
            self.close()
            self._reader = GitProcess(self._repo.git, "cat-file", "--batch")
        return self._reader

    def read_sizes(self, oids: Iterable[str]) -> dict[str, int]:
        """Read the sizes of blobs by id; missing ones are left out. Raises GitError."""
        command = ("cat-file", "--batch-check=%(objectname) %(objectsize)", "--buffer")
        answer = self._repo.git.run(*command, input_data=_join_lines(oids))
        sizes = {}
        for row in answer.decode().splitlines():
            oid, size = row.split()
            if size.isdigit():
                sizes[oid] = int(size)
        return sizes

    def read_tree(self, oid: str) -> Tree:
        """Read a tree. Raises BrokenStore if it is missing."""
        tree = self._trees.get(oid)
        if tree is not None:
            return tree
        data = self.read_object(oid, "tree")
        if data is None:
            raise BrokenStore(f"the repository lacks the tree {oid}", "run `git fsck`")
        pattern = _ROW_PATTERNS[len(oid) // 2]
        tree = {name: TreeRow(mode, raw) for mode, name, raw in pattern.findall(data)}
        self._cache_tree(oid, tree)
        return tree

    def read_root(self, commit: str) -> str:
        """Read the id of a commit's tree; "" if there is no such commit."""
        root = self._root_cache.get(commit, "")
        if root:
            return root
        data = self.read_object(commit, "commit")
        if data is None:
            return ""
        first_line, _, _ = data.partition(b"\n")
        root = first_line.removeprefix(b"tree ").decode()
        self._root_cache = {commit: root}  # in one step: another thread may read it now
        return root

    def find_item(self, commit: str, path: str) -> TreeItem | None:
        """Find mode and id of what is at a path in a commit; None for nothing."""
        root = self.read_root(commit)
        if not root:
            return None
        item = TreeItem(FOLDER_MODE, root)
        for part in os.fsencode(path).split(b"/"):
            if item.mode != FOLDER_MODE:
                return None
            row = self.read_tree(item.oid).get(part)
            if row is None:
                return None
            item = TreeItem(row.mode, row.raw_id.hex())
        return item

    def close(self) -> None:
        """End the reader."""
        with self._lock, suppress(GitError):  # it has ended already
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
        """Build an object, to be published."""
        oid = compute_object_id(kind, data, self._repo.hash_name)
        header = f"{kind} {len(data)}\0".encode()
        return LooseObject(
            oid,
            compressed_data=zlib.compress(header + data, _COMPRESSION_LEVEL),
            source=self._spool / f"{os.getpid()}-{os.urandom(6).hex()}",
            target=self._folder / oid[:2] / oid[2:],
            group=self._repo.group,
        )

    def restore_objects(self, loose_objects: Sequence[LooseObject]) -> None:
        """Write objects again that a gc removed because nothing pointed to them when it began."""
        while missing_objects := [loose for loose in loose_objects if self._is_missing(loose)]:
            publish_objects(missing_objects)

    def _is_missing(self, loose: LooseObject) -> bool:
        return not loose.target.exists() and self.read_object(loose.oid, "") is None

    def splice_tree(
        self, root: str, files: Mapping[str, bytes | None]
    ) -> tuple[str, list[LooseObject]]:
        """Build the tree that differs from `root` ("": empty) in some files; None removes one.

        Modes are kept. Returns its id, and the new blobs and trees to be published. Raises Conflict
        if something is in the way.
        """
        new_objects: list[LooseObject] = []
        blobs: dict[tuple[bytes, ...], str] = {}
        for path, data in files.items():
            parts = tuple(os.fsencode(path).split(b"/"))
            blobs[parts] = ""
            if data is not None:
                loose = self.build_object("blob", data)
                new_objects.append(loose)
                blobs[parts] = loose.oid
        tree = self._build_spliced_tree(root, blobs, new_objects)
        return self._add_tree(tree, new_objects), new_objects

    def pack_loose_objects(self) -> None:
        """Pack loose objects if there are many; unreachable ones are never removed."""
        sample = self._folder / "17"  # one folder of 256, as `git gc --auto` counts
        if not sample.is_dir():
            return
        count = len(list(sample.iterdir()))
        if count >= _PACK_THRESHOLD // 256:
            self._repo.git.run("maintenance", "run", "--quiet", "--task=loose-objects", limit=300)

    def _build_spliced_tree(
        self, root: str, blobs: Mapping[tuple[bytes, ...], str], new_objects: list[LooseObject]
    ) -> Tree:
        """Build the tree with other blobs at some paths, given in parts; "" removes a file."""
        tree = dict(self.read_tree(root)) if root else {}
        blobs_by_name: dict[bytes, dict[tuple[bytes, ...], str]] = {}
        for parts, blob in blobs.items():
            inner_blobs = blobs_by_name.setdefault(parts[0], {})
            inner_blobs[parts[1:]] = blob
        for name, inner_blobs in sorted(blobs_by_name.items()):
            old_row = tree.pop(name, None)
            if () in inner_blobs:
                new_row = _build_file_row(name, old_row, inner_blobs[()])
            else:
                new_row = self._build_folder_row(name, old_row, inner_blobs, new_objects)
            if new_row:
                tree[name] = new_row
        return tree

    def _build_folder_row(
        self,
        name: bytes,
        old_row: TreeRow | None,
        blobs: Mapping[tuple[bytes, ...], str],
        new_objects: list[LooseObject],
    ) -> TreeRow | None:
        """Build the row of a folder with other blobs in it; None if nothing is left in it."""
        old_id = ""
        if old_row:
            if old_row.mode != FOLDER_MODE:
                raise _build_conflict(name, "a folder")
            old_id = old_row.raw_id.hex()
        tree = self._build_spliced_tree(old_id, blobs, new_objects)
        if not tree:
            return None
        oid = self._add_tree(tree, new_objects)
        return TreeRow(FOLDER_MODE, bytes.fromhex(oid))

    def _add_tree(self, tree: Tree, new_objects: list[LooseObject]) -> str:
        """Add a tree to the new objects, and return its id."""

        def get_sort_key(name: bytes) -> bytes:
            # A folder sorts as if its name ended in a slash.
            return name + b"/" if tree[name].mode == FOLDER_MODE else name

        rows = []
        for name in sorted(tree, key=get_sort_key):
            row = tree[name]
            rows.append(b"%b %b\0%b" % (row.mode, name, row.raw_id))
        loose = self.build_object("tree", b"".join(rows))
        new_objects.append(loose)
        self._cache_tree(loose.oid, tree)
        return loose.oid


def _join_lines(oids: Iterable[str]) -> bytes:
    return "".join(f"{oid}\n" for oid in oids).encode()


def _read_next_object(reader: GitProcess, kind: str, max_size: int | None) -> bytes | None:
    """Read what the reader answers about the next object; see `ObjectDatabase.read_object`."""
    head = reader.read_line().decode().split(" ")
    if len(head) != 3 or not head[2].isdigit():  # "<name> missing"
        return None
    _, actual_kind, size_text = head
    size = int(size_text) + 1  # with the newline after it
    if max_size is not None and size - 1 > max_size:
        _skip_bytes(reader, size)
        return None
    data = reader.read_bytes(size)
    return data[:-1] if kind in (actual_kind, "") else None


def _skip_bytes(reader: GitProcess, size: int) -> None:
    """Pass over bytes of an answer, a piece at a time: they may not fit into memory."""
    for offset in range(0, size, _PIECE_SIZE):
        reader.read_bytes(min(_PIECE_SIZE, size - offset))


def _build_file_row(name: bytes, old_row: TreeRow | None, blob: str) -> TreeRow | None:
    """Build the row of a file with another blob and the old mode; None if the blob is ""."""
    mode = FILE_MODE
    if old_row:
        mode = old_row.mode
        if mode not in _FILE_MODES:
            raise _build_conflict(name, "a regular file")
    if not blob:
        return None
    return TreeRow(mode, bytes.fromhex(blob))


def _build_conflict(name: bytes, expected: str) -> Conflict:
    message = f"{os.fsdecode(name)} stands in HEAD and is not {expected}"
    return Conflict(message, "move it away first")


def build_commit(
    repo: Repo, tree: str, parents: Sequence[str], text: str, timestamp: int
) -> LooseObject:
    """Build a commit of a tree, to be published; signed if the user's configuration says so.

    `parents`: ours first; `timestamp`: epoch milliseconds. Raises BadInput if Git does not know the
    user, Conflict if the commit cannot be signed.
    """
    author, committer = repo.require_identity()
    seconds = max(0, timestamp // 1000)  # Git knows no time before 1970
    date = f"{seconds} {time.strftime('%z', time.localtime(seconds))}"
    message = text.encode("utf-8", "replace")
    if repo.settings.is_signing:
        environment = {
            **_build_identity("AUTHOR", author, date),
            **_build_identity("COMMITTER", committer, date),
        }
        data = _create_signed_commit(repo, tree, parents, message, environment)
        return repo.objects.build_object("commit", data)
    lines = [f"tree {tree}"]
    lines += [f"parent {parent}" for parent in parents]
    for role, (name, email) in (("author", author), ("committer", committer)):
        lines.append(f"{role} {name} <{email}> {date}")
    header = "\n".join(lines).encode("utf-8", "replace")
    return repo.objects.build_object("commit", header + b"\n\n" + message)


def _build_identity(role: str, identity: tuple[str, str], date: str) -> dict[str, str]:
    """Build the variables that tell Git who commits and when."""
    name, email = identity
    return {f"GIT_{role}_NAME": name, f"GIT_{role}_EMAIL": email, f"GIT_{role}_DATE": date}


def _create_signed_commit(
    repo: Repo, tree: str, parents: Sequence[str], message: bytes, environment: Mapping[str, str]
) -> bytes:
    """Let Git make and sign a commit, and return its bytes. Raises Conflict."""
    arguments = ["commit-tree", "-S"]
    for parent in parents:
        arguments += ("-p", parent)
    try:
        output = repo.git.run(
            *arguments,
            tree,
            input_data=message,
            limit=_SIGNING_TIMEOUT,
            config=["i18n.commitEncoding=utf-8"],
            extra_environment=environment,
        )
    except GitError as error:
        reason = f"the commit could not be signed: {error.message}"
        raise Conflict(reason, "check your signing key") from None
    commit = output.decode().strip()
    return repo.objects.read_object(commit, "commit") or b""


def publish_objects(
    loose_objects: Sequence[LooseObject],
    extra_files: Sequence[Path] = (),
    move_last: Callable[[], Path] | None = None,
) -> None:
    """Put objects where Git looks for them, and wait until they are on disk.

    Args:
        extra_files: further files to wait for.
        move_last: changes a folder after the objects are in place, and returns it.
    """
    sources = [loose.source for loose in loose_objects]
    try:
        for loose in loose_objects:
            loose.write()
        written_sources = [source for source in sources if source.exists()]
        sync_files([*extra_files, *written_sources])
        for loose in loose_objects:
            loose.move_into_place()
        folders = {loose.target.parent for loose in loose_objects}
        folders |= {folder.parent for folder in folders}
        last_changed = move_last() if move_last else None
        # On disk before a branch names what they hold.
        sync_folders(folders, last_changed)
    except OSError as error:
        message = f"objects: {error.strerror}"
        raise BrokenStore(message, "check space and permissions there") from None
    finally:
        for source in sources:
            with suppress(OSError):  # what stays is in our folder, and harms nothing
                source.unlink()
