"""What the caller remembers beside the index. Rule: losing it costs one full look at the store, never an answer."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from filemem.index.folder import checked, prepare, replace_file, unchecked, unwritable

_NAME = "notes.json"


class Notes(NamedTuple):
    """Where HEAD was, and the times of folders (nanoseconds), when the index was last found right.

    Args:
        looked: when every file was looked at last, in nanoseconds since 1970.
        cost: how long that took, in nanoseconds.
        past: what else decided the answer besides files and HEAD, in the caller's words: as it was then.
    """

    head: str = ""
    folders: Mapping[str, int] = {}
    looked: int = 0
    cost: int = 0
    past: str = ""


class Notebook:
    """The notes of an index folder, read again when another process has written them.

    Args:
        root: the index folder.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._read: tuple[tuple[int, int] | None, Notes] = (None, Notes())

    def read(self) -> Notes:
        """Return the notes; empty ones where there are none that can be read."""
        stamp = self._stamp()
        if stamp is None or stamp != self._read[0]:
            self._read = (stamp, self._load())
        return self._read[1]

    def write(self, notes: Notes) -> None:
        """Replace the notes.

        Raises:
            BrokenStore: the index folder can not be written.
        """
        try:
            prepare(self._root)
            replace_file(self._root / _NAME, checked(notes._asdict()))
        except OSError as error:
            raise unwritable(self._root, error) from error
        self._read = (self._stamp(), notes)

    def _load(self) -> Notes:
        try:
            return Notes(**(unchecked((self._root / _NAME).read_bytes()) or {}))
        except OSError:
            return Notes()

    def _stamp(self) -> tuple[int, int] | None:
        try:
            found = (self._root / _NAME).stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns
