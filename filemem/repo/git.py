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
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from filemem.errors import BrokenStore
from filemem.repo.discovery import Places
from filemem.repo.memo import Memo

if TYPE_CHECKING:
    import subprocess

LIMIT = 20.0  # seconds for one call
LONG = 120.0  # seconds for one over much history or many files: a walk of 100,000 commits takes ten
NOTED = 3.0  # seconds of silence after which it is said what is waited for
NEEDED = (2, 36)

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
        super().__init__(
            f"git {command} failed: {first[0] if first else f'exit status {code}'}",
            "try the same with Git itself; `git fsck` tells whether the repository is sound",
        )


class Patience(NamedTuple):
    """How long a call that reaches others is waited for.

    Args:
        what: what is waited for, in words.
        limit: seconds it may take in all.
        silence: seconds for which it may say nothing.
        tell: told what it says, and what is waited for; None for nobody.
    """

    what: str
    limit: float
    silence: float
    tell: Callable[[str], object] | None = None


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
    ) -> subprocess.Popen[bytes]:
        """Start one call with all three streams as pipes.

        Args:
            config: further settings, `key=value`.
            extra: further environment.
            apart: out of reach of the terminal, so that nothing it starts can ask there.
        """
        import subprocess

        try:
            return subprocess.Popen(
                self.command(*arguments, config=config),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self.places.work_tree,
                env={**self.environment, **(extra or {})},
                start_new_session=apart,
            )
        except OSError as error:
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
        process.kill()
        process.communicate()
        raise GitError(name, -1, f"no answer in {limit:g} seconds") from None
    except BaseException:
        process.kill()
        process.communicate()
        raise
    if process.returncode:
        raise GitError(name, process.returncode, err.decode("utf-8", "replace"))
    return out


def listen(process: subprocess.Popen[bytes], name: str, patience: Patience) -> None:
    """Wait for a call that was started apart and may take long, passing on what it says as it comes.

    Raises:
        GitError: it failed, took too long or was silent for too long; `stderr` holds all that it said.
    """
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None  # noqa: S101, PT018
    heard: list[bytes] = []
    overdue: list[float] = []

    def give_up(after: float) -> None:
        overdue.append(after)
        _end(process)

    late = threading.Timer(patience.limit, give_up, (patience.limit,))
    ear = threading.Thread(target=_follow, args=(process.stderr.fileno(), heard, patience, give_up), daemon=True)
    late.start()
    ear.start()
    try:
        process.stdin.close()
        out = process.stdout.read()
        code = process.wait()
        ear.join()
    except BaseException:
        _end(process)
        process.wait()
        ear.join(1.0)
        raise
    finally:
        late.cancel()
        process.stdout.close()
        process.stderr.close()
    if overdue:
        raise GitError(name, -1, f"no answer in {overdue[0]:g} seconds")
    if code:
        raise GitError(name, code, (b"".join(heard) + b"\n" + out).decode("utf-8", "replace"))


def _follow(fd: int, heard: list[bytes], patience: Patience, give_up: Callable[[float], object]) -> None:
    """Pass on what a call says; say once that it is waited for, and give it up where it says nothing for too long."""
    last, noted = time.monotonic(), not patience.tell
    while True:
        wait = patience.silence if noted else min(NOTED, patience.silence)
        ready, _, _ = select.select([fd], [], [], max(0.0, last + wait - time.monotonic()))
        if ready:
            data = os.read(fd, 1 << 12)
            if not data:
                return
            heard.append(data)
            last = time.monotonic()
            if patience.tell:
                patience.tell(data.decode("utf-8", "replace"))
        elif time.monotonic() - last >= patience.silence:
            give_up(patience.silence)
            return
        elif patience.tell and not noted:
            patience.tell(f"waiting for {patience.what}; given up after {patience.silence:g} seconds of silence\n")
            noted = True


@contextlib.contextmanager
def outlived_by_none() -> Iterator[None]:
    """While calls run apart: let a signal that would end this process on the spot end them too."""

    def leave(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    known = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    ours = threading.current_thread() is threading.main_thread()
    deadly = [number for number in known if ours and signal.getsignal(number) is signal.SIG_DFL]
    for number in deadly:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in deadly:
            signal.signal(number, signal.SIG_DFL)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a call that was started apart, and what it has started."""
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    except ProcessLookupError:
        pass


class Helper:
    """One Git process that stays and answers request after request; it ends when its standard input closes.

    Args:
        process: the process, its error stream kept small by its own nature.
        name: for messages.
    """

    def __init__(self, process: subprocess.Popen[bytes], name: str) -> None:
        self.process, self._name = process, name
        self._buffer = b""

    def send(self, data: bytes) -> None:
        """Write a request. Raises GitError where the process is gone."""
        assert self.process.stdin is not None  # noqa: S101 - opened as a pipe
        try:
            self.process.stdin.write(data)
            self.process.stdin.flush()
        except OSError:
            raise self.ended() from None

    def line(self, limit: float = LIMIT) -> bytes:
        """One line of the answer without its end. Raises GitError."""
        while b"\n" not in self._buffer:
            self._more(limit)
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def exactly(self, size: int, limit: float = LIMIT) -> bytes:
        """The next `size` bytes of the answer. Raises GitError."""
        while len(self._buffer) < size:
            self._more(limit)
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    def ended(self) -> GitError:
        """The error that ended the process; collects it."""
        if not self._ends_itself():
            self.process.kill()
        _, err = self.process.communicate()
        return GitError(self._name, self.process.returncode or -1, err.decode("utf-8", "replace"))

    def close(self) -> None:
        """Let the process end."""
        if self.process.poll() is None:
            assert self.process.stdin is not None  # noqa: S101 - opened as a pipe
            try:
                self.process.stdin.close()
            except OSError:
                pass
            if not self._ends_itself():
                self.process.kill()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                try:
                    stream.close()
                except OSError:
                    pass
        self.process.wait()

    def _ends_itself(self) -> bool:
        import subprocess

        try:
            self.process.wait(2.0)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _more(self, limit: float) -> None:
        assert self.process.stdout is not None  # noqa: S101 - opened as a pipe
        ready, _, _ = select.select([self.process.stdout], [], [], limit)
        if not ready:
            self.process.kill()
            self.process.communicate()
            raise GitError(self._name, -1, f"no answer in {limit:g} seconds")
        data = os.read(self.process.stdout.fileno(), 1 << 16)
        if not data:
            raise self.ended()
        self._buffer += data


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
