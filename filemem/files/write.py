"""One file of the store: read, or written aside, synced and renamed into its place; removed.

Folders are opened one step at a time, each relative to the one before: whatever is renamed or
linked meanwhile, the result lies inside the work tree.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from filemem.changes import Manifest
from filemem.errors import BadInput, BrokenStore, Conflict, FilememError, NotFound
from filemem.files.scan import MAX_SIZE, Proven, Scan, check_path, is_record, newest, scan
from filemem.record import DATED_NAME, Problem, adr_number

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# O_NONBLOCK: a FIFO must not hold us up.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LINKS = (errno.ELOOP, errno.ENOTDIR, errno.EMLINK)
_TEMPORARY = ".filemem-"  # before temporary names; a name that starts with a dot is no record
_AGAIN = "read it again, then repeat the change"


class Staged:
    """A file written aside, not yet in its place.

    Call `sync`, `publish`, `sync_folders`; always `discard` at the end. `source` is the temporary
    file, "" once it is in place; `changed` are the folders whose listing changed.
    """

    def __init__(self, work_tree: Path, parts: tuple[str, ...], source: str) -> None:
        self.work_tree = work_tree
        self.parts = parts
        self.source = source
        self.changed: list[tuple[str, ...]] = []

    def sync(self) -> None:
        """Wait until the bytes are on disk."""
        try:  # opened anew: a commit may have thousands of files
            at = os.open(self.source, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(at)
            finally:
                os.close(at)
        except OSError as error:
            raise _broken(error, "/".join(self.parts)) from None

    def publish(self, replace: bytes | None, *, over: bool = False) -> None:
        """Put the file into its place, creating folders as needed.

        Args:
            replace: the bytes that must still stand there; None for no file.
            over: replace whatever stands there.

        Raises:
            Conflict: another file stands there.
            BadInput: a link does.
            BrokenStore: the disk refuses.
        """
        *folders, name = self.parts
        path = "/".join(self.parts)
        with open_folder(self.work_tree, tuple(folders), create=self.changed) as folder:
            there = None
            with contextlib.suppress(NotFound):
                there = replace if over else read_file(folder, name, path, MAX_SIZE)
            if there != replace:
                raise Conflict(
                    f"{path} {'exists already' if replace is None else 'was changed meanwhile'}",
                    _AGAIN,
                )
            if replace is not None or over or not self._link(folder, name):
                os.rename(self.source, name, dst_dir_fd=folder)
            self.source = ""
            self.changed.append(tuple(folders))

    def _link(self, folder: int, name: str) -> bool:
        """Put the file where none stands, in one step; False where the system has no such step."""
        try:
            os.link(self.source, name, dst_dir_fd=folder)
            Path(self.source).unlink()  # now, for it changes the file's times: Git reads them next
        except FileExistsError:
            raise Conflict(f"{'/'.join(self.parts)} exists already", _AGAIN) from None
        except (OSError, NotImplementedError):
            return False
        return True

    def finish(self) -> None:
        """Sync, put it into its place whatever stands there, sync the folders, and let go.

        Errors as for `publish`.
        """
        try:
            self.sync()
            self.publish(None, over=True)
            self.sync_folders(set())
        finally:
            self.discard()

    def sync_folders(self, done: set[tuple[str, ...]]) -> None:
        """Wait until the new name is on disk; `done` are folders that need it no more."""
        for folder in dict.fromkeys(self.changed):
            if folder in done:
                continue
            done.add(folder)
            with contextlib.suppress(NotFound, BadInput), open_folder(self.work_tree, folder) as at:
                os.fsync(at)  # a command of the user's may have removed it meanwhile

    def discard(self) -> None:
        """Remove the temporary file where it is not in its place."""
        if self.source:
            with contextlib.suppress(OSError):  # what stays is no record, and harms nothing
                Path(self.source).unlink()
            self.source = ""


class Files:
    """The files of one store, a folder of the work tree or `.`.

    `spool` is for temporary files that nobody watches.
    """

    def __init__(self, work_tree: str | Path, store: str, spool: Path | None = None) -> None:
        self.work_tree = Path(work_tree)
        self.store = store
        self.root = self.work_tree / store
        self._base = () if store == "." else tuple(store.split("/"))
        self._prefix = "".join(f"{part}/" for part in self._base)
        self._spool = spool

    def named(self, path: str) -> str:
        """A store path from the top of the work tree."""
        return self._prefix + path

    def inside(self, path: str) -> str:
        """A path from the top of the work tree, in the store; any other stays as it is."""
        return path.removeprefix(self._prefix)

    def holds(self, path: str) -> bool:
        """Whether a path from the top of the work tree lies in the store."""
        return path.startswith(self._prefix)

    def read(self, path: str) -> bytes:
        """Return the bytes of a file up to 1 MiB.

        Raises NotFound: there is none; BadInput: it is not one of the store's.
        """
        *folders, name = check_path(path)
        with open_folder(self.work_tree, (*self._base, *folders)) as folder:
            return read_file(folder, name, path, MAX_SIZE)

    def read_all(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes | FilememError]]:
        """Yield the bytes of files, or the error that `read` raises; folders are opened once."""
        inside: dict[tuple[str, ...], list[str]] = {}
        for path in paths:
            try:
                inside.setdefault(check_path(path)[:-1], []).append(path)
            except BadInput as error:
                yield path, error
        for folders, names in inside.items():
            try:
                with open_folder(self.work_tree, (*self._base, *folders)) as at:
                    yield from ((path, self._read_in(at, path)) for path in names)
            except (NotFound, BadInput) as error:
                yield from ((path, error) for path in names)

    def _read_in(self, folder: int, path: str) -> bytes | FilememError:
        try:
            return read_file(folder, path.rpartition("/")[2], path, MAX_SIZE)
        except (NotFound, BadInput) as error:
            return error

    def exists(self, path: str) -> bool:
        """Whether something stands at this path (a link counts, its target does not)."""
        return self.seen(path) is not None

    def seen(self, path: str) -> tuple[int, int] | None:
        """Return size in bytes and newest time in nanoseconds of a file; None if it is gone."""
        try:
            *folders, name = check_path(path)
            with open_folder(self.work_tree, (*self._base, *folders)) as folder:
                state = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except (NotFound, BadInput, BrokenStore):
            return None
        return state.st_size, newest(state)

    def is_as(self, path: str, size: int, time: int) -> bool:
        """Whether a file has this size and newest time. It is not read: links do no harm."""
        try:
            state = os.lstat(f"{self.root}/{path}")
        except OSError:
            return False
        return (state.st_size, newest(state)) == (size, time)

    def newest_adr(self) -> str:
        """The newest record of a folder of numbered or dated ones; "" for any other store.

        It is the one with the highest number or the latest day, whichever form more names have.
        """
        names = os.listdir(self.root) if self.root.is_dir() else []
        if "decisions" in names:
            return ""
        records = [name for name in names if is_record(name)]
        numbered = [name for name in records if adr_number(name) is not None]
        dated = [name for name in records if re.fullmatch(DATED_NAME, name)]
        if len(dated) > len(numbered):
            return max(dated)
        return max(numbered, key=lambda name: (adr_number(name), name), default="")

    def scan(
        self,
        before: Manifest,
        *,
        hash_name: str = "sha1",
        folders: Collection[str] | None = None,
        proven: Proven = lambda _: {},
    ) -> Scan:
        """List the records of the store, the times of its folders, and what was skipped.

        Args:
            before: an earlier listing; files with its size and time are not read again.
            hash_name: of the ids, sha1 or sha256.
            folders: those to look into, from `changed_folders`, with new ones below them; None
                for all. "" is the store itself.
            proven: gets the files that would be read, and returns the ids of those that need not.
        """
        try:
            with open_folder(self.work_tree, self._base):
                return scan(self.root, self.read_all, before, hash_name, folders, proven)
        except NotFound:
            return Scan({}, {}, [])
        except BadInput as error:
            message = f"the store: {error.message}; skipped"
            return Scan({}, {}, [Problem("", 1, "unreadable", "error", message)])

    def changed_folders(self, before: Mapping[str, int]) -> set[str]:
        """Return which of these folders were written to or removed since.

        Of a store that nobody looked at yet, the whole.
        """
        top = f"{self.root}/"
        times = before or {"": 0}
        return {folder for folder, time in times.items() if not _is_as_then(top + folder, time)}

    def stage(self, path: str, data: bytes) -> Staged:
        """Write a file aside, unseen until `publish`.

        Raises BadInput: it may not be there, or is over 1 MiB.
        """
        parts = check_path(path)
        if len(data) > MAX_SIZE:
            message = f"{path}: {len(data)} bytes are more than {MAX_SIZE}"
            raise BadInput(message, "write less", field="text")
        return self._stage((*self._base, *parts), data)

    def hide(self, folder: str) -> None:
        """Make Git overlook a folder by a `.gitignore` with `*`. Raises Conflict: it has one."""
        name = self.named(f"{folder}/.gitignore")
        parts = (*self._base, *check_path(folder))
        try:
            with open_folder(self.work_tree, parts) as at:
                lines = read_file(at, ".gitignore", name, MAX_SIZE).split()
        except NotFound:
            self._stage((*parts, ".gitignore"), b"*\n").finish()
            return
        if b"*" not in lines:
            raise Conflict(
                f"{name} does not hold *: private records could be committed", "add a line with *"
            )

    def remove(self, path: str, only: bytes | None = None) -> None:
        """Remove a file if it is there; Conflict unless it holds the bytes `only`, where given."""
        parts = (*self._base, *check_path(path))
        with contextlib.suppress(NotFound), open_folder(self.work_tree, parts[:-1]) as folder:
            if only is not None and read_file(folder, parts[-1], path, MAX_SIZE) != only:
                raise Conflict(f"{self.named(path)} was changed meanwhile", _AGAIN)
            os.unlink(parts[-1], dir_fd=folder)
            os.fsync(folder)

    def _stage(self, parts: tuple[str, ...], data: bytes) -> Staged:
        """Write a file aside: in the spool, on the same file system, else beside its place."""
        aside = self._spool
        staged = None
        try:
            if aside is not None:
                aside.mkdir(parents=True, exist_ok=True)
            if aside is None or aside.stat().st_dev != self.work_tree.stat().st_dev:
                aside = self.work_tree.joinpath(*parts[:-1])
                with open_folder(self.work_tree, parts[:-1], create=[]):
                    pass
            source = f"{aside}/{_TEMPORARY}{os.getpid()}-{os.urandom(6).hex()}"
            staged = Staged(self.work_tree, parts, source)
            with os.fdopen(os.open(source, _NEW, 0o666), "wb") as into:
                into.write(data)
        except OSError as error:
            if staged is not None:
                staged.discard()
            raise _broken(error, "/".join(parts)) from None
        return staged


def _is_as_then(path: str, time: int) -> bool:
    """Whether a folder has the newest time that it had."""
    try:
        state = os.lstat(path)
    except OSError:
        return False
    # No change leaves the change time as it was; the other counts only where somebody set it ahead.
    return time in (state.st_ctime_ns, newest(state))


@contextlib.contextmanager
def open_folder(
    work_tree: Path, parts: tuple[str, ...], *, create: list[tuple[str, ...]] | None = None
) -> Iterator[int]:
    """Open the folder `parts` below the work tree, one step at a time.

    Args:
        work_tree: where it begins.
        parts: the names on the way.
        create: make folders that are missing; it receives those that got a new one.

    Raises:
        NotFound: it is not there.
        BadInput: a link or a file stands on the way.
        BrokenStore: the disk refuses, also while the caller uses the folder.
    """
    at = -1
    try:
        at = os.open(work_tree, _FOLDER)
        for depth, part in enumerate(parts):
            if create is not None:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=at)
                    create.append(parts[:depth])
            below = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = below
        yield at
    except FileNotFoundError as error:
        raise NotFound(f"there is no {error.filename or 'such file'}") from None
    except OSError as error:
        raise _broken(error, "/".join(parts)) from None
    finally:
        if at >= 0:
            os.close(at)


def read_file(folder: int, name: str, path: str, limit: int) -> bytes:
    """Read a file of at most `limit` bytes.

    Raises NotFound: there is none; BadInput: it is larger, or not a regular one.
    """
    try:
        fd = os.open(name, _FILE, dir_fd=folder)
    except FileNotFoundError:
        raise NotFound(f"there is no file {path}") from None
    except OSError as error:
        raise BadInput(
            f"{path} cannot be read: {error.strerror}", "records are regular files", field="path"
        ) from None
    try:
        state = os.fstat(fd)
        if not stat.S_ISREG(state.st_mode) or state.st_size > limit:
            message = f"{path} is not a regular file up to {limit} bytes"
            raise BadInput(message, "links are not followed", field="path")
        with open(fd, "rb", buffering=0, closefd=False) as file:
            return file.read()
    finally:
        os.close(fd)


def _broken(error: OSError, path: str) -> BrokenStore | BadInput:
    """The error to raise where the system refuses."""
    if error.errno in _LINKS:
        return BadInput(
            f"{path} leads through a link or a file, not a folder", "links are not followed", "path"
        )
    return BrokenStore(f"{path}: {error.strerror}", "check the free space, and who may write there")
