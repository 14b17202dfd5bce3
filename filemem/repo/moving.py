"""Taking index and work tree along from one commit to another, as a checkout does, and nothing of the user's with them.

Git takes ignored files for expendable and overwrites them; a private record is such a file, and exists nowhere else.
So what stands where a commit adds something is looked for before Git is asked. A checkout that died halfway is undone
from what can be told of it: a file that holds what it would have written is its own, and anything else the user's.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from filemem.errors import BrokenStore, Conflict
from filemem.repo.git import LONG, Git, GitError

REFLOG = "filemem: sync"
_LINK, _MODULE = "120000", "160000"  # modes of a symbolic link and of a submodule
_FILES = ("100644", "100755")  # modes of files
_AT_ONCE = 200  # files whose contents are read together


class InTheWay(Conflict):
    """A file stands where another is to be added: `path`, from the top of the work tree. Nothing was changed."""

    def __init__(self, path: str, shown: str = "") -> None:
        told = f"{shown or path} is in the way"
        super().__init__(f"the work tree cannot take what others saved: {told}", "move that file away, then try again")
        self.path = path


class Row(NamedTuple):
    """What becomes of one path: mode and blob before and after, "" for no file."""

    path: str
    old_mode: str
    mode: str
    old: str
    new: str


def rows(git: Git, old: str, new: str, *below: str) -> tuple[Row, ...]:
    """What differs between two commits or trees, below some paths where any are given."""
    answer = git.run(
        "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", old, new, "--", *below, limit=LONG
    )
    fields = iter(answer.decode("utf-8", "surrogateescape").split("\0"))
    return tuple(_row(head, next(fields)) for head in fields if head.startswith(":"))


def _row(head: str, path: str) -> Row:
    values = head[1:].split(" ")[:4]
    return Row(path, *(value if value.strip("0") else "" for value in values))


def unsettled(git: Git, folder: str) -> str:
    """A file below a folder that is staged, edited or in conflict, as far as Git keeps it, or ""."""
    command = ("status", "--porcelain", "-z", "--untracked-files=no", "--ignore-submodules=dirty", "--no-renames")
    found = git.run(*command, "--", folder, limit=LONG).decode("utf-8", "replace").split("\0")
    return found[0][3:] if found[0] else ""


def take_along(git: Git, old: str, new: str, locking: Callable[[], None]) -> None:
    """Bring index and work tree from one commit or tree to another; nothing that differs from `old` is overwritten.

    A file that holds already what is to be added there is left as it is, and entered into the index.

    Args:
        git: runs Git.
        old: what they are at.
        new: what they are to become.
        locking: told before Git locks the index.

    Raises:
        InTheWay: a file is in the way, ignored or not; nothing was changed then.
        Conflict: the same of what Git itself finds.
        BrokenStore: the work tree cannot be written; a part of it may be.
    """
    met = tuple(_in_the_way(git.places.work_tree, rows(git, old, new)))
    same = _same(git, [row for row, found in met if row.path == found])
    if obstacle := next((found for row, found in met if row not in same), ""):
        raise InTheWay(obstacle)
    locking()
    _enter(git, same)
    with suppress(GitError):  # it tells of files that differ; those are found out next
        git.run("update-index", "-q", "--refresh", limit=LONG)  # some saves leave entries without file times
    step = ("read-tree", "-m", "-u", old, new)
    try:
        git.run(*step[:1], "-n", *step[1:], limit=LONG, config=_ALONE)
    except GitError as error:
        _leave(git, same)
        why = f"the work tree cannot take what others saved: {_said(error)}"
        raise Conflict(why, "move that file away, then try again") from None
    locking()
    try:
        git.run(*step, limit=LONG, config=_ALONE)
    except GitError as error:
        raise BrokenStore(f"the work tree cannot be written: {_said(error)}", "check space and permissions") from None


_ALONE = ("submodule.recurse=false",)


def _said(error: GitError) -> str:
    found = [row.removeprefix("error: ") for row in error.stderr.splitlines() if row.startswith("error: ")]
    return found[0] if found else error.message


def move(git: Git, new: str, old: str) -> bool:
    """Point HEAD from one commit to another; False where it is not at `old` any more."""
    try:
        git.run("update-ref", "-m", REFLOG, "HEAD", new, old)
    except GitError as error:
        if "but expected" in error.stderr:
            return False
        raise
    return True


# what is in the way


def _in_the_way(top: Path, changes: Sequence[Row]) -> Iterator[tuple[Row, str]]:
    """What stands where a file is to be added and no tracked one makes room, ignored or not.

    Args:
        top: of the work tree.
        changes: what is to become of it; what they only change or remove, Git compares itself.
    """
    gone = {row.path for row in changes if not row.new}
    seen: dict[str, int] = {}

    def mode(path: str) -> int:
        """What stands there: the mode of its inode, 0 for nothing."""
        if path not in seen:
            seen[path] = _mode(top / path)
        return seen[path]

    for row in changes:
        if row.new and (not row.old or row.old_mode == _MODULE) and (found := _obstacle(top, row.path, gone, mode)):
            yield row, found


def _same(git: Git, changes: Sequence[Row]) -> Sequence[Row]:
    """Those whose file holds already, byte for byte, what the new commit has there."""
    top = git.places.work_tree
    files = [row for row in changes if row.mode in _FILES and not row.old and stat.S_ISREG(_mode(top / row.path))]
    if not files:
        return ()
    told = git.run("hash-object", "--no-filters", "--", *(row.path for row in files), limit=LONG).decode().split()
    return [row for row, blob in zip(files, told, strict=True) if row.new == blob]


def _enter(git: Git, added: Sequence[Row]) -> None:
    """Enter files into the index."""
    if added:
        info = (f"{row.mode},{row.new},{row.path}" for row in added)
        git.run("update-index", "--add", *(word for one in info for word in ("--cacheinfo", one)), limit=LONG)


def _leave(git: Git, added: Sequence[Row]) -> None:
    """Take files out of the index again; they themselves stay."""
    if added:
        git.run("update-index", "--force-remove", "--", *(row.path for row in added), limit=LONG)


def _obstacle(top: Path, path: str, gone: set[str], mode: Callable[[str], int]) -> str:
    parts = path.split("/")
    for depth in range(1, len(parts)):
        folder = "/".join(parts[:depth])
        found = mode(folder)
        if not found or folder in gone:
            return ""
        if not stat.S_ISDIR(found):
            return folder
    found = mode(path)
    if not stat.S_ISDIR(found):
        return path if found else ""
    return next((one for one in _files_below(top, path) if one not in gone), "")


def _files_below(top: Path, folder: str) -> Iterator[str]:
    for at, folders, names in os.walk(top / folder):
        links = [name for name in folders if Path(at, name).is_symlink()]
        for name in (*names, *links):
            yield Path(at, name).relative_to(top).as_posix()


def _mode(path: Path) -> int:
    try:
        return path.lstat().st_mode
    except OSError:
        return 0


# what a checkout that died has left


def put_back(git: Git, old: str, new: str, *, since: bool = True) -> bool:
    """Undo in the files what a checkout that died did, so that they are what the index says; the user's stay.

    Args:
        git: runs Git.
        old, new: what it was between.
        since: whether HEAD may have moved since; else what the index alone has of the files to be added is taken out.

    Returns:
        Whether there was anything to undo: False where the index has taken all of it, so that only HEAD is missing.
    """
    index, changes = _index(git), rows(git, old, new)
    behind = [row for row in changes if index.get(row.path) != ((row.mode, row.new) if row.new else None)]
    if behind and not since:  # a checkout brings all at once: these were entered before it
        _leave(git, [row for row in changes if not row.old and row not in behind])
    missing = {row for row in behind if not _mode(git.places.work_tree / row.path)}
    standing = [row for row in behind if row.new and row.mode != _MODULE and row not in missing]
    ours = list(missing)
    for start in range(0, len(standing), _AT_ONCE):
        ours += _written(git, standing[start : start + _AT_ONCE])
    back = [row.path for row in ours if row.path in index]
    for row in ours:
        if row.path not in index:
            _remove(git.places.work_tree, row.path)
    if back:
        names = "".join(f"{path}\0" for path in back).encode("utf-8", "surrogateescape")
        git.run("checkout-index", "-f", "-q", "-u", "-z", "--stdin", input=names, limit=LONG)
    return bool(behind)


def _index(git: Git) -> Mapping[str, tuple[str, str]]:
    """Mode and blob of every path that the index holds."""
    found = {}
    for line in git.run("ls-files", "-s", "-z", limit=LONG).decode("utf-8", "surrogateescape").split("\0")[:-1]:
        head, _, path = line.partition("\t")
        mode, oid, _ = head.split(" ")
        found[path] = mode, oid
    return found


def _written(git: Git, changes: Sequence[Row]) -> Iterator[Row]:
    """Those whose file holds what the new commit would make of it, or the beginning of that."""
    asked = [row for row in changes if "\n" not in row.path]
    request = "".join(f"{row.new} {row.path}\n" for row in asked).encode("utf-8", "surrogateescape")
    answer = git.run("cat-file", "--batch", "--filters", input=request, limit=LONG)
    at = 0
    for row in asked:
        head, _, _ = answer[at:].partition(b"\n") if b"\n" in answer[at : at + 200] else (b"", b"", b"")
        size = int(head.rpartition(b" ")[2])
        data = answer[at + len(head) + 1 :][:size]
        at += len(head) + 1 + size + 1
        if _begins(git.places.work_tree / row.path, data, link=row.mode == _LINK):
            yield row


def _begins(path: Path, data: bytes, *, link: bool) -> bool:
    """Whether a file holds nothing but the beginning of what was to be written there, or all of it."""
    try:
        if path.is_symlink() or link:
            return link and os.fsencode(path.readlink()) == data
        return path.is_file() and path.stat().st_size <= len(data) and data.startswith(path.read_bytes())
    except OSError:
        return False


def _remove(top: Path, path: str) -> None:
    """Remove a file, and the folders that are empty then, as Git does."""
    (top / path).unlink(missing_ok=True)
    with suppress(OSError):
        for folder in Path(path).parents[:-1]:
            (top / folder).rmdir()
