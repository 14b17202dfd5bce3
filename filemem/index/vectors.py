"""Meaning in numbers: vectors made and kept, and how they compare with a query.

Rule: a vector belongs to content, not to a path. Segments are files that are written once, of rows filed under the blob
they were made from, so switching branches embeds nothing again. numpy costs more than a keyword search: this module is
imported at first need, after the model.
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from filemem.index.document import GRAPH, SEGMENT, VECTORS, Doc, IndexDamaged, Seal, compare, key
from filemem.index.model import TINY, Asked, Floats, Integers, Numbers, Table
from filemem.query.terms import Alike

MERGE_RATIO = 4  # a segment is merged into the one before it unless that is this much larger
MOSTLY_DEAD = 3  # what no file has is dropped where it is this often as many as all
_LINKS, _WIDTH, _SEARCHED = (
    32,
    128,
    1024,
)  # of a graph: found .97 of the fifty nearest of 247,000 rows, .51 as usual
_ROWS = 4  # rows that a graph is asked for, for each document: as many as one has
# Multiplications at a time: what OpenBLAS does in one thread. More threads are slower where cores
# are busy, and nobody can bound them once a program has imported numpy.
_PIECE = 1 << 18


class Rows(NamedTuple):
    """What one process holds of one segment, or of the records that wait."""

    keys: Integers  # sorted; document i has the rows from starts[i] to starts[i + 1], at least one
    starts: Integers
    token_starts: Integers  # row i has the tokens from token_starts[i] to token_starts[i + 1]
    scales: Floats
    title_scales: Floats
    tokens: Numbers  # of the rows, one after the other; hundreds a record, of which a query reads those of its best
    rows: npt.NDArray[np.int8]  # passages; each times its scale is a vector of length 1
    titles: npt.NDArray[np.int8]  # the same for the one title of each document


def embed(docs: Iterable[Doc], table: Table) -> Rows:
    """Return the vectors of documents, each content once."""
    items = sorted({key(doc.blob): doc for doc in docs}.items())
    passages = [doc.passages or (doc.title,) for _, doc in items]
    keys = np.array([number for number, _ in items], dtype=np.int64)
    full, tokens, counts = table.encode([text for own in passages for text in own])
    (rows, scales), (titles, title_scales) = (
        _small(full),
        _small(table.encode([doc.title for _, doc in items])[0]),
    )
    starts = _starts([len(own) for own in passages])
    return Rows(keys, starts, _starts(counts), scales, title_scales, tokens, rows, titles)


def _small(rows: Floats) -> tuple[npt.NDArray[np.int8], Floats]:
    """Return vectors as int8 rows, and the scales that bring each back to length 1."""
    peak = np.maximum(np.abs(rows).max(axis=1, initial=0.0), TINY)
    small = np.rint(rows * (127 / peak)[:, None]).astype(np.int8)
    lengths = np.sqrt((small.astype(np.float32) ** 2).sum(axis=1))
    return small, np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)


def _starts(counts: Sequence[int] | Integers) -> Integers:
    """Return where parts of these sizes begin, and where the last ends."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts, dtype=np.int64)])


def _ranges(starts: Integers, counts: Integers) -> Integers:
    """Return the numbers from each start on, as many as each count says, one after the other."""
    ends = np.cumsum(counts)
    found: Integers = np.repeat(starts - ends + counts, counts) + np.arange(
        int(ends[-1]) if len(ends) else 0
    )
    return found


def places(part: Rows, keys: Iterable[int]) -> Integers:
    """Return where those of the keys that the part has stand in it."""
    if not len(part.keys):
        return np.zeros(0, dtype=np.int64)
    wanted = np.array(
        sorted(set(keys)), dtype=np.int64
    )  # not np.unique, which imports numpy.ma: a tenth of numpy
    at = np.minimum(np.searchsorted(part.keys, wanted), len(part.keys) - 1)
    found: Integers = at[part.keys[at] == wanted]
    return found


def missing(parts: Iterable[Rows], keys: Iterable[int]) -> set[int]:
    """Return the keys that no part has vectors for."""
    left = set(keys)
    for part in parts:
        left.difference_update(part.keys[places(part, left)].tolist())
    return left


def merged(parts: Sequence[Rows], keys: Iterable[int] | None = None) -> Rows:
    """Return all documents of some parts, each in one, as one part sorted by key; only those with one of `keys`."""
    counts = np.concatenate([np.diff(part.starts) for part in parts])
    joined = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("keys", "rows", "scales", "titles", "title_scales", "tokens")
    }
    token_counts = np.concatenate([np.diff(part.token_starts) for part in parts])
    order = np.argsort(joined["keys"])
    if keys is not None:
        wanted = set(keys)
        order = order[
            np.array([each in wanted for each in joined["keys"][order].tolist()], dtype=np.bool_)
        ]
    rows = _ranges(_starts(counts)[:-1][order], counts[order])
    return Rows(
        starts=_starts(counts[order]),
        token_starts=_starts(token_counts[rows]),
        tokens=joined["tokens"][_ranges(_starts(token_counts)[:-1][rows], token_counts[rows])],
        **{name: joined[name][order] for name in ("keys", "titles", "title_scales")},
        **{name: joined[name][rows] for name in ("rows", "scales")},
    )


# files


def read(path: Path) -> Rows:
    """Read a segment; raises `IndexDamaged`."""
    try:
        with path.open("rb") as file:
            # One map for all arrays: each map holds a descriptor of its own.
            whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            return Rows(*(_mapped(file, whole) for _ in Rows._fields))
    except (OSError, ValueError, EOFError) as error:
        raise IndexDamaged(f"{path.name} cannot be read") from error


def _mapped(file: BinaryIO, whole: mmap.mmap) -> npt.NDArray[Any]:
    """The next array that `np.save` wrote; only what is read of it comes into memory."""
    np.lib.format.read_magic(file)
    shape, _, kind = np.lib.format.read_array_header_1_0(file)
    begin = file.tell()
    count = math.prod(shape)
    file.seek(begin + kind.itemsize * count)
    return np.frombuffer(whole, kind, count, begin).reshape(shape)


class Growth:
    """Vectors for a folder of segments that nobody reads yet."""

    def __init__(self, folder: Path, table: Table) -> None:
        self._folder, self._table = folder, table
        self._paths = sorted(folder.glob(f"*{SEGMENT}"))
        self._known = [read(path) for path in self._paths]
        self._new: list[Rows] = []

    def add(self, docs: Iterable[Doc]) -> None:
        """Embed the documents that have no vectors."""
        by_key = {key(doc.blob): doc for doc in docs}
        if wanted := missing((*self._known, *self._new), by_key):
            self._new.append(embed((by_key[number] for number in wanted), self._table))

    def write(self, living: Iterable[int]) -> None:
        """Write what is new, merged with what is not much larger; `living` are the keys of all content in the tree."""
        if not self._new:
            return
        kept = len(self._known)
        while kept and len(self._known[kept - 1].rows) < MERGE_RATIO * sum(
            len(part.rows) for part in self._new
        ):
            kept -= 1
            self._new.append(self._known[kept])
        wanted = set(living) if kept < len(self._known) else set()
        dead = wanted and sum(len(part.keys) for part in self._new) > MOSTLY_DEAD * len(wanted)
        result = merged(self._new, wanted if dead else None)
        number = 1 + max((int(path.stem) for path in self._paths), default=0)
        with (self._folder / f"{number:08d}{SEGMENT}").open("wb") as file:
            for array in result:
                np.save(file, array)
            file.flush()
            os.fsync(file.fileno())
        for path in self._paths[kept:]:
            path.unlink()
            path.with_suffix(GRAPH).unlink(missing_ok=True)


def link(segment: Path, target: Path) -> None:
    """Write the graph of a segment: nearly a millisecond a row, in which other threads run."""
    from usearch.index import Index

    rows, temporary = np.asarray(read(segment).rows), target.with_suffix(".tmp")
    graph = Index(
        ndim=rows.shape[1], metric="cos", dtype="i8", connectivity=_LINKS, expansion_add=_WIDTH
    )
    graph.add(np.arange(len(rows)), rows, threads=1)
    graph.save(str(temporary))
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    temporary.replace(target)


def _open(path: Path) -> Any:
    """A segment, or a graph as it lies in its file."""
    if path.suffix == SEGMENT:
        return read(path)
    from usearch.index import Index

    graph = Index.restore(str(path), view=True)
    if graph is None:
        raise IndexDamaged(f"{path.name} cannot be read")
    graph.expansion_search = _SEARCHED  # type: ignore[misc]  # its setter is not in the stubs
    return graph


# questions


class _Side(NamedTuple):
    """A query against one part."""

    part: Rows
    close: Callable[
        [Integers], Floats
    ]  # how near some documents are: the cosines of their nearest passages
    first: Callable[[int], Integers]  # so many of the nearest documents


def _compared(part: Rows, query: Floats) -> _Side:
    """All documents are compared."""
    near = nearest(part, query)
    every = np.arange(len(near))
    return _Side(
        part, near.__getitem__, lambda n: near.argpartition(-n)[-n:] if n < len(near) else every
    )


def _walked(part: Rows, graph: Any, query: Floats) -> _Side:
    """The graph says which are near; what is asked of others is compared then."""

    def close(at: Integers) -> Floats:
        counts = part.starts[at + 1] - part.starts[at]
        rows = _ranges(part.starts[at], counts)
        scores = (part.rows[rows].astype(np.float32) @ query) * part.scales[rows]
        best: Floats = (
            np.maximum.reduceat(scores, np.cumsum(counts) - counts) if len(rows) else scores
        )
        return best

    def first(count: int) -> Integers:
        found = graph.search(_small(query[None])[0][0], _ROWS * count, threads=1).keys.astype(
            np.int64
        )
        return np.array(
            sorted({*(np.searchsorted(part.starts, found, "right") - 1).tolist()}), dtype=np.int64
        )

    return _Side(part, close, first)


class Ranking:
    """One query against some parts, each with its graph, if it has one."""

    def __init__(self, parts: Sequence[tuple[Rows, Any]], query: Floats, table: Table) -> None:
        self._query, self.table = query, table
        self._sides = [
            _walked(part, graph, query) if graph else _compared(part, query)
            for part, graph in parts
        ]

    def first(self, count: int) -> list[int]:
        """Return the keys of the nearest documents, nearest first."""
        best: dict[int, float] = {}
        for part, close, first in self._sides:
            at = first(count)
            best.update(zip(part.keys[at].tolist(), close(at).tolist(), strict=True))
        return sorted(best, key=best.__getitem__, reverse=True)[:count]

    def likeness(
        self, keys: Iterable[int], title: Floats | None = None
    ) -> dict[int, tuple[float, float]]:
        """Return how near those of the keys that have vectors are: the cosine of the best passage, and of the title.

        `title`: what titles are compared with, if not the query.
        """
        wanted, found = set(keys), dict[int, tuple[float, float]]()
        heading = self._query if title is None else title
        for part, close, _ in self._sides:
            at = places(part, wanted)
            titles = (part.titles[at].astype(np.float32) @ heading) * part.title_scales[at]
            both = zip(close(at).tolist(), titles.tolist(), strict=True)
            found.update(zip(part.keys[at].tolist(), both, strict=True))
        return found

    def wording(
        self, keys: Iterable[int], words: Mapping[str, float], said: Iterable[Alike] = ()
    ) -> dict[int, float]:
        """Return how well the words of a query, each with its weight, or others, are met by each of the keys."""
        wanted, found, asked = set(keys), dict[int, float](), self.table.weighed(words, said)
        for part, _, _ in self._sides:
            at = places(part, wanted)
            found.update(
                zip(part.keys[at].tolist(), met(part, at, self.table, asked).tolist(), strict=True)
            )
        return found


def _products(rows: npt.NDArray[Any], columns: Floats) -> Floats:
    """Return `rows @ columns`, a piece after the other."""
    out = np.empty((len(rows), columns.shape[1]), dtype=np.float32)
    count = max(1, _PIECE // columns.size)
    for at in range(0, len(rows), count):
        stripe = slice(at, at + count)
        np.matmul(rows[stripe].astype(np.float32, copy=False), columns, out=out[stripe])
    return out


def nearest(part: Rows, query: Floats) -> Floats:
    """Return for each document the cosine of its passage nearest to the query."""
    scores = _products(part.rows, query[:, None])[:, 0] * part.scales
    best: Floats = np.maximum.reduceat(scores, part.starts[:-1]) if len(scores) else scores
    return best


def met(part: Rows, at: Integers, table: Table, asked: Asked) -> Floats:
    """Return how well the tokens of a query are met, each by its nearest, in the best passage of some documents."""
    counts = part.starts[at + 1] - part.starts[at]
    rows = _ranges(part.starts[at], counts)
    lengths = part.token_starts[rows + 1] - part.token_starts[rows]
    tokens = part.tokens[_ranges(part.token_starts[rows], lengths)]
    passages = np.zeros(len(rows), dtype=np.float32)
    if len(tokens) and len(asked.weights):
        place = np.zeros(int(tokens.max()) + 1, dtype=np.int64)
        place[tokens] = 1
        different = np.flatnonzero(place)  # each is compared once, however often it stands
        place[different] = np.arange(len(different))
        near = _products(table.directions(different), table.directions(asked.tokens).T)
        near = np.maximum.reduceat(near * asked.most, asked.starts, axis=1)[place[tokens]]
        begins = (np.cumsum(lengths) - lengths)[lengths > 0]
        passages[lengths > 0] = np.maximum.reduceat(near, begins) @ asked.weights
    best: Floats = (
        np.maximum.reduceat(passages, np.cumsum(counts) - counts) if len(passages) else passages
    )
    return best


class Vectors:
    """The vectors that a process has open: most files of one generation are in the next too."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._open: dict[
            tuple[int, ...], Any
        ] = {}  # segments and graphs, by what the seal says of a file
        self._made: list[Rows] = []  # of what waited when last asked

    def rank(self, query: Floats, root: Path, seal: Seal, waiting: Iterable[Doc]) -> Ranking:
        """Return how near documents are to a query, those of a generation and those that wait."""
        files = {
            tuple(about): name for name, about in seal.files.items() if name.startswith(VECTORS)
        }
        if files.keys() - self._open.keys():
            compare(root, seal, VECTORS)
        self._open = {
            mark: self._open.get(mark) or _open(root / seal.name / name)
            for mark, name in files.items()
        }
        there = {name: self._open[mark] for mark, name in files.items()}
        parts = [
            (there[name], there.get(name.replace(SEGMENT, GRAPH)))
            for name in there
            if name.endswith(SEGMENT)
        ]
        docs = {key(doc.blob): doc for doc in waiting}
        new = [docs[number] for number in missing(self._made, docs)]
        if new or not docs:  # each is embedded once, and all are one part, as each part costs time
            self._made = [merged([*self._made, embed(new, self._table)], docs)] if docs else []
        return Ranking([*parts, *((part, None) for part in self._made)], query, self._table)
