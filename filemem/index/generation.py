"""Generations: complete, sealed states of the index on disk. Rule: what readers open never changes.

A reader takes the generation that `CURRENT` names and keeps it for as long as it likes; `staging` makes the next one.
Both know files and checksums, not what is in them.
"""

import os
import re
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

from filemem.errors import BrokenStore
from filemem.index import compared
from filemem.index.folder import unchecked

WORDS, VECTORS, ENTRIES = "words", "vectors", "entries"
CURRENT, SEAL = "CURRENT", "seal.json"
NAME = re.compile(r"g\d{10}")
_CHUNK = 1 << 20
_T = TypeVar("_T")


class IndexDamaged(BrokenStore):
    """The index can not be used and must be rebuilt; the records are not affected."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"the search index is damaged: {what}", "run `filemem index --rebuild`; the records are not affected"
        )


class Seal(NamedTuple):
    """What is known of one generation without opening it.

    Args:
        files: name relative to the generation -> (bytes that count, their CRC-32).
        head: whatever the caller said it was made at.
        model: name of the embedder, or "" where there are no vectors.
        docs: documents that can be found.
        total: documents that count in word statistics: `docs` and removed ones that are not merged away yet.
        average: text field -> mean length in tokens.
        missing: documents that have no vectors although a model was asked for.
        lines: length of the entries log.
    """

    files: Mapping[str, tuple[int, int]]
    head: str = ""
    model: str = ""
    docs: int = 0
    total: int = 0
    average: Mapping[str, float] = {}
    missing: int = 0
    lines: int = 0


class Generation(NamedTuple):
    """A sealed state: its folder and its seal."""

    folder: Path
    seal: Seal

    def check(self, part: str, known: set[tuple[str, int, int]] | None = None) -> None:
        """Compare the files of one part with the seal.

        Args:
            part: WORDS, VECTORS, ENTRIES, or "" for all.
            known: files that this process has compared before; they are skipped, and the others added. Without it
                all are compared; with it those are left out too that a process has compared lately.

        Raises:
            IndexDamaged: a file differs or is gone.
        """
        wanted = {(name, *about) for name, about in self.seal.files.items() if name.startswith(part)} - (known or set())
        lately = compared.recall(self.folder) if wanted and known is not None else {}
        for name, size, crc in wanted:
            if name in lately:
                continue
            found = checksum(self.folder / name, size if name == ENTRIES else -1)
            if found != (size, crc):
                raise IndexDamaged(f"{self.folder.name}/{name} does not match its checksum")
        if known is not None:
            known |= wanted
            compared.remember(self.folder, lately, (name for name, _, _ in wanted if name not in lately))

    def measure(self) -> None:
        """Compare the sizes of all files with the seal.

        Raises:
            IndexDamaged: a file is shorter, or gone.
        """
        for name, (size, _) in self.seal.files.items():
            try:
                there = (self.folder / name).stat().st_size
            except OSError:
                there = -1
            if there < size:
                raise IndexDamaged(f"{self.folder.name}/{name} was cut")


def current(root: Path) -> str:
    """Return the name of the generation in use, or "" where nothing was ever built.

    Raises:
        IndexDamaged: the pointer is unreadable, or gone while generations are there.
    """
    try:
        text = (root / CURRENT).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        if any(NAME.fullmatch(name) for name in listed(root)):
            raise IndexDamaged(f"{CURRENT} is gone") from None
        return ""
    except OSError as error:
        raise IndexDamaged(f"{CURRENT} cannot be read: {error.strerror}") from None
    name, _, crc = text.decode("ascii", "replace").strip().partition(" ")
    if not NAME.fullmatch(name) or crc != f"{zlib.crc32(name.encode()):08x}":
        raise IndexDamaged(f"{CURRENT} is unreadable")
    return name


def stamp(root: Path) -> tuple[int, int] | None:
    """Return what changes whenever another generation comes into use; cheap enough for every query."""
    try:
        found = (root / CURRENT).stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_ino, found.st_mtime_ns


def load(root: Path, opener: Callable[[Generation], _T]) -> _T | None:
    """Return what `opener` makes of the generation in use; None where nothing was ever built.

    Args:
        opener: may be called again, where two commits while it looked took its generation away.

    Raises:
        IndexDamaged: the generation in use can not be used.
    """
    name = current(root)
    while name:
        try:
            return opener(opened(root / name))
        except IndexDamaged:
            newer = current(root)
            if newer == name:
                raise
            name = newer
    return None


def load_seal(root: Path) -> Generation | None:
    """Return the generation in use with nothing of it compared; None where there is none or it is unreadable."""
    try:
        return load(root, lambda found: found)
    except IndexDamaged:
        return None


def opened(folder: Path) -> Generation:
    """Return the generation in a folder, nothing of it compared.

    Raises:
        IndexDamaged: there is none, or its seal is unreadable.
    """
    return Generation(folder, _read_seal(folder / SEAL))


def checksum(path: Path, size: int = -1) -> tuple[int, int]:
    """Return (length, CRC-32) of a file, or of its first `size` bytes; (-1, 0) where it can not be read."""
    crc = length = 0
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK if size < 0 else min(_CHUNK, size - length)):
                crc = zlib.crc32(chunk, crc)
                length += len(chunk)
    except OSError:
        return -1, 0
    return length, crc


def listed(root: Path) -> list[str]:
    """Return the names in the index folder; none where there is no such folder."""
    try:
        return os.listdir(root)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _read_seal(path: Path) -> Seal:
    try:
        found = unchecked(path.read_bytes())
    except OSError:
        raise IndexDamaged(f"{path.parent.name}/{SEAL} is gone") from None
    if found is None:
        raise IndexDamaged(f"{path.parent.name}/{SEAL} is unreadable")
    return Seal(**{**found, "files": {name: (size, sum_) for name, (size, sum_) in found["files"].items()}})
