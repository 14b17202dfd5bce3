"""Running Git: the one place that starts it.

A repository may be hostile: its configuration names programs that Git would run for us. So every call has the same
fixed options that switch them off, an environment without `GIT_*`, an absolute program found outside the repository,
a time limit, and never a shell. Values go to standard input or after `--`. Most searches start no process, so
subprocess is imported where one is.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from filemem.errors import BrokenStore
from filemem.repo.discovery import Places, refuse_gone
from filemem.repo.memo import Memo

if TYPE_CHECKING:
    import subprocess

LIMIT = 20.0  # seconds for one call
LONG = 120.0  # seconds for one over much history or many files: a walk of 100,000 commits takes ten
_GENTLY, _ENDS = 2.0, 1.0  # seconds that a call which is ended has for that, and one that is killed then
_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
NEEDED = (2, 36)
PROMISED = "lazy fetching disabled"  # a partial clone lacks an object, and reading fetches nothing

_OFF = (
    "core.fsmonitor=false",
    f"core.hooksPath={os.devnull}",
    "core.pager=cat",
    "core.sshCommand=false",
    "core.alternateRefsCommand=",
    "core.protectHFS=true",
    "core.protectNTFS=true",
    "core.fsync=committed",
    "core.quotePath=false",
    "commit.gpgSign=false",
    "log.showSignature=false",
    "log.showRoot=true",
    "log.diffMerges=separate",
    "log.follow=false",
    "diff.renameLimit=1000",
    "trailer.separators=:",
    "i18n.logOutputEncoding=UTF-8",
    f"diff.orderFile={os.devnull}",
    "diff.external=",
    "credential.helper=",
    "protocol.allow=never",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.graftFileDeprecated=false",
)
_ASKED_FOR = ("core.sshCommand", "credential.helper", "protocol.allow")  # what reaching others needs
_TRANSPORTS = ("file", "git", "http", "https", "ssh")
ASKED = (
    *(option for option in _OFF if not option.startswith(_ASKED_FOR)),
    "protocol.allow=never",
    *(f"protocol.{name}.allow=always" for name in _TRANSPORTS),
)
"""The fixed options of commands that reach others because the user asked for it."""


def _preamble(options: Sequence[str]) -> tuple[str, ...]:
    return ("--no-pager", "--literal-pathspecs", "--no-replace-objects", *(p for o in options for p in ("-c", o)))


PREAMBLE = _preamble(_OFF)
_ALWAYS = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_PAGER": "cat",
    "GIT_GRAFT_FILE": os.devnull,  # with --no-replace-objects: commits are what they were made as
}


class GitError(BrokenStore):
    """Git refused. `stderr` is its own text, `code` its exit status (-1: it took too long)."""

    def __init__(self, command: str, code: int, stderr: str) -> None:
        self.code, self.stderr = code, stderr
        first = stderr.strip().splitlines()
        message = f"git {command} failed: {first[0] if first else f'exit status {code}'}"
        hint = "try the same with Git itself; `git fsck` tells whether the repository is sound"
        if ".lock': File exists" in stderr:
            hint = "if no Git command is running there, one was interrupted: remove that file"
        elif PROMISED in stderr:
            message = "this is a partial clone, and older versions that are asked for are not in it"
            hint = "`git fetch --refetch --no-filter` brings them"
        super().__init__(message, hint)

    @property
    def unanswered(self) -> bool:
        """Whether Git came to no answer, as where it took too long."""
        return self.code == -1

    @property
    def unborn(self) -> bool:
        """Whether it was asked about HEAD, and there is no commit yet."""
        return "unknown revision" in self.stderr or "bad revision" in self.stderr


class Git(NamedTuple):
    """Git for one repository.

    Args:
        program: absolute path of the executable.
        places: the repository.
        environment: what its processes see.
        switches: the fixed options.
    """

    program: str
    places: Places
    environment: Mapping[str, str]
    switches: tuple[str, ...] = _OFF

    def command(self, *arguments: str, config: Sequence[str] = ()) -> list[str]:
        """The argument list of one call; `config` holds further `key=value` settings."""
        where = (f"--git-dir={self.places.git_dir}", f"--work-tree={self.places.work_tree}")
        return [self.program, *_preamble(self.switches), *(p for c in config for p in ("-c", c)), *where, *arguments]

    def start(
        self,
        *arguments: str,
        config: Sequence[str] = (),
        extra: Mapping[str, str] | None = None,
        apart: bool = False,
        told: IO[bytes] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start one call with all three streams as pipes.

        Args:
            config: further settings, `key=value`.
            extra: further environment.
            apart: out of reach of the terminal, so that nothing it starts can ask there, and all of it can be ended.
            told: a file to write all output to instead: a pipe ends only when whatever the call left running has ended.
        """
        import subprocess

        try:
            return subprocess.Popen(
                self.command(*arguments, config=config),
                stdin=subprocess.PIPE,
                stdout=told or subprocess.PIPE,
                stderr=told or subprocess.PIPE,
                cwd=self.places.work_tree,
                env={**self.environment, **(extra or {})},
                start_new_session=apart,
            )
        except OSError as error:
            refuse_gone(self.places.work_tree)
            raise BrokenStore(f"{self.program} cannot be started: {error.strerror}", "install Git") from None

    def run(
        self,
        *arguments: str,
        input: bytes = b"",  # noqa: A002 - the name that subprocess uses
        limit: float = LIMIT,
        config: Sequence[str] = (),
        extra: Mapping[str, str] | None = None,
    ) -> bytes:
        """Run one call to its end and return its output.

        Args:
            input: standard input.
            limit: seconds it may take.
            config: further settings, `key=value`.
            extra: further environment.

        Raises:
            GitError: it failed or took too long.
        """
        return finish(self.start(*arguments, config=config, extra=extra), arguments[0], input, limit)

    def aside(self, *arguments: str) -> str:
        """Run one call to its end and return all that it says, what it says beside its output included.

        Raises:
            GitError: it failed or took too long.
        """
        from tempfile import TemporaryFile

        with TemporaryFile() as told:
            finish(self.start(*arguments, told=told), arguments[0])
            told.seek(0)
            return told.read().decode("utf-8", "replace")


def feed(process: subprocess.Popen[bytes], data: bytes) -> None:
    """Give a started call all of its input, little enough for a pipe to take, so that it works while we do."""
    assert process.stdin is not None  # noqa: S101 - opened as a pipe
    with contextlib.suppress(BrokenPipeError):  # it has given up; `finish` tells why
        process.stdin.write(data)
        process.stdin.close()
    process.stdin = None  # or `communicate` would close it again


def finish(process: subprocess.Popen[bytes], name: str, data: bytes = b"", limit: float = LIMIT) -> bytes:
    """Wait for a started call, feeding it `data`; returns its output. Raises GitError."""
    import subprocess

    try:
        out, err = process.communicate(data, timeout=limit)
    except subprocess.TimeoutExpired:
        end(process)
        raise GitError(name, -1, f"no answer in {limit:g} seconds") from None
    except BaseException:
        end(process)
        raise
    if process.returncode:
        raise GitError(name, process.returncode, (err or b"").decode("utf-8", "replace"))
    return out or b""


def end(process: subprocess.Popen[bytes]) -> None:
    """End a call, gently first: Git removes its locks then. What it leaves running with its pipes is not waited for."""
    import subprocess

    group = _leads(process)
    for number, limit in ((signal.SIGTERM, _GENTLY), (_KILL, _ENDS)):
        _send(process, number, group)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=limit)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a call, and what it has started where it was started apart."""
    _send(process, _KILL, _leads(process))


def _leads(process: subprocess.Popen[bytes]) -> bool:
    """Whether a call was started apart: it leads a group of processes, of those that it starts."""
    try:
        return hasattr(os, "killpg") and os.getpgid(process.pid) == process.pid
    except ProcessLookupError:
        return False


def _send(process: subprocess.Popen[bytes], number: signal.Signals, group: bool) -> None:
    try:
        if group:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
    except ProcessLookupError:
        pass


def locate(environment: Mapping[str, str], work_tree: Path) -> str:
    """The first `git` on the search path that is given absolutely and stands outside the work tree.

    Raises:
        BrokenStore: there is none.
    """
    for folder in environment.get("PATH", os.defpath).split(os.pathsep):
        path = Path(folder)
        if path.is_absolute() and not path.resolve().is_relative_to(work_tree):
            program = path / ("git.exe" if os.name == "nt" else "git")
            if os.access(program, os.X_OK) and program.is_file():
                return str(program)
    raise BrokenStore("Git is not installed", "install Git 2.36 or newer")


def clean(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for Git's processes: nothing of `GIT_*`, no relative search path."""
    kept = {name: value for name, value in environment.items() if not name.upper().startswith("GIT_")}
    path = environment.get("PATH", os.defpath).split(os.pathsep)
    kept["PATH"] = os.pathsep.join(folder for folder in path if Path(folder).is_absolute())
    return {**kept, **_ALWAYS}


def trusted(program: str, environment: Mapping[str, str], work_tree: Path) -> bool:
    """Whether Git itself is willing to use a repository that belongs to another user."""
    import subprocess

    try:
        # Without --git-dir: naming it would switch Git's own check off.
        asked = subprocess.run(
            [program, *PREAMBLE, "-C", str(work_tree), "rev-parse", "--git-dir"],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=LIMIT,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == 0


def check_version(git: Git, memo: Memo) -> None:
    """Refuse a Git that is too old; the answer is remembered in `memo` for this very executable.

    Raises:
        BrokenStore: it is older than 2.36.
    """
    found = Path(git.program).stat()
    key = os.fsencode(f"{git.program} {found.st_size} {found.st_mtime_ns}\n")
    if memo.read() == key:
        return
    text = git.run("version").decode("utf-8", "replace")
    match = re.search(r"(\d+)\.(\d+)", text)
    if match is None or (int(match[1]), int(match[2])) < NEEDED:
        raise BrokenStore(f"{text.strip()} is too old", "install Git 2.36 or newer")
    memo.write(key)
