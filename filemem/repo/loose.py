"""A Git object on its way to disk, as a loose file: written aside, synced, then put where Git looks for it."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from filemem.errors import BrokenStore
from filemem.repo.disk import Aside, together

_MKDIR_TRIES = 20  # a gc removes folders that are empty for a moment


@dataclass(slots=True)
class Loose(Aside):
    """An object on its way to disk: written aside; `sync`, then `publish`. `packed` is its file's content."""

    oid: str
    packed: bytes
    target: Path

    def publish(self) -> None:
        """Put the object where Git looks for it."""
        if self.source is None:
            return
        os.close(self.fd)
        self.fd = -1
        for _ in range(_MKDIR_TRIES):
            try:
                self.source.rename(self.target)
            except FileNotFoundError:
                self.target.parent.mkdir(exist_ok=True)
            else:
                self.source = None
                return
        raise FileNotFoundError(errno.ENOENT, "a gc removes the folders of new objects at once")


def publish(made: Sequence[Loose]) -> None:
    """Wait until objects are on disk, then put them where Git looks for them. Raises BrokenStore."""
    try:
        together([loose.sync for loose in made])
        for loose in made:
            loose.publish()
    except OSError as error:
        raise BrokenStore(f"objects: {error.strerror}", "check space and permissions there") from None
