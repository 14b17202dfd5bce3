"""Git: where a repository is, which is read from disk, and the one place that runs Git.

A repository may be hostile: its configuration names programs that Git would run for us. So every
call has fixed options that switch them off, an environment without `GIT_*`, an absolute program
found outside the repository, a time limit, and never a shell. Values go to standard input or after
`--`. Every child runs in its own session, so that a signal to our group never stops one that holds
a lock. Git refuses what belongs to another user (`safe.directory`).
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shlex
import signal
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from filemem.errors import BrokenStore, NotFound

if TYPE_CHECKING:
    from subprocess import Popen

LIMIT = 20.0  # seconds for one call
LONG_LIMIT = 120.0  # seconds for one over much history or many files
_TERM_TIMEOUT = 2.0  # seconds that a call has to end after SIGTERM
_KILL_TIMEOUT = 1.0  # seconds that it has to end after SIGKILL
MIN_VERSION = (2, 34)
_versions: dict[str, str] = {}  # by program

# The settings of every call: no program that the repository names runs.
SAFE_SETTINGS = tuple(
    f"""
    core.fsmonitor=false core.hooksPath={os.devnull} core.pager=cat core.sshCommand=false
    core.alternateRefsCommand= core.protectHFS=true core.protectNTFS=true core.fsync=committed
    core.quotePath=false commit.gpgSign=false log.showSignature=false log.showRoot=true
    log.diffMerges=separate log.follow=false diff.renameLimit=1000 trailer.separators=:
    i18n.logOutputEncoding=UTF-8 diff.orderFile={os.devnull} diff.external= credential.helper=
    protocol.allow=never protocol.ext.allow=never protocol.file.allow=never
    protocol.git.allow=never protocol.http.allow=never protocol.https.allow=never
    protocol.ssh.allow=never gc.auto=0 maintenance.auto=false advice.graftFileDeprecated=false
    """.split()
)
OWN_MARK = "--literal-pathspecs"  # tells our processes from the user's
_FIXED_ENVIRONMENT = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_PAGER": "cat",
    "GIT_GRAFT_FILE": os.devnull,  # with --no-replace-objects: commits are what they were made as
}


class GitFolders(NamedTuple):
    """The folders of one repository, absolute."""

    work_tree: Path
    git_dir: Path  # this work tree's own: HEAD, index, state of a merge or rebase
    common_dir: Path  # what all work trees share: objects, branches

    @property
    def command_prefix(self) -> str:
        """How a command that we print calls Git on this work tree, from any folder."""
        return f"git -C {shlex.quote(str(self.work_tree))}"


def find_repository(start: Path) -> GitFolders:
    """Look for a repository in a folder and the folders above it.

    Raises NotFound: there is none; BrokenStore: it has no work tree, is not whole, or the folder
    itself no longer exists.
    """
    _refuse_missing_folder(start)
    work_tree = _find_work_tree(start.resolve())
    git_dir = work_tree / ".git"
    if git_dir.is_file():
        target = read_git_file(git_dir).removeprefix("gitdir:").strip()
        git_dir = (work_tree / target).resolve()
    common_dir = git_dir
    if (git_dir / "commondir").is_file():
        common_dir = (git_dir / read_git_file(git_dir / "commondir")).resolve()
    # Without `commondir` a linked work tree's own folder would pass for a whole repository.
    if not (git_dir / "HEAD").is_file() or not (common_dir / "objects").is_dir():
        message = f"{work_tree / '.git'} does not lead to a Git directory that is whole"
        raise BrokenStore(message, "run `git worktree repair`, or clone the repository again")
    return GitFolders(work_tree, git_dir, common_dir)


def _find_work_tree(start: Path) -> Path:
    """Find the nearest folder with `.git`, from a folder upwards. Raises NotFound, BrokenStore."""
    for folder in (start, *start.parents):
        if os.path.lexists(folder / ".git"):
            return folder
        if is_git_directory(folder):
            message = f"{folder} is a Git directory without a work tree"
            hint = "filemem needs a checkout: stand in it, or git clone it first"
            raise BrokenStore(message, hint)
    message = f"there is no Git repository in {start} or above it"
    raise NotFound(message, "run `filemem init` there to create one")


def is_git_directory(folder: Path) -> bool:
    """Whether a folder holds what a Git directory holds."""
    return all((folder / name).exists() for name in ("HEAD", "objects", "refs"))


def _refuse_missing_folder(work_tree: Path) -> None:
    """Refuse to work in a folder that was removed meanwhile. Raises BrokenStore."""
    if not os.path.exists(work_tree):  # noqa: PTH110 - it may be a name that no folder can have
        message = f"the folder {work_tree} no longer exists"
        raise BrokenStore(message, "go to a folder that exists; restart servers there")


def read_git_file(file: Path) -> str:
    """Read the text of a small file of Git's; "" if there is none."""
    try:
        return file.read_text(errors="surrogateescape").strip()
    except (OSError, ValueError):  # a name that no file can have
        return ""


def list_entry_names(folder: Path) -> list[str]:
    """List the names of journal entries in a folder, oldest first."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return sorted(name for name in names if name[:1].isdigit())


# holding them still


def read_file_stamp(file: Path) -> tuple[int, int, int]:
    """Read what changes when a file is written or replaced: its inode, size and time.

    Each is -1 if the file does not exist.
    """
    try:
        status = file.stat()
    except OSError:
        return -1, -1, -1
    return status.st_ino, status.st_size, status.st_mtime_ns


_HINTS = {
    ".lock': File exists": (
        "if no Git command is running there, one was interrupted: remove that file"
    ),
    "dubious ownership": (
        "if you trust who owns it: git config --global --add safe.directory FOLDER"
    ),
    "lazy fetching": (
        "this is a partial clone: `git fetch --refetch --no-filter` brings what it lacks"
    ),
}
_DEFAULT_HINT = "try the same with Git itself; `git fsck` shows whether the repository is sound"


class GitError(BrokenStore):
    """Git failed."""

    def __init__(self, command: str, code: int, stderr: str) -> None:
        self.code = code  # its exit status; -1: it took too long
        self.stderr = stderr
        lines = stderr.strip().splitlines()
        reason = lines[0] if lines else f"exit status {code}"
        super().__init__(f"git {command} failed: {reason}", _find_hint(stderr))


def _find_hint(stderr: str) -> str:
    """Find the hint for a message of Git's."""
    for mark, hint in _HINTS.items():
        if mark in stderr:
            return hint
    return _DEFAULT_HINT


class Git(NamedTuple):
    """Git for one repository."""

    program: str
    folders: GitFolders
    environment: Mapping[str, str]

    def start(
        self,
        *arguments: str,
        config: Sequence[str] = (),
        extra_environment: Mapping[str, str] | None = None,
    ) -> Popen[bytes]:
        """Start one call with all three streams as pipes; `config` adds `key=value` settings."""
        top = self.folders.work_tree
        command = [self.program, "--no-pager", OWN_MARK, "--no-replace-objects"]
        command.append(f"--work-tree={top}")
        for setting in (*SAFE_SETTINGS, *config):
            command += ("-c", setting)
        environment = dict(self.environment)
        environment["GIT_CEILING_DIRECTORIES"] = str(top.parent)
        if extra_environment:
            environment.update(extra_environment)
        return start_process([*command, *arguments], top, environment)

    def run(
        self,
        *arguments: str,
        input_data: bytes | None = None,
        limit: float = LIMIT,
        config: Sequence[str] = (),
        extra_environment: Mapping[str, str] | None = None,
    ) -> bytes:
        """Run one call to its end and return its output. Raises GitError."""
        process = self.start(*arguments, config=config, extra_environment=extra_environment)
        data = input_data or b""
        return finish_process(process, arguments[0], data, limit)


def finish_process(
    process: Popen[bytes],
    name: str,
    data: bytes = b"",
    limit: float = LIMIT,
    ends_on_interrupt: bool = True,
) -> bytes:
    """Send `data` to a started call, wait for its end, and return its output.

    `ends_on_interrupt`: an interrupt ends it too. Raises GitError.
    """
    from subprocess import TimeoutExpired  # noqa: PLC0415

    try:
        output, err = process.communicate(data, timeout=limit)
    except TimeoutExpired:
        end_process(process)
        raise GitError(name, -1, f"no answer in {limit:g} seconds") from None
    except BaseException:
        if ends_on_interrupt:
            end_process(process)
        raise
    if process.returncode:
        raise GitError(name, process.returncode, err.decode("utf-8", "replace"))
    return output


def end_process(process: Popen[bytes]) -> None:
    """End a call and what it has started, gently first: Git removes its locks then."""
    _send_signal(process, signal.SIGTERM, _TERM_TIMEOUT)
    _send_signal(process, signal.SIGKILL, _KILL_TIMEOUT)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def _send_signal(process: Popen[bytes], number: int, limit: float) -> None:
    """Send a signal to a call and what it has started, and wait some seconds for its end."""
    from subprocess import TimeoutExpired  # noqa: PLC0415

    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
    with contextlib.suppress(TimeoutExpired, ValueError):
        process.communicate(timeout=limit)


class GitProcess:
    """A Git process that answers one request after another until its standard input closes."""

    def __init__(self, git: Git, *arguments: str, config: Sequence[str] = ()) -> None:
        self.process = git.start(*arguments, config=config)
        self._name = arguments[0]
        self._buffer = bytearray()

    def send(self, data: bytes) -> None:
        """Write a request. Raises GitError if the process has ended."""
        assert self.process.stdin is not None  # noqa: S101 - opened as a pipe
        try:
            self.process.stdin.write(data)
            self.process.stdin.flush()
        except OSError:
            raise self.collect_error() from None

    def read_line(self) -> bytes:
        """Read one line of the answer, without its end. Raises GitError."""
        while b"\n" not in self._buffer:
            self._read_more()
        size = self._buffer.index(b"\n") + 1
        return self.read_bytes(size).removesuffix(b"\n")

    def read_bytes(self, size: int) -> bytes:
        """Read the next `size` bytes of the answer. Raises GitError."""
        while len(self._buffer) < size:
            self._read_more()
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    def collect_error(self) -> GitError:
        """Wait for the end of the process, and return the error that ended it."""
        try:
            finish_process(self.process, self._name, limit=_TERM_TIMEOUT)
        except GitError as error:
            return error
        return GitError(self._name, -1, "it ended without an answer")

    def close_input(self) -> None:
        """Let the process end, without waiting for it; `close` it later."""
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
            self.process.stdin = None

    def close(self) -> None:
        """Let the process end, and wait for it; an interrupt leaves it running.

        Raises GitError if it failed.
        """
        finish_process(self.process, self._name, ends_on_interrupt=False)

    def _read_more(self) -> None:
        assert self.process.stdout is not None  # noqa: S101 - opened as a pipe
        poller = select.poll()  # `select` itself fails in a process that has 1,024 files open
        poller.register(self.process.stdout, select.POLLIN)
        data = b""
        if poller.poll(1000 * LIMIT):
            data = os.read(self.process.stdout.fileno(), 1 << 16)
        if not data:
            raise self.collect_error()
        self._buffer += data


def find_git(environment: Mapping[str, str], work_tree: Path) -> str:
    """Find the first `git` on the search path that is absolute and outside the work tree.

    Raises BrokenStore.
    """
    for folder in environment.get("PATH", os.defpath).split(os.pathsep):
        program = Path(folder, "git")
        if not program.is_absolute():
            continue
        if program.parent.resolve().is_relative_to(work_tree):
            continue
        if os.access(program, os.X_OK) and program.is_file():
            return str(program)
    raise BrokenStore("Git is not installed", _describe_install(MIN_VERSION))


def build_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Build the environment of Git's processes: no `GIT_*`, only absolute search paths."""
    variables = {}
    for name, value in environment.items():
        if name.upper().startswith("GIT_"):
            continue
        variables[name] = value
    folders = environment.get("PATH", os.defpath).split(os.pathsep)
    absolute_folders = [folder for folder in folders if Path(folder).is_absolute()]
    variables["PATH"] = os.pathsep.join(absolute_folders)
    variables.update(_FIXED_ENVIRONMENT)
    return variables


def require_version(git: Git, minimum: tuple[int, int] = MIN_VERSION) -> None:
    """Refuse a Git that is older than `minimum`; it is asked once per process.

    Raises BrokenStore.
    """
    if git.program not in _versions:
        _versions[git.program] = git.run("version").decode("utf-8", "replace").strip()
    version = _versions[git.program]
    match = re.search(r"(\d+)\.(\d+)", version)
    if match is None or (int(match[1]), int(match[2])) < minimum:
        raise BrokenStore(f"{version} is too old", _describe_install(minimum))


def _describe_install(version: tuple[int, int]) -> str:
    major, minor = version
    return f"install Git {major}.{minor} or newer"


def start_process(
    command: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> Popen[bytes]:
    """Start a program in a folder with all three streams as pipes. Raises BrokenStore."""
    from subprocess import PIPE, Popen  # noqa: PLC0415 - most searches start no process

    try:
        return Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            start_new_session=True,
        )
    except OSError as error:
        _refuse_missing_folder(folder)
        message = f"{command[0]} cannot be started: {error.strerror}"
        raise BrokenStore(message, "install it again") from None


@cache
def load_c_library() -> Any:
    """Load the C library, for calls that Python lacks."""
    import ctypes  # noqa: PLC0415 - most commands write nothing

    library = ctypes.CDLL(None)
    offset = ctypes.c_int64
    library.sync_file_range.argtypes = (ctypes.c_int, offset, offset, ctypes.c_uint)
    return library


def init_repository(folder: Path, git_dir: Path | None = None) -> None:
    """Run `git init` in a folder, with the user's own defaults and no template.

    Raises BrokenStore.
    """
    git_dir = git_dir or folder / ".git"
    program = find_git(os.environ, folder)
    folders = GitFolders(folder, git_dir, git_dir)
    git = Git(program, folders, build_environment(os.environ))
    git.run("init", "--quiet", "--template=", extra_environment={"GIT_DIR": str(git_dir)})
