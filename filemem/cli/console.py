"""The streams, terminal and folder of a command: of this process, or of a server's client."""

from __future__ import annotations

import io
import os
import sys
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TextIO

if TYPE_CHECKING:
    from filemem.memory import Memory


class ClientStream(io.StringIO):
    """Collect what is printed for a client, and know whether its own stream is a terminal."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__(newline="")
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


class Client(NamedTuple):
    """A client that a server runs a command for, and the open memory of the server."""

    out: ClientStream
    err: ClientStream
    columns: int
    working_folder: Path
    memory: Memory


CLIENT: ContextVar[Client | None] = ContextVar("CLIENT", default=None)
"""The client that a command runs for; None for a command of this process."""


def get_output() -> TextIO:
    """Return the stream for answers."""
    client = CLIENT.get()
    return client.out if client else sys.stdout


def get_error_output() -> TextIO:
    """Return the stream for notes and errors."""
    client = CLIENT.get()
    return client.err if client else sys.stderr


def get_columns() -> int:
    """Return the width of the terminal."""
    client = CLIENT.get()
    return client.columns if client else os.get_terminal_size().columns


def get_working_folder() -> Path:
    """Return the current folder. Raises FileNotFoundError if it was deleted."""
    client = CLIENT.get()
    return client.working_folder if client else Path.cwd()
