"""Finding by meaning: the only module that knows usearch, and the door to `rows`.

Rule: a vector belongs to content, not to a path. Segments are immutable files of rows filed under the blob they were
made from, so switching branches embeds nothing again; rows of content that is in no file any more are ignored and,
once old, dropped when segments are merged. Up to GRAPH_ROWS all are compared; a larger segment has a graph beside it,
made by the writer.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from filemem.index.embed import Embedder, Wording, let_go, limit_threads
from filemem.index.generation import VECTORS, Generation, IndexDamaged

if TYPE_CHECKING:
    from filemem.index.rows import Floats, Integers, Rows

GRAPH_ROWS = 60_000  # comparing 40,000 rows takes 4 ms; making their graph takes 10 s, more than all else of a rebuild
ALWAYS_GRAPH_ROWS = 200_000  # beyond this even a single query is worth importing usearch
_STRIPE = 4096  # rows added to a graph at a time

Mark = tuple[str, int]  # name and inode of a sealed file: generations share files, and a damaged one is made anew


class Segments:
    """The segments that a process has open; kept from one generation to the next, as most of them are the same."""

    def __init__(self) -> None:
        self._rows: dict[Mark, Rows] = {}
        self._graphs: dict[Mark, Any] = {}
        self._known: set[tuple[str, int, int]] = set()

    def rank(self, generation: Generation, query: Floats, with_graphs: bool) -> Ranking:
        """Return the documents of a generation in order of likeness to a query vector.

        Args:
            with_graphs: whether graphs are worth opening; if not, all rows are compared unless they are very many.

        Raises:
            IndexDamaged: a file differs from its checksum, or the rows are not of the query's size.
        """
        from filemem.index import rows

        generation.check(VECTORS, self._known)
        sealed = {name: _mark(generation, name) for name in generation.seal.files if name.startswith(VECTORS)}
        self._forget(set(sealed.values()))
        parts: list[_Exhaustive | _Approximate] = []
        for name, mark in sorted(sealed.items()):
            if not name.endswith(rows.SEGMENT):
                continue
            if mark not in self._rows:
                self._rows[mark] = rows.read(generation.folder / name)
            part = self._rows[mark]
            if part.rows.shape[1] != len(query):
                raise IndexDamaged(f"{name} holds vectors of another model")
            graph = sealed.get(name.removesuffix(rows.SEGMENT) + rows.GRAPH)
            if graph is None or not (with_graphs or len(part.rows) > ALWAYS_GRAPH_ROWS):
                parts.append(_Exhaustive(part, query))
                continue
            if graph not in self._graphs:
                self._graphs[graph] = _open_graph(generation.folder / graph[0], len(query))
            parts.append(_Approximate(part, query, self._graphs[graph]))
        return Ranking(parts)

    def rest(self) -> None:
        """Let go of memory that the next query can read again from the files."""
        for part in self._rows.values():
            let_go(part.rows)

    def _forget(self, current: set[Mark]) -> None:
        for opened in (self._rows, self._graphs):
            for mark in opened.keys() - current:
                del opened[mark]


def _mark(generation: Generation, name: str) -> Mark:
    try:
        return name, (generation.folder / name).stat().st_ino
    except OSError:
        raise IndexDamaged(f"{generation.folder.name}/{name} is gone") from None


def rank_rows(part: Rows, query: Floats) -> Ranking:
    """Return the documents of a part in order of likeness."""
    return Ranking([_Exhaustive(part, query)])


class Likeness(NamedTuple):
    """How near a document is to a query: its best passage, and its title."""

    passage: float
    title: float


class Ranking:
    """One query against all parts; see `Segments.rank`."""

    def __init__(self, parts: Sequence[_Exhaustive | _Approximate]) -> None:
        self._parts = parts

    def first(self, count: int) -> tuple[list[int], bool]:
        """Return the keys of the nearest documents, nearest first, and whether there are no others."""
        best: dict[int, float] = {}
        complete = True
        for part in self._parts:
            found, all_of_it = part.first(count)
            best.update(found)
            complete = complete and all_of_it
        return sorted(best, key=best.__getitem__, reverse=True)[:count], complete and len(best) <= count

    def nearest_of(self, keys: Iterable[int], count: int) -> list[int]:
        """Return the nearest of some documents, nearest first; those without vectors are left out."""
        wanted = list(keys)
        best: dict[int, float] = {}
        for part in self._parts:
            at = part.find(wanted)
            best.update(zip(part.keys[at].tolist(), part.passages(at).tolist(), strict=True))
        return sorted(best, key=best.__getitem__, reverse=True)[:count]

    def likeness(self, keys: Iterable[int]) -> dict[int, Likeness]:
        """Return the exact likeness of each of the keys that has vectors."""
        wanted = list(keys)
        found: dict[int, Likeness] = {}
        for part in self._parts:
            at = part.find(wanted)
            values = map(Likeness, part.passages(at).tolist(), part.titles(at).tolist())
            found.update(zip(part.keys[at].tolist(), values, strict=True))
        return found

    def wording(self, keys: Iterable[int], asked: Wording) -> dict[int, float]:
        """Return how well each of the keys that has tokens meets the words of the query."""
        from filemem.index import rows

        wanted = list(keys)
        found: dict[int, float] = {}
        for part in self._parts:
            at = part.find(wanted)
            if len(at):
                found.update(zip(part.keys[at].tolist(), rows.wording(part.rows, asked, at).tolist(), strict=True))
        return found


class _Part:
    """A query against one part."""

    def __init__(self, part: Rows, query: Floats) -> None:
        self._part, self._query = part, query
        self.rows, self.keys = part, part.keys

    def find(self, keys: Sequence[int]) -> Integers:
        from filemem.index import rows

        return rows.find(self._part, keys)

    def passages(self, at: Integers) -> Floats:
        from filemem.index import rows

        return rows.best_of(self._part, self._query, at)

    def titles(self, at: Integers) -> Floats:
        from filemem.index import rows

        return rows.title_scores(self._part, self._query, at)


class _Exhaustive(_Part):
    """Compares a query with every row of a part."""

    _best: Floats | None = None

    def first(self, count: int) -> tuple[dict[int, float], bool]:
        """Return the nearest documents with their cosines, and whether those are all."""
        import numpy as np

        from filemem.index import rows

        if self._best is None:
            self._best = rows.best_rows(self._part, self._query)
        best = self._best
        order = np.argpartition(best, -count)[-count:] if count < len(best) else np.arange(len(best))
        return dict(zip(self.keys[order].tolist(), best[order].tolist(), strict=True)), count >= len(best)

    def passages(self, at: Integers) -> Floats:
        return super().passages(at) if self._best is None else self._best[at]


class _Approximate(_Part):
    """Asks the graph of a part for the nearest rows."""

    def __init__(self, part: Rows, query: Floats, graph: Any) -> None:
        super().__init__(part, query)
        self._graph = graph

    def first(self, count: int) -> tuple[dict[int, float], bool]:
        """Return the documents that seem nearest, and whether those are all."""
        import numpy as np

        total = len(self._part.rows)
        asked = min(total, 2 * count)
        while True:
            matches = self._graph.search(self._query, asked)
            owners = np.searchsorted(self._part.starts, matches.keys.astype(np.int64), side="right") - 1
            best: dict[int, float] = {}
            for key, distance in zip(self.keys[owners].tolist(), matches.distances.tolist(), strict=True):
                best.setdefault(key, 1.0 - distance)
            if len(best) >= count or asked >= total:
                return best, asked >= total
            asked = min(total, 4 * asked)


# reading and writing


def read_segments(folder: Path) -> list[Rows]:
    """Map the segments of a staged generation.

    Raises:
        IndexDamaged: one is not what it should be.
    """
    limit_threads()
    from filemem.index import rows

    return [rows.read(path) for path in sorted(folder.glob(f"*{rows.SEGMENT}"))]


def embed(texts: Iterable[tuple[int, str, tuple[str, ...]]], model: Embedder, day: int = 0) -> Rows:
    """See `rows.embed`; texts are (key, title, passages)."""
    limit_threads()
    from filemem.index import rows

    return rows.embed((rows.Texts(*each) for each in texts), model, day)


def merged(parts: Sequence[Rows], keys: Collection[int]) -> Rows:
    """See `rows.merged`."""
    from filemem.index import rows

    return rows.merged(parts, keys)


def missing(parts: Iterable[Rows], keys: Iterable[int]) -> set[int]:
    """See `rows.missing`."""
    from filemem.index import rows

    return rows.missing(parts, keys)


def write_segment(folder: Path, new: Sequence[Rows], living: Iterable[int] | None, day: int) -> None:
    """See `rows.write`; a large segment gets its graph."""
    from filemem.index import rows

    written = rows.write(folder, new, living, day)
    if written and len(written[1].rows) > GRAPH_ROWS:
        _write_graph(written[0].with_suffix(rows.GRAPH), written[1])


def _open_graph(path: Path, dim: int) -> Any:
    limit_threads()
    from usearch.index import Index

    graph = Index(ndim=dim, metric="cos", dtype="f16")
    try:
        graph.view(str(path))
    except (RuntimeError, ValueError, OSError) as error:
        raise IndexDamaged(f"{path.name} cannot be read") from error
    return graph


def _write_graph(path: Path, part: Rows) -> None:
    """Build the graph of a segment; its folder is private until sealed, so a half-written one is never seen."""
    import numpy as np
    from usearch.index import Index

    graph = Index(ndim=part.rows.shape[1], metric="cos", dtype="f16")
    for at in range(0, len(part.rows), _STRIPE):
        rows = part.rows[at : at + _STRIPE].astype(np.float32) * part.scales[at : at + _STRIPE, None]
        graph.add(np.arange(at, at + len(rows), dtype=np.uint64), rows, threads=1)
    graph.save(str(path))
    with path.open("rb") as file:
        os.fsync(file.fileno())
