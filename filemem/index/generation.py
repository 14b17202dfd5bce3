"""Generations: complete, sealed states of the index on disk. Rule: what readers open never changes.

A writer makes the next state in a folder of its own from hard links to the files of the last one, seals it with
the size and checksum of every file, and switches `CURRENT` by rename. So a commit under way can not look like
damage, a killed writer leaves the old state in service, and a reader keeps a consistent view for as long as it
likes. This module knows files and checksums, not what is in them.
"""

import json
import os
import re
import shutil
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

from filemem.errors import BrokenStore
from filemem.index import compared

WORDS, VECTORS, ENTRIES = "words", "vectors", "entries"
_CURRENT, _SEAL, _NEXT = "CURRENT", "seal.json", "next"
_NAME = re.compile(r"g\d{10}")
_CHUNK = 1 << 20
_T = TypeVar("_T")
_README = """\
This folder is filemem's search index. Everything in it is derived from the records in the work tree and may be
deleted at any time; the next `filemem` command makes it again.

CURRENT       the generation in use
g0000000001/  a generation: words/ (Tantivy), vectors/, entries (what it was made from), seal.json (checksums)
fresh/        records that were saved but are not yet part of a generation
kept/         what was in use at commits that HEAD has left, for when it comes back to them
past/         the same for states of the store that were asked about (--at); the last few
lock          held by the process that writes
"""


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
        format: how the files are laid out and texts were read; another one means: rebuild.
    """

    files: Mapping[str, tuple[int, int]]
    head: str = ""
    model: str = ""
    docs: int = 0
    total: int = 0
    average: Mapping[str, float] = {}
    missing: int = 0
    lines: int = 0
    format: str = ""


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


def current(root: Path) -> str:
    """Return the name of the generation in use, or "" where nothing was ever built.

    Raises:
        IndexDamaged: the pointer is unreadable, or gone while generations are there.
    """
    try:
        text = (root / _CURRENT).read_bytes()
    except FileNotFoundError:
        if any(_NAME.fullmatch(name) for name in _listed(root)):
            raise IndexDamaged(f"{_CURRENT} is gone") from None
        return ""
    except OSError as error:
        raise IndexDamaged(f"{_CURRENT} cannot be read: {error.strerror}") from None
    name, _, crc = text.decode("ascii", "replace").strip().partition(" ")
    if not _NAME.fullmatch(name) or crc != f"{zlib.crc32(name.encode()):08x}":
        raise IndexDamaged(f"{_CURRENT} is unreadable")
    return name


def stamp(root: Path) -> tuple[int, int] | None:
    """Return what changes whenever another generation comes into use; cheap enough for every query."""
    try:
        found = (root / _CURRENT).stat()
    except FileNotFoundError:
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
    body = json.dumps(about._asdict(), ensure_ascii=False).encode()
    write_durably(folder / _SEAL, b"%08x\n" % zlib.crc32(body) + body)


def opened(folder: Path) -> Generation:
    """Return the generation in a folder, nothing of it compared.

    Raises:
        IndexDamaged: there is none, or its seal is unreadable.
    """
    return Generation(folder, _read_seal(folder / _SEAL))


def publish(root: Path, staged: Path, base: Generation | None, about: Seal) -> Generation:
    """Seal the staged folder, make it the one in use, and delete all but it and its predecessor.

    Args:
        about: everything but `files`, save for an entry of the entries log (its counting part).
    """
    try:
        old = current(root)
    except IndexDamaged:
        old = ""
    number = 1 + max((int(name[1:]) for name in _listed(root) if _NAME.fullmatch(name)), default=0)
    name = f"g{number:010d}"
    sealed = about._replace(files={**_checksums(staged, base), **about.files})
    seal(staged, sealed)
    for part in (WORDS, VECTORS, "."):
        sync_folder(staged / part)
    staged.rename(root / name)
    sync_folder(root)
    write_durably(root / _CURRENT, f"{name} {zlib.crc32(name.encode()):08x}\n".encode())
    for entry in _listed(root):
        if _NAME.fullmatch(entry) and entry not in (name, old):
            shutil.rmtree(root / entry, ignore_errors=True)
    return Generation(root / name, sealed)


def prepare(root: Path) -> None:
    """Make the index folder and its explanation."""
    root.mkdir(parents=True, exist_ok=True)
    if not (root / "README.md").exists():
        (root / "README.md").write_text(_README, encoding="utf-8")


def unwritable(root: Path, error: OSError) -> BrokenStore:
    """Return the error for an index folder that refuses us."""
    return BrokenStore(
        f"the index folder {root} can not be written: {error.strerror or error}",
        "make it writable, free some space, or let the index live in your cache folder",
    )


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


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file at once; a power cut may leave a torn one, so it holds a checksum and what it says can be lost."""
    _replace(path, data, lambda _: None)


def write_durably(path: Path, data: bytes) -> None:
    """Replace a file so that a crash at any moment leaves the old or the new one."""
    _replace(path, data, os.fsync)
    sync_folder(path.parent)


def _replace(path: Path, data: bytes, settle: Callable[[int], None]) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            settle(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the system can."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _listed(root: Path) -> list[str]:
    try:
        return os.listdir(root)
    except FileNotFoundError:
        return []


def _read_seal(path: Path) -> Seal:
    try:
        crc, _, body = path.read_bytes().partition(b"\n")
    except OSError:
        raise IndexDamaged(f"{path.parent.name}/{_SEAL} is gone") from None
    if crc != b"%08x" % zlib.crc32(body):
        raise IndexDamaged(f"{path.parent.name}/{_SEAL} is unreadable")
    found = json.loads(body)
    return Seal(**{**found, "files": {name: (size, sum_) for name, (size, sum_) in found["files"].items()}})


def link(source: Path, target: Path) -> None:
    """Give a file a second name; copy it where the file system has no hard links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


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
