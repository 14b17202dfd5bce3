"""Where a command prints: the streams of this process, or those of the client of a server."""

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
    """What is printed for a client, whose own stream is a terminal or not."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__(newline="")
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


class Client(NamedTuple):
    """A client of a server: its streams, the width of its terminal, its folder, the open memory."""

    out: ClientStream
    err: ClientStream
    columns: int
    working_folder: Path
    memory: Memory


CLIENT: ContextVar[Client | None] = ContextVar("CLIENT", default=None)
"""The client that a command is done for; None for a command of this process."""


def get_output() -> TextIO:
    """Where answers go."""
    client = CLIENT.get()
    return client.out if client else sys.stdout


def get_error_output() -> TextIO:
    """Where notes and errors go."""
    client = CLIENT.get()
    return client.err if client else sys.stderr


def get_columns() -> int:
    """How wide the terminal is."""
    client = CLIENT.get()
    return client.columns if client else os.get_terminal_size().columns


def get_working_folder() -> Path:
    """The current folder. Raises FileNotFoundError: it was deleted."""
    client = CLIENT.get()
    return client.working_folder if client else Path.cwd()
