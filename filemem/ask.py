"""Asks a running server of the same work tree, so that a command loads neither click nor a model.

Rule: where anything is not as it should be, the command is done as if there were no server, and
nobody is told. Only the standard library, and little of it: `socket` and `json` would cost more
than the question. docs/mcp.md says who may ask.
"""

from __future__ import annotations

import _socket
import _thread
import os
import sys
import time

VERBS = frozenset(
    ("brief", "get", "history", "hook", "list", "log", "search", "show", "status", "topics")
)
_ELSEWHERE = (
    "--also",
    "--help",
    "--org",
    "--workspace",
)  # they ask more than this memory, or click
# What answers depend on besides the files; what begins so, or is called so.
_SETTINGS = (
    *("EMAIL", "FILEMEM_", "GIT_AUTHOR_", "GIT_COMMITTER_", "HOME", "POWERMEM_"),
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
)
BEGUN = b"+"  # the first byte of an answer: the server has begun
BEGINS = 0.15  # seconds until then, at most
ENDS = 10.0  # seconds without a byte after it
HOOK_ENDS = 0.5
BROKEN_PIPE = 141  # the status of a program whose reader has gone, as shells have it
READS = 1.5  # seconds until standard input has ended, at most
LARGEST = 1_000_000  # bytes of an input that is read
_LONGEST = 96  # bytes of the folder of a socket; systems take addresses of 103 to 107
# Verbs of commands that add a dependency, and how a patch begins.
_ADDING = (b"install", b" add ", b" get ", b" i ", b"*** Begin Patch")
_FAILING = (b"error", b"fail", b"panic", b"fatal", b"traceback")
_standard_input: list[bytes] = []


def by_server(words: list[str], version: str) -> int | None:
    """Have a server of this version do a command, and print what it printed.

    Returns the exit status, or None: the command is left to do.
    """
    if not _is_for_server(words):
        return None
    if words[0] == "hook" and _is_idle(words[1:], standard_input()):
        return 0
    try:
        code, out, err = _ask(words, version)
        _write(1, out)
        _write(2, err)
    except BrokenPipeError:
        return BROKEN_PIPE
    except (OSError, ValueError):
        return None
    return code


def _is_for_server(words: list[str]) -> bool:
    """Whether a command only reads this memory, and prints in UTF-8."""
    if not words or words[0] not in VERBS or "_FILEMEM_COMPLETE" in os.environ:
        return False
    streams = (sys.stdout, sys.stderr)
    if any(stream is None or stream.encoding != "utf-8" for stream in streams):
        return False
    return not any(word.startswith(_ELSEWHERE) or _has_help(word) for word in words)


def _is_idle(words: list[str], data: bytes) -> bool:
    """Whether a hook's input is a command that adds nothing, or has not failed: most are."""
    gemini = b'"run_shell_command"' in data
    if not gemini and b'"Bash"' not in data:
        return False
    if "edits" in words:
        return not any(verb in data for verb in _ADDING)
    fails = any(sign in data.lower() for sign in _FAILING)
    return not fails and (gemini or "failures" in words)


def _has_help(word: str) -> bool:
    return word.startswith("-") and not word.startswith("--") and "h" in word


def standard_input() -> bytes:
    """All of standard input up to LARGEST and one byte, read once; ends the process if it waits."""
    if not _standard_input:
        _thread.start_new_thread(_end_unread, ())
        with open(0, "rb", closefd=False) as file:
            _standard_input.append(file.read(LARGEST + 1))
    return _standard_input[0]


def _end_unread() -> None:
    time.sleep(READS)
    if not _standard_input:
        os._exit(0)


def settings() -> set[str]:
    """The variables of the environment that answers depend on."""
    return {f"{name}={value}" for name, value in os.environ.items() if name.startswith(_SETTINGS)}


def head(git_dir: str) -> str:
    """HEAD of a work tree, and the commit that its file names."""
    text = _read(f"{git_dir}/HEAD")
    if not text.startswith("ref: "):
        return text
    common = os.path.join(git_dir, _read(f"{git_dir}/commondir"))  # noqa: PTH118
    return f"{text} {_read(os.path.join(common, text[5:]))}"  # noqa: PTH118


def folder(private: str) -> str:
    """Where the socket of this user stands, below our folder in a Git folder."""
    return f"{private}/pages/ask-{os.getuid()}"


def address(handle: int, path: str) -> str:
    """The address of the socket in an open folder. Raises OSError: too long for this system."""
    if len(os.fsencode(path)) < _LONGEST:
        return f"{path}/socket"
    if sys.platform != "linux":
        raise OSError("the path is too long")
    return f"/proc/self/fd/{handle}/socket"


def opened(path: str) -> int:
    """Open the folder of a socket. Raises OSError: it is not this user's alone."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    status = os.fstat(handle)
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        os.close(handle)
        raise OSError("the folder is not this user's alone")
    return handle


def peer(connection: _socket.socket) -> int:
    """The number of the user at the other end, as the kernel knows it."""
    if sys.platform == "linux":
        credentials = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    else:
        credentials = connection.getsockopt(0, 1, 76)  # LOCAL_PEERCRED
    return int.from_bytes(credentials[4:8], sys.byteorder)


def _ask(words: list[str], version: str) -> tuple[int, bytes, bytes]:
    """Exit status, output, errors of a command. Raises OSError or ValueError: it was not done."""
    here = os.getcwd()  # noqa: PTH109
    git_dir = _git_dir(here)
    path = folder(f"{git_dir}/filemem")
    handle = opened(path)
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        request = _request(words, version, here, git_dir)
        connection.settimeout(BEGINS)
        connection.connect(address(handle, path))
        if peer(connection) != os.getuid():
            raise OSError("another user's server")
        connection.sendall(request)
        if connection.recv(1) != BEGUN:
            raise OSError("the server does not do it")
        connection.settimeout(HOOK_ENDS if words[0] == "hook" else ENDS)
        return _reply(connection)
    finally:
        connection.close()
        os.close(handle)


def _reply(connection: _socket.socket) -> tuple[int, bytes, bytes]:
    """Read an answer to its end: nothing is printed before.

    Raises OSError or ValueError: it is not whole.
    """
    parts = []
    while part := connection.recv(65_536):
        parts.append(part)
    first, _, rest = b"".join(parts).partition(b"\n")
    code, size, more = map(int, first.split())
    if len(rest) != size + more:
        raise OSError("the server ended")
    return code, rest[:size], rest[size:]


def _request(words: list[str], version: str, here: str, git_dir: str) -> bytes:
    """Two lengths in a line, then so many bytes of fields, and of standard input."""
    ttys = [os.isatty(1), os.isatty(2)]
    columns = os.get_terminal_size().columns if ttys[0] else 0
    first = [version, head(git_dir), here, *map(str, map(int, ttys)), str(columns), str(len(words))]
    fields = os.fsencode("\0".join([*first, *words, *settings()]))
    data = standard_input() if words[0] == "hook" else b""
    return b"%d %d\n" % (len(fields), len(data)) + fields + data


def _git_dir(here: str) -> str:
    """The Git folder of the work tree that a folder lies in. Raises OSError: there is none."""
    top = os.path.realpath(here)
    while not os.path.lexists(f"{top}/.git"):
        if top == os.path.dirname(top):  # noqa: PTH120
            raise FileNotFoundError(here)
        top = os.path.dirname(top)  # noqa: PTH120
    if os.path.isdir(f"{top}/.git"):  # noqa: PTH112
        return f"{top}/.git"
    stated = _read(f"{top}/.git").removeprefix("gitdir:").strip()
    return os.path.realpath(os.path.join(top, stated))  # noqa: PTH118


def _read(path: str) -> str:
    """The text of a small file; "" for none."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return os.fsdecode(file.read().strip())
    except FileNotFoundError:
        return ""


def _write(number: int, data: bytes) -> None:
    while data:
        data = data[os.write(number, data) :]
