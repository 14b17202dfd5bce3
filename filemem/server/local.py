"""A socket in the Git folder, by which this user's own commands ask a server: see `filemem.ask`.

Only this user can open its folder, and the kernel states the user at the other end. One connection
is answered at a time, and a slow one is dropped: a command without a quick answer does its work
itself.
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

READ_SECONDS = 0.05  # seconds for receiving a request
SEND_SECONDS = 1.0  # seconds for sending a part of the answer
_MAX_REQUEST_SIZE = 4_000_000  # bytes
_MAX_FIRST_LINE = 40  # bytes
_BACKLOG = 16  # waiting connections; the system refuses further ones at once


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
        """Stop answering; the process may continue."""
        self._is_closed = True
        if self._socket:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread

    def _run(self) -> None:
        with suppress(OSError):  # without a socket, commands do their work themselves
            self._folder.mkdir(0o700, parents=True, exist_ok=True)
            folder = ask.open_folder(str(self._folder))
            try:
                self._serve_requests(folder)
            finally:
                os.close(folder)

    def _serve_requests(self, folder: int) -> None:
        lock = os.open("lock", os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600, dir_fd=folder)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)  # waits for the end of another server
            _remove_socket(folder)  # left by a server that was killed
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
        with connection, suppress(OSError, ValueError):  # a late, broken or invalid request
            if ask.get_peer_uid(connection) != os.getuid():
                return
            request = _read_request(connection)
            connection.settimeout(SEND_SECONDS)

            def begin() -> None:
                connection.sendall(ask.BEGIN_MARK)

            reply = self._answer(request, begin)
            if reply:
                status, output, errors = reply
                header = b"%d %d %d\n" % (status, len(output), len(errors))
                connection.sendall(header + output + errors)


def _remove_socket(folder: int) -> None:
    """Remove the socket file, or a link in its place. Raises OSError: it is a folder."""
    with suppress(FileNotFoundError):
        os.unlink("socket", dir_fd=folder)


def _read_request(connection: socket.socket) -> Request:
    """Read a request. Raises OSError: it is late or incomplete; ValueError: it is invalid."""
    deadline = time.monotonic() + READ_SECONDS
    received = b""
    size = 0  # of the whole request; 0 until its first line is complete
    while len(received) < size or not size:
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        chunk = connection.recv(1 << 20)
        if not chunk or time.monotonic() > deadline:
            raise TimeoutError("the request did not come")
        received += chunk
        first_line, newline, _ = received[:_MAX_FIRST_LINE].partition(b"\n")
        if newline:
            fields_size, data_size = _parse_first_line(first_line)
            size = len(first_line) + 1 + fields_size + data_size
        is_without_line = not newline and len(received) > _MAX_FIRST_LINE
        if size > _MAX_REQUEST_SIZE or is_without_line:
            raise ValueError("this is no request")
    fields_start = len(first_line) + 1
    fields_end = fields_start + fields_size
    fields = received[fields_start:fields_end]
    return _parse_request(fields, data=received[fields_end:])


def _parse_first_line(line: bytes) -> tuple[int, int]:
    """Return the sizes of the fields and of the data of a request."""
    fields_size, data_size = line.split()
    return int(fields_size), int(data_size)


def _parse_request(fields: bytes, data: bytes) -> Request:
    version, head, folder, out, err, columns, count, *texts = os.fsdecode(fields).split("\0")
    word_count = int(count)
    return Request(
        version=version,
        head=head,
        folder=folder,
        ttys=(out == "1", err == "1"),
        columns=int(columns),
        words=texts[:word_count],
        settings=set(texts[word_count:]),
        data=data,
    )
