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


class Screen(io.StringIO):
    """What is printed for a client, whose own stream is a terminal or not."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__(newline="")
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


class Client(NamedTuple):
    """A client of a server: its streams, the width of its terminal, its folder, the open memory."""

    out: Screen
    err: Screen
    columns: int
    here: Path
    memory: Memory


CLIENT: ContextVar[Client | None] = ContextVar("CLIENT", default=None)
"""The client that a command is done for; None for a command of this process."""


def out() -> TextIO:
    """Where answers go."""
    client = CLIENT.get()
    return client.out if client else sys.stdout


def err() -> TextIO:
    """Where notes and errors go."""
    client = CLIENT.get()
    return client.err if client else sys.stderr


def columns() -> int:
    """How wide the terminal is."""
    client = CLIENT.get()
    return client.columns if client else os.get_terminal_size().columns


def here() -> Path:
    """The current folder. Raises FileNotFoundError: it was deleted."""
    client = CLIENT.get()
    return client.here if client else Path.cwd()
