"""What stands in a store: its files are read and listed here, never through a link and never outside the work tree.

Rules kept here:
- Only regular files of at most 1 MiB are read; links, FIFOs, sockets, devices and larger files are skipped and
  reported. A store folder that is not there is an empty store.
- Identity is the Git blob id of the bytes as they stand on disk. Where Git would convert line endings, that id is not
  the one in the commit: it only says whether a file is still what it was.
- Folders are opened one step at a time, each relative to the one before: whatever is renamed meanwhile, the result
  lies inside the work tree.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from filemem.changes import Entry, Manifest, blob_id
from filemem.errors import BadInput, BrokenStore, NotFound
from filemem.files.paths import check_path, is_record
from filemem.record import MAX_FILE, Problem

MAX_SIZE = MAX_FILE  # of any file that is read: what no record can be is none
CLOCK_TICK = 20_000_000  # nanoseconds; a file time this young may still hide a second write in the same tick
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # O_NONBLOCK: a FIFO must not hold us up
_LINKS = (errno.ELOOP, errno.ENOTDIR, errno.EMLINK, errno.ENXIO)


class Readable:
    """The files of one store, to be read."""

    def __init__(self, work_tree: str | Path, store: str) -> None:
        self.work_tree = Path(work_tree)
        self.store = store
        self.root = self.work_tree / store
        self._base = () if store == "." else tuple(store.split("/"))
        self._prefix = "".join(f"{part}/" for part in self._base)

    def named(self, path: str) -> str:
        """A store path from the top of the work tree."""
        return self._prefix + path

    def inside(self, path: str) -> str:
        """A path from the top of the work tree, in the store; one that lies elsewhere stays as it is."""
        return path.removeprefix(self._prefix)

    def holds(self, path: str) -> bool:
        """Whether a path from the top of the work tree lies in the store."""
        return path.startswith(self._prefix)

    def read(self, path: str) -> bytes:
        """The bytes of one file; `path` is relative to the store.

        Raises:
            NotFound: there is no such file.
            BadInput: it is not a regular file of at most 1 MiB, or the path leaves the store.
        """
        *folders, name = check_path(path)
        with open_folder(self.work_tree, (*self._base, *folders)) as folder:
            return read_file(folder, name, path, MAX_SIZE)

    def exists(self, path: str) -> bool:
        """Whether something stands at this path (a link counts, its target does not)."""
        return self.seen(path) is not None

    def skipped(self, path: str) -> Problem | None:
        """Why a scan does not read a file that stands at this path, or None."""
        try:
            reason = _unfit(self._stat(path))
        except (BadInput, NotFound) as error:
            reason = ("file-name", error.message)
        return _skipped(path, *reason) if reason else None

    def seen(self, path: str) -> tuple[int, int] | None:
        """Size in bytes and newest time in nanoseconds of a file, as manifests hold them; None if it is gone."""
        check_path(path)
        try:
            found = self._stat(path)
        except (NotFound, BadInput, OSError):
            return None
        return found.st_size, _newest(found)

    def _stat(self, path: str) -> os.stat_result:
        *folders, name = check_path(path)
        with open_folder(self.work_tree, (*self._base, *folders)) as folder:
            return os.stat(name, dir_fd=folder, follow_symlinks=False)

    def scan(
        self, before: Manifest, *, hash_name: str = "sha1", folders: Collection[str] | None = None
    ) -> tuple[dict[str, Entry], list[Problem]]:
        """List every record of the store; also what was skipped, with the reason.

        Args:
            before: an earlier listing; files with equal size and time are not read again.
            hash_name: the repository's object format, "sha1" or "sha256".
            folders: look only into these folders (from `changed_folders`) and into new ones below them.
        """
        start = time.time_ns()
        problems: list[Problem] = []
        known = {_parent(path) for path in before} if folders is not None else set()
        found = {} if folders is None else {p: e for p, e in before.items() if _parent(p) not in folders}
        for folder, listing in self._walk(folders, known, problems):
            for item in listing:
                path = f"{folder}/{item.name}".lstrip("/")
                if is_record(item.name) and (entry := self._look(item, path, before.get(path), hash_name, problems)):
                    young = entry.mtime > start - CLOCK_TICK
                    found[path] = Entry(entry.blob, entry.size) if young else entry
        return found, problems

    def folder_times(self, before: Mapping[str, int] | None = None) -> dict[str, int]:
        """The time of every folder of the store ("" for itself) in nanoseconds; of one that is as `before`, no list."""
        start = time.time_ns()
        known = before or {}
        changed = self.changed_folders(known)
        times = {folder: seen for folder, seen in known.items() if folder not in changed}
        for folder, _ in self._walk(changed if known else None, set(known), []):
            with contextlib.suppress(OSError):
                written = _newest(os.lstat(f"{self.root}/{folder}"))
                times[folder] = -1 if written > start - CLOCK_TICK else written
        return times

    def changed_folders(self, before: Mapping[str, int]) -> set[str]:
        """Which of these folders were written to or removed since; new ones show by their parent."""
        changed, top = set(), f"{self.root}/"  # there may be ten thousand, at each start of a command
        for folder, seen in before.items():
            try:
                found = os.lstat(top + folder)
                # No change leaves the change time as it was; the other counts only where somebody set it ahead.
                same = found.st_ctime_ns == seen or _newest(found) == seen
            except OSError:
                same = False
            if not same:
                changed.add(folder)
        if not before and self.root.is_dir():
            changed.add("")
        return changed

    def _walk(
        self, only: Collection[str] | None, known: set[str], problems: list[Problem]
    ) -> Iterator[tuple[str, list[os.DirEntry[str]]]]:
        """Folders with their listings; with `only`, those and whatever below them is not `known`."""
        try:
            with open_folder(self.work_tree, self._base):
                pending = [""] if only is None else sorted(only)
        except NotFound:
            return
        except BadInput as error:
            problems.append(Problem("", 1, "symlink", "error", f"the store: {error.message}; skipped"))
            return
        visited: set[str] = set()
        while pending:
            folder = pending.pop()
            if folder in visited or folder.startswith(".") or "/." in folder:
                continue
            visited.add(folder)
            try:
                with os.scandir(f"{self.root}/{folder}") as listing:
                    items = list(listing)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                problems.append(_skipped(folder, "unreadable", f"cannot be listed: {error.strerror}"))
                continue
            if folder and any(item.name == ".git" for item in items):
                problems.append(_skipped(folder, "repository", "is a repository of its own"))
                continue
            items = [item for item in items if not item.name.startswith(".")]
            for item in items:
                path = f"{folder}/{item.name}".lstrip("/")
                if item.is_dir(follow_symlinks=False):
                    if only is None or path not in known:
                        pending.append(path)
                elif item.is_symlink() and not is_record(item.name) and Path(item.path).is_dir():
                    problems.append(_skipped(path, "symlink", "is a linked folder, not followed"))
            yield folder, items

    def _look(
        self, item: os.DirEntry[str], path: str, known: Entry | None, hash_name: str, problems: list[Problem]
    ) -> Entry | None:
        try:
            found = item.stat(follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                return None
            reason = _unfit(found)
            if reason is None:
                newest = _newest(found)
                if known is not None and (known.size, known.mtime) == (found.st_size, newest):
                    return known
                return Entry(blob_id(self.read(path), hash_name), found.st_size, newest)
        except (FileNotFoundError, NotFound):
            return None
        except OSError as error:
            reason = ("unreadable", f"cannot be read: {error.strerror}")
        except BadInput as error:
            reason = ("file-name", error.message)
        problems.append(_skipped(path, *reason))
        return None


def _newest(found: os.stat_result) -> int:
    # The change time cannot be set back: it shows an edit that kept the size and restored the time.
    return max(found.st_mtime_ns, found.st_ctime_ns)


def _unfit(found: os.stat_result) -> tuple[str, str] | None:
    if stat.S_ISLNK(found.st_mode):
        return "symlink", "is a link, not followed"
    if not stat.S_ISREG(found.st_mode):
        return "not-a-file", "is no regular file"
    if found.st_size > MAX_SIZE:
        return "too-large", f"is larger than {MAX_SIZE} bytes"
    return None


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _skipped(path: str, code: str, message: str) -> Problem:
    printable = path.encode("utf-8", "backslashreplace").decode()
    return Problem(printable, 1, code, "error", f"{message}; skipped")


@contextlib.contextmanager
def open_folder(
    work_tree: Path, parts: tuple[str, ...], *, create: bool = False, changed: list[int] | None = None
) -> Iterator[int]:
    """Open the folder `parts` below the work tree, one step at a time.

    Args:
        work_tree: the one folder that is opened by its path.
        parts: names of the folders below it.
        create: make the folders that are missing.
        changed: receives an open descriptor of every folder that got a new one; the caller closes them.

    Raises:
        NotFound: it is not there, and `create` is off.
        BadInput: a link or a file stands on the way.
        BrokenStore: the disk refuses.
    """
    at, part = -1, str(work_tree)
    try:
        at = os.open(work_tree, _FOLDER)
        for part in parts:
            if create:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=at)
                    if changed is not None:
                        changed.append(os.dup(at))
            below = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = below
    except OSError as error:
        if at >= 0:
            os.close(at)
        if at >= 0 and isinstance(error, FileNotFoundError) and not create:
            raise NotFound(f"there is no folder {part}") from None
        if at >= 0 and error.errno in _LINKS:
            raise BadInput(f"{part} is a link or a file, not a folder", "links are not followed", "path") from None
        raise broken(error, part) from None
    try:
        yield at
    finally:
        os.close(at)


def read_file(folder: int, name: str, path: str, limit: int) -> bytes:
    """Read a regular file of at most `limit` bytes from an open folder; `path` is for messages.

    Raises:
        NotFound: it is not there.
        BadInput: it is a link, something other than a regular file, or larger.
    """
    try:
        fd = os.open(name, _FILE, dir_fd=folder)
    except FileNotFoundError:
        raise NotFound(f"there is no file {path}") from None
    except OSError as error:
        why = "is a link or no regular file" if error.errno in _LINKS else f"cannot be read: {error.strerror}"
        raise BadInput(f"{path} {why}", "records are regular files", field="path") from None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise BadInput(f"{path} is no regular file", "records are regular files", field="path")
        if found.st_size <= limit:
            data = b""
            while len(data) <= limit and (more := os.read(fd, found.st_size + 1)):  # it may grow while it is read
                data += more
            if len(data) <= limit:
                return data
        raise BadInput(f"{path} is larger than {limit} bytes", "split it up", field="path")
    finally:
        os.close(fd)


def broken(error: OSError, path: str) -> BrokenStore | BadInput:
    """The error to raise for a disk that refuses."""
    if error.errno == errno.ENAMETOOLONG:
        return BadInput(f"{path[:80]}... is too long a name", "shorten it", field="path")
    hints = {errno.ENOSPC: "free some disk space", errno.EROFS: "the file system is read-only"}
    hint = hints.get(error.errno or 0, "check who may write there")
    return BrokenStore(f"{path}: {error.strerror}", hint)
