"""A Git process that stays and answers request after request: starting one for each costs more than the answer.

What it has read of `packed-refs` it keeps for as long as size, inode and time in whole seconds are the same, and a
file that was written anew twice in a second may well have them back: `git gc` in a loop does it. So its owner asks
`outdated`, which looks at nanoseconds, before it goes by a name: a commit made on a HEAD of yesterday takes away all
that came since.
"""

from __future__ import annotations

import os
import select
from pathlib import Path

from filemem.repo.git import LIMIT, Git, GitError, end


class Helper:
    """One such process; it ends when its standard input closes.

    Args:
        git: starts it.
        arguments: the Git command with its options, one that says little on its error stream.
    """

    def __init__(self, git: Git, *arguments: str) -> None:
        self._packed = git.places.common_dir / "packed-refs"
        self._seen = _written(self._packed)
        # Out of reach of Ctrl-C, which may come while it holds a lock: it ends when we do.
        self.process, self._name = git.start(*arguments, apart=True), arguments[0]
        self._buffer = b""

    @property
    def outdated(self) -> bool:
        """Whether it may go by references that were packed anew since it was started."""
        return _written(self._packed) != self._seen

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

    def _more(self) -> None:
        assert self.process.stdout is not None  # noqa: S101 - opened as a pipe
        ready, _, _ = select.select([self.process.stdout], [], [], LIMIT)
        if not ready:
            end(self.process)
            raise GitError(self._name, -1, f"no answer in {LIMIT:g} seconds")
        data = os.read(self.process.stdout.fileno(), 1 << 16)
        if not data:
            raise self.ended()
        self._buffer += data


def _written(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size
