"""Running Git: the one place that starts it.

A repository may be hostile: its configuration names programs that Git would run for us. So every call has the same
fixed options that switch them off, an environment without `GIT_*`, an absolute program found outside the repository,
a time limit, and never a shell. Values go to standard input or after `--`. Every child has a session of its own, so
that a signal to our group never stops one that holds a lock.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from filemem.errors import BrokenStore, Conflict
from filemem.repo.paths import Places, refuse_gone

if TYPE_CHECKING:
    import subprocess

LIMIT = 20.0  # seconds for one call
LONG = 120.0  # seconds for one over much history or many files
_GENTLY, _ENDS = 2.0, 1.0  # seconds that a call which is ended has for that, and one that is killed then
NEEDED = (2, 34)
_versions: dict[str, str] = {}  # by program
_PROMISED = "lazy fetching disabled"  # a partial clone lacks an object, and reading fetches nothing

OFF = tuple(
    f"""core.fsmonitor=false core.hooksPath={os.devnull} core.pager=cat core.sshCommand=false core.alternateRefsCommand=
    core.protectHFS=true core.protectNTFS=true core.fsync=committed core.quotePath=false commit.gpgSign=false
    log.showSignature=false log.showRoot=true log.diffMerges=separate log.follow=false diff.renameLimit=1000
    trailer.separators=: i18n.logOutputEncoding=UTF-8 diff.orderFile={os.devnull} diff.external= credential.helper=
    protocol.allow=never gc.auto=0 maintenance.auto=false advice.graftFileDeprecated=false""".split()
)
"""The settings that every call is given: no program of the repository's runs."""
_ASKED_FOR = ("core.sshCommand", "credential.helper", "protocol.allow")  # what reaching others needs
_TRANSPORTS = ("file", "git", "http", "https", "ssh")
ASKED = (
    *(option for option in OFF if not option.startswith(_ASKED_FOR)),
    "protocol.allow=never",
    *(f"protocol.{name}.allow=always" for name in _TRANSPORTS),
)
"""The settings of commands that reach others because the user asked for it."""
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
        hint = "try the same with Git itself; `git fsck` shows whether the repository is sound"
        if ".lock': File exists" in stderr:
            hint = "if no Git command is running there, one was interrupted: remove that file"
        elif self.promised:
            message = "this is a partial clone, and older versions that are asked for are not in it"
            hint = "`git fetch --refetch --no-filter` brings them"
        super().__init__(message, hint)

    @property
    def promised(self) -> bool:
        """Whether it was asked for an object that a partial clone lacks."""
        return _PROMISED in self.stderr or "promisor remote" in self.stderr


class Git(NamedTuple):
    """Git for one repository."""

    program: str
    places: Places
    environment: Mapping[str, str]
    switches: tuple[str, ...] = OFF

    def command(self, *arguments: str, config: Sequence[str] = ()) -> list[str]:
        """The argument list of one call; `config` holds further `key=value` settings."""
        settings = (part for each in (*self.switches, *config) for part in ("-c", each))
        where = (f"--git-dir={self.places.git_dir}", f"--work-tree={self.places.work_tree}")
        fixed = ("--no-pager", "--literal-pathspecs", "--no-replace-objects")
        return [self.program, *fixed, *settings, *where, *arguments]

    def start(
        self, *arguments: str, config: Sequence[str] = (), extra: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start one call with all three streams as pipes; see `run`."""
        import subprocess  # noqa: PLC0415 - most searches start no process

        try:
            return subprocess.Popen(
                self.command(*arguments, config=config),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self.places.work_tree,
                env={**self.environment, **(extra or {})},
                start_new_session=True,
            )
        except OSError as error:
            refuse_gone(self.places.work_tree)
            raise BrokenStore(f"{self.program} cannot be started: {error.strerror}", "install Git") from None

    def run(
        self,
        *arguments: str,
        input: bytes | None = None,  # noqa: A002 - the name that subprocess uses
        limit: float = LIMIT,
        config: Sequence[str] = (),
        extra: Mapping[str, str] | None = None,
    ) -> bytes:
        """Run one call to its end and return its output. Raises GitError."""
        return finish(self.start(*arguments, config=config, extra=extra), arguments[0], input or b"", limit)


def finish(process: subprocess.Popen[bytes], name: str, data: bytes = b"", limit: float = LIMIT) -> bytes:
    """Wait for a started call, feeding it `data`; returns its output. Raises GitError."""
    from subprocess import TimeoutExpired  # noqa: PLC0415

    try:
        out, err = process.communicate(data, timeout=limit)
    except TimeoutExpired:
        end(process)
        raise GitError(name, -1, f"no answer in {limit:g} seconds") from None
    except BaseException:
        end(process)
        raise
    if process.returncode:
        raise GitError(name, process.returncode, err.decode("utf-8", "replace"))
    return out


def end(process: subprocess.Popen[bytes]) -> None:
    """End a call and what it has started, gently first: Git removes its locks then."""
    import signal  # noqa: PLC0415
    from subprocess import TimeoutExpired  # noqa: PLC0415

    for number, limit in ((signal.SIGTERM, _GENTLY), (signal.SIGKILL, _ENDS)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutExpired, ValueError):
            process.communicate(timeout=limit)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


class Helper:
    """A Git process that stays and answers request after request; it ends when its standard input closes."""

    def __init__(self, git: Git, *arguments: str, config: Sequence[str] = ()) -> None:
        self.process, self._name = git.start(*arguments, config=config), arguments[0]
        self._buffer = b""

    def send(self, data: bytes) -> None:
        """Write a request. Raises GitError where the process is gone."""
        assert self.process.stdin is not None  # noqa: S101 - opened as a pipe
        try:
            self.process.stdin.write(data)
            self.process.stdin.flush()
        except OSError:
            raise self.ended() from None

    def line(self) -> bytes:
        """One line of the answer without its end. Raises GitError."""
        while b"\n" not in self._buffer:
            self._more()
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def exactly(self, size: int) -> bytes:
        """The next `size` bytes of the answer. Raises GitError."""
        while len(self._buffer) < size:
            self._more()
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    def ended(self) -> GitError:
        """The error that ended the process; collects it."""
        try:
            finish(self.process, self._name, limit=_GENTLY)
        except GitError as error:
            return error
        return GitError(self._name, -1, "it ended without an answer")

    def close(self) -> None:
        """Let the process end, and wait for it. Raises GitError where it has failed."""
        finish(self.process, self._name)

    def _more(self) -> None:
        import select  # noqa: PLC0415

        assert self.process.stdout is not None  # noqa: S101 - opened as a pipe
        ready, _, _ = select.select([self.process.stdout], [], [], LIMIT)
        data = os.read(self.process.stdout.fileno(), 1 << 16) if ready else b""
        if not data:
            raise self.ended()
        self._buffer += data


def locate(environment: Mapping[str, str], work_tree: Path) -> str:
    """The first `git` on the search path that is given absolutely and stands outside the work tree. Raises
    BrokenStore.
    """
    for folder in environment.get("PATH", os.defpath).split(os.pathsep):
        program = Path(folder, "git")
        if not program.is_absolute() or program.parent.resolve().is_relative_to(work_tree):
            continue
        if os.access(program, os.X_OK) and program.is_file():
            return str(program)
    raise BrokenStore("Git is not installed", "install Git {}.{} or newer".format(*NEEDED))


def clean(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for Git's processes: nothing of `GIT_*`, no relative search path."""
    kept = {name: value for name, value in environment.items() if not name.upper().startswith("GIT_")}
    path = environment.get("PATH", os.defpath).split(os.pathsep)
    kept["PATH"] = os.pathsep.join(folder for folder in path if Path(folder).is_absolute())
    return {**kept, **_ALWAYS}


def trusted(git: Git) -> bool:
    """Whether Git itself is willing to use a repository that belongs to another user."""
    import subprocess  # noqa: PLC0415

    options = (part for each in OFF for part in ("-c", each))
    # Without --git-dir: naming it would switch Git's own check off.
    command = [git.program, *options, "-C", str(git.places.work_tree), "rev-parse", "--git-dir"]
    try:
        subprocess.run(command, env=dict(git.environment), input=b"", capture_output=True, check=True, timeout=LIMIT)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def check_version(git: Git, needed: tuple[int, int] = NEEDED) -> None:
    """Refuse a Git that is older than `needed`; it is asked once in a process. Raises BrokenStore."""
    if git.program not in _versions:
        _versions[git.program] = git.run("version").decode("utf-8", "replace").strip()
    match = re.search(r"(\d+)\.(\d+)", _versions[git.program])
    if match is None or (int(match[1]), int(match[2])) < needed:
        raise BrokenStore(f"{_versions[git.program]} is too old", "install Git {}.{} or newer".format(*needed))


def hooked(git: Git, folder: str | None, tree: str, text: str) -> str:
    """Run the repository's `pre-commit` and `commit-msg` on a commit to be made; only where the user asks for it.

    Returns:
        The message as the hooks leave it.

    Raises:
        Conflict: a hook refuses.
    """
    from tempfile import TemporaryDirectory  # noqa: PLC0415

    with TemporaryDirectory() as aside:
        index, message = Path(aside, "index"), Path(aside, "message")
        message.write_text(text)
        how = {"GIT_INDEX_FILE": str(index), "GIT_EDITOR": ":"}
        where = (f"core.hooksPath={folder or git.places.common_dir / 'hooks'}",)
        git.run("read-tree", tree, extra=how)
        for hook in (("pre-commit",), ("commit-msg", "--", str(message))):
            try:
                git.run("hook", "run", "--ignore-missing", *hook, config=where, extra=how, limit=LONG)
            except GitError as error:
                said = " ".join(error.stderr.split())[:200]
                raise Conflict(f"the {hook[0]} hook refused: {said}", "satisfy the hook, then save again") from None
        return message.read_text(errors="replace")


def create(folder: Path) -> None:
    """Run `git init` in a folder, with the user's own defaults and no template, for `filemem init`. Raises
    BrokenStore.
    """
    places = Places(folder, folder / ".git", folder / ".git")
    Git(locate(os.environ, folder), places, clean(os.environ)).run("init", "--quiet", "--template=")
