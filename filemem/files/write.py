"""Files on their way to disk: written aside, where no scan and no watcher looks, synced, then renamed into place."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from filemem.errors import BadInput, Conflict, NotFound
from filemem.files.paths import check_path
from filemem.files.scan import MAX_SIZE, Readable, broken, open_folder, read_file

_TEMPORARY = ".filemem-"  # prefix of temporary names; a name that starts with a dot is never a record
_AGAIN = "read it again, then repeat the change"


class Staged:
    """A file written aside, not yet in its place. Use `sync`, `publish`, `sync_folders`; always `discard` at the end.

    Args:
        work_tree: top folder of the work tree.
        parts: where the file goes, below the work tree.
        source: the temporary file; empty once it is in place.
        fd: open descriptor of the file.
    """

    def __init__(self, work_tree: Path, parts: tuple[str, ...], source: str, fd: int) -> None:
        self.work_tree, self.parts, self.source, self.fd = work_tree, parts, source, fd
        self.changed: list[int] = []  # open folders whose listing changed

    def sync(self) -> None:
        """Wait until the bytes are on disk."""
        os.fsync(self.fd)

    def publish(self, replace: bytes | None, *, over: bool = False) -> None:
        """Put the file into its place, creating folders as needed.

        Args:
            replace: the bytes that the file there must still hold; None: no file may stand there.
            over: whatever stands there.

        Raises:
            Conflict: another file stands there.
            BadInput: a link or a file stands where a folder must be.
            BrokenStore: the disk refuses.
        """
        path, name = "/".join(self.parts), self.parts[-1]
        with open_folder(self.work_tree, self.parts[:-1], create=True, changed=self.changed) as folder:
            try:
                if replace is None and not over and self._link(folder, path):
                    return
                if not over and _bytes_of(folder, name, path) != replace:
                    raise Conflict(f"{path} {'exists already' if replace is None else 'was changed meanwhile'}", _AGAIN)
                os.rename(self.source, name, dst_dir_fd=folder)
            except OSError as error:
                raise broken(error, path) from None
            self.source = ""
            self.changed.append(os.dup(folder))

    def finish(self) -> None:
        """Sync, put it into its place whatever stands there, sync the folders, and let go. Errors as for `publish`."""
        try:
            self.sync()
            self.publish(None, over=True)
            self.sync_folders()
        except OSError as error:
            raise broken(error, "/".join(self.parts)) from None
        finally:
            self.discard()

    def sync_folders(self) -> None:
        """Wait until the new name is on disk."""
        for folder in self.changed:
            os.fsync(folder)

    def discard(self) -> None:
        """Let go of everything held open; of a file that is not in its place, of the temporary one too."""
        for fd in (self.fd, *self.changed):
            if fd >= 0:
                os.close(fd)
        self.fd, self.changed = -1, []
        if self.source:
            Path(self.source).unlink(missing_ok=True)
            self.source = ""

    def _link(self, folder: int, path: str) -> bool:
        """Put the file where none stands, in one step; False where the file system knows no such step."""
        try:
            os.link(self.source, self.parts[-1], dst_dir_fd=folder)
        except FileExistsError:
            raise Conflict(f"{path} exists already", "choose another name, or update it") from None
        except (OSError, NotImplementedError):
            return False
        Path(self.source).unlink(missing_ok=True)
        self.source = ""
        self.changed.append(os.dup(folder))
        return True


class Files(Readable):
    """The files of one store, to be read and written; `spool`: a folder for temporary files that no watcher looks at.

    `work_tree` is the top folder of the Git work tree, `store` the folder of records in it, "." for all.
    """

    def __init__(self, work_tree: str | Path, store: str, spool: Path | None = None) -> None:
        super().__init__(work_tree, store)
        self._spool = spool

    def stage(self, path: str, data: bytes) -> Staged:
        """Write a file aside; nothing shows until `publish`.

        Raises:
            BadInput: the path may not be written, or there are more than 1 MiB.
            BrokenStore: the disk refuses.
        """
        parts = check_path(path, writing=True)
        for depth in range(1, len(parts)):
            if os.path.lexists("/".join((str(self.root), *parts[:depth], ".git"))):
                where = self.named("/".join(parts[:depth]))
                raise BadInput(f"{where} is a repository of its own", "records there are not this one's", field="path")
        if len(data) > MAX_SIZE:
            raise BadInput(f"{path}: {len(data)} bytes are more than {MAX_SIZE}", "write less", field="text")
        return self._stage((*self._base, *parts), data)

    def write(self, path: str, data: bytes) -> None:
        """Write one file durably, over whatever stands there. Errors as for `stage`."""
        self.stage(path, data).finish()

    def hide(self, folder: str) -> None:
        """Make Git overlook a folder of the store: a `.gitignore` holding `*` in it, unless it is there.

        Raises:
            Conflict: there is one that does not hold `*`: what is written there could be committed.
        """
        name, parts = self.named(f"{folder}/.gitignore"), (*self._base, *check_path(folder), ".gitignore")
        try:
            with open_folder(self.work_tree, parts[:-1]) as at:
                lines = read_file(at, ".gitignore", name, MAX_SIZE).split()
        except NotFound:
            self._stage(parts, b"*\n").finish()
            return
        if b"*" not in lines:
            raise Conflict(f"{name} does not hold *: private records could be committed", "add a line with *")

    def remove(self, path: str, only: bytes | None = None) -> None:
        """Remove one file, and the folders that it leaves empty; a file that is gone already is no error.

        Args:
            path: relative to the store.
            only: the bytes that it must still hold; None: whatever it holds.

        Raises:
            Conflict: it holds other bytes.
        """
        parts = (*self._base, *check_path(path))
        with contextlib.suppress(NotFound, FileNotFoundError):
            with open_folder(self.work_tree, parts[:-1]) as folder:
                if only is not None and read_file(folder, parts[-1], path, MAX_SIZE) != only:
                    raise Conflict(f"{self.named(path)} was changed meanwhile", _AGAIN)
                try:
                    os.unlink(parts[-1], dir_fd=folder)
                    os.fsync(folder)
                except FileNotFoundError:
                    raise
                except OSError as error:
                    raise broken(error, self.named(path)) from None
            for depth in range(len(parts) - 2, len(self._base) - 1, -1):
                with contextlib.suppress(OSError), open_folder(self.work_tree, parts[:depth]) as folder:
                    os.rmdir(parts[depth], dir_fd=folder)

    def _stage(self, parts: tuple[str, ...], data: bytes) -> Staged:
        """Write a file aside: in the spool if that is on the file system of the work tree, else beside its target."""
        staged = None
        try:
            folder = self.work_tree.joinpath(*parts[:-1])
            if self._spool is not None:
                self._spool.mkdir(parents=True, exist_ok=True)
                if self._spool.stat().st_dev == self.work_tree.stat().st_dev:
                    folder = self._spool
            if folder != self._spool:
                with open_folder(self.work_tree, parts[:-1], create=True):
                    pass
            source = folder / f"{_TEMPORARY}{os.getpid()}-{os.urandom(6).hex()}"
            fd = os.open(source, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
            staged = Staged(self.work_tree, parts, str(source), fd)
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(fd, rest) :]
        except OSError as error:
            if staged is not None:
                staged.discard()
            raise broken(error, "/".join(parts)) from None
        return staged


def _bytes_of(folder: int, name: str, path: str) -> bytes | None:
    try:
        return read_file(folder, name, path, MAX_SIZE)
    except NotFound:
        return None
