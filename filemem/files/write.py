"""Read, write and remove the files of a store.

A file is written under a temporary name, synced and renamed. Folders are opened one by one, each
relative to the one above, so that no rename or link can lead out of the work tree.
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
# O_NONBLOCK: opening a FIFO must not block.
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LINK_ERRORS = (errno.ELOOP, errno.ENOTDIR, errno.EMLINK)
_TEMPORARY_PREFIX = ".filemem-"  # a name that starts with a dot is no record
_RETRY_HINT = "read it again, then repeat the change"


class StagedFile:
    """A file under a temporary name, not yet in its place.

    Call `sync`, `publish`, `sync_folders`; always `discard` at the end. `source` is the temporary
    file, "" once it is in place; `changed_folders` are those that got a new name.
    """

    def __init__(self, work_tree: Path, parts: tuple[str, ...], source: str) -> None:
        self.work_tree = work_tree
        self.parts = parts
        self.source = source
        self.changed_folders: list[tuple[str, ...]] = []

    def sync(self) -> None:
        """Wait until the bytes are on disk."""
        try:
            # Opened again, because a commit may have thousands of files.
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
            expected: The present bytes of the file that is replaced; None if there is no file.
            overwrite: Replace any file.

        Raises:
            Conflict: Another file is there.
            BadInput: A link is there.
            BrokenStore: The disk refuses.
        """
        folders = self.parts[:-1]
        name = self.parts[-1]
        with open_folder(self.work_tree, folders, created_folders=self.changed_folders) as folder:
            if not overwrite:
                self._require_content(folder, expected)
            may_exist = overwrite or expected is not None
            if may_exist or not self._link_file(folder, name):
                os.rename(self.source, name, dst_dir_fd=folder)
            self.source = ""
            self.changed_folders.append(folders)

    def _require_content(self, folder: int, expected: bytes | None) -> None:
        """Raise Conflict unless the present file has these bytes; None for no file."""
        path = "/".join(self.parts)
        current = None
        with contextlib.suppress(NotFound):
            current = read_file(folder, self.parts[-1], path, MAX_SIZE)
        if current == expected:
            return
        if expected is None:
            raise Conflict(f"{path} exists already", _RETRY_HINT)
        raise Conflict(f"{path} was changed meanwhile", _RETRY_HINT)

    def _link_file(self, folder: int, name: str) -> bool:
        """Put a new file into its place in one step; return False if the system cannot do that.

        Raises Conflict if a file is there.
        """
        try:
            os.link(self.source, name, dst_dir_fd=folder)
            Path(self.source).unlink()  # now, because it changes the file's times: Git reads them
        except FileExistsError:
            path = "/".join(self.parts)
            raise Conflict(f"{path} exists already", _RETRY_HINT) from None
        except (OSError, NotImplementedError):
            return False
        return True

    def finish(self) -> None:
        """Sync the file, put it into its place, replacing any file, and sync the folders.

        Raises as `publish`.
        """
        try:
            self.sync()
            self.publish(None, overwrite=True)
            self.sync_folders(set())
        finally:
            self.discard()

    def sync_folders(self, synced_folders: set[tuple[str, ...]]) -> None:
        """Wait until the new name is on disk; folders in `synced_folders` are skipped, then added.

        A folder that was removed meanwhile is passed over.
        """
        for folder in dict.fromkeys(self.changed_folders):
            if folder in synced_folders:
                continue
            synced_folders.add(folder)
            with (
                contextlib.suppress(NotFound, BadInput),
                open_folder(self.work_tree, folder) as descriptor,
            ):
                os.fsync(descriptor)

    def discard(self) -> None:
        """Remove the temporary file if it is still there."""
        if not self.source:
            return
        with contextlib.suppress(OSError):  # a file that is left is no record
            Path(self.source).unlink()
        self.source = ""


class Files:
    """The files of one store, a folder of the work tree or `.`.

    `spool` is a folder for temporary files outside the work tree, so that no watcher sees them.
    """

    def __init__(self, work_tree: str | Path, store: str, spool: Path | None = None) -> None:
        self.work_tree = Path(work_tree)
        self.store = store
        self.root = self.work_tree / store
        self._base = () if store == "." else tuple(store.split("/"))
        self._prefix = "".join(f"{part}/" for part in self._base)
        self._spool = spool

    def to_work_tree_path(self, path: str) -> str:
        """Return a store path relative to the work tree."""
        return self._prefix + path

    def to_store_path(self, path: str) -> str:
        """Return a path of the work tree relative to the store; any other stays as it is."""
        return path.removeprefix(self._prefix)

    def is_in_store(self, path: str) -> bool:
        """Whether a path of the work tree is in the store."""
        return path.startswith(self._prefix)

    def _split_path(self, path: str) -> tuple[str, ...]:
        """Return the parts of a store path from the top of the work tree. Raises BadInput."""
        return self._base + validate_path(path)

    def read(self, path: str) -> bytes:
        """Return the bytes of a file up to 1 MiB.

        Raises NotFound if it is missing, BadInput if it is not a file of the store.
        """
        parts = self._split_path(path)
        with open_folder(self.work_tree, parts[:-1]) as folder:
            return read_file(folder, parts[-1], path, MAX_SIZE)

    def read_all(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes | FilememError]]:
        """Yield the bytes of files, or the error that `read` raises; each folder is opened once."""
        paths_by_folder: dict[tuple[str, ...], list[str]] = {}
        for path in paths:
            try:
                folders = self._split_path(path)[:-1]
            except BadInput as error:
                yield path, error
                continue
            paths_by_folder.setdefault(folders, []).append(path)
        for folders, folder_paths in paths_by_folder.items():
            try:
                with open_folder(self.work_tree, folders) as descriptor:
                    for path in folder_paths:
                        yield path, self._read_in(descriptor, path)
            except (NotFound, BadInput) as error:
                for path in folder_paths:
                    yield path, error

    def _read_in(self, folder: int, path: str) -> bytes | FilememError:
        name = path.rpartition("/")[2]
        try:
            return read_file(folder, name, path, MAX_SIZE)
        except (NotFound, BadInput) as error:
            return error

    def exists(self, path: str) -> bool:
        """Whether there is a file or a link at this path; a link's target may be missing."""
        return self.read_state(path) is not None

    def read_state(self, path: str) -> tuple[int, int] | None:
        """Return size in bytes and newest time in nanoseconds of a file; None if it is missing."""
        try:
            parts = self._split_path(path)
            with open_folder(self.work_tree, parts[:-1]) as folder:
                state = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
        except (NotFound, BadInput, BrokenStore):
            return None
        return state.st_size, get_newest_time(state)

    def is_unchanged(self, path: str, size: int, time: int) -> bool:
        """Whether a file has this size and newest time; it is not opened, so links do no harm."""
        try:
            state = os.lstat(f"{self.root}/{path}")
        except OSError:
            return False
        return state.st_size == size and get_newest_time(state) == time

    def find_newest_adr(self) -> str:
        """Return the newest record in a folder of numbered or dated files; "" for another store.

        It has the highest number, or the latest date if more names have a date.
        """
        if not self.root.is_dir():
            return ""
        names = os.listdir(self.root)
        if "decisions" in names:
            return ""
        dated_names = []
        numbered_names = []
        for name in names:
            if not is_record(name):
                continue
            if re.fullmatch(DATED_NAME, name):
                dated_names.append(name)
            number = parse_adr_number(name)
            if number is not None:
                numbered_names.append((number, name))
        if len(dated_names) > len(numbered_names):
            return max(dated_names)
        if not numbered_names:
            return ""
        return max(numbered_names)[1]

    def scan(
        self,
        before: Manifest,
        *,
        hash_name: str = "sha1",
        folders: Collection[str] | None = None,
        find_known_ids: FindKnownIds = lambda _: {},
    ) -> Scan:
        """List the records of the store, the times of its folders, and the skipped files.

        Args:
            before: An earlier listing; files with an equal size and time are not read again.
            hash_name: The hash of the ids, sha1 or sha256.
            folders: The folders to list, from `list_changed_folders`, with new ones below them;
                None for all. "" is the store itself.
            find_known_ids: Returns the ids, of the files to read, that are known already.
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
        """Return the folders that were written to or removed since an earlier scan.

        Without one that is the whole store, "".
        """
        changed_folders = set()
        times = before or {"": 0}
        for folder, time in times.items():
            if not _is_folder_unchanged(f"{self.root}/{folder}", time):
                changed_folders.add(folder)
        return changed_folders

    def stage(self, path: str, data: bytes) -> StagedFile:
        """Write a file under a temporary name, for `publish`.

        Raises BadInput if the path is not allowed or the file is over 1 MiB.
        """
        parts = self._split_path(path)
        if len(data) > MAX_SIZE:
            message = f"{path}: {len(data)} bytes are more than {MAX_SIZE}"
            raise BadInput(message, "write less", field="text")
        return self._stage_file(parts, data)

    def hide_folder(self, folder: str) -> None:
        """Make Git ignore a folder by a `.gitignore` with `*`.

        Raises Conflict if the folder has one without `*`.
        """
        name = self.to_work_tree_path(f"{folder}/.gitignore")
        parts = self._split_path(folder)
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
        """Remove a file if it exists. Raises Conflict if it has other bytes than `expected`."""
        parts = self._split_path(path)
        name = parts[-1]
        with contextlib.suppress(NotFound), open_folder(self.work_tree, parts[:-1]) as folder:
            if expected is not None:
                current = read_file(folder, name, path, MAX_SIZE)
                if current != expected:
                    message = f"{self.to_work_tree_path(path)} was changed meanwhile"
                    raise Conflict(message, _RETRY_HINT)
            os.unlink(name, dir_fd=folder)
            os.fsync(folder)

    def _stage_file(self, parts: tuple[str, ...], data: bytes) -> StagedFile:
        """Write a file under a temporary name."""
        staged = None
        try:
            folder = self._prepare_spool(parts[:-1])
            token = os.urandom(6).hex()
            source = f"{folder}/{_TEMPORARY_PREFIX}{os.getpid()}-{token}"
            staged = StagedFile(self.work_tree, parts, source)
            descriptor = os.open(source, _NEW_FILE_FLAGS, 0o666)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
        except OSError as error:
            if staged is not None:
                staged.discard()
            raise _build_error(error, "/".join(parts)) from None
        return staged

    def _prepare_spool(self, folders: tuple[str, ...]) -> Path:
        """Return a folder for a temporary file: the spool, or the file's own folder.

        A file can be renamed only within a file system. Missing folders are created.
        """
        if self._spool is not None:
            self._spool.mkdir(parents=True, exist_ok=True)
            if self._spool.stat().st_dev == self.work_tree.stat().st_dev:
                return self._spool
        with open_folder(self.work_tree, folders, created_folders=[]):
            return self.work_tree.joinpath(*folders)


def _is_folder_unchanged(path: str, time: int) -> bool:
    """Whether a folder still has its newest time."""
    try:
        state = os.lstat(path)
    except OSError:
        return False
    # Each change sets the change time. The modification time counts only if it was set ahead.
    return time in (state.st_ctime_ns, get_newest_time(state))


@contextlib.contextmanager
def open_folder(
    work_tree: Path, parts: tuple[str, ...], *, created_folders: list[tuple[str, ...]] | None = None
) -> Iterator[int]:
    """Open the folder `parts` below the work tree, one step at a time.

    Args:
        work_tree: The top folder.
        parts: The names of the folders on the way.
        created_folders: If given, missing folders are created, and their parents added to it.

    Raises:
        NotFound: The folder is missing.
        BadInput: A link or a file is on the way.
        BrokenStore: The disk refuses, also while the caller uses the folder.
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

    Raises NotFound if it is missing, BadInput if it is larger or not a regular file.
    """
    try:
        descriptor = os.open(name, _FILE_FLAGS, dir_fd=folder)
    except FileNotFoundError:
        raise NotFound(f"there is no file {path}") from None
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}"
        raise BadInput(message, "records are regular files", field="path") from None
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
    """Return our error for one of the system."""
    if error.errno in _LINK_ERRORS:
        message = f"{path} leads through a link or a file, not a folder"
        return BadInput(message, "links are not followed", "path")
    return BrokenStore(f"{path}: {error.strerror}", "check the free space, and who may write there")
