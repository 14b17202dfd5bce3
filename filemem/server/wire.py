"""The wire of a stdio server: private copies of the standard streams, read and written as lines.

Standard input then reads as empty and standard output leads to standard error, so that a stray print, ours or a
child's, cannot break the protocol.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterator

from filemem.server.jsonrpc import MAX_LINE, TOO_LONG, Message, Refusal, dump, parse

_CHUNK = 1 << 16
_SURE = getattr(select, "PIPE_BUF", 512)  # bytes that a pipe with room takes at once


class Wire:
    """Messages over two file descriptors."""

    def __init__(self, source: int, target: int) -> None:
        self._source = source
        self._target = target

    def messages(self) -> Iterator[Message | Refusal]:
        """Yield what comes, and the refusal of what is no message, until the input ends."""
        for line in _lines(self._source):
            message = TOO_LONG if line is None else parse(line)
            if message is not None:
                yield message

    def send(self, message: object) -> None:
        """Write one message, waiting for the reader if need be.

        Raises:
            OSError: the reader is gone.
        """
        self.write(encode(message))

    def write(self, data: memoryview) -> None:
        """Write bytes, waiting for the reader if need be; OSError as for `send`."""
        while data:
            data = data[os.write(self._target, data) :]

    def write_now(self, data: memoryview) -> memoryview:
        """Write what goes without waiting, and return the rest; OSError as for `send`."""
        while data and _has_room(self._target):
            data = data[os.write(self._target, data[:_SURE]) :]
        return data


def encode(message: object) -> memoryview:
    """One message as the bytes of its line."""
    return memoryview(dump(message).encode() + b"\n")


def claim_stdio() -> Wire:
    """Take standard input and output for the protocol, for the rest of the process."""
    try:
        os.fstat(2)
    except OSError:  # without standard error the copies below would land on its number
        os.open(os.devnull, os.O_WRONLY)
    source, target = os.dup(0), os.dup(1)
    if hasattr(os, "set_blocking"):  # not on Windows before Python 3.12
        os.set_blocking(source, True)
        os.set_blocking(target, True)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    return Wire(source, target)


def _has_room(target: int) -> bool:
    try:
        return bool(select.select([], [target], [], 0)[1])
    except (OSError, ValueError):  # Windows asks only sockets, select only low numbers
        return False


def _lines(source: int) -> Iterator[bytes | None]:
    """Split what arrives into lines; None stands for one that exceeded MAX_LINE, whose bytes are not kept."""
    held, scanned, skipping = bytearray(), 0, False
    while chunk := os.read(source, _CHUNK):
        held += chunk
        while (end := held.find(b"\n", scanned)) >= 0:
            line = None if skipping or end > MAX_LINE else bytes(held[:end])
            del held[: end + 1]
            scanned, skipping = 0, False
            yield line
        scanned = len(held)
        if scanned > MAX_LINE:
            held.clear()
            scanned, skipping = 0, True
    if skipping or held:
        yield None if skipping else bytes(held)
