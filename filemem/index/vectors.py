"""Vectors of documents: how they are made, packed, written to files and compared with a query.

The database has the vectors of each document as one pack. Segment files hold those of many
documents as a cache: numpy arrays that are written once. A server adds a usearch index to each.
Importing numpy takes longer than a keyword search, so this module is imported only when needed.
"""

from __future__ import annotations

import math
import mmap
import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from filemem.index.document import Doc
from filemem.index.model import (
    EmbeddingTable,
    Floats,
    Integers,
    Numbers,
    QueryTokens,
    multiply_rows,
    quantize_rows,
)
from filemem.index.storage import IndexDamaged
from filemem.query.terms import Alternative

_QUERY_BATCH = 32  # queries that are compared at a time
_PACK = struct.Struct("<HHB")  # of a pack: passages, dimensions, bytes of a token
MERGE_RATIO = 4  # a file is merged into the one before it unless that is this much larger
_ROWS_PER_DOCUMENT = 4  # rows to ask usearch for, for each document: a document has as many
# usearch compares every row, as its graph finds only half of the nearest among similar texts. So
# the graph can be thin: for 200,000 rows it is written in a second.
_CONNECTIVITY = 4
_EXPANSION = 1
_Value = TypeVar("_Value")


class VectorSet(NamedTuple):
    """Vectors of some documents."""

    keys: Integers  # sorted numbers of documents
    starts: Integers  # document i has the rows from starts[i] to starts[i + 1]
    token_starts: Integers  # row i has the tokens from token_starts[i] to token_starts[i + 1]
    scales: Floats  # each row times its scale is a vector of length 1
    title_scales: Floats
    tokens: Numbers  # of all rows, one after the other
    rows: npt.NDArray[np.int8]  # one for each passage
    titles: npt.NDArray[np.int8]  # one for each document


def embed_documents(docs: Mapping[int, Doc], table: EmbeddingTable) -> VectorSet:
    """Return the vectors of documents by number."""
    numbers = sorted(docs)
    texts: list[str] = []
    sizes: list[int] = []
    titles: list[str] = []
    for number in numbers:
        doc = docs[number]
        passages = doc.passages or (doc.title,)
        texts += passages
        sizes.append(len(passages))
        titles.append(doc.title)
    vectors, tokens, token_counts = table.encode(texts)
    title_vectors, _, _ = table.encode(titles)
    rows, scales = quantize_rows(vectors)
    title_rows, title_scales = quantize_rows(title_vectors)
    return VectorSet(
        keys=np.array(numbers, dtype=np.int64),
        starts=_compute_starts(sizes),
        token_starts=_compute_starts(token_counts),
        scales=scales,
        title_scales=title_scales,
        tokens=tokens,
        rows=rows,
        titles=title_rows,
    )


def pack_documents(part: VectorSet) -> dict[int, bytes]:
    """Return the vectors and tokens of each document by number, packed."""
    return {number: _pack_document(part, index) for index, number in enumerate(part.keys.tolist())}


def _pack_document(part: VectorSet, index: int) -> bytes:
    begin = part.starts[index]
    end = part.starts[index + 1]
    token_starts = part.token_starts[begin : end + 1]
    token_counts = np.diff(token_starts)
    arrays = (
        token_counts.astype("<u4"),
        part.scales[begin:end].astype("<f4"),
        part.title_scales[index : index + 1].astype("<f4"),
        part.titles[index],
        part.rows[begin:end],
        part.tokens[token_starts[0] : token_starts[-1]],
    )
    dimensions = part.rows.shape[1]
    head = _PACK.pack(end - begin, dimensions, part.tokens.itemsize)
    return head + b"".join(array.tobytes() for array in arrays)


def unpack_documents(items: Iterable[tuple[int, bytes]]) -> VectorSet:
    """Return one set of the documents that `pack_documents` packed, given in order of numbers."""
    keys: list[int] = []
    sizes: list[int] = []
    columns: list[list[bytes]] = [[] for _ in range(6)]  # the arrays of all packs, as bytes
    dimensions = 1
    token_width = 2
    for number, data in items:
        size, dimensions, token_width = _PACK.unpack_from(data)
        keys.append(number)
        sizes.append(size)
        begin = _PACK.size
        for index, length in enumerate((4 * size, 4 * size, 4, dimensions, dimensions * size)):
            columns[index].append(data[begin : begin + length])
            begin += length
        columns[5].append(data[begin:])
    token_counts, scales, title_scales, titles, rows, tokens = [b"".join(part) for part in columns]
    return VectorSet(
        keys=np.array(keys, dtype=np.int64),
        starts=_compute_starts(sizes),
        token_starts=_compute_starts(np.frombuffer(token_counts, "<u4")),
        scales=np.frombuffer(scales, "<f4"),
        title_scales=np.frombuffer(title_scales, "<f4"),
        tokens=np.frombuffer(tokens, f"<u{token_width}"),
        rows=np.frombuffer(rows, np.int8).reshape(-1, dimensions),
        titles=np.frombuffer(titles, np.int8).reshape(-1, dimensions),
    )


def _compute_starts(counts: Sequence[int] | Integers) -> Integers:
    """Return where parts of these sizes begin, and where the last one ends."""
    starts = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, dtype=np.int64, out=starts[1:])
    return starts


def _build_ranges(starts: Integers, counts: Integers) -> Integers:
    """Return `counts[i]` consecutive numbers from `starts[i]` for each i, joined."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    offsets = np.repeat(starts - ends + counts, counts)
    numbers: Integers = offsets + np.arange(total)
    return numbers


def find_positions(part: VectorSet, keys: Iterable[int]) -> Integers:
    """Return the positions in a set of those keys that it has."""
    if not len(part.keys):
        return np.zeros(0, dtype=np.int64)
    # Not np.unique: it imports numpy.ma, a tenth of numpy.
    sorted_keys = np.array(sorted(set(keys)), dtype=np.int64)
    last_position = len(part.keys) - 1
    positions = np.minimum(np.searchsorted(part.keys, sorted_keys), last_position)
    is_present = part.keys[positions] == sorted_keys
    matching: Integers = positions[is_present]
    return matching


def _concatenate_arrays(parts: Sequence[VectorSet], name: str) -> npt.NDArray[Any]:
    return np.concatenate([getattr(part, name) for part in parts])


def merge_vectors(parts: Sequence[VectorSet], keys: Iterable[int] | None = None) -> VectorSet:
    """Return the documents of several sets as one set; no document may be in two of them.

    `keys`: the documents to keep; None for all.
    """
    all_keys = _concatenate_arrays(parts, "keys")
    sizes = np.concatenate([np.diff(part.starts) for part in parts])
    token_counts = np.concatenate([np.diff(part.token_starts) for part in parts])
    order = np.argsort(all_keys)
    if keys is not None:
        kept_keys = set(keys)
        is_kept = [key in kept_keys for key in all_keys[order].tolist()]
        order = order[np.array(is_kept, dtype=np.bool_)]
    row_starts = _compute_starts(sizes)[:-1]
    row_order = _build_ranges(row_starts[order], sizes[order])
    token_starts = _compute_starts(token_counts)[:-1]
    token_order = _build_ranges(token_starts[row_order], token_counts[row_order])
    return VectorSet(
        keys=all_keys[order],
        starts=_compute_starts(sizes[order]),
        token_starts=_compute_starts(token_counts[row_order]),
        scales=_concatenate_arrays(parts, "scales")[row_order],
        title_scales=_concatenate_arrays(parts, "title_scales")[order],
        tokens=_concatenate_arrays(parts, "tokens")[token_order],
        rows=_concatenate_arrays(parts, "rows")[row_order],
        titles=_concatenate_arrays(parts, "titles")[order],
    )


def read_segment(path: Path) -> VectorSet:
    """Map a segment file into memory. Raises IndexDamaged."""
    try:
        with path.open("rb") as file:
            # One map for all arrays, as each map holds a file descriptor.
            mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            return VectorSet(*(_map_array(file, mapping) for _ in VectorSet._fields))
    except (OSError, ValueError, EOFError) as error:
        raise IndexDamaged(f"{path.name} cannot be read") from error


def _map_array(file: BinaryIO, mapping: mmap.mmap) -> npt.NDArray[Any]:
    """Return the next array that `np.save` wrote; the system loads only what is used of it."""
    np.lib.format.read_magic(file)
    shape, _, kind = np.lib.format.read_array_header_1_0(file)
    begin = file.tell()
    count = math.prod(shape)
    file.seek(begin + kind.itemsize * count)
    return np.frombuffer(mapping, kind, count, begin).reshape(shape)


def write_segment(path: Path, part: VectorSet) -> None:
    """Write a segment file and sync it to disk."""
    with path.open("wb") as file:
        for array in part:
            np.save(file, array)
        file.flush()
        os.fsync(file.fileno())


@cache
def load_usearch_class() -> Any:
    """Return usearch's index class; importing it takes 0.1 s, which only a server spends."""
    from usearch.index import Index

    return Index


def is_usearch_loaded() -> bool:
    """Whether this process compares vectors with usearch."""
    return load_usearch_class.cache_info().currsize > 0


def add_segment(
    folder: Path, new_packs: Sequence[tuple[int, bytes]], sealed_names: Iterable[str]
) -> None:
    """Write packed vectors to a new segment file, merged with files that are not much larger.

    Args:
        folder: of segment files.
        new_packs: packed vectors of documents, in order of numbers.
        sealed_names: the segment files that are in use, which may be merged.
    """
    if not new_packs:
        return
    folder.mkdir(exist_ok=True)
    parts = [unpack_documents(new_packs)]
    row_count = len(parts[0].rows)
    merged_paths: list[Path] = []
    sealed_paths = [folder / Path(name).name for name in sealed_names]
    for path in sorted(sealed_paths, reverse=True):
        part = read_segment(path)
        if len(part.rows) >= MERGE_RATIO * row_count:
            break
        parts.append(part)
        row_count += len(part.rows)
        merged_paths.append(path)
    used_numbers = [int(path.stem) for path in folder.glob("*.rows")]
    number = max(used_numbers, default=0) + 1
    temporary = folder / f"{number:08d}.tmp"
    write_segment(temporary, merge_vectors(parts))
    temporary.replace(temporary.with_suffix(".rows"))
    for path in merged_paths:
        path.unlink()
        path.with_suffix(".usearch").unlink(missing_ok=True)


def write_usearch_indexes(folder: Path) -> None:
    """Write the missing usearch indexes of the segment files in a folder."""
    load_usearch_class()
    for path in sorted(folder.glob("*.rows")):
        index_path = path.with_suffix(".usearch")
        if not index_path.exists():
            temporary = path.with_suffix(".tmp")
            write_usearch_index(path, temporary)
            temporary.replace(index_path)


def write_usearch_index(segment: Path, target: Path) -> None:
    """Write the usearch index of a segment file."""
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
    """Map a usearch index into memory. Raises IndexDamaged."""
    index = load_usearch_class().restore(str(path), view=True)
    if index is None:
        raise IndexDamaged(f"{path.name} cannot be read")
    return index


class _PartQuery:
    """A query against one set of vectors, which compares all of its rows."""

    def __init__(self, part: VectorSet, query: Floats) -> None:
        self.part = part
        self._cosines = compute_nearest_cosines(part, query)

    def compute_cosines(self, positions: Integers) -> Floats:
        """Return for some documents the cosine of the passage nearest to the query."""
        return self._cosines[positions]

    def find_nearest(self, count: int) -> Integers:
        """Return the positions of the `count` nearest documents, in any order."""
        if count >= len(self._cosines):
            return np.arange(len(self._cosines))
        return self._cosines.argpartition(-count)[-count:]


class _IndexedPartQuery(_PartQuery):
    """A query against one set of vectors that has a usearch index."""

    def __init__(self, part: VectorSet, index: Any, query: Floats) -> None:
        self.part = part
        self._index = index
        self._query = query

    def compute_cosines(self, positions: Integers) -> Floats:
        """Return for some documents the cosine of the passage nearest to the query."""
        part = self.part
        counts = part.starts[positions + 1] - part.starts[positions]
        rows = _build_ranges(part.starts[positions], counts)
        scores = (part.rows[rows].astype(np.float32) @ self._query) * part.scales[rows]
        return _compute_maxima(scores, counts)

    def find_nearest(self, count: int) -> Integers:
        """Return the positions of more than `count` near documents, as usearch rounds the query."""
        quantized, _ = quantize_rows(self._query[None])
        row_count = _ROWS_PER_DOCUMENT * count + 100
        matches = self._index.search(quantized[0], row_count, exact=True, threads=1)
        rows = matches.keys.astype(np.int64)
        positions = np.searchsorted(self.part.starts, rows, "right") - 1
        return np.array(sorted(set(positions.tolist())), dtype=np.int64)


def _compute_maxima(scores: Floats, counts: Integers) -> Floats:
    """Return the highest of `counts[i]` consecutive scores for each i."""
    if not len(scores):
        return scores
    starts = np.cumsum(counts) - counts
    maxima: Floats = np.maximum.reduceat(scores, starts)
    return maxima


class Ranking:
    """One query against some parts, each with its usearch index, if it has one."""

    def __init__(
        self, parts: Sequence[tuple[VectorSet, Any]], query: Floats, table: EmbeddingTable
    ) -> None:
        self._query = query
        self.table = table
        self._part_queries: list[_PartQuery] = []
        for part, index in parts:
            if index is None:
                self._part_queries.append(_PartQuery(part, query))
            else:
                self._part_queries.append(_IndexedPartQuery(part, index, query))

    def find_nearest(self, count: int) -> list[int]:
        """Return the keys of the nearest documents, nearest first."""
        cosines: dict[int, float] = {}
        for part_query in self._part_queries:
            positions = part_query.find_nearest(count)
            values = part_query.compute_cosines(positions)
            cosines.update(_map_keys(part_query.part, positions, values.tolist()))
        nearest = sorted(cosines, key=cosines.__getitem__, reverse=True)
        return nearest[:count]

    def compute_cosines(
        self, keys: Iterable[int], title: Floats | None = None
    ) -> dict[int, tuple[float, float]]:
        """Return for each key with vectors the cosines of its best passage and of its title.

        `title`: the vector to compare titles with; None for that of the query.
        """
        key_set = set(keys)
        heading = self._query if title is None else title
        cosines: dict[int, tuple[float, float]] = {}
        for part_query in self._part_queries:
            part = part_query.part
            positions = find_positions(part, key_set)
            text_cosines = part_query.compute_cosines(positions)
            title_rows = part.titles[positions].astype(np.float32)
            title_cosines = (title_rows @ heading) * part.title_scales[positions]
            pairs = list(zip(text_cosines.tolist(), title_cosines.tolist(), strict=True))
            cosines.update(_map_keys(part, positions, pairs))
        return cosines

    def compute_word_matches(
        self, keys: Iterable[int], words: Mapping[str, float], alike: Iterable[Alternative] = ()
    ) -> dict[int, float]:
        """Return how well each document has the words of a query or words of like meaning.

        Args:
            keys: of documents.
            words: of the query, each with its weight.
            alike: synonyms of the words.
        """
        key_set = set(keys)
        query_tokens = self.table.build_query_tokens(words, alike)
        word_matches: dict[int, float] = {}
        for part_query in self._part_queries:
            part = part_query.part
            positions = find_positions(part, key_set)
            values = compute_word_matches(part, positions, self.table, query_tokens)
            word_matches.update(_map_keys(part, positions, values.tolist()))
        return word_matches

    def iter_neighbours(
        self, queries: Floats, texts: Sequence[str], keys: Iterable[int], count: int
    ) -> Iterator[list[tuple[int, tuple[float, float, float]]]]:
        """Yield for each of many queries the nearest documents, with three scores.

        The scores are the cosines of its best passage and of its title, and how well it has the
        words of the text that the query was made of. Only documents with one of `keys` are found.
        """
        parts = [part_query.part for part_query in self._part_queries]
        part = merge_vectors(parts or [unpack_documents(())], keys)
        if not len(part.keys):
            for _ in texts:
                yield []
            return
        limit = min(count, len(part.keys))
        for begin in range(0, len(texts), _QUERY_BATCH):
            columns = queries[begin : begin + _QUERY_BATCH].T
            row_cosines = multiply_rows(part.rows, columns) * part.scales[:, None]
            text_cosines = np.maximum.reduceat(row_cosines, part.starts[:-1])
            title_cosines = multiply_rows(part.titles, columns) * part.title_scales[:, None]
            nearest_positions = np.argpartition(-text_cosines, limit - 1, axis=0)[:limit]
            for column, positions in enumerate(nearest_positions.T):
                text_scores = text_cosines[positions, column]
                title_scores = title_cosines[positions, column]
                word_scores = self._match_text(part, positions, texts[begin + column])
                scores = np.stack([text_scores, title_scores, word_scores], axis=1)
                score_rows = [tuple(row) for row in scores.tolist()]
                yield list(_map_keys(part, positions, score_rows).items())

    def _match_text(self, part: VectorSet, positions: Integers, text: str) -> Floats:
        """Return how well some documents have the words of a text."""
        words = dict.fromkeys(text.split(), 1.0)
        query_tokens = self.table.build_query_tokens(words)
        return compute_word_matches(part, positions, self.table, query_tokens)


def _map_keys(part: VectorSet, positions: Integers, values: Sequence[_Value]) -> dict[int, _Value]:
    """Return the values of documents at some positions by key."""
    keys = part.keys[positions].tolist()
    return dict(zip(keys, values, strict=True))


def compute_nearest_cosines(part: VectorSet, query: Floats) -> Floats:
    """Return for each document the cosine of its passage nearest to the query."""
    products = multiply_rows(part.rows, query[:, None])[:, 0]
    cosines: Floats = products * part.scales
    if len(cosines):
        cosines = np.maximum.reduceat(cosines, part.starts[:-1])
    return cosines


def compute_word_matches(
    part: VectorSet, positions: Integers, table: EmbeddingTable, query_tokens: QueryTokens
) -> Floats:
    """Return how well the best passage of some documents has the tokens of a query.

    Each token of the query counts as much as the nearest token of the passage is like it.
    """
    counts = part.starts[positions + 1] - part.starts[positions]
    rows = _build_ranges(part.starts[positions], counts)
    lengths = part.token_starts[rows + 1] - part.token_starts[rows]
    tokens = part.tokens[_build_ranges(part.token_starts[rows], lengths)]
    row_matches = np.zeros(len(rows), dtype=np.float32)
    if len(tokens) and len(query_tokens.weights):
        cosines = table.compute_token_cosines(tokens, query_tokens)
        has_tokens = lengths > 0
        begins = (np.cumsum(lengths) - lengths)[has_tokens]
        best_cosines = np.maximum.reduceat(cosines, begins)
        row_matches[has_tokens] = best_cosines @ query_tokens.weights
    return _compute_maxima(row_matches, counts)
