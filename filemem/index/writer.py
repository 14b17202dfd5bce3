"""The next generation of an index, built beside the one in use: what it shall hold, and its files.

Rule: nothing is written before it is known what shall be; nothing that is written is visible until the database is
committed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from filemem.changes import Change, Entry, Manifest
from filemem.errors import NotFound
from filemem.index.chains import Catalog
from filemem.index.document import (
    DATABASE,
    GENERATION,
    GRAPH,
    VECTORS,
    WORDS,
    Doc,
    Item,
    Seal,
    checksum,
    compare,
    key,
    listed,
    mark,
    writing,
)
from filemem.index.embed import Model, ModelUnavailable
from filemem.index.generation import Dates, Row, rows_of
from filemem.index.words import WordsWriter

_CHUNK = 256  # documents between two looks at the model

Load = Callable[
    [str], Doc | None
]  # path -> its document; None where there is none; NotFound: no such file any more
Progress = Callable[[int, int], object]  # documents done, documents in all


class Work(NamedTuple):
    """The work of a change, computed before anything is written."""

    before: Mapping[str, Entry]  # the manifest as it is
    entries: dict[
        str, Entry | None
    ]  # what it shall say of the paths that differ; None where one is gone
    docs: Iterable[Doc]  # to put in
    size: int  # how many at most
    gone: Collection[str]  # paths whose documents are to be taken out first


def planned(
    items: Iterable[Item],
    before: Mapping[str, Entry],
    changes: Iterable[Change],
    load: Load,
    seen: Manifest,
) -> Work:
    """The content of the next generation: the old one, waiting saves, then the changes; the later wins."""
    changed = {change.path: change.entry for change in changes}
    waiting = {item.path: item for item in items if item.path not in changed}
    entries = {path: item.entry for path, item in waiting.items()} | changed
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
            except (
                NotFound
            ):  # a checkout took it since it was listed: should it come back, it is new
                entries[path] = doc = None
            if doc:
                entry = entries[path]
                if entry is None or doc.blob != entry.blob:  # it changed since it was listed
                    entries[path] = Entry(doc.blob)
                yield doc

    return Work(before, entries, docs(), len(ready) + len(to_load), {*waiting, *changed})


def make(
    root: Path, base: Seal, work: Work, model: Model | None, dates: Dates, progress: Progress | None
) -> None:
    """Build the next generation from another or from nothing, and use it; raises `BrokenStore`, `IndexDamaged`."""
    import shutil  # 2 ms, for its archives; most commands build nothing

    with writing(root):
        path = root / (DATABASE if base.name else f"{DATABASE}.new")
        if not base.name:
            path.unlink(missing_ok=True)
        with closing(Catalog(path, create=True)) as database:
            if base.name and not (work.size or work.gone):
                with database.writing():
                    database.note_files(work.entries)
                return
            staged = _stage(root, base)
            rows, lacking = _fill(staged, database.last + 1, work, model, dates, progress)
            files: dict[str, list[int]] = {}
            for part in (WORDS, VECTORS):
                for name in (
                    f"{part}/{each}" for each in listed(staged / part) if not each.endswith(".lock")
                ):
                    known, there = base.files.get(name), mark(staged / name)
                    files[name] = (
                        known
                        if known and known[:-1] == there
                        else [*there, checksum(staged / name)]
                    )
            last = max(
                (int(name[1:]) for name in listed(root) if GENERATION.fullmatch(name)), default=0
            )
            seal = Seal(f"g{last + 1:010d}", files, base.missing + lacking)
            staged.rename(root / seal.name)
            with database.writing():
                database.note_files(work.entries)
                database.put(rows)
                database.seal = seal
        if not base.name:
            (root / f"{DATABASE}-journal").unlink(missing_ok=True)  # of the file that is replaced
            path.replace(root / DATABASE)
        for name in listed(root):
            if GENERATION.fullmatch(name) and name not in (seal.name, base.name):
                shutil.rmtree(root / name, ignore_errors=True)


def _stage(root: Path, base: Seal) -> Path:
    """Return a new private folder holding links to the files of a generation."""
    import shutil

    target = root / "next"
    shutil.rmtree(target, ignore_errors=True)
    for part in (WORDS, VECTORS):
        (target / part).mkdir(parents=True)
    compare(root, base)
    for name in base.files:
        try:
            os.link(root / base.name / name, target / name)
        except OSError:  # no hard links here
            shutil.copy2(root / base.name / name, target / name)
    graphs = {f"{crc:08x}{GRAPH}": name for name, (*_, crc) in base.files.items()}
    for made in root.glob(f"*{GRAPH}"):  # of a segment in use, or of one that was merged meanwhile
        if made.name in graphs:
            made.rename((target / graphs[made.name]).with_suffix(GRAPH))
        else:
            made.unlink()
    return target


def _fill(
    staged: Path,
    number: int,
    work: Work,
    model: Model | None,
    dates: Dates,
    progress: Progress | None,
) -> tuple[dict[str, Row | None], int]:
    """Write documents into a staged folder; return their rows, None for removed ones, and how many lack vectors."""
    words = WordsWriter(staged / WORDS)
    for path in work.gone:
        words.remove(path)
    rows: dict[str, Row | None] = dict.fromkeys(work.gone)
    done, docs = 0, iter(work.docs)
    growth = None
    with suppress(ModelUnavailable):  # the answers will say so; the words are indexed all the same
        if table := model and model.table:
            from filemem.index.vectors import Growth

            growth = Growth(staged / VECTORS, table)
    while chunk := list(islice(docs, _CHUNK)):
        if growth:
            growth.add(chunk)
        for doc, row in zip(
            chunk, rows_of(dict(enumerate(chunk, number + done)), dates), strict=True
        ):
            words.add(doc, row.number, row.written.created)
            rows[doc.path] = row
        done += len(chunk)
        if progress:
            progress(done, max(done, work.size))
    words.close()
    if growth:
        growth.write(
            {key(entry.blob) for entry in {**work.before, **work.entries}.values() if entry}
        )
    return rows, done if model and not growth else 0
