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
from filemem.files.scan import (
    MAX_SIZE,
    FindKnownIds,
    Scan,
    get_newest_time,
    is_record,
    scan_store,
    validate_path,
)
from filemem.record import DATED_NAME, Problem, parse_adr_number

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# O_NONBLOCK: a FIFO must not hold us up.
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LINK_ERRORS = (errno.ELOOP, errno.ENOTDIR, errno.EMLINK)
_TEMPORARY_PREFIX = (
    ".filemem-"  # before temporary names; a name that starts with a dot is no record
)
_RETRY_HINT = "read it again, then repeat the change"


class StagedFile:
    """A file written aside, not yet in its place.

    Call `sync`, `publish`, `sync_folders`; always `discard` at the end. `source` is the temporary
    file, "" once it is in place; `changed` are the folders whose listing changed.
    """

    def __init__(self, work_tree: Path, parts: tuple[str, ...], source: str) -> None:
        self.work_tree = work_tree
        self.parts = parts
        self.source = source
        self.changed_folders: list[tuple[str, ...]] = []

    def sync(self) -> None:
        """Wait until the bytes are on disk."""
        try:  # opened anew: a commit may have thousands of files
            descriptor = os.open(self.source, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise _build_error(error, "/".join(self.parts)) from None

    def publish(self, expected: bytes | None, *, overwrite: bool = False) -> None:
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
        with open_folder(
            self.work_tree, tuple(folders), created_folders=self.changed_folders
        ) as folder:
            current = None
            with contextlib.suppress(NotFound):
                current = expected if overwrite else read_file(folder, name, path, MAX_SIZE)
            if current != expected:
                raise Conflict(
                    f"{path} {'exists already' if expected is None else 'was changed meanwhile'}",
                    _RETRY_HINT,
                )
            if expected is not None or overwrite or not self._link_file(folder, name):
                os.rename(self.source, name, dst_dir_fd=folder)
            self.source = ""
            self.changed_folders.append(tuple(folders))

    def _link_file(self, folder: int, name: str) -> bool:
        """Put the file where none stands, in one step; False where the system has no such step."""
        try:
            os.link(self.source, name, dst_dir_fd=folder)
            Path(self.source).unlink()  # now, for it changes the file's times: Git reads them next
        except FileExistsError:
            raise Conflict(f"{'/'.join(self.parts)} exists already", _RETRY_HINT) from None
        except (OSError, NotImplementedError):
            return False
        return True

    def finish(self) -> None:
        """Sync, put it into its place whatever stands there, sync the folders, and let go.

        Errors as for `publish`.
        """
        try:
            self.sync()
            self.publish(None, overwrite=True)
            self.sync_folders(set())
        finally:
            self.discard()

    def sync_folders(self, synced_folders: set[tuple[str, ...]]) -> None:
        """Wait until the new name is on disk; `done` are folders that need it no more."""
        for folder in dict.fromkeys(self.changed_folders):
            if folder in synced_folders:
                continue
            synced_folders.add(folder)
            with (
                contextlib.suppress(NotFound, BadInput),
                open_folder(self.work_tree, folder) as descriptor,
            ):
                os.fsync(descriptor)  # a command of the user's may have removed it meanwhile

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

    def to_work_tree_path(self, path: str) -> str:
        """A store path from the top of the work tree."""
        return self._prefix + path

    def to_store_path(self, path: str) -> str:
        """A path from the top of the work tree, in the store; any other stays as it is."""
        return path.removeprefix(self._prefix)

    def is_in_store(self, path: str) -> bool:
        """Whether a path from the top of the work tree lies in the store."""
        return path.startswith(self._prefix)

    def read(self, path: str) -> bytes:
        """Return the bytes of a file up to 1 MiB.

        Raises NotFound: there is none; BadInput: it is not one of the store's.
        """
        *folders, name = validate_path(path)
        with open_folder(self.work_tree, (*self._base, *folders)) as folder:
            return read_file(folder, name, path, MAX_SIZE)

    def read_all(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes | FilememError]]:
        """Yield the bytes of files, or the error that `read` raises; folders are opened once."""
        paths_by_folder: dict[tuple[str, ...], list[str]] = {}
        for path in paths:
            try:
                paths_by_folder.setdefault(validate_path(path)[:-1], []).append(path)
            except BadInput as error:
                yield path, error
        for folders, folder_paths in paths_by_folder.items():
            try:
                with open_folder(self.work_tree, (*self._base, *folders)) as descriptor:
                    yield from ((path, self._read_in(descriptor, path)) for path in folder_paths)
            except (NotFound, BadInput) as error:
                yield from ((path, error) for path in folder_paths)

    def _read_in(self, folder: int, path: str) -> bytes | FilememError:
        try:
            return read_file(folder, path.rpartition("/")[2], path, MAX_SIZE)
        except (NotFound, BadInput) as error:
            return error

    def exists(self, path: str) -> bool:
        """Whether something stands at this path (a link counts, its target does not)."""
        return self.read_state(path) is not None

    def read_state(self, path: str) -> tuple[int, int] | None:
        """Return size in bytes and newest time in nanoseconds of a file; None if it is gone."""
        try:
            *folders, name = validate_path(path)
            with open_folder(self.work_tree, (*self._base, *folders)) as folder:
                state = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except (NotFound, BadInput, BrokenStore):
            return None
        return state.st_size, get_newest_time(state)

    def is_unchanged(self, path: str, size: int, time: int) -> bool:
        """Whether a file has this size and newest time. It is not read: links do no harm."""
        try:
            state = os.lstat(f"{self.root}/{path}")
        except OSError:
            return False
        return (state.st_size, get_newest_time(state)) == (size, time)

    def find_newest_adr(self) -> str:
        """The newest record of a folder of numbered or dated ones; "" for any other store.

        It is the one with the highest number or the latest day, whichever form more names have.
        """
        names = os.listdir(self.root) if self.root.is_dir() else []
        if "decisions" in names:
            return ""
        records = [name for name in names if is_record(name)]
        numbered_names = [name for name in records if parse_adr_number(name) is not None]
        dated_names = [name for name in records if re.fullmatch(DATED_NAME, name)]
        if len(dated_names) > len(numbered_names):
            return max(dated_names)
        return max(numbered_names, key=lambda name: (parse_adr_number(name), name), default="")

    def scan(
        self,
        before: Manifest,
        *,
        hash_name: str = "sha1",
        folders: Collection[str] | None = None,
        find_known_ids: FindKnownIds = lambda _: {},
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
                return scan_store(
                    self.root, self.read_all, before, hash_name, folders, find_known_ids
                )
        except NotFound:
            return Scan({}, {}, [])
        except BadInput as error:
            message = f"the store: {error.message}; skipped"
            return Scan({}, {}, [Problem("", 1, "unreadable", "error", message)])

    def list_changed_folders(self, before: Mapping[str, int]) -> set[str]:
        """Return which of these folders were written to or removed since.

        Of a store that nobody looked at yet, the whole.
        """
        top = f"{self.root}/"
        times = before or {"": 0}
        return {
            folder for folder, time in times.items() if not _is_folder_unchanged(top + folder, time)
        }

    def stage(self, path: str, data: bytes) -> StagedFile:
        """Write a file aside, unseen until `publish`.

        Raises BadInput: it may not be there, or is over 1 MiB.
        """
        parts = validate_path(path)
        if len(data) > MAX_SIZE:
            message = f"{path}: {len(data)} bytes are more than {MAX_SIZE}"
            raise BadInput(message, "write less", field="text")
        return self._stage_file((*self._base, *parts), data)

    def hide_folder(self, folder: str) -> None:
        """Make Git overlook a folder by a `.gitignore` with `*`. Raises Conflict: it has one."""
        name = self.to_work_tree_path(f"{folder}/.gitignore")
        parts = (*self._base, *validate_path(folder))
        try:
            with open_folder(self.work_tree, parts) as descriptor:
                lines = read_file(descriptor, ".gitignore", name, MAX_SIZE).split()
        except NotFound:
            self._stage_file((*parts, ".gitignore"), b"*\n").finish()
            return
        if b"*" not in lines:
            raise Conflict(
                f"{name} does not hold *: private records could be committed", "add a line with *"
            )

    def remove(self, path: str, expected: bytes | None = None) -> None:
        """Remove a file if it is there; Conflict unless it holds the bytes `only`, where given."""
        parts = (*self._base, *validate_path(path))
        with contextlib.suppress(NotFound), open_folder(self.work_tree, parts[:-1]) as folder:
            if expected is not None and read_file(folder, parts[-1], path, MAX_SIZE) != expected:
                raise Conflict(f"{self.to_work_tree_path(path)} was changed meanwhile", _RETRY_HINT)
            os.unlink(parts[-1], dir_fd=folder)
            os.fsync(folder)

    def _stage_file(self, parts: tuple[str, ...], data: bytes) -> StagedFile:
        """Write a file aside: in the spool, on the same file system, else beside its place."""
        spool = self._spool
        staged = None
        try:
            if spool is not None:
                spool.mkdir(parents=True, exist_ok=True)
            if spool is None or spool.stat().st_dev != self.work_tree.stat().st_dev:
                spool = self.work_tree.joinpath(*parts[:-1])
                with open_folder(self.work_tree, parts[:-1], created_folders=[]):
                    pass
            source = f"{spool}/{_TEMPORARY_PREFIX}{os.getpid()}-{os.urandom(6).hex()}"
            staged = StagedFile(self.work_tree, parts, source)
            with os.fdopen(os.open(source, _NEW_FILE_FLAGS, 0o666), "wb") as file:
                file.write(data)
        except OSError as error:
            if staged is not None:
                staged.discard()
            raise _build_error(error, "/".join(parts)) from None
        return staged


def _is_folder_unchanged(path: str, time: int) -> bool:
    """Whether a folder has the newest time that it had."""
    try:
        state = os.lstat(path)
    except OSError:
        return False
    # No change leaves the change time as it was; the other counts only where somebody set it ahead.
    return time in (state.st_ctime_ns, get_newest_time(state))


@contextlib.contextmanager
def open_folder(
    work_tree: Path, parts: tuple[str, ...], *, created_folders: list[tuple[str, ...]] | None = None
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
    descriptor = -1
    try:
        descriptor = os.open(work_tree, _FOLDER_FLAGS)
        for depth, part in enumerate(parts):
            if created_folders is not None:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=descriptor)
                    created_folders.append(parts[:depth])
            next_descriptor = os.open(part, _FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = next_descriptor
        yield descriptor
    except FileNotFoundError as error:
        raise NotFound(f"there is no {error.filename or 'such file'}") from None
    except OSError as error:
        raise _build_error(error, "/".join(parts)) from None
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def read_file(folder: int, name: str, path: str, limit: int) -> bytes:
    """Read a file of at most `limit` bytes.

    Raises NotFound: there is none; BadInput: it is larger, or not a regular one.
    """
    try:
        descriptor = os.open(name, _FILE_FLAGS, dir_fd=folder)
    except FileNotFoundError:
        raise NotFound(f"there is no file {path}") from None
    except OSError as error:
        raise BadInput(
            f"{path} cannot be read: {error.strerror}", "records are regular files", field="path"
        ) from None
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode) or state.st_size > limit:
            message = f"{path} is not a regular file up to {limit} bytes"
            raise BadInput(message, "links are not followed", field="path")
        with open(descriptor, "rb", buffering=0, closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def _build_error(error: OSError, path: str) -> BrokenStore | BadInput:
    """The error to raise where the system refuses."""
    if error.errno in _LINK_ERRORS:
        return BadInput(
            f"{path} leads through a link or a file, not a folder", "links are not followed", "path"
        )
    return BrokenStore(f"{path}: {error.strerror}", "check the free space, and who may write there")
