"""Making the next generation. Rule: it is private until it is sealed, and comes into use by one rename.

It starts as hard links to the files of the last one, is sealed with the size and checksum of every file, and `CURRENT`
is switched to it. So a commit under way can not look like damage, and a killed writer leaves the old state in service.
"""

import contextlib
import os
import shutil
import time
import zlib
from collections.abc import Iterable
from pathlib import Path

from filemem.index.folder import checked, prepare, sync_folder, unwritable, write_durably
from filemem.index.generation import (
    CURRENT,
    NAME,
    SEAL,
    VECTORS,
    WORDS,
    Generation,
    IndexDamaged,
    Seal,
    checksum,
    current,
    listed,
)
from filemem.index.versions import FORMAT

_NEXT = "next"
_DEAD = 7 * 86_400.0  # seconds after which an index of another version is nobody's any more


def stage(root: Path, base: Generation | None, parts: Iterable[str]) -> Path:
    """Return a new private folder holding links to the files of the given parts of `base`.

    Raises:
        BrokenStore: the index folder can not be written.
    """
    target = root / _NEXT
    try:
        prepare(root)
        if target.exists():
            shutil.rmtree(target)
        for part in (WORDS, VECTORS):
            (target / part).mkdir(parents=True)
    except OSError as error:
        raise unwritable(root, error) from error
    wanted = tuple(parts)
    for name in base.seal.files if base else ():
        if base and name.startswith(wanted):
            try:
                link(base.folder / name, target / name)
            except (FileNotFoundError, IsADirectoryError):
                raise IndexDamaged(f"{base.folder.name}/{name} is gone") from None
    return target


def seal(folder: Path, about: Seal) -> None:
    """Write what is known of a generation into its folder."""
    write_durably(folder / SEAL, checked(about._asdict()))


def publish(root: Path, staged: Path, base: Generation | None, about: Seal) -> Generation:
    """Seal the staged folder, make it the one in use, and delete all but it and its predecessor.

    Args:
        about: everything but `files`, save for an entry of the entries log (its counting part).
    """
    try:
        old = current(root)
    except IndexDamaged:
        old = ""
    number = 1 + max((int(name[1:]) for name in listed(root) if NAME.fullmatch(name)), default=0)
    name = f"g{number:010d}"
    sealed = about._replace(files={**_checksums(staged, base), **about.files})
    seal(staged, sealed)
    for part in (WORDS, VECTORS, "."):
        sync_folder(staged / part)
    staged.rename(root / name)
    sync_folder(root)
    write_durably(root / CURRENT, f"{name} {zlib.crc32(name.encode()):08x}\n".encode())
    for entry in listed(root):
        if NAME.fullmatch(entry) and entry not in (name, old):
            shutil.rmtree(root / entry, ignore_errors=True)
    _clear_versions(root)
    return Generation(root / name, sealed)


def link(source: Path, target: Path) -> None:
    """Give a file a second name; copy it where the file system has no hard links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _clear_versions(root: Path) -> None:
    """Remove the indexes of other versions beside this one that were not written to for a week."""
    if root.name != FORMAT:
        return
    with contextlib.suppress(OSError):
        for other in root.parent.iterdir():
            if FORMAT not in other.name and max(_times(other)) < time.time() - _DEAD:
                shutil.rmtree(other) if other.is_dir() else other.unlink()


def _times(entry: Path) -> list[float]:
    """When an entry was written to, and what is in it: whoever is the writer touches the lock."""
    return [entry.stat().st_mtime, *(each.stat().st_mtime for each in entry.glob("*"))]


def _checksums(staged: Path, base: Generation | None) -> dict[str, tuple[int, int]]:
    """Return the checksums of words and vectors; those of files that are links to sealed ones are carried over."""
    found: dict[str, tuple[int, int]] = {}
    for part in (WORDS, VECTORS):
        for entry in os.scandir(staged / part):
            name = f"{part}/{entry.name}"
            if entry.name.endswith(".lock"):
                continue
            known = base.seal.files.get(name) if base else None
            if base and known and _same_file(base.folder / name, entry):
                found[name] = known
            else:
                found[name] = checksum(staged / name)
    return found


def _same_file(old: Path, new: os.DirEntry[str]) -> bool:
    try:
        return old.stat().st_ino == new.inode()
    except OSError:
        return False
