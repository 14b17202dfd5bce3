"""Meaning in numbers: vectors made, packed, kept in files, and how they compare with a query.

Rule: the database has the vectors of each document as one pack; files of many are a cache of it,
numpy arrays that are written once, each with an index by usearch beside it where a server made one.
numpy costs more than a keyword search: this module is imported at first need, after the model.
"""

from __future__ import annotations

import math
import mmap
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from filemem.index.document import Doc
from filemem.index.folder import IndexDamaged
from filemem.index.model import TINY, Asked, Floats, Integers, Numbers, Table
from filemem.query.terms import Alike

# Multiplications at a time: what OpenBLAS does in one thread. More threads are slower where cores
# are busy, and nobody can bound them once a program has imported numpy.
_PIECE = 1 << 18
_QUERIES = 32  # compared at a time where each of many records is one
_PACK = struct.Struct("<HHB")  # of a pack: passages, dimensions, bytes of a token
MERGE_RATIO = 4  # a file is merged into the one before it unless that is this much larger
_MORE = 4  # rows that usearch is asked for, for each document: as many as one has
# usearch compares every row: a graph alone finds half of the nearest among texts that are nearly
# equal. So what connects the rows can be thin, which is written in a second for 200,000.
_CONNECTIVITY = 4
_EXPANSION = 1


class Rows(NamedTuple):
    """Vectors of some documents."""

    keys: Integers  # numbers of documents, sorted; i has the rows from starts[i] to starts[i + 1]
    starts: Integers
    token_starts: Integers  # row i has the tokens from token_starts[i] to token_starts[i + 1]
    scales: Floats
    title_scales: Floats
    tokens: Numbers  # of the rows, one after the other; hundreds a record
    rows: npt.NDArray[np.int8]  # passages; each times its scale is a vector of length 1
    titles: npt.NDArray[np.int8]  # the same for the one title of each document


def embed(docs: Mapping[int, Doc], table: Table) -> Rows:
    """Return the vectors of documents by number."""
    items = sorted(docs.items())
    passages = [doc.passages or (doc.title,) for _, doc in items]
    full, tokens, counts = table.encode([text for own in passages for text in own])
    rows, scales = _small(full)
    titles, title_scales = _small(table.encode([doc.title for _, doc in items])[0])
    keys = np.array([number for number, _ in items], dtype=np.int64)
    starts = _starts([len(own) for own in passages])
    return Rows(keys, starts, _starts(counts), scales, title_scales, tokens, rows, titles)


def packs(part: Rows) -> dict[int, bytes]:
    """Return the vectors and tokens of each document of a part, by number."""
    return {number: _pack(part, at) for at, number in enumerate(part.keys.tolist())}


def _pack(part: Rows, at: int) -> bytes:
    begin, end = part.starts[at : at + 2]
    tokens = part.token_starts[begin : end + 1]
    arrays = (
        np.diff(tokens).astype("<u4"),
        part.scales[begin:end].astype("<f4"),
        part.title_scales[at : at + 1].astype("<f4"),
        part.titles[at],
        part.rows[begin:end],
        part.tokens[tokens[0] : tokens[-1]],
    )
    head = _PACK.pack(end - begin, part.rows.shape[1], part.tokens.itemsize)
    return head + b"".join(array.tobytes() for array in arrays)


def unpacked(items: Iterable[tuple[int, bytes]]) -> Rows:
    """Return as one part what `packs` made of documents, given in order of numbers."""
    keys: list[int] = []
    sizes: list[int] = []
    pieces: list[list[bytes]] = []
    dimensions = 0
    width = 2
    for number, data in items:
        count, dimensions, width = _PACK.unpack_from(data)
        keys.append(number)
        sizes.append(count)
        ends = np.cumsum(
            [_PACK.size, 4 * count, 4 * count, 4, dimensions, dimensions * count]
        ).tolist()
        pieces.append([data[begin:end] for begin, end in zip(ends, [*ends[1:], None], strict=True)])
    counts, scales, title_scales, titles, rows, tokens = (
        b"".join(parts) for parts in (zip(*pieces, strict=True) if pieces else 6 * [()])
    )
    return Rows(
        np.array(keys, dtype=np.int64),
        _starts(sizes),
        _starts(np.frombuffer(counts, "<u4")),
        np.frombuffer(scales, "<f4"),
        np.frombuffer(title_scales, "<f4"),
        np.frombuffer(tokens, f"<u{width}"),
        np.frombuffer(rows, np.int8).reshape(-1, dimensions or 1),
        np.frombuffer(titles, np.int8).reshape(-1, dimensions or 1),
    )


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
    total = int(ends[-1]) if len(ends) else 0
    numbers: Integers = np.repeat(starts - ends + counts, counts) + np.arange(total)
    return numbers


def places(part: Rows, keys: Iterable[int]) -> Integers:
    """Return where those of the keys that the part has stand in it."""
    if not len(part.keys):
        return np.zeros(0, dtype=np.int64)
    # Not np.unique, which imports numpy.ma: a tenth of numpy.
    wanted = np.array(sorted(set(keys)), dtype=np.int64)
    at = np.minimum(np.searchsorted(part.keys, wanted), len(part.keys) - 1)
    present: Integers = at[part.keys[at] == wanted]
    return present


def _concatenated(parts: Sequence[Rows], name: str) -> npt.NDArray[Any]:
    return np.concatenate([getattr(part, name) for part in parts])


def merged(parts: Sequence[Rows], keys: Iterable[int] | None = None) -> Rows:
    """Return the documents of some parts, each in one, as one part sorted by key.

    `keys`: only those with one of them; None for all.
    """
    counts = np.concatenate([np.diff(part.starts) for part in parts])
    names = ("keys", "rows", "scales", "titles", "title_scales", "tokens")
    joined = {name: _concatenated(parts, name) for name in names}
    token_counts = np.concatenate([np.diff(part.token_starts) for part in parts])
    order = np.argsort(joined["keys"])
    if keys is not None:
        wanted = set(keys)
        is_wanted = [key in wanted for key in joined["keys"][order].tolist()]
        order = order[np.array(is_wanted, dtype=np.bool_)]
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


def write(path: Path, part: Rows) -> None:
    """Write a segment."""
    with path.open("wb") as file:
        for array in part:
            np.save(file, array)
        file.flush()
        os.fsync(file.fileno())


@cache
def load_usearch() -> Any:
    """Return usearch's index; importing it takes a tenth of a second, which only a server has."""
    from usearch.index import Index

    return Index


def is_loaded() -> bool:
    """Whether this process compares by usearch."""
    return load_usearch.cache_info().currsize > 0


def extend(folder: Path, packed: Sequence[tuple[int, bytes]], sealed: Iterable[str]) -> None:
    """Write packed vectors to a new file, merged with sealed ones that are not much larger."""
    if not packed:
        return
    folder.mkdir(exist_ok=True)
    parts = [unpacked(packed)]
    merges = list[Path]()
    for path in sorted((folder / Path(name).name for name in sealed), reverse=True):
        part = read(path)
        if len(part.rows) >= MERGE_RATIO * sum(len(new.rows) for new in parts):
            break
        parts.append(part)
        merges.append(path)
    last = max((int(path.stem) for path in folder.glob("*.rows")), default=0)
    _replace(folder / f"{last + 1:08d}.rows", merged(parts))
    for path in merges:
        path.unlink()
        path.with_suffix(".usearch").unlink(missing_ok=True)


def _replace(path: Path, part: Rows) -> None:
    temporary = path.with_suffix(".tmp")
    write(temporary, part)
    temporary.replace(path)


def link_all(folder: Path) -> None:
    """Let usearch compare the rows of every file in a folder."""
    load_usearch()
    for path in sorted(folder.glob("*.rows")):
        if not path.with_suffix(".usearch").exists():
            link(path, path.with_suffix(".tmp"))
            path.with_suffix(".tmp").replace(path.with_suffix(".usearch"))


def link(segment: Path, target: Path) -> None:
    """Write what usearch needs to compare the rows of a segment."""
    rows = np.asarray(read(segment).rows)
    index = load_usearch()(
        ndim=rows.shape[1],
        metric="cos",
        dtype="i8",
        connectivity=_CONNECTIVITY,
        expansion_add=_EXPANSION,
    )
    index.add(np.arange(len(rows)), rows, threads=1)
    index.save(str(target))
    with target.open("rb") as file:
        os.fsync(file.fileno())


def linked(path: Path) -> Any:
    """Open what `link` wrote, as it lies in its file. Raises IndexDamaged."""
    index = load_usearch().restore(str(path), view=True)
    if index is None:
        raise IndexDamaged(f"{path.name} cannot be read")
    return index


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


def _searched(part: Rows, index: Any, query: Floats) -> _Side:
    """usearch says which are near; those are compared again, as it rounds the query."""

    def close(at: Integers) -> Floats:
        counts = part.starts[at + 1] - part.starts[at]
        rows = _ranges(part.starts[at], counts)
        scores = (part.rows[rows].astype(np.float32) @ query) * part.scales[rows]
        best: Floats = (
            np.maximum.reduceat(scores, np.cumsum(counts) - counts) if len(rows) else scores
        )
        return best

    def first(count: int) -> Integers:
        rounded = _small(query[None])[0][0]
        rows = index.search(rounded, _MORE * count + 100, exact=True, threads=1).keys
        at = np.searchsorted(part.starts, rows.astype(np.int64), "right") - 1
        return np.array(sorted({*at.tolist()}), dtype=np.int64)

    return _Side(part, close, first)


class Ranking:
    """One query against some parts, each with its usearch index, if it has one."""

    def __init__(self, parts: Sequence[tuple[Rows, Any]], query: Floats, table: Table) -> None:
        self._query = query
        self.table = table
        self._sides = [
            _compared(part, query) if index is None else _searched(part, index, query)
            for part, index in parts
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
        """Return how near those of the keys that have vectors are.

        That is the cosine of the best passage, and of the title. `title`: what titles are compared
        with, if not the query.
        """
        wanted = set(keys)
        cosines: dict[int, tuple[float, float]] = {}
        heading = self._query if title is None else title
        for part, close, _ in self._sides:
            at = places(part, wanted)
            titles = (part.titles[at].astype(np.float32) @ heading) * part.title_scales[at]
            both = zip(close(at).tolist(), titles.tolist(), strict=True)
            cosines.update(zip(part.keys[at].tolist(), both, strict=True))
        return cosines

    def wording(
        self, keys: Iterable[int], words: Mapping[str, float], alike: Iterable[Alike] = ()
    ) -> dict[int, float]:
        """Return how well the words of a query, or others in their place, are met by each key.

        Args:
            keys: of documents.
            words: of the query, each with its weight.
            alike: what may be said instead.
        """
        wanted = set(keys)
        question = self.table.weighed(words, alike)
        wording: dict[int, float] = {}
        for part, _, _ in self._sides:
            at = places(part, wanted)
            values = met(part, at, self.table, question).tolist()
            wording.update(zip(part.keys[at].tolist(), values, strict=True))
        return wording

    def neighbours(
        self, queries: Floats, texts: Sequence[str], keys: Iterable[int], count: int
    ) -> Iterator[list[tuple[int, tuple[float, float, float]]]]:
        """Yield the nearest documents among some keys for each of many queries, of these texts.

        With each: the cosines of its best passage and its title, and how well words are met.
        """
        part = merged([side.part for side in self._sides] or [unpacked(())], keys)
        if not len(part.keys):
            yield from ([] for _ in texts)
            return
        most = min(count, len(part.keys))
        for begin in range(0, len(texts), _QUERIES):
            columns = queries[begin : begin + _QUERIES].T
            rows = _products(part.rows, columns) * part.scales[:, None]
            near = np.maximum.reduceat(rows, part.starts[:-1])
            titles = _products(part.titles, columns) * part.title_scales[:, None]
            first = np.argpartition(-near, most - 1, axis=0)[:most]
            for column, at in enumerate(first.T):
                words = dict.fromkeys(texts[begin + column].split(), 1.0)
                wording = met(part, at, self.table, self.table.weighed(words))
                parts = (near[at, column], titles[at, column], wording)
                cosines = zip(*(values.tolist() for values in parts), strict=True)
                yield list(zip(part.keys[at].tolist(), cosines, strict=True))


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


def met(part: Rows, at: Integers, table: Table, question: Asked) -> Floats:
    """Return how well the tokens of a query are met in the best passage of some documents.

    Each is met by its nearest.
    """
    counts = part.starts[at + 1] - part.starts[at]
    rows = _ranges(part.starts[at], counts)
    lengths = part.token_starts[rows + 1] - part.token_starts[rows]
    tokens = part.tokens[_ranges(part.token_starts[rows], lengths)]
    passages = np.zeros(len(rows), dtype=np.float32)
    if len(tokens) and len(question.weights):
        place = np.zeros(int(tokens.max()) + 1, dtype=np.int64)
        place[tokens] = 1
        different = np.flatnonzero(place)  # each is compared once, however often it stands
        place[different] = np.arange(len(different))
        near = _products(table.directions(different), table.directions(question.tokens).T)
        near = np.maximum.reduceat(near * question.most, question.starts, axis=1)[place[tokens]]
        begins = (np.cumsum(lengths) - lengths)[lengths > 0]
        passages[lengths > 0] = np.maximum.reduceat(near, begins) @ question.weights
    best: Floats = (
        np.maximum.reduceat(passages, np.cumsum(counts) - counts) if len(passages) else passages
    )
    return best
