"""A bare repository beside ours, for what must see nothing of our configuration: it borrows our objects.

Rule: of the repository it knows the format of objects, where a shallow history ends, and the refs that it is given. So
no hook, driver, filter, attribute or program that the repository names has a say in it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import mkdtemp

from filemem.ending import heard, held
from filemem.repo.discovery import Places
from filemem.repo.settings import Settings

_DEAD = 86_400.0  # seconds after which one is not in use any more
_FORMAT = "extensions.objectformat"
_PARTS = frozenset(("HEAD", "config", "packed-refs", "shallow", "refs", "objects"))


@contextlib.contextmanager
def passing(folder: Path) -> Iterator[Path]:
    """Have a folder that is gone afterwards, also where the process is told to end, before or while it goes.

    Args:
        folder: it, empty or not there yet; what stands in it goes as well.
    """
    with held():
        try:
            with heard():
                yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def temporary(prefix: str, *, head: str) -> Iterator[Path]:
    """Have a new folder among the system's temporary ones, as `passing` has one.

    What processes that were killed left of theirs goes first: it may hold what no commit has.

    Args:
        prefix: how the names of all of them begin.
        head: the ref that HEAD names in each.
    """
    with held(), passing(Path(mkdtemp(prefix=prefix))) as folder:
        _remove_dead(folder, prefix, head)
        yield folder


def make_scratch(
    folder: Path, places: Places, settings: Settings, refs: Mapping[str, str], *, head: str, rows: Sequence[str]
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


def _remove_dead(ours: Path, prefix: str, head: str) -> None:
    owner = ours.stat().st_uid
    for folder in ours.parent.glob(f"{prefix}*"):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            found = folder.lstat()
            if found.st_uid == owner and found.st_mtime < time.time() - _DEAD and _is_scratch(folder, head):
                shutil.rmtree(folder)


def _is_scratch(folder: Path, head: str) -> bool:
    """Whether a folder of that name is one of ours, also what is left of one that was removed in part."""
    names = set(os.listdir(folder))
    if "HEAD" in names:
        return (folder / "HEAD").read_text().removeprefix("ref: ").strip() == head
    return names <= _PARTS


def quoted(text: str) -> str:
    """A text in double quotes, as Git reads it in its configuration, in paths and in streams."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
