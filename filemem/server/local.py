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

READ_SECONDS = 0.05  # seconds in which a request must have come
SEND_SECONDS = 1.0  # seconds without a byte that the client takes of its answer
_MAX_REQUEST_SIZE = 4_000_000  # bytes of a request
_BACKLOG = 16  # connections; of further ones the system tells the client at once


class Request(NamedTuple):
    """A command of a client."""

    version: str
    head: str
    folder: str
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
        self._folder = Path(ask.get_socket_folder(str(private)))
        self._answer = answer
        self._socket: socket.socket | None = None
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="filemem-asked", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answer no more; the process may go on."""
        self._is_closed = True
        if self._socket:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread

    def _run(self) -> None:
        with suppress(OSError):  # where no socket can be had, commands do their work themselves
            self._folder.mkdir(0o700, parents=True, exist_ok=True)
            folder = ask.open_folder(str(self._folder))
            try:
                self._serve_requests(folder)
            finally:
                os.close(folder)

    def _serve_requests(self, folder: int) -> None:
        lock = os.open("lock", os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600, dir_fd=folder)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)  # until the server that has it ends
            _remove_socket(folder)  # that of a server that was killed
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as self._socket:
                self._socket.bind(ask.get_socket_address(folder, str(self._folder)))
                os.chmod("socket", 0o600, dir_fd=folder)
                self._socket.listen(_BACKLOG)
                while not self._is_closed:
                    self._answer_connection(self._socket.accept()[0])
        finally:
            if self._socket:
                _remove_socket(folder)
            os.close(lock)

    def _answer_connection(self, connection: socket.socket) -> None:
        with connection, suppress(OSError, ValueError):  # it is gone, slow, or talks nonsense
            if ask.get_peer_uid(connection) != os.getuid():
                return
            request = _read_request(connection)
            connection.settimeout(SEND_SECONDS)
            reply = self._answer(request, lambda: connection.sendall(ask.BEGIN_MARK))
            if reply:
                code, out, err = reply
                connection.sendall(b"%d %d %d\n" % (code, len(out), len(err)) + out + err)


def _remove_socket(folder: int) -> None:
    """Remove what stands in the place of the socket, a link too. Raises OSError: it is a folder."""
    with suppress(FileNotFoundError):
        os.unlink("socket", dir_fd=folder)


def _read_request(connection: socket.socket) -> Request:
    """Read a request. Raises OSError: it is late or not whole; ValueError: it is none."""
    deadline = time.monotonic() + READ_SECONDS
    data = b""
    size = 0
    while len(data) < size or not size:
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        part = connection.recv(1 << 20)
        if not part or time.monotonic() > deadline:
            raise TimeoutError("the request did not come")
        data += part
        first_line, newline, _ = data[:40].partition(b"\n")
        if newline:
            fields_size, data_size = map(int, first_line.split())
            size = len(first_line) + 1 + fields_size + data_size
        if size > _MAX_REQUEST_SIZE or (not newline and len(data) > 40):
            raise ValueError("this is no request")
    data = data[len(first_line) + 1 :]
    version, head, folder, out, err, columns, count, *texts = os.fsdecode(data[:fields_size]).split(
        "\0"
    )
    word_count = int(count)
    ttys = (out == "1", err == "1")
    settings = set(texts[word_count:])
    return Request(
        version, head, folder, ttys, int(columns), texts[:word_count], settings, data[fields_size:]
    )
