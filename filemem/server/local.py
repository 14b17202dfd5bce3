"""A socket in the Git folder, by which this user's own commands ask a server: see `filemem.ask`.

Rule: a folder that is the user's alone, and the kernel's word for who is at the other end. One
connection is answered at a time, and a slow one is dropped: a command that is not answered soon
does its work itself.
"""

from __future__ import annotations

import fcntl
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from filemem import ask

READS = 0.05  # seconds in which a request must have come
TAKES = 1.0  # seconds without a byte that the client takes of its answer
_MOST = 4_000_000  # bytes of a request
_WAITING = 16  # connections; of further ones the system tells the client at once


class Request(NamedTuple):
    """A command of a client."""

    version: str
    head: str
    here: str
    ttys: tuple[bool, bool]  # whether its output and its errors go to a terminal
    columns: int
    words: list[str]
    settings: set[str]
    data: bytes  # its standard input, for a hook


Reply = tuple[int, bytes, bytes]  # exit status, output, errors
Begin = Callable[[], object]


class Listener:
    """Listens in a thread, as soon as no other server of this work tree does."""

    def __init__(self, private: Path, answer: Callable[[Request, Begin], Reply | None]) -> None:
        """Start.

        Args:
            private: our folder in the Git folder.
            answer: called in the thread to do a command. It calls `begin` first, or returns
                None: refused.
        """
        self._folder = Path(ask.folder(str(private)))
        self._answer = answer
        self._socket: socket.socket | None = None
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="filemem-asked", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answer no more; the process may go on."""
        self._ended = True
        if self._socket:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread

    def _run(self) -> None:
        with suppress(OSError):  # where no socket can be had, commands do their work themselves
            self._folder.mkdir(0o700, parents=True, exist_ok=True)
            folder = ask.opened(str(self._folder))
            try:
                self._listen(folder)
            finally:
                os.close(folder)

    def _listen(self, folder: int) -> None:
        lock = os.open("lock", os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600, dir_fd=folder)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)  # until the server that has it ends
            _remove(folder)  # that of a server that was killed
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as self._socket:
                self._socket.bind(ask.address(folder, str(self._folder)))
                os.chmod("socket", 0o600, dir_fd=folder)
                self._socket.listen(_WAITING)
                while not self._ended:
                    self._accept(self._socket.accept()[0])
        finally:
            if self._socket:
                _remove(folder)
            os.close(lock)

    def _accept(self, connection: socket.socket) -> None:
        with connection, suppress(OSError, ValueError):  # it is gone, slow, or talks nonsense
            if ask.peer(connection) != os.getuid():
                return
            request = _read(connection)
            connection.settimeout(TAKES)
            reply = self._answer(request, lambda: connection.sendall(ask.BEGUN))
            if reply:
                code, out, err = reply
                connection.sendall(b"%d %d %d\n" % (code, len(out), len(err)) + out + err)


def _remove(folder: int) -> None:
    """Remove what stands in the place of the socket, a link too. Raises OSError: it is a folder."""
    with suppress(FileNotFoundError):
        os.unlink("socket", dir_fd=folder)


def _read(connection: socket.socket) -> Request:
    """Read a request. Raises OSError: it is late or not whole; ValueError: it is none."""
    ends = time.monotonic() + READS
    data = b""
    size = 0
    while len(data) < size or not size:
        connection.settimeout(max(0.001, ends - time.monotonic()))
        part = connection.recv(1 << 20)
        if not part or time.monotonic() > ends:
            raise TimeoutError("the request did not come")
        data += part
        first, newline, _ = data[:40].partition(b"\n")
        if newline:
            fields, further = map(int, first.split())
            size = len(first) + 1 + fields + further
        if size > _MOST or (not newline and len(data) > 40):
            raise ValueError("this is no request")
    data = data[len(first) + 1 :]
    version, head, here, out, err, columns, count, *rest = os.fsdecode(data[:fields]).split("\0")
    words = int(count)
    ttys = (out == "1", err == "1")
    settings = set(rest[words:])
    return Request(version, head, here, ttys, int(columns), rest[:words], settings, data[fields:])
