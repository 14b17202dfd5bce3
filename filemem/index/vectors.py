"""Meaning: vectors made, kept, and compared with a query. The only module that knows usearch.

Rule: a vector belongs to content, not to a path. Segments are files that are written once, of rows filed under the blob
they were made from, so switching branches embeds nothing again. A missing or foreign model never fails a search: it
raises `ModelUnavailable`, whose message the answer carries. numpy costs more than a keyword search: imported at need.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from filemem.index.document import Doc, clean, key
from filemem.index.embed import (
    BundledModel,
    Embedder,
    ModelUnavailable,
    Rows,
    Wording,
    embed,
    let_go,
    limit_threads,
    starts_of,
)
from filemem.index.fresh import VECTORS, IndexDamaged, Seal, compare, mark

if TYPE_CHECKING:
    from filemem.index.embed import Floats, Integers

SEGMENT, GRAPH = ".rows", ".graph"
GRAPH_ROWS = 200_000  # up to this all rows are compared, which takes 20 ms; a larger segment has a graph beside it
MERGE_RATIO = 4  # a segment is merged into the one before it unless that is this much larger
MOSTLY_DEAD = 3  # what no file has is dropped where it is this often as many as all
REBUILD = "run `filemem index`"  # what to do about vectors that are missing
_STRIPE = 4096  # rows converted to float at a time: what stays in the processor's cache


# comparing


def best_rows(part: Rows, query: Floats) -> Floats:
    """Return for each document the cosine of its passage nearest to the query."""
    import numpy as np

    scores = np.empty(len(part.rows), dtype=np.float32)
    for at in range(0, len(scores), _STRIPE):
        stripe = slice(at, at + _STRIPE)
        scores[stripe] = part.rows[stripe].astype(np.float32) @ query
    scores *= part.scales
    best: Floats = np.maximum.reduceat(scores, part.starts[:-1]) if len(scores) else scores
    return best


def places(part: Rows, keys: Sequence[int]) -> Integers:
    """Return where those of the keys that the part has stand in it."""
    import numpy as np

    if not len(part.keys):
        return np.zeros(0, dtype=np.int64)
    wanted = np.array(sorted(set(keys)), dtype=np.int64)  # not np.unique, which imports numpy.ma: a tenth of numpy
    at = np.minimum(np.searchsorted(part.keys, wanted), len(part.keys) - 1)
    found: Integers = at[part.keys[at] == wanted]
    return found


def best_of(part: Rows, query: Floats, at: Integers) -> Floats:
    """Return the same for the documents at some places alone."""
    import numpy as np

    counts = part.starts[at + 1] - part.starts[at]
    begins = np.cumsum(counts) - counts
    rows = _ranges(part.starts[at], counts)
    scores = (part.rows[rows].astype(np.float32) @ query) * part.scales[rows]
    best: Floats = np.maximum.reduceat(scores, begins) if len(scores) else scores
    return best


def wording(part: Rows, asked: Wording, at: Integers) -> Floats:
    """Return how well the words of a query are met, each by its nearest token, in the best passage of some documents.

    Each different token is compared once, however often it stands.
    """
    import numpy as np

    counts = part.starts[at + 1] - part.starts[at]
    own = _ranges(part.starts[at], counts)
    lengths = part.token_starts[own + 1] - part.token_starts[own]
    tokens = part.tokens[_ranges(part.token_starts[own], lengths)]
    met = np.zeros(len(own), dtype=np.float32)
    if len(tokens) and len(asked.weights):
        seen = np.zeros(1 << 16, dtype=np.bool_)
        seen[tokens] = True
        different = np.flatnonzero(seen)
        place = np.empty(1 << 16, dtype=np.int32)
        place[different] = np.arange(len(different), dtype=np.int32)
        near = asked.nearness(different)[place[tokens]]
        begins = (np.cumsum(lengths) - lengths)[lengths > 0]
        met[lengths > 0] = np.maximum.reduceat(near, begins) @ asked.weights
    best: Floats = np.maximum.reduceat(met, np.cumsum(counts) - counts) if len(met) else met
    return best


def _ranges(starts: Integers, counts: Integers) -> Integers:
    """Return the numbers from each start on, as many as each count says, one after the other."""
    import numpy as np

    ends = np.cumsum(counts)
    found: Integers = np.repeat(starts - ends + counts, counts) + np.arange(int(ends[-1]) if len(ends) else 0)
    return found


# making


def missing(parts: Iterable[Rows], keys: Iterable[int]) -> set[int]:
    """Return the keys that no part has vectors for."""
    left = set(keys)
    for part in parts:
        left.difference_update(part.keys[places(part, list(left))].tolist())
    return left


def merged(parts: Sequence[Rows], keys: Iterable[int] | None = None) -> Rows:
    """Return all documents of some parts, one at least, as one part sorted by key; only those with one of `keys`."""
    import numpy as np

    counts = np.concatenate([np.diff(part.starts) for part in parts])
    sums = np.cumsum([0, *(len(part.rows) for part in parts)])
    begins = np.concatenate([part.starts[:-1] + before for part, before in zip(parts, sums[:-1], strict=True)])
    joined = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("keys", "rows", "scales", "titles", "title_scales", "tokens")
    }
    joined["token_starts"] = starts_of(np.concatenate([np.diff(part.token_starts) for part in parts]))
    order = np.argsort(joined["keys"], kind="stable")
    ordered = joined["keys"][order]
    order = order[np.append(True, ordered[1:] != ordered[:-1])[: len(order)]]  # each once, without np.unique
    if keys is not None:
        wanted = set(keys)
        order = order[np.array([each in wanted for each in joined["keys"][order].tolist()], dtype=np.bool_)]
    own = counts[order]
    rows = _ranges(begins[order], own)
    lengths = np.diff(joined["token_starts"])[rows]
    return Rows(
        starts=starts_of(own),
        token_starts=starts_of(lengths),
        tokens=joined["tokens"][_ranges(joined["token_starts"][:-1][rows], lengths)],
        **{name: joined[name][order] for name in ("keys", "titles", "title_scales")},
        **{name: joined[name][rows] for name in ("rows", "scales")},
    )


# files


def read(path: Path) -> Rows:
    """Map a segment into memory; raises `IndexDamaged`."""
    limit_threads()
    import numpy as np
    from numpy.lib import format as layout

    try:
        data = np.memmap(path, dtype=np.uint8, mode="r")
        arrays = []
        with path.open("rb") as file:
            for _ in Rows._fields:
                layout.read_magic(file)
                shape, _, kind = layout.read_array_header_1_0(file)
                size = int(np.prod(shape))
                arrays.append(np.frombuffer(data, kind, size, file.tell()).reshape(shape))
                file.seek(size * kind.itemsize, io.SEEK_CUR)
        return Rows(*arrays)
    except (OSError, ValueError, TypeError) as error:
        raise IndexDamaged(f"{path.name} cannot be read") from error


def segments(folder: Path) -> list[Path]:
    """Return the segments of a folder, oldest first."""
    return sorted(path for path in folder.iterdir() if path.suffix == SEGMENT)


def write(folder: Path, new: Sequence[Rows], living: Iterable[int] = ()) -> None:
    """Add a segment of new content to a folder that nobody reads yet, and merge what has become too many.

    `living` are the keys of all content in the tree.
    """
    import numpy as np

    there = segments(folder)
    number = 1 + max((int(path.stem) for path in there), default=0)
    joined = [part for part in new if len(part.keys)]
    wanted: set[int] = set()
    while there and joined:
        part = read(there[-1])
        if len(part.rows) >= MERGE_RATIO * sum(len(each.rows) for each in joined):
            break
        joined.append(part)
        wanted = set(living)
        there[-1].with_suffix(GRAPH).unlink(missing_ok=True)
        there.pop().unlink()
    if not joined:
        return
    dead = wanted and sum(len(part.keys) for part in joined) > MOSTLY_DEAD * len(wanted)
    result = merged(joined, wanted if dead else None)
    path = folder / f"{number:08d}{SEGMENT}"
    with path.open("wb") as file:
        for array in result:
            np.save(file, array)
        file.flush()
        os.fsync(file.fileno())
    if len(result.rows) > GRAPH_ROWS:
        _write_graph(path.with_suffix(GRAPH), result)


def _open_graph(path: Path, dim: int) -> Any:
    from usearch.index import Index

    graph = Index(ndim=dim, metric="cos", dtype="f16")
    try:
        graph.view(str(path))
    except (RuntimeError, ValueError, OSError) as error:
        raise IndexDamaged(f"{path.name} cannot be read") from error
    return graph


def _write_graph(path: Path, part: Rows) -> None:
    import numpy as np
    from usearch.index import Index

    graph = Index(ndim=part.rows.shape[1], metric="cos", dtype="f16")
    for at in range(0, len(part.rows), _STRIPE):
        rows = part.rows[at : at + _STRIPE].astype(np.float32) * part.scales[at : at + _STRIPE, None]
        graph.add(np.arange(at, at + len(rows), dtype=np.uint64), rows, threads=1)
    graph.save(str(path))
    with path.open("rb") as file:
        os.fsync(file.fileno())


# questions


class Ranking:
    """One query against some parts, each with its graph where it is too large to be compared whole."""

    def __init__(self, parts: Sequence[tuple[Rows, Any]], query: Floats) -> None:
        self._parts, self._query = parts, query
        self._best: dict[int, Floats] = {}  # of the parts that were compared whole

    def first(self, count: int) -> tuple[list[int], bool]:
        """Return the keys of the nearest documents, nearest first, and whether there are no others."""
        best: dict[int, float] = {}
        for at, (part, graph) in enumerate(self._parts):
            if graph is None:
                self._best[at] = near = self._best[at] if at in self._best else best_rows(part, self._query)
                order = near.argpartition(-count)[-count:] if count < len(near) else slice(None)
                best.update(zip(part.keys[order].tolist(), near[order].tolist(), strict=True))
            else:  # several rows may be of one document
                matches = graph.search(self._query, min(len(part.rows), 4 * count))
                owners = part.starts.searchsorted(matches.keys.astype("int64"), side="right") - 1
                for number, distance in zip(part.keys[owners].tolist(), matches.distances.tolist(), strict=True):
                    best.setdefault(number, 1.0 - distance)
        complete = count >= sum(len(part.rows) for part, _ in self._parts)
        return sorted(best, key=best.__getitem__, reverse=True)[:count], complete

    def likeness(self, keys: Iterable[int]) -> dict[int, tuple[float, float]]:
        """Return how near those of the keys that have vectors are: the cosine of the best passage, and of the title."""
        wanted = list(keys)
        found: dict[int, tuple[float, float]] = {}
        for number, (part, _) in enumerate(self._parts):
            at = places(part, wanted)
            best = self._best[number][at] if number in self._best else best_of(part, self._query, at)
            titles = (part.titles[at].astype("float32") @ self._query) * part.title_scales[at]
            found.update(zip(part.keys[at].tolist(), zip(best.tolist(), titles.tolist(), strict=True), strict=True))
        return found

    def wording(self, keys: Iterable[int], asked: Wording) -> dict[int, float]:
        """Return how well each of the keys that has tokens meets the words of the query."""
        wanted = list(keys)
        found: dict[int, float] = {}
        for part, _ in self._parts:
            at = places(part, wanted)
            found.update(zip(part.keys[at].tolist(), wording(part, asked, at).tolist(), strict=True))
        return found


class Meaning:
    """The embedder, and the vectors that a process has open: most files of one generation are in the next too.

    Args:
        model: None where none is wanted.
    """

    def __init__(self, model: Embedder | None) -> None:
        self.model = model
        self._one_at_a_time = Lock()
        self._open: dict[tuple[str, int], tuple[Rows, Any]] = {}  # by name and inode: a damaged file is made anew
        self._made: list[Rows] = []  # of what waited when last asked

    def rank(self, text: str, root: Path, seal: Seal, waiting: Sequence[Doc]) -> Ranking:
        """Return how near documents are to a text, those of a generation and those that wait.

        Raises `ModelUnavailable`, whose message says why they can not be compared, and `IndexDamaged`.
        """
        with self._one_at_a_time:
            model, query = self._encoded(text, seal)
            if not query.any():
                raise ModelUnavailable("the embedding model knows no word of the query")
            parts = list(self._segments(root, seal, len(query)))
            if waiting:
                parts.append((self._rows_of(waiting, model), None))
            return Ranking(parts, query)

    def wording(self, words: Mapping[str, float]) -> Wording | None:
        """Return the words of a query, each with its weight, ready to be looked for; None where the model cannot."""
        plain = {clean(word): weight for word, weight in words.items()}
        return self.model.wording(plain) if isinstance(self.model, BundledModel) else None

    def telling(self, words: Sequence[str]) -> Mapping[str, float]:
        """Return how much each of some words tells in any text, 0..1; nothing where the model cannot say."""
        return self.model.telling({word: clean(word) for word in words}) if isinstance(self.model, BundledModel) else {}

    def lacks(self, seal: Seal) -> str:
        """Return why no text can be compared with a generation's documents and what to do, or ""; asks the model."""
        try:
            self._encoded("memory", seal)
        except ModelUnavailable as error:
            return error.told
        return ""

    def rest(self) -> None:
        """Let go of memory that the next query can read again from the files."""
        with self._one_at_a_time:
            for rows, _ in self._open.values():
                let_go(rows.rows)
            if isinstance(self.model, BundledModel):
                self.model.rest()

    def _segments(self, root: Path, seal: Seal, dim: int = 0) -> Iterable[tuple[Rows, Any]]:
        """The vectors of a generation, each part with its graph."""
        names = sorted(name for name in seal.files if name.startswith(VECTORS) and name.endswith(SEGMENT))
        paths = {name: root / seal.name / name for name in names}
        marks = {(name, inode): path for name, path in paths.items() for inode in mark(path)[:1] or [0]}
        if marks.keys() - self._open.keys():
            compare(root, seal, VECTORS)
        self._open = {each: self._open.get(each) or _opened(path) for each, path in marks.items()}
        if dim and any(rows.rows.shape[1] != dim for rows, _ in self._open.values()):
            raise IndexDamaged("it holds vectors of another model")
        return self._open.values()

    def _encoded(self, text: str, seal: Seal) -> tuple[Embedder, Floats]:
        """The model is asked before its name is compared: an index cannot be rebuilt for one that is not there."""
        if self.model is None:
            raise ModelUnavailable("no embedding model is configured")
        query = self.model.encode([clean(text)])[0]
        if seal.docs and seal.model != self.model.name:
            made = f"come from the model {seal.model}" if seal.model else "are not made yet"
            raise ModelUnavailable(f"the vectors {made}; the index must be rebuilt for {self.model.name}", REBUILD)
        return self.model, query

    def _rows_of(self, waiting: Sequence[Doc], model: Embedder) -> Rows:
        """The vectors of what waits: each is embedded once, and all are one part, as each part costs time."""
        docs = {key(doc.blob): doc for doc in waiting}
        if len(self._made) != 1 or set(self._made[0].keys.tolist()) != docs.keys():
            new = [docs[number] for number in missing(self._made, docs)]
            self._made = [merged([*self._made, *([embed(new, model)] if new else [])], docs)]
        return self._made[0]


def _opened(path: Path) -> tuple[Rows, Any]:
    rows, graph = read(path), path.with_suffix(GRAPH)
    return rows, _open_graph(graph, rows.rows.shape[1]) if graph.exists() else None
