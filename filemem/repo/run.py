"""Git: where a repository is, which is read from disk, and the one place that runs Git.

A repository may be hostile: its configuration names programs that Git would run for us. So every call has fixed
options that switch them off, an environment without `GIT_*`, an absolute program found outside the repository, a time
limit, and never a shell. Values go to standard input or after `--`. Every child has a session of its own, so that a
signal to our group never stops one that holds a lock. Git refuses what belongs to another user (`safe.directory`).
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
_TERM_TIMEOUT, _KILL_TIMEOUT = (
    2.0,
    1.0,
)  # seconds that a call which is ended has for that, and one that is killed then
MIN_VERSION = (2, 34)
_versions: dict[str, str] = {}  # by program

SAFE_SETTINGS = tuple(
    f"""core.fsmonitor=false core.hooksPath={os.devnull} core.pager=cat core.sshCommand=false core.alternateRefsCommand=
    core.protectHFS=true core.protectNTFS=true core.fsync=committed core.quotePath=false commit.gpgSign=false
    log.showSignature=false log.showRoot=true log.diffMerges=separate log.follow=false diff.renameLimit=1000
    trailer.separators=: i18n.logOutputEncoding=UTF-8 diff.orderFile={os.devnull} diff.external= credential.helper=
    protocol.allow=never protocol.ext.allow=never protocol.file.allow=never protocol.git.allow=never
    protocol.http.allow=never protocol.https.allow=never protocol.ssh.allow=never
    gc.auto=0 maintenance.auto=false advice.graftFileDeprecated=false""".split()
)
"""The settings that every call is given: no program of the repository's runs."""
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
        """How people call Git on this work tree, wherever they stand.

        Commands that are printed begin so.
        """
        return f"git -C {shlex.quote(str(self.work_tree))}"


def find_repository(start: Path) -> GitFolders:
    """Look for a repository in a folder and the folders above it.

    Raises NotFound: there is none; BrokenStore: it has no work tree, is not whole, or the folder
    itself is gone.
    """
    _refuse_missing_folder(start)
    start = start.resolve()
    for folder in (start, *start.parents):
        if os.path.lexists(git_dir := folder / ".git"):
            break
        if all((folder / name).exists() for name in ("HEAD", "objects", "refs")):
            message = f"{folder} is a Git directory without a work tree"
            raise BrokenStore(
                message, "filemem needs a checkout: stand in it, or git clone it first"
            )
    else:
        raise NotFound(
            f"there is no Git repository in {start} or above it",
            "run `filemem init` there to create one",
        )
    if git_dir.is_file():
        git_dir = (folder / read_git_file(git_dir).removeprefix("gitdir:").strip()).resolve()
    common_dir = (
        (git_dir / read_git_file(git_dir / "commondir")).resolve()
        if (git_dir / "commondir").is_file()
        else git_dir
    )
    # Without `commondir` a linked work tree's own folder would pass for a whole repository.
    if not (git_dir / "HEAD").is_file() or not (common_dir / "objects").is_dir():
        message = f"{folder / '.git'} does not lead to a Git directory that is whole"
        raise BrokenStore(message, "run `git worktree repair`, or clone the repository again")
    return GitFolders(folder, git_dir, common_dir)


def _refuse_missing_folder(work_tree: Path) -> None:
    """Refuse to work in a folder that was removed under us. Raises BrokenStore."""
    if not os.path.exists(work_tree):  # noqa: PTH110 - it may be a name that no folder can have
        message = f"the folder {work_tree} no longer exists"
        raise BrokenStore(message, "go to a folder that exists; restart servers there")


def read_git_file(file: Path) -> str:
    """The text of a small file of Git's; "" where there is none."""
    try:
        return file.read_text(errors="surrogateescape").strip()
    except (OSError, ValueError):  # a name that no file can have
        return ""


def read_file_stamp(file: Path) -> tuple[int, int, int]:
    """What shows that a file was written or replaced: its number, size and time.

    Each is -1 for a file that is not there.
    """
    try:
        status = file.stat()
    except OSError:
        return -1, -1, -1
    return status.st_ino, status.st_size, status.st_mtime_ns


_HINTS = {
    ".lock': File exists": "if no Git command is running there, one was interrupted: remove that file",
    "dubious ownership": "if you trust who owns it: git config --global --add safe.directory FOLDER",
    "lazy fetching": "this is a partial clone: `git fetch --refetch --no-filter` brings what it lacks",
    "": "try the same with Git itself; `git fsck` shows whether the repository is sound",
}


class GitError(BrokenStore):
    """Git refused. `stderr` is its own text, `code` its exit status (-1: it took too long)."""

    def __init__(self, command: str, code: int, stderr: str) -> None:
        self.code, self.stderr = code, stderr
        error_lines = stderr.strip().splitlines()
        hint = next(hint for mark, hint in _HINTS.items() if mark in stderr)
        super().__init__(
            f"git {command} failed: {error_lines[0] if error_lines else f'exit status {code}'}",
            hint,
        )


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
        """Start one call with all three streams as pipes.

        `config` holds further `key=value` settings.
        """
        top = self.folders.work_tree
        settings = (part for setting in (*SAFE_SETTINGS, *config) for part in ("-c", setting))
        fixed = ("--no-pager", OWN_MARK, "--no-replace-objects", f"--work-tree={top}")
        environment = {
            **self.environment,
            "GIT_CEILING_DIRECTORIES": str(top.parent),
            **(extra_environment or {}),
        }
        return start_process([self.program, *fixed, *settings, *arguments], top, environment)

    def run(
        self,
        *arguments: str,
        input_data: bytes | None = None,
        limit: float = LIMIT,
        config: Sequence[str] = (),
        extra_environment: Mapping[str, str] | None = None,
    ) -> bytes:
        """Run one call to its end and return its output. Raises GitError."""
        return finish_process(
            self.start(*arguments, config=config, extra_environment=extra_environment),
            arguments[0],
            input_data or b"",
            limit,
        )


def finish_process(
    process: Popen[bytes],
    name: str,
    data: bytes = b"",
    limit: float = LIMIT,
    ends_on_interrupt: bool = True,
) -> bytes:
    """Wait for a started call, feeding it `data`; returns its output.

    An interrupt `stops` it. Raises GitError.
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
    from subprocess import TimeoutExpired  # noqa: PLC0415

    for number, limit in ((signal.SIGTERM, _TERM_TIMEOUT), (signal.SIGKILL, _KILL_TIMEOUT)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutExpired, ValueError):
            process.communicate(timeout=limit)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


class GitProcess:
    """A Git process that stays and answers request after request.

    It ends when its standard input closes.
    """

    def __init__(self, git: Git, *arguments: str, config: Sequence[str] = ()) -> None:
        self.process, self._name = git.start(*arguments, config=config), arguments[0]
        self._buffer = bytearray()

    def send(self, data: bytes) -> None:
        """Write a request. Raises GitError where the process is gone."""
        assert self.process.stdin is not None  # noqa: S101 - opened as a pipe
        try:
            self.process.stdin.write(data)
            self.process.stdin.flush()
        except OSError:
            raise self.collect_error() from None

    def read_line(self) -> bytes:
        """One line of the answer without its end. Raises GitError."""
        while b"\n" not in self._buffer:
            self._read_more()
        return self.read_bytes(self._buffer.index(b"\n") + 1)[:-1]

    def read_bytes(self, size: int) -> bytes:
        """The next `size` bytes of the answer. Raises GitError."""
        while len(self._buffer) < size:
            self._read_more()
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    def collect_error(self) -> GitError:
        """The error that ended the process; collects it."""
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
        """Let the process end, and wait for it; an interrupt leaves it to do its work.

        Raises GitError if it failed.
        """
        finish_process(self.process, self._name, ends_on_interrupt=False)

    def _read_more(self) -> None:
        assert self.process.stdout is not None  # noqa: S101 - opened as a pipe
        poller = select.poll()  # `select` itself fails in a process that has 1,024 files open
        poller.register(self.process.stdout, select.POLLIN)
        data = os.read(self.process.stdout.fileno(), 1 << 16) if poller.poll(1000 * LIMIT) else b""
        if not data:
            raise self.collect_error()
        self._buffer += data


def find_git(environment: Mapping[str, str], work_tree: Path) -> str:
    """The first `git` on the search path that is absolute and outside the work tree.

    Raises BrokenStore.
    """
    for folder in environment.get("PATH", os.defpath).split(os.pathsep):
        program = Path(folder, "git")
        if not program.is_absolute() or program.parent.resolve().is_relative_to(work_tree):
            continue
        if os.access(program, os.X_OK) and program.is_file():
            return str(program)
    raise BrokenStore("Git is not installed", "install Git {}.{} or newer".format(*MIN_VERSION))


def build_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for Git's processes: nothing of `GIT_*`, no relative search path."""
    variables = {
        name: value for name, value in environment.items() if not name.upper().startswith("GIT_")
    }
    path = environment.get("PATH", os.defpath).split(os.pathsep)
    return {
        **variables,
        "PATH": os.pathsep.join(folder for folder in path if Path(folder).is_absolute()),
        **_FIXED_ENVIRONMENT,
    }


def require_version(git: Git, minimum: tuple[int, int] = MIN_VERSION) -> None:
    """Refuse a Git that is older than `needed`; it is asked once in a process.

    Raises BrokenStore.
    """
    if git.program not in _versions:
        _versions[git.program] = git.run("version").decode("utf-8", "replace").strip()
    match = re.search(r"(\d+)\.(\d+)", _versions[git.program])
    if match is None or (int(match[1]), int(match[2])) < minimum:
        raise BrokenStore(
            f"{_versions[git.program]} is too old", "install Git {}.{} or newer".format(*minimum)
        )


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
        raise BrokenStore(
            f"{command[0]} cannot be started: {error.strerror}", "install it again"
        ) from None


@cache
def load_c_library() -> Any:
    """The C library, for what Python has no call for."""
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
    git = Git(
        find_git(os.environ, folder),
        GitFolders(folder, git_dir, git_dir),
        build_environment(os.environ),
    )
    git.run("init", "--quiet", "--template=", extra_environment={"GIT_DIR": str(git_dir)})
