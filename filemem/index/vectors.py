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
from filemem.index.model import TINY, EmbeddingTable, Floats, Integers, Numbers, QueryTokens
from filemem.index.storage import IndexDamaged
from filemem.query.terms import Alternative

# Multiplications at a time: what OpenBLAS does in one thread. More threads are slower where cores
# are busy, and nobody can bound them once a program has imported numpy.
_PIECE_SIZE = 1 << 18
_QUERY_BATCH = 32  # compared at a time where each of many records is one
_PACK = struct.Struct("<HHB")  # of a pack: passages, dimensions, bytes of a token
MERGE_RATIO = 4  # a file is merged into the one before it unless that is this much larger
_ROWS_PER_DOCUMENT = 4  # rows that usearch is asked for, for each document: as many as one has
# usearch compares every row: a graph alone finds half of the nearest among texts that are nearly
# equal. So what connects the rows can be thin, which is written in a second for 200,000.
_CONNECTIVITY = 4
_EXPANSION = 1


class VectorSet(NamedTuple):
    """Vectors of some documents."""

    keys: Integers  # numbers of documents, sorted; i has the rows from starts[i] to starts[i + 1]
    starts: Integers
    token_starts: Integers  # row i has the tokens from token_starts[i] to token_starts[i + 1]
    scales: Floats
    title_scales: Floats
    tokens: Numbers  # of the rows, one after the other; hundreds a record
    rows: npt.NDArray[np.int8]  # passages; each times its scale is a vector of length 1
    titles: npt.NDArray[np.int8]  # the same for the one title of each document


def embed_documents(docs: Mapping[int, Doc], table: EmbeddingTable) -> VectorSet:
    """Return the vectors of documents by number."""
    items = sorted(docs.items())
    passages = [doc.passages or (doc.title,) for _, doc in items]
    vectors, tokens, counts = table.encode([text for texts in passages for text in texts])
    rows, scales = _quantize_rows(vectors)
    titles, title_scales = _quantize_rows(table.encode([doc.title for _, doc in items])[0])
    keys = np.array([number for number, _ in items], dtype=np.int64)
    starts = _compute_starts([len(own) for own in passages])
    return VectorSet(
        keys, starts, _compute_starts(counts), scales, title_scales, tokens, rows, titles
    )


def pack_documents(part: VectorSet) -> dict[int, bytes]:
    """Return the vectors and tokens of each document of a part, by number."""
    return {number: _pack_document(part, index) for index, number in enumerate(part.keys.tolist())}


def _pack_document(part: VectorSet, index: int) -> bytes:
    begin, end = part.starts[index : index + 2]
    tokens = part.token_starts[begin : end + 1]
    arrays = (
        np.diff(tokens).astype("<u4"),
        part.scales[begin:end].astype("<f4"),
        part.title_scales[index : index + 1].astype("<f4"),
        part.titles[index],
        part.rows[begin:end],
        part.tokens[tokens[0] : tokens[-1]],
    )
    head = _PACK.pack(end - begin, part.rows.shape[1], part.tokens.itemsize)
    return head + b"".join(array.tobytes() for array in arrays)


def unpack_documents(items: Iterable[tuple[int, bytes]]) -> VectorSet:
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
    return VectorSet(
        np.array(keys, dtype=np.int64),
        _compute_starts(sizes),
        _compute_starts(np.frombuffer(counts, "<u4")),
        np.frombuffer(scales, "<f4"),
        np.frombuffer(title_scales, "<f4"),
        np.frombuffer(tokens, f"<u{width}"),
        np.frombuffer(rows, np.int8).reshape(-1, dimensions or 1),
        np.frombuffer(titles, np.int8).reshape(-1, dimensions or 1),
    )


def _quantize_rows(rows: Floats) -> tuple[npt.NDArray[np.int8], Floats]:
    """Return vectors as int8 rows, and the scales that bring each back to length 1."""
    peak = np.maximum(np.abs(rows).max(axis=1, initial=0.0), TINY)
    quantized = np.rint(rows * (127 / peak)[:, None]).astype(np.int8)
    lengths = np.sqrt((quantized.astype(np.float32) ** 2).sum(axis=1))
    return quantized, np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)


def _compute_starts(counts: Sequence[int] | Integers) -> Integers:
    """Return where parts of these sizes begin, and where the last ends."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts, dtype=np.int64)])


def _build_ranges(starts: Integers, counts: Integers) -> Integers:
    """Return the numbers from each start on, as many as each count says, one after the other."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    numbers: Integers = np.repeat(starts - ends + counts, counts) + np.arange(total)
    return numbers


def find_positions(part: VectorSet, keys: Iterable[int]) -> Integers:
    """Return where those of the keys that the part has stand in it."""
    if not len(part.keys):
        return np.zeros(0, dtype=np.int64)
    # Not np.unique, which imports numpy.ma: a tenth of numpy.
    sorted_keys = np.array(sorted(set(keys)), dtype=np.int64)
    positions = np.minimum(np.searchsorted(part.keys, sorted_keys), len(part.keys) - 1)
    matching: Integers = positions[part.keys[positions] == sorted_keys]
    return matching


def _concatenate_arrays(parts: Sequence[VectorSet], name: str) -> npt.NDArray[Any]:
    return np.concatenate([getattr(part, name) for part in parts])


def merge_vectors(parts: Sequence[VectorSet], keys: Iterable[int] | None = None) -> VectorSet:
    """Return the documents of some parts, each in one, as one part sorted by key.

    `keys`: only those with one of them; None for all.
    """
    counts = np.concatenate([np.diff(part.starts) for part in parts])
    names = ("keys", "rows", "scales", "titles", "title_scales", "tokens")
    joined = {name: _concatenate_arrays(parts, name) for name in names}
    token_counts = np.concatenate([np.diff(part.token_starts) for part in parts])
    order = np.argsort(joined["keys"])
    if keys is not None:
        key_set = set(keys)
        is_wanted = [key in key_set for key in joined["keys"][order].tolist()]
        order = order[np.array(is_wanted, dtype=np.bool_)]
    rows = _build_ranges(_compute_starts(counts)[:-1][order], counts[order])
    return VectorSet(
        starts=_compute_starts(counts[order]),
        token_starts=_compute_starts(token_counts[rows]),
        tokens=joined["tokens"][
            _build_ranges(_compute_starts(token_counts)[:-1][rows], token_counts[rows])
        ],
        **{name: joined[name][order] for name in ("keys", "titles", "title_scales")},
        **{name: joined[name][rows] for name in ("rows", "scales")},
    )


# files


def read_segment(path: Path) -> VectorSet:
    """Read a segment; raises `IndexDamaged`."""
    try:
        with path.open("rb") as file:
            # One map for all arrays: each map holds a descriptor of its own.
            mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            return VectorSet(*(_map_array(file, mapping) for _ in VectorSet._fields))
    except (OSError, ValueError, EOFError) as error:
        raise IndexDamaged(f"{path.name} cannot be read") from error


def _map_array(file: BinaryIO, mapping: mmap.mmap) -> npt.NDArray[Any]:
    """The next array that `np.save` wrote; only what is read of it comes into memory."""
    np.lib.format.read_magic(file)
    shape, _, kind = np.lib.format.read_array_header_1_0(file)
    begin = file.tell()
    count = math.prod(shape)
    file.seek(begin + kind.itemsize * count)
    return np.frombuffer(mapping, kind, count, begin).reshape(shape)


def write_segment(path: Path, part: VectorSet) -> None:
    """Write a segment."""
    with path.open("wb") as file:
        for array in part:
            np.save(file, array)
        file.flush()
        os.fsync(file.fileno())


@cache
def load_usearch_class() -> Any:
    """Return usearch's index; importing it takes a tenth of a second, which only a server has."""
    from usearch.index import Index

    return Index


def is_usearch_loaded() -> bool:
    """Whether this process compares by usearch."""
    return load_usearch_class.cache_info().currsize > 0


def add_segment(
    folder: Path, new_packs: Sequence[tuple[int, bytes]], sealed_names: Iterable[str]
) -> None:
    """Write packed vectors to a new file, merged with sealed ones that are not much larger."""
    if not new_packs:
        return
    folder.mkdir(exist_ok=True)
    parts = [unpack_documents(new_packs)]
    merges = list[Path]()
    for path in sorted((folder / Path(name).name for name in sealed_names), reverse=True):
        part = read_segment(path)
        if len(part.rows) >= MERGE_RATIO * sum(len(merged_part.rows) for merged_part in parts):
            break
        parts.append(part)
        merges.append(path)
    last_number = max((int(path.stem) for path in folder.glob("*.rows")), default=0)
    _replace_segment(folder / f"{last_number + 1:08d}.rows", merge_vectors(parts))
    for path in merges:
        path.unlink()
        path.with_suffix(".usearch").unlink(missing_ok=True)


def _replace_segment(path: Path, part: VectorSet) -> None:
    temporary = path.with_suffix(".tmp")
    write_segment(temporary, part)
    temporary.replace(path)


def write_usearch_indexes(folder: Path) -> None:
    """Let usearch compare the rows of every file in a folder."""
    load_usearch_class()
    for path in sorted(folder.glob("*.rows")):
        if not path.with_suffix(".usearch").exists():
            write_usearch_index(path, path.with_suffix(".tmp"))
            path.with_suffix(".tmp").replace(path.with_suffix(".usearch"))


def write_usearch_index(segment: Path, target: Path) -> None:
    """Write what usearch needs to compare the rows of a segment."""
    rows = np.asarray(read_segment(segment).rows)
    index = load_usearch_class()(
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


def open_usearch_index(path: Path) -> Any:
    """Open what `link` wrote, as it lies in its file. Raises IndexDamaged."""
    index = load_usearch_class().restore(str(path), view=True)
    if index is None:
        raise IndexDamaged(f"{path.name} cannot be read")
    return index


# questions


class _PartQuery(NamedTuple):
    """A query against one part."""

    part: VectorSet
    compute_cosines: Callable[
        [Integers], Floats
    ]  # how near some documents are: the cosines of their nearest passages
    find_nearest: Callable[[int], Integers]  # so many of the nearest documents


def _build_scan_query(part: VectorSet, query: Floats) -> _PartQuery:
    """All documents are compared."""
    cosines = compute_nearest_cosines(part, query)
    all_positions = np.arange(len(cosines))
    return _PartQuery(
        part,
        cosines.__getitem__,
        lambda n: cosines.argpartition(-n)[-n:] if n < len(cosines) else all_positions,
    )


def _build_index_query(part: VectorSet, index: Any, query: Floats) -> _PartQuery:
    """usearch says which are near; those are compared again, as it rounds the query."""

    def compute_cosines(positions: Integers) -> Floats:
        counts = part.starts[positions + 1] - part.starts[positions]
        rows = _build_ranges(part.starts[positions], counts)
        scores = (part.rows[rows].astype(np.float32) @ query) * part.scales[rows]
        best: Floats = (
            np.maximum.reduceat(scores, np.cumsum(counts) - counts) if len(rows) else scores
        )
        return best

    def find_nearest(count: int) -> Integers:
        rounded = _quantize_rows(query[None])[0][0]
        rows = index.search(rounded, _ROWS_PER_DOCUMENT * count + 100, exact=True, threads=1).keys
        positions = np.searchsorted(part.starts, rows.astype(np.int64), "right") - 1
        return np.array(sorted({*positions.tolist()}), dtype=np.int64)

    return _PartQuery(part, compute_cosines, find_nearest)


class Ranking:
    """One query against some parts, each with its usearch index, if it has one."""

    def __init__(
        self, parts: Sequence[tuple[VectorSet, Any]], query: Floats, table: EmbeddingTable
    ) -> None:
        self._query = query
        self.table = table
        self._part_queries = [
            _build_scan_query(part, query)
            if index is None
            else _build_index_query(part, index, query)
            for part, index in parts
        ]

    def find_nearest(self, count: int) -> list[int]:
        """Return the keys of the nearest documents, nearest first."""
        best: dict[int, float] = {}
        for part, compute_cosines, find_nearest in self._part_queries:
            positions = find_nearest(count)
            best.update(
                zip(part.keys[positions].tolist(), compute_cosines(positions).tolist(), strict=True)
            )
        return sorted(best, key=best.__getitem__, reverse=True)[:count]

    def compute_cosines(
        self, keys: Iterable[int], title: Floats | None = None
    ) -> dict[int, tuple[float, float]]:
        """Return how near those of the keys that have vectors are.

        That is the cosine of the best passage, and of the title. `title`: what titles are compared
        with, if not the query.
        """
        key_set = set(keys)
        cosines: dict[int, tuple[float, float]] = {}
        heading = self._query if title is None else title
        for part, compute_cosines, _ in self._part_queries:
            positions = find_positions(part, key_set)
            titles = (part.titles[positions].astype(np.float32) @ heading) * part.title_scales[
                positions
            ]
            cosine_pairs = zip(compute_cosines(positions).tolist(), titles.tolist(), strict=True)
            cosines.update(zip(part.keys[positions].tolist(), cosine_pairs, strict=True))
        return cosines

    def compute_word_matches(
        self, keys: Iterable[int], words: Mapping[str, float], alike: Iterable[Alternative] = ()
    ) -> dict[int, float]:
        """Return how well the words of a query, or others in their place, are met by each key.

        Args:
            keys: of documents.
            words: of the query, each with its weight.
            alike: what may be said instead.
        """
        key_set = set(keys)
        query_tokens = self.table.build_query_tokens(words, alike)
        word_matches: dict[int, float] = {}
        for part, _, _ in self._part_queries:
            positions = find_positions(part, key_set)
            values = compute_word_matches(part, positions, self.table, query_tokens).tolist()
            word_matches.update(zip(part.keys[positions].tolist(), values, strict=True))
        return word_matches

    def iter_neighbours(
        self, queries: Floats, texts: Sequence[str], keys: Iterable[int], count: int
    ) -> Iterator[list[tuple[int, tuple[float, float, float]]]]:
        """Yield the nearest documents among some keys for each of many queries, of these texts.

        With each: the cosines of its best passage and its title, and how well words are met.
        """
        part = merge_vectors(
            [side.part for side in self._part_queries] or [unpack_documents(())], keys
        )
        if not len(part.keys):
            yield from ([] for _ in texts)
            return
        limit = min(count, len(part.keys))
        for begin in range(0, len(texts), _QUERY_BATCH):
            columns = queries[begin : begin + _QUERY_BATCH].T
            rows = _multiply_rows(part.rows, columns) * part.scales[:, None]
            passage_cosines = np.maximum.reduceat(rows, part.starts[:-1])
            title_cosines = _multiply_rows(part.titles, columns) * part.title_scales[:, None]
            nearest_positions = np.argpartition(-passage_cosines, limit - 1, axis=0)[:limit]
            for column, positions in enumerate(nearest_positions.T):
                words = dict.fromkeys(texts[begin + column].split(), 1.0)
                word_matches = compute_word_matches(
                    part, positions, self.table, self.table.build_query_tokens(words)
                )
                parts = (
                    passage_cosines[positions, column],
                    title_cosines[positions, column],
                    word_matches,
                )
                cosines = zip(*(values.tolist() for values in parts), strict=True)
                yield list(zip(part.keys[positions].tolist(), cosines, strict=True))


def _multiply_rows(rows: npt.NDArray[Any], columns: Floats) -> Floats:
    """Return `rows @ columns`, a piece after the other."""
    products = np.empty((len(rows), columns.shape[1]), dtype=np.float32)
    count = max(1, _PIECE_SIZE // columns.size)
    for start in range(0, len(rows), count):
        stripe = slice(start, start + count)
        np.matmul(rows[stripe].astype(np.float32, copy=False), columns, out=products[stripe])
    return products


def compute_nearest_cosines(part: VectorSet, query: Floats) -> Floats:
    """Return for each document the cosine of its passage nearest to the query."""
    scores = _multiply_rows(part.rows, query[:, None])[:, 0] * part.scales
    best: Floats = np.maximum.reduceat(scores, part.starts[:-1]) if len(scores) else scores
    return best


def compute_word_matches(
    part: VectorSet, positions: Integers, table: EmbeddingTable, query_tokens: QueryTokens
) -> Floats:
    """Return how well the tokens of a query are met in the best passage of some documents.

    Each is met by its nearest.
    """
    counts = part.starts[positions + 1] - part.starts[positions]
    rows = _build_ranges(part.starts[positions], counts)
    lengths = part.token_starts[rows + 1] - part.token_starts[rows]
    tokens = part.tokens[_build_ranges(part.token_starts[rows], lengths)]
    passages = np.zeros(len(rows), dtype=np.float32)
    if len(tokens) and len(query_tokens.weights):
        token_positions = np.zeros(int(tokens.max()) + 1, dtype=np.int64)
        token_positions[tokens] = 1
        unique_tokens = np.flatnonzero(
            token_positions
        )  # each is compared once, however often it stands
        token_positions[unique_tokens] = np.arange(len(unique_tokens))
        cosines = _multiply_rows(
            table.compute_directions(unique_tokens), table.compute_directions(query_tokens.tokens).T
        )
        cosines = np.maximum.reduceat(
            cosines * query_tokens.max_matches, query_tokens.starts, axis=1
        )[token_positions[tokens]]
        begins = (np.cumsum(lengths) - lengths)[lengths > 0]
        passages[lengths > 0] = np.maximum.reduceat(cosines, begins) @ query_tokens.weights
    best: Floats = (
        np.maximum.reduceat(passages, np.cumsum(counts) - counts) if len(passages) else passages
    )
    return best
