"""The steps of `filemem init`: what becomes of one file each. A file is replaced as a whole, or stays what it was."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from filemem.errors import BadInput
from filemem.files import replace


@dataclass(frozen=True, slots=True)
class Step:
    """One file of the plan: its new content, or None where it stays as it is, and why."""

    path: str
    action: str  # create, change, keep
    content: str | None
    note: str = ""
    top: Path | None = None  # of the work tree that it stands in, where that is not the project's


def read(work_tree: Path, path: str) -> str | None:
    """The text of a file of the work tree, None where there is none.

    Raises:
        BadInput: it is reached through a link that may not be followed, or is no text, or something else stands there.
    """
    target = work_tree / target_of(work_tree, path)
    for folder in reversed(target.relative_to(work_tree).parents[:-1]):
        if os.path.lexists(work_tree / folder) and not (work_tree / folder).is_dir():
            raise BadInput(f"{folder} is no folder, so {path} cannot be in it", "move it away, then run this again")
    if target.exists() and not target.is_file():  # a FIFO would hold us up for ever
        raise BadInput(f"{path} is no regular file", "move it away, then run filemem init again")
    try:
        return target.read_bytes().decode() if target.exists() else None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read as text: {error}") from None


def write(work_tree: Path, path: str, text: str, spool: Path) -> None:
    """Replace a file of the work tree.

    Args:
        spool: folder for temporary files, in a place that no watcher looks at.

    Raises:
        BadInput: it is reached through a link that may not be followed.
        BrokenStore: the disk refuses; the file is what it was.
    """
    replace(work_tree, target_of(work_tree, path), text.encode(), spool)


def target_of(work_tree: Path, path: str) -> str:
    """Where the content of a file stands: at its path, or, of a link, at the file of the work tree that it leads to.

    Raises:
        BadInput: a link leads out of the work tree or into Git's own folder, or a folder on the way is one.
    """
    top = Path(os.path.realpath(work_tree))
    real = Path(os.path.realpath(top / path))
    inside = real.is_relative_to(top) and ".git" not in real.relative_to(top).parts and not real.is_symlink()
    if not inside or os.path.realpath(top / Path(path).parent) != str((top / path).parent):
        raise BadInput(
            f"{path} is a symbolic link, or lies behind one, that filemem init does not follow",
            "it follows a link of a file to another file of the project, and none of a folder",
        )
    return real.relative_to(top).as_posix()


def line_end(text: str) -> str:
    """How the lines of a text end, so that a line that is added ends like the others."""
    return "\r\n" if "\r\n" in text else "\n"
