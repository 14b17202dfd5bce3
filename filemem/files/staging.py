"""A file on its way to disk: written aside, synced, renamed into place, its folders synced."""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from filemem.files.folders import broken, open_folder

TEMPORARY = ".filemem-"  # prefix of temporary names; a name that starts with a dot is never a record


@dataclass(eq=False, repr=False, slots=True)
class Staged:
    """A file written aside, not yet in its place. Use `sync`, `publish`, `sync_folders`; always `discard` at the end.

    Args:
        work_tree: top folder of the work tree.
        parts: where the file goes, below the work tree.
        source: the temporary file; empty once it is in place.
        fd: open descriptor of the file.
    """

    work_tree: Path
    parts: tuple[str, ...]
    source: str
    fd: int
    changed: list[int] = field(default_factory=list)  # open folders whose listing changed

    def sync(self) -> None:
        """Wait until the bytes are on disk."""
        os.fsync(self.fd)

    def publish(self) -> None:
        """Rename the file into its place, creating folders as needed.

        Raises:
            BadInput: a link or a file stands where a folder must be.
            BrokenStore: the disk refuses.
        """
        with open_folder(self.work_tree, self.parts[:-1], create=True, changed=self.changed) as folder:
            try:
                os.rename(self.source, self.parts[-1], dst_dir_fd=folder)
            except OSError as error:
                raise broken(error, "/".join(self.parts)) from None
            self.changed.append(os.dup(folder))
        self.source = ""

    def sync_folders(self) -> None:
        """Wait until the new name is on disk."""
        for folder in self.changed:
            os.fsync(folder)

    def finish(self) -> None:
        """Sync, publish, sync the folders, and let go.

        Raises:
            BadInput: a link or a file stands where a folder must be.
            BrokenStore: the disk refuses; what stood in the place stands there still.
        """
        try:
            self.sync()
            self.publish()
            self.sync_folders()
        except OSError as error:
            raise broken(error, "/".join(self.parts)) from None
        finally:
            self.discard()

    def discard(self) -> None:
        """Let go of everything held open; before `publish`, of the temporary file too."""
        for fd in (self.fd, *self.changed):
            if fd >= 0:
                os.close(fd)
        self.fd, self.changed = -1, []
        if self.source:
            Path(self.source).unlink(missing_ok=True)
            self.source = ""


def stage(work_tree: Path, parts: tuple[str, ...], data: bytes, spool: Path | None) -> Staged:
    """Write `data` aside for `parts` below the work tree.

    Args:
        spool: folder for temporary files, used where it is on the file system of the work tree; elsewhere they stand
            beside their target.

    Raises:
        BadInput: a link or a file stands where a folder must be.
        BrokenStore: the disk refuses.
    """
    name = f"{TEMPORARY}{os.getpid()}-{os.urandom(6).hex()}"
    staged = None
    try:
        source = _temporary_folder(work_tree, parts, spool) / name
        fd = os.open(source, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        staged = Staged(work_tree, parts, str(source), fd)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]
    except OSError as error:
        if staged is not None:
            staged.discard()
        raise broken(error, "/".join(parts)) from None
    return staged


def replace(work_tree: Path, path: str, data: bytes, spool: Path | None) -> None:
    """Make a file of the work tree, or give it other content; at any moment the old one or the new stands there.

    Args:
        path: from the top of the work tree, without links. Its permissions stay.
        spool: as `stage` takes it.

    Raises:
        BadInput: a link or a file stands where a folder must be.
        BrokenStore: the disk refuses; the file is what it was.
    """
    staged = stage(work_tree, tuple(path.split("/")), data, spool)
    with contextlib.suppress(FileNotFoundError):
        os.fchmod(staged.fd, stat.S_IMODE(os.lstat(work_tree / path).st_mode))
    staged.finish()


def _temporary_folder(work_tree: Path, parts: tuple[str, ...], spool: Path | None) -> Path:
    if spool is not None:
        if not spool.is_dir():
            spool.mkdir(parents=True, exist_ok=True)
        if spool.stat().st_dev == work_tree.stat().st_dev:
            return spool
    with open_folder(work_tree, parts[:-1], create=True):
        return work_tree.joinpath(*parts[:-1])
