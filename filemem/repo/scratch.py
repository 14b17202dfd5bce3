"""A bare repository beside ours, for what must see nothing of our configuration: it borrows our objects.

Rule: of the repository it knows the format of objects, where a shallow history ends, and the refs that it is given. So
no hook, driver, filter, attribute or program that the repository names has a say in it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from filemem.repo.discovery import Places
from filemem.repo.settings import Settings

_DEAD = 86_400.0  # seconds after which one is not in use any more
_FORMAT = "extensions.objectformat"


def make_scratch(
    folder: Path, places: Places, settings: Settings, refs: Mapping[str, str], *, head: str, rows: Sequence[str] = ()
) -> None:
    """Make one in a folder that is empty, or not there.

    Args:
        folder: where.
        places: of our repository.
        settings: its configuration.
        refs: commit id by whole name.
        head: the ref that HEAD names.
        rows: further lines of its configuration, the first of them in the section `extensions`.
    """
    (folder / "refs").mkdir(parents=True)
    (folder / "objects" / "info").mkdir(parents=True)
    (folder / "HEAD").write_text(f"ref: {head}\n")
    form = [f"objectformat = {quoted(value)}"] if (value := settings.text(_FORMAT)) else []
    config = ["[core]", "repositoryformatversion = 1", "bare = true", "[extensions]", *form, *rows]
    (folder / "config").write_text("".join(f"{row}\n" for row in config))
    (folder / "packed-refs").write_text("".join(f"{oid} {ref}\n" for ref, oid in sorted(refs.items())))
    borrowed = quoted(os.fsdecode(places.common_dir / "objects"))
    (folder / "objects" / "info" / "alternates").write_bytes(os.fsencode(f"{borrowed}\n"))
    shallow = places.common_dir / "shallow"
    if shallow.is_file():
        shutil.copyfile(shallow, folder / "shallow")


def remove_dead(ours: Path, prefix: str, *, head: str) -> None:
    """Remove what processes that were killed left of theirs: it may hold what no commit has.

    Args:
        ours: the folder of one that is wanted; those beside it are looked at, if they belong to the same user.
        prefix: how their names begin.
        head: the ref that their HEAD names.
    """
    owner = ours.stat().st_uid
    for folder in ours.parent.glob(f"{prefix}*"):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            found = folder.lstat()
            if found.st_uid == owner and found.st_mtime < time.time() - _DEAD and _head(folder) == head:
                shutil.rmtree(folder)


def _head(folder: Path) -> str:
    return (folder / "HEAD").read_text().removeprefix("ref: ").strip()


def quoted(text: str) -> str:
    """A text in double quotes, as Git reads it in its configuration, in paths and in streams."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
