"""The record files in the work tree: the only place that opens, writes or removes them.

Rule: files are written aside, where no scan and no watcher looks, and renamed into place. What is read, and what a scan
passes over, is `reading`'s to say.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from filemem.errors import BadInput, Conflict, NotFound
from filemem.files.folders import broken, open_folder, read_file
from filemem.files.paths import NO_RECORDS, check_path, fits, is_listed, is_private, is_record
from filemem.files.reading import MAX_SIZE, Readable, foreign
from filemem.files.staging import Staged, replace, stage

__all__ = [
    "MAX_SIZE",
    "NO_RECORDS",
    "Files",
    "check_path",
    "fits",
    "foreign",
    "is_listed",
    "is_private",
    "is_record",
    "replace",
]


class Files(Readable):
    """The files of one store, to be read and written.

    Args:
        work_tree: top folder of the Git work tree.
        store: folder of records below it, relative, with `/`; "." for the work tree itself.
        spool: folder for temporary files, in a place that no watcher looks at (Git's own directory).
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
        return stage(self.work_tree, (*self._base, *parts), data, self._spool)

    def write(self, path: str, data: bytes) -> None:
        """Write one file durably: aside, synced, renamed, folders synced. Errors as for `stage`."""
        self.stage(path, data).finish()

    def hide(self, folder: str) -> None:
        """Make Git overlook a folder of the store: a `.gitignore` holding `*` in it, unless it is there.

        Raises:
            Conflict: there is one that does not hold `*`: what is written there could be committed.
        """
        name = self.named(f"{folder}/.gitignore")
        parts = (*self._base, *check_path(folder), ".gitignore")
        try:
            with open_folder(self.work_tree, parts[:-1]) as at:
                lines = read_file(at, ".gitignore", name, MAX_SIZE).split()
        except NotFound:
            stage(self.work_tree, parts, b"*\n", self._spool).finish()
            return
        if b"*" not in lines:
            raise Conflict(f"{name} does not hold *: private records could be committed", "add a line with *")

    def remove(self, path: str) -> None:
        """Remove one file, and the folders that it leaves empty; a file that is gone already is no error."""
        parts = (*self._base, *check_path(path))
        with contextlib.suppress(NotFound, FileNotFoundError):
            with open_folder(self.work_tree, parts[:-1]) as folder:
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
