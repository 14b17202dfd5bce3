"""The server's log: one line for each request, in a file of the Git directory that turns over by size.

A line holds what we chose, never what a caller sent: the route, not the address; the kind of a defect, not its text. So
nothing secret and no path of this machine can stand in it.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterator
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
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / NAME
        self._handler = _Handler(
            self._path, maxBytes=SIZE, backupCount=FILES, encoding="utf-8", errors="replace", delay=True
        )
        formatter = logging.Formatter("[%(asctime)s] %(message)s", "%Y-%m-%d %H:%M:%S")
        formatter.converter = time.gmtime
        self._handler.setFormatter(formatter)

    def add(self, line: str) -> None:
        """Write a line."""
        line = " ".join(line.splitlines())
        self._handler.handle(logging.LogRecord("filemem", logging.INFO, "", 0, "%s", (line,), None))

    def page(self, lines: int, offset: int) -> dict[str, Any]:
        """Return lines, oldest first, of which the last has `offset` newer ones behind it."""
        total, newest = 0, deque[str](maxlen=lines + offset)
        for line in self._lines():
            total += 1
            newest.append(line)
        shown = list(newest)
        end = len(shown) - offset
        return {"lines": shown[max(0, end - lines) : max(0, end)], "total": total, "offset": offset}

    def close(self) -> None:
        """Close the file."""
        self._handler.close()

    def _lines(self) -> Iterator[str]:
        older = [self._path.with_name(f"{NAME}.{number}") for number in range(FILES, 0, -1)]
        for path in (*older, self._path):
            try:
                with path.open(encoding="utf-8", errors="replace") as file:
                    for line in file:
                        yield line.rstrip("\n")
            except OSError:  # not there, or just turned over
                continue
