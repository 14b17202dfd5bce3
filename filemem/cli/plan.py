"""The steps of `filemem init`: what becomes of one file each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from filemem.errors import BadInput


@dataclass(frozen=True, slots=True)
class Step:
    """One file of the plan: its new content, or None where it stays as it is, and why."""

    path: str
    action: str  # create, change, keep
    content: str | None
    note: str = ""


def read(work_tree: Path, path: str) -> str | None:
    """The text of a file of the work tree, None where there is none.

    Raises:
        BadInput: it is reached through a link, or is no text.
    """
    target = work_tree / path
    if any(part.is_symlink() for part in (target, *target.parents) if part != work_tree and work_tree in part.parents):
        raise BadInput(f"{path} is a symbolic link; filemem init does not write through links")
    try:
        return target.read_bytes().decode() if target.exists() else None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read as text: {error}") from None
