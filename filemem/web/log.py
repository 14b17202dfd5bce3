"""The server's log: one line for each request, in a file of the Git directory that turns over by size.

A line holds what we chose, never what a caller sent: the route, not the address; the kind of a defect, not its text. So
nothing secret and no path of this machine can stand in it.
"""

from __future__ import annotations

import contextlib
import logging
import time
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

SIZE, FILES = 1_000_000, 3  # bytes of a file, and how many older ones are kept
NAME = "server.log"


class _Handler(RotatingFileHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  logging's name
        """Do nothing: a full disk stops no answer."""


class Log:
    """Writes and reads the log of one work tree."""

    def __init__(self, folder: Path) -> None:
        with contextlib.suppress(OSError):  # where nothing can be written no log is kept
            folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / NAME
        self._handler = _Handler(self._path, maxBytes=SIZE, backupCount=FILES, encoding="utf-8", delay=True)
        formatter = logging.Formatter("[%(asctime)s] %(message)s", "%Y-%m-%d %H:%M:%S")
        formatter.converter = time.gmtime
        self._handler.setFormatter(formatter)

    def add(self, line: str) -> None:
        """Write a line."""
        self._handler.handle(logging.LogRecord("filemem", logging.INFO, "", 0, "%s", (line,), None))

    def page(self, lines: int, offset: int) -> dict[str, Any]:
        """Return lines, oldest first, of which the last has `offset` newer ones behind it."""
        every: list[str] = []
        for path in (*(self._path.with_name(f"{NAME}.{number}") for number in range(FILES, 0, -1)), self._path):
            with contextlib.suppress(OSError):  # not there, or just turned over
                every += path.read_text("utf-8", "replace").splitlines()
        end = max(0, len(every) - offset)
        return {"lines": every[max(0, end - lines) : end], "total": len(every), "offset": offset}

    def close(self) -> None:
        """Close the file."""
        self._handler.close()
