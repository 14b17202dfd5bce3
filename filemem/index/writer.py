"""Making the next generation: the one way in which the index changes on disk.

Rule: the caller holds the writer lock, and nothing is visible to anyone until the database is committed, or, if it is
made anew, put in place.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from filemem.changes import Change, Entry, Manifest
from filemem.errors import NotFound
from filemem.index.chains import Catalog
from filemem.index.document import Doc, key
from filemem.index.embed import Model
from filemem.index.fresh import (
    DATABASE,
    GENERATION,
    VECTORS,
    WORDS,
    IndexDamaged,
    Item,
    Seal,
    checksum,
    compare,
    latest,
    listed,
    mark,
    writing,
)
from filemem.index.generation import Row
from filemem.index.words import Words, WordsWriter

_CHUNK = 256  # documents between two looks at the model
_NEW = f"{DATABASE}.new"

Load = Callable[[str], Doc | None]  # path -> its document; None where there is none; NotFound: no such file any more
Progress = Callable[[int, int], object]  # documents done, documents in all
Dates = Callable[[Collection[str]], Mapping[str, int]]  # first-commit dates of paths, epoch milliseconds


class Work(NamedTuple):
    """What a change amounts to, worked out before anything is written.

    Args:
        entries: what the manifest shall say of the paths that differ; None where one is gone.
        docs: documents to put in.
        size: how many at most.
        gone: paths whose documents are to be taken out first.
        living: blobs of all files, afterwards.
    """

    entries: dict[str, Entry | None]
    docs: Iterable[Doc]
    size: int
    gone: Collection[str]
    living: Callable[[], set[str]]


def plan(
    items: Iterable[Item], before: Mapping[str, Entry], changes: Iterable[Change], load: Load, seen: Manifest
) -> Work:
    """Return what the next generation shall hold: what there was, what waits, then the changes, the later winning."""
    changed = {change.path: change.entry for change in changes}
    waiting = {path: item for path, item in latest(items).items() if path not in changed}
    entries = {path: item.file for path, item in waiting.items()} | changed
    for path, entry in seen.items():
        known = entries[path] if path in entries else before.get(path)
        if known is not None and known != entry and known.blob == entry.blob:
            entries[path] = entry
    ready = [item.doc for item in waiting.values() if item.doc]
    to_load = [path for path, entry in changed.items() if entry is not None]

    def docs() -> Iterator[Doc]:
        yield from ready
        for path in to_load:
            try:
                doc = load(path)
            except NotFound:  # a checkout took it since it was listed: should it come back, it is new
                entries[path] = doc = None
            if doc:
                entry = entries[path]
                if entry is None or doc.blob != entry.blob:  # it changed since it was listed
                    entries[path] = Entry(doc.blob)
                yield doc

    def living() -> set[str]:
        return {entry.blob for entry in ({**before, **entries}).values() if entry is not None}

    return Work(entries, docs(), len(ready) + len(to_load), {*waiting, *changed}, living)


def make(
    root: Path,
    base: Seal,
    work: Work,
    model: Model | None,
    dates: Dates,
    *,
    anew: bool,
    progress: Progress | None = None,
) -> None:
    """Build the next generation and put it into use; raises `BrokenStore` or `IndexDamaged`."""
    with writing(root):
        database = Catalog(root / (_NEW if anew else DATABASE), new=anew)
        try:
            if not (anew or work.size or work.gone):
                with database.writing():
                    database.note_files(work.entries)
                database.note_sum(root)
                return
            staged = _stage(root, base, _kept(root, base) if anew else (WORDS, VECTORS))
            rows, seal = _fill(staged, database.last + 1, work, model, dates, progress)
            if not anew:
                seal = seal._replace(missing=seal.missing + base.missing)
            with database.writing():
                database.note_files(work.entries)
                database.put(rows)
                seal = _publish(root, staged, base, seal)
                database.seal = seal
            if anew:
                (root / f"{DATABASE}-journal").unlink(missing_ok=True)  # of the file that is replaced
                _sync(root / _NEW)
                (root / _NEW).replace(root / DATABASE)
            database.note_sum(root)
        finally:
            database.close()
            shutil.rmtree(root / "next", ignore_errors=True)
        for name in listed(root):
            if GENERATION.fullmatch(name) and name not in (seal.name, base.name):
                shutil.rmtree(root / name, ignore_errors=True)


def _kept(root: Path, base: Seal) -> tuple[str, ...]:
    """What is taken over where all else is made anew: vectors, if they are whole."""
    try:
        compare(root, base, VECTORS, every=True)
    except IndexDamaged:
        return ()
    return (VECTORS,)


def _fill(
    staged: Path, number: int, work: Work, model: Model | None, dates: Dates, progress: Progress | None
) -> tuple[dict[str, Row | None], Seal]:
    """Put documents into a staged folder; return their rows, None for what is gone, and what the seal shall say."""
    words = WordsWriter(staged / WORDS, work.size)
    for path in work.gone:
        words.remove(path)
    rows: dict[str, Row | None] = dict.fromkeys(work.gone)
    done, docs = 0, iter(work.docs)
    lacking = model is not None and bool(model.trouble)  # the answers will say so; the words are indexed all the same
    growth = model.table.growth(staged / VECTORS) if model and not lacking else None
    while chunk := list(islice(docs, _CHUNK)):
        if growth:
            growth.add(chunk)
        for doc, row in zip(chunk, _rows(chunk, number + done, dates), strict=True):
            words.add(doc, row.number, row.created)
            rows[doc.path] = row
        done += len(chunk)
        if progress:
            progress(done, max(done, work.size))
    total = Words(words.close()).total
    if growth:
        growth.write(map(key, work.living()))
    return rows, Seal("", {}, total, done if lacking else 0)


def _rows(docs: Sequence[Doc], first: int, dates: Dates) -> list[Row]:
    undated = [doc.path for doc in docs if not doc.created]
    known = dates(undated) if undated else {}
    return [
        Row(number, doc.created or known.get(doc.path, 0), doc.blob, doc.node) for number, doc in enumerate(docs, first)
    ]


# folders


def _stage(root: Path, base: Seal, parts: tuple[str, ...]) -> Path:
    """Return a new private folder holding links to the files of the given parts of a generation."""
    target = root / "next"
    shutil.rmtree(target, ignore_errors=True)
    for part in (WORDS, VECTORS):
        (target / part).mkdir(parents=True)
    for name in base.files:
        if name.startswith(parts):
            compare(root, base._replace(files={name: base.files[name]}))
            try:
                os.link(root / base.name / name, target / name)
            except OSError:  # no hard links here
                shutil.copy2(root / base.name / name, target / name)
    return target


def _publish(root: Path, staged: Path, base: Seal, about: Seal) -> Seal:
    """Give the staged folder its name, for the database to name it; return its seal: `about` with name and files."""
    number = 1 + max((int(name[1:]) for name in listed(root) if GENERATION.fullmatch(name)), default=0)
    files: dict[str, list[int]] = {}
    for part in (WORDS, VECTORS):
        for name in (f"{part}/{each}" for each in listed(staged / part) if not each.endswith(".lock")):
            known, there = base.files.get(name), mark(staged / name)
            files[name] = known if known and known[:-1] == there else [*there, checksum(staged / name)]
        _sync(staged / part)
    seal = about._replace(name=f"g{number:010d}", files=files)
    staged.rename(root / seal.name)
    _sync(root)
    return seal


def _sync(path: Path) -> None:
    """Make a file, or the names in a folder, durable, where the system can."""
    if os.name == "nt" and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
