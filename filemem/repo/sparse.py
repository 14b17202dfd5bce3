"""What a sparse checkout leaves out: files that HEAD has and the work tree does not, without having lost them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from filemem.repo.discovery import Places
    from filemem.repo.git import Git
    from filemem.repo.settings import Settings


def stamp(places: Places) -> tuple[tuple[int, int], ...]:
    """Sizes and times of what decides it, equal while nothing changes; empty where no checkout was ever sparse."""
    try:
        found = [(places.git_dir / name).stat() for name in ("info/sparse-checkout", "index")]
    except OSError:
        return ()
    return tuple((each.st_size, each.st_mtime_ns) for each in found)


def left_out(git: Git, settings: Settings, folder: str) -> tuple[str, ...]:
    """The files below a folder that the sparse checkout leaves out; paths from the top of the work tree."""
    if not settings.flag("core.sparsecheckout"):
        return ()
    listed = git.run("ls-files", "-t", "-z", "--", f"{folder}/").decode("utf-8", "surrogateescape")
    return tuple(row[2:] for row in listed.split("\0") if row.startswith("S "))
