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

COMMANDS = frozenset(
    ("brief", "get", "history", "hook", "list", "log", "search", "show", "status", "topics")
)
_LOCAL_OPTIONS = (
    "--also",
    "--help",
    "--org",
    "--workspace",
)  # they ask more than this memory, or click
# What answers depend on besides the files; what begins so, or is called so.
_SETTING_PREFIXES = (
    *("EMAIL", "FILEMEM_", "GIT_AUTHOR_", "GIT_COMMITTER_", "HOME", "POWERMEM_"),
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
)
BEGIN_MARK = b"+"  # the first byte of an answer: the server has begun
BEGIN_TIMEOUT = 0.15  # seconds until then, at most
READ_TIMEOUT = 10.0  # seconds without a byte after it
HOOK_TIMEOUT = 0.5
BROKEN_PIPE = 141  # the status of a program whose reader has gone, as shells have it
STDIN_TIMEOUT = 1.5  # seconds until standard input has ended, at most
MAX_INPUT_SIZE = 1_000_000  # bytes of an input that is read
_MAX_FOLDER_LENGTH = 96  # bytes of the folder of a socket; systems take addresses of 103 to 107
# Verbs of commands that add a dependency, and how a patch begins.
_ADD_MARKS = (b"install", b" add ", b" get ", b" i ", b"*** Begin Patch")
_FAILURE_MARKS = (b"error", b"fail", b"panic", b"fatal", b"traceback")
_standard_input: list[bytes] = []


def run_by_server(arguments: list[str], version: str) -> int | None:
    """Have a server of this version do a command, and print what it printed.

    Returns the exit status, or None: the command is left to do.
    """
    if not _is_for_server(arguments):
        return None
    if arguments[0] == "hook" and _is_idle_hook(arguments[1:], read_standard_input()):
        return 0
    try:
        code, out, err = _ask_server(arguments, version)
        _write_all(1, out)
        _write_all(2, err)
    except BrokenPipeError:
        return BROKEN_PIPE
    except (OSError, ValueError):
        return None
    return code


def _is_for_server(arguments: list[str]) -> bool:
    """Whether a command only reads this memory, and prints in UTF-8."""
    if not arguments or arguments[0] not in COMMANDS or "_FILEMEM_COMPLETE" in os.environ:
        return False
    streams = (sys.stdout, sys.stderr)
    if any(stream is None or stream.encoding != "utf-8" for stream in streams):
        return False
    return not any(word.startswith(_LOCAL_OPTIONS) or _has_help_option(word) for word in arguments)


def _is_idle_hook(arguments: list[str], data: bytes) -> bool:
    """Whether a hook's input is a command that adds nothing, or has not failed: most are."""
    is_gemini = b'"run_shell_command"' in data
    if not is_gemini and b'"Bash"' not in data:
        return False
    if "edits" in arguments:
        return not any(verb in data for verb in _ADD_MARKS)
    has_failed = any(sign in data.lower() for sign in _FAILURE_MARKS)
    return not has_failed and (is_gemini or "failures" in arguments)


def _has_help_option(word: str) -> bool:
    return word.startswith("-") and not word.startswith("--") and "h" in word


def read_standard_input() -> bytes:
    """All of standard input up to LARGEST and one byte, read once; ends the process if it waits."""
    if not _standard_input:
        _thread.start_new_thread(_exit_if_unread, ())
        with open(0, "rb", closefd=False) as file:
            _standard_input.append(file.read(MAX_INPUT_SIZE + 1))
    return _standard_input[0]


def _exit_if_unread() -> None:
    time.sleep(STDIN_TIMEOUT)
    if not _standard_input:
        os._exit(0)


def list_settings() -> set[str]:
    """The variables of the environment that answers depend on."""
    return {
        f"{name}={value}"
        for name, value in os.environ.items()
        if name.startswith(_SETTING_PREFIXES)
    }


def read_head(git_dir: str) -> str:
    """HEAD of a work tree, and the commit that its file names."""
    text = _read_text(f"{git_dir}/HEAD")
    if not text.startswith("ref: "):
        return text
    common = os.path.join(git_dir, _read_text(f"{git_dir}/commondir"))  # noqa: PTH118
    return f"{text} {_read_text(os.path.join(common, text[5:]))}"  # noqa: PTH118


def get_socket_folder(private_folder: str) -> str:
    """Where the socket of this user stands, below our folder in a Git folder."""
    return f"{private_folder}/pages/ask-{os.getuid()}"


def get_socket_address(handle: int, path: str) -> str:
    """The address of the socket in an open folder. Raises OSError: too long for this system."""
    if len(os.fsencode(path)) < _MAX_FOLDER_LENGTH:
        return f"{path}/socket"
    if sys.platform != "linux":
        raise OSError("the path is too long")
    return f"/proc/self/fd/{handle}/socket"


def open_folder(path: str) -> int:
    """Open the folder of a socket. Raises OSError: it is not this user's alone."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    status = os.fstat(handle)
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        os.close(handle)
        raise OSError("the folder is not this user's alone")
    return handle


def get_peer_uid(connection: _socket.socket) -> int:
    """The number of the user at the other end, as the kernel knows it."""
    if sys.platform == "linux":
        credentials = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    else:
        credentials = connection.getsockopt(0, 1, 76)  # LOCAL_PEERCRED
    return int.from_bytes(credentials[4:8], sys.byteorder)


def _ask_server(arguments: list[str], version: str) -> tuple[int, bytes, bytes]:
    """Exit status, output, errors of a command. Raises OSError or ValueError: it was not done."""
    current_folder = os.getcwd()  # noqa: PTH109
    git_dir = _find_git_dir(current_folder)
    path = get_socket_folder(f"{git_dir}/filemem")
    handle = open_folder(path)
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        request = _build_request(arguments, version, current_folder, git_dir)
        connection.settimeout(BEGIN_TIMEOUT)
        connection.connect(get_socket_address(handle, path))
        if get_peer_uid(connection) != os.getuid():
            raise OSError("another user's server")
        connection.sendall(request)
        if connection.recv(1) != BEGIN_MARK:
            raise OSError("the server does not do it")
        connection.settimeout(HOOK_TIMEOUT if arguments[0] == "hook" else READ_TIMEOUT)
        return _read_reply(connection)
    finally:
        connection.close()
        os.close(handle)


def _read_reply(connection: _socket.socket) -> tuple[int, bytes, bytes]:
    """Read an answer to its end: nothing is printed before.

    Raises OSError or ValueError: it is not whole.
    """
    parts = []
    while part := connection.recv(65_536):
        parts.append(part)
    header, _, body = b"".join(parts).partition(b"\n")
    code, size, error_size = map(int, header.split())
    if len(body) != size + error_size:
        raise OSError("the server ended")
    return code, body[:size], body[size:]


def _build_request(arguments: list[str], version: str, current_folder: str, git_dir: str) -> bytes:
    """Two lengths in a line, then so many bytes of fields, and of standard input."""
    ttys = [os.isatty(1), os.isatty(2)]
    columns = os.get_terminal_size().columns if ttys[0] else 0
    header_fields = [
        version,
        read_head(git_dir),
        current_folder,
        *map(str, map(int, ttys)),
        str(columns),
        str(len(arguments)),
    ]
    fields = os.fsencode("\0".join([*header_fields, *arguments, *list_settings()]))
    data = read_standard_input() if arguments[0] == "hook" else b""
    return b"%d %d\n" % (len(fields), len(data)) + fields + data


def _find_git_dir(start: str) -> str:
    """The Git folder of the work tree that a folder lies in. Raises OSError: there is none."""
    top = os.path.realpath(start)
    while not os.path.lexists(f"{top}/.git"):
        if top == os.path.dirname(top):  # noqa: PTH120
            raise FileNotFoundError(start)
        top = os.path.dirname(top)  # noqa: PTH120
    if os.path.isdir(f"{top}/.git"):  # noqa: PTH112
        return f"{top}/.git"
    stated_path = _read_text(f"{top}/.git").removeprefix("gitdir:").strip()
    return os.path.realpath(os.path.join(top, stated_path))  # noqa: PTH118


def _read_text(path: str) -> str:
    """The text of a small file; "" for none."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return os.fsdecode(file.read().strip())
    except FileNotFoundError:
        return ""


def _write_all(number: int, data: bytes) -> None:
    while data:
        data = data[os.write(number, data) :]
