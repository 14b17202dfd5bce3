"""A file of what was found out, so that it need not be found out again. Losing it, or a disk that takes none, costs
time and never an answer."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import NamedTuple


class Memo(NamedTuple):
    """What is remembered in one file, whatever process wrote it."""

    file: Path

    def read(self) -> bytes:
        """What it holds; b"" where it is not there."""
        try:
            return self.file.read_bytes()
        except OSError:
            return b""

    def write(self, data: bytes) -> None:
        """Replace it, all at once."""
        with contextlib.suppress(OSError):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            aside = self.file.with_name(f"{self.file.name}.{os.getpid()}")
            aside.write_bytes(data)
            aside.replace(self.file)

    def append(self, data: bytes) -> None:
        """Add to what it holds."""
        with contextlib.suppress(OSError), self.file.open("ab") as file:
            file.write(data)
