"""Exceptions for failures that a caller can act on, one class for each kind of remedy.

The command line, MCP and HTTP map these by one table each. Any other exception is a defect of
filemem, for which a crash report is written: one file that a person can read and send.
"""

from __future__ import annotations

import errno

TYPE_CHECKING = False  # as of `typing`, which a command that a server answers does not load
if TYPE_CHECKING:
    from pathlib import Path


class FilememError(Exception):
    """A failure that the user can act on: what happened and where, and what to do, if anything."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    @property
    def one_line(self) -> str:
        """What happened and what to do, in one line."""
        return "; ".join(part for part in (self.message, self.hint) if part)

    def __str__(self) -> str:
        if not self.hint:
            return self.message
        return f"{self.message}\nhint: {self.hint}"


class BadInput(FilememError):
    """The request is wrong: correct it and ask again.

    `field` names the argument at fault, or is empty.
    """

    def __init__(self, message: str, hint: str = "", field: str = "") -> None:
        super().__init__(message, hint)
        self.field = field


class LooksSecret(BadInput):
    """A text looks like a secret: leave it out, or say that it is none."""


class NotFound(FilememError):
    """What was named does not exist: pick another, or create it."""


class Conflict(FilememError):
    """Two changes disagree: a person or agent must choose.

    `heads` lists the record ids in question.
    """

    def __init__(self, message: str, hint: str = "", heads: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint)
        self.heads = heads


class Locked(FilememError):
    """Another process is at work: wait and try again."""


class BrokenStore(FilememError):
    """Disk, repository or index cannot be used: repair them first."""


_ADVICE_BY_ERRNO = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space, or ask for more",
    errno.EIO: "look at the disk: it fails",
    errno.EROFS: "the disk is read-only: mount it to be written",
    errno.EACCES: "check who may read and write there",
    errno.EPERM: "check who may read and write there",
    errno.EMFILE: "close files or raise `ulimit -n`",
    errno.ENFILE: "close programs: the system has too many open files",
    errno.ENOMEM: "close programs: memory is short",
    errno.EAGAIN: "close programs: the system starts no more",
}


def to_broken_store(error: OSError) -> BrokenStore:
    """Convert an error of the system: what it refused, where, and what to do."""
    reason = str(error.strerror or error)
    message = reason
    if error.filename:
        message = f"{error.filename}: {reason}"
    advice = _ADVICE_BY_ERRNO.get(error.errno or 0, "check disk and permissions")
    return BrokenStore(message, f"{advice}; `filemem status` and `git log -1` show what stands")


def write_crash_report(traceback_text: str, arguments: list[str]) -> Path:
    """Write a crash report into the temporary folder; return its path.

    It has three words of the command line: the rest may be private.
    """
    import platform  # noqa: PLC0415 - only a crash needs these
    import tempfile  # noqa: PLC0415
    from importlib.metadata import version  # noqa: PLC0415
    from pathlib import Path  # noqa: PLC0415

    program = Path(arguments[0]).name
    command = " ".join([program, *arguments[1:3]])
    lines = [
        f"filemem crash report of: {command}",
        f"python {platform.python_version()} on {platform.platform()}",
    ]
    packages = ("filemem", "mcp", "tantivy", "usearch", "python-frontmatter")
    lines += [f"{package} {version(package)}" for package in packages]
    lines += ["", traceback_text]
    path = Path(tempfile.mkdtemp(prefix="filemem-crash-"), "report.txt")
    path.write_text("\n".join(lines), encoding="utf-8")
    return path
