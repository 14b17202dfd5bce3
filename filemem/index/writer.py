"""Making the next generation: the one way in which the index changes on disk.

Rule: the caller holds the writer lock, and nothing is visible to anyone until all of it is.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Self

from filemem.changes import Entry
from filemem.documents import Doc
from filemem.index import manifest, staging, vector
from filemem.index.embed import Embedder, ModelUnavailable, unavailable
from filemem.index.folder import unwritable
from filemem.index.generation import ENTRIES, VECTORS, WORDS, Generation, IndexDamaged, Seal
from filemem.index.keyword import key
from filemem.index.keyword.words_writer import WordsWriter
from filemem.index.work import Work

if TYPE_CHECKING:
    from filemem.index.rows import Rows

_CHUNK = 256  # documents between two looks at the model
_AHEAD = 8  # chunks that may wait for their vectors
_MANY = 1000  # documents for which a larger buffer pays

Progress = Callable[[int, int], object]  # documents done, documents in all


def make(
    root: Path, base: Generation | None, work: Work, model: Embedder | None, progress: Progress | None = None
) -> Generation:
    """Build the next generation and put it into use.

    Args:
        root: the index folder.
        base: the generation in use, None where there is none or it is too damaged to take anything from.
        model: None for no new vectors. Those of another model are dropped where it can be had, and `work.anew`.
        progress: told as documents go in.

    Raises:
        BrokenStore: the folder can not be written.
        IndexDamaged: `base` can not be built upon.
    """
    model = _fitting(base, work, model)
    taken = _taken_over(base, work, model)
    staged = staging.stage(root, base, taken)
    try:
        with _Vectors(
            staged / VECTORS, base.seal.model if base and VECTORS in taken else "", model, work.day
        ) as vectors:
            return _fill(root, staged, base, work, vectors, progress)
    except OSError as error:
        raise unwritable(root, error) from error
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _fitting(base: Generation | None, work: Work, model: Embedder | None) -> Embedder | None:
    """Return the model where its vectors may stand beside those that are there, or in their place."""
    if model is None or base is None or base.seal.model in ("", model.name):
        return model
    return model if work.anew and not unavailable(model) else None


def _taken_over(base: Generation | None, work: Work, model: Embedder | None) -> tuple[str, ...]:
    if base is None or not work.anew:
        return (WORDS, VECTORS, ENTRIES)
    if model is not None and base.seal.model != model.name:
        return ()
    try:
        base.check(VECTORS)
    except IndexDamaged:
        return ()
    return (VECTORS,)


def _fill(
    root: Path, staged: Path, base: Generation | None, work: Work, vectors: _Vectors, progress: Progress | None
) -> Generation:
    kept = None if work.anew else base
    if kept and not work.count and not work.gone:
        docs, total, average = kept.seal.docs, kept.seal.total, kept.seal.average
    else:
        words = WordsWriter(staged / WORDS, large=work.count > _MANY)
        for path in work.gone:
            words.remove(path)
        for done, chunk in _chunks(work.docs):
            vectors.add(chunk)
            for doc in chunk:
                words.add(doc)
            if progress:
                progress(done, max(done, work.count))
        docs, total, average = words.close()
        vectors.close(work.entries)
    log, lines = manifest.write(staged, kept, work.before, work.entries, work.touched)
    seal = Seal(
        files={ENTRIES: log},
        model=vectors.name,
        docs=docs,
        total=total,
        average=average,
        missing=vectors.missing + (kept.seal.missing if kept else 0),
        lines=lines,
    )
    return staging.publish(root, staged, base, seal)


def _chunks(docs: Iterable[Doc]) -> Iterator[tuple[int, list[Doc]]]:
    """Yield documents in handy numbers, with how many there were so far."""
    left, done = iter(docs), 0
    while chunk := list(islice(left, _CHUNK)):
        done += len(chunk)
        yield done, chunk


class _Vectors:
    """Embeds what has no vectors yet, as long as the model can be had, beside the reading of the next documents.

    Args:
        folder: of the vectors, those taken over among them.
        name: the model that these come from, "" where there are none; afterwards the one that all come from.
        model: None for no new vectors.
        day: today, in days since 1970.
    """

    def __init__(self, folder: Path, name: str, model: Embedder | None, day: int) -> None:
        self._folder, self.name, self._model, self._day = folder, name, model, day
        self._parts: list[Rows] | None = None
        self._made: set[int] = set()
        self._jobs: list[tuple[Future[Rows], int]] = []  # with how many documents each is for
        self._pool = ThreadPoolExecutor(1)
        self.missing = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._pool.shutdown(cancel_futures=kind is not None)

    def add(self, docs: list[Doc]) -> None:
        if self._model is None and not self.name:
            self.missing += len(docs)
            return
        if self._parts is None:
            self._parts = vector.read_segments(self._folder)
        texts = {key(doc.blob): (key(doc.blob), doc.title, doc.passages) for doc in docs}
        wanted = vector.missing(self._parts, texts.keys() - self._made)
        self._made |= wanted
        if self._model is None:
            self.missing += len(wanted)
        elif wanted:
            chosen = [texts[number] for number in wanted]
            self._jobs.append((self._pool.submit(vector.embed, chosen, self._model, self._day), len(chosen)))
        if len(self._jobs) > _AHEAD:
            self._jobs[-_AHEAD][0].exception()  # waits, so that the texts of a large store are not all in memory

    def close(self, entries: Mapping[str, Entry]) -> None:
        new = []
        for job, count in self._jobs:
            try:
                new.append(job.result())
            except ModelUnavailable:  # the answers will say so; the words are indexed all the same
                self.missing += count
        if new and self._model:
            self.name = self._model.name
            living = {entry.blob for entry in entries.values()} if self._crowded(new, len(entries)) else set()
            vector.write_segment(self._folder, new, map(key, living) if living else None, self._day)

    def _crowded(self, new: list[Rows], files: int) -> bool:
        """Say whether most of what has vectors must be dead, so that it is worth finding out which."""
        return sum(len(part.keys) for part in (*(self._parts or ()), *new)) > 2 * files
