"""Ask a running server of the same work tree, so that a command loads neither click nor a model.

Rule: if anything is wrong, the command runs without a server, silently. Only a small part of the
standard library is used: `socket` and `json` would cost more than the question. docs/mcp.md says
who may ask.
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
# Options that need click or other memories.
_LOCAL_OPTIONS = ("--also", "--help", "--org", "--workspace")
# Names or prefixes of variables that answers depend on.
_SETTING_PREFIXES = (
    *("EMAIL", "FILEMEM_", "GIT_AUTHOR_", "GIT_COMMITTER_", "HOME", "POWERMEM_"),
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
)
BEGIN_MARK = b"+"  # the first byte of an answer: the server has begun
BEGIN_TIMEOUT = 0.15  # seconds until the first byte
READ_TIMEOUT = 10.0  # seconds between later bytes
HOOK_TIMEOUT = 0.5
BROKEN_PIPE = 141  # the exit status after SIGPIPE, as in shells
STDIN_TIMEOUT = 1.5  # seconds until standard input ends
MAX_INPUT_SIZE = 1_000_000  # bytes of an input that is read
_MAX_FOLDER_LENGTH = 96  # bytes of the folder of a socket; systems take addresses of 103 to 107
# Verbs of commands that add a dependency, and the beginning of a patch.
_ADD_MARKS = (b"install", b" add ", b" get ", b" i ", b"*** Begin Patch")
_FAILURE_MARKS = (b"error", b"fail", b"panic", b"fatal", b"traceback")
_standard_input: list[bytes] = []


def run_by_server(arguments: list[str], version: str) -> int | None:
    """Run a command in a server of this version, and print its output.

    Returns the exit status, or None if the command must run without a server.
    """
    if not _is_for_server(arguments):
        return None
    if arguments[0] == "hook" and _is_idle_hook(arguments[1:], read_standard_input()):
        return 0
    try:
        code, output, errors = _ask_server(arguments, version)
        _write_all(1, output)
        _write_all(2, errors)
    except BrokenPipeError:
        return BROKEN_PIPE
    except (OSError, ValueError):
        return None
    return code


def _is_for_server(arguments: list[str]) -> bool:
    """Return whether a command only reads this memory, and prints in UTF-8."""
    if not arguments or arguments[0] not in COMMANDS or "_FILEMEM_COMPLETE" in os.environ:
        return False
    for stream in (sys.stdout, sys.stderr):
        if stream is None or stream.encoding != "utf-8":
            return False
    for word in arguments:
        if word.startswith(_LOCAL_OPTIONS) or _has_help_option(word):
            return False
    return True


def _is_idle_hook(arguments: list[str], data: bytes) -> bool:
    """Return whether a hook has nothing to do: its command adds nothing, or has not failed."""
    is_gemini = b'"run_shell_command"' in data
    if not is_gemini and b'"Bash"' not in data:
        return False
    if "edits" in arguments:
        return not any(mark in data for mark in _ADD_MARKS)
    has_failed = any(mark in data.lower() for mark in _FAILURE_MARKS)
    return not has_failed and (is_gemini or "failures" in arguments)


def _has_help_option(word: str) -> bool:
    return word.startswith("-") and not word.startswith("--") and "h" in word


def read_standard_input() -> bytes:
    """Read standard input once, up to one byte above the limit; exit the process if it waits."""
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
    """List the variables of the environment that answers depend on, as NAME=value."""
    settings = set()
    for name, value in os.environ.items():
        if name.startswith(_SETTING_PREFIXES):
            settings.add(f"{name}={value}")
    return settings


def read_head(git_dir: str) -> str:
    """Read HEAD of a work tree, and the commit of its branch if that has a file."""
    head = _read_text(f"{git_dir}/HEAD")
    if not head.startswith("ref: "):
        return head
    common_dir = os.path.join(git_dir, _read_text(f"{git_dir}/commondir"))  # noqa: PTH118
    branch = head.removeprefix("ref: ")
    commit = _read_text(os.path.join(common_dir, branch))  # noqa: PTH118
    return f"{head} {commit}"


def get_socket_folder(private_folder: str) -> str:
    """Return the folder of this user's socket, below our folder in a Git folder."""
    return f"{private_folder}/pages/ask-{os.getuid()}"


def get_socket_address(handle: int, path: str) -> str:
    """Return the address of the socket in an open folder.

    Raises OSError: it is too long for this system.
    """
    if len(os.fsencode(path)) < _MAX_FOLDER_LENGTH:
        return f"{path}/socket"
    if sys.platform != "linux":
        raise OSError("the path is too long")
    return f"/proc/self/fd/{handle}/socket"


def open_folder(path: str) -> int:
    """Open the folder of a socket. Raises OSError: other users may access it."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    status = os.fstat(handle)
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        os.close(handle)
        raise OSError("the folder is not this user's alone")
    return handle


def get_peer_uid(connection: _socket.socket) -> int:
    """Return the user id of the other end, as the kernel reports it."""
    if sys.platform == "linux":
        credentials = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    else:
        credentials = connection.getsockopt(0, 1, 76)  # LOCAL_PEERCRED
    return int.from_bytes(credentials[4:8], sys.byteorder)


def _ask_server(arguments: list[str], version: str) -> tuple[int, bytes, bytes]:
    """Send a command to the server; return its exit status, output and errors.

    Raises OSError or ValueError: the server did not run it.
    """
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
        timeout = HOOK_TIMEOUT if arguments[0] == "hook" else READ_TIMEOUT
        connection.settimeout(timeout)
        return _read_reply(connection)
    finally:
        connection.close()
        os.close(handle)


def _read_reply(connection: _socket.socket) -> tuple[int, bytes, bytes]:
    """Read a reply to its end: exit status, output and errors; nothing is printed before.

    Raises OSError or ValueError: it is incomplete.
    """
    parts = []
    while part := connection.recv(65_536):
        parts.append(part)
    header, _, body = b"".join(parts).partition(b"\n")
    code, size, error_size = header.split()
    output_size = int(size)
    if len(body) != output_size + int(error_size):
        raise OSError("the server ended")
    return int(code), body[:output_size], body[output_size:]


def _build_request(arguments: list[str], version: str, current_folder: str, git_dir: str) -> bytes:
    """Build a request: a line with two lengths, then the fields and standard input."""
    columns = 0
    if os.isatty(1):
        columns = os.get_terminal_size().columns
    fields = [version, read_head(git_dir), current_folder]
    fields += [str(int(os.isatty(number))) for number in (1, 2)]
    fields += [str(columns), str(len(arguments))]
    fields += arguments
    fields += list_settings()
    field_data = os.fsencode("\0".join(fields))
    input_data = b""
    if arguments[0] == "hook":
        input_data = read_standard_input()
    header = f"{len(field_data)} {len(input_data)}\n".encode()
    return header + field_data + input_data


def _find_git_dir(start: str) -> str:
    """Find the Git folder of the work tree around a folder. Raises OSError: there is none."""
    top = os.path.realpath(start)
    while not os.path.lexists(f"{top}/.git"):
        parent = os.path.dirname(top)  # noqa: PTH120
        if parent == top:
            raise FileNotFoundError(start)
        top = parent
    git_path = f"{top}/.git"
    if os.path.isdir(git_path):  # noqa: PTH112
        return git_path
    stated_path = _read_text(git_path).removeprefix("gitdir:").strip()
    return os.path.realpath(os.path.join(top, stated_path))  # noqa: PTH118


def _read_text(path: str) -> str:
    """Read a small file without surrounding white space; "" if it is missing."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return os.fsdecode(file.read().strip())
    except FileNotFoundError:
        return ""


def _write_all(handle: int, data: bytes) -> None:
    """Write all data to an open file, however little each call takes."""
    while data:
        count = os.write(handle, data)
        data = data[count:]
