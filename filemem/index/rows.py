"""Vectors as arrays: segments read, written and merged, documents compared with a query. Pure but for its files.

Rule: `vector` imports this module at first need, because numpy costs more than a whole keyword search.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from filemem.index.embed import BundledModel, Embedder, Wording
from filemem.index.generation import IndexDamaged
from filemem.index.reading import clean

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]
    Integers = npt.NDArray[np.int64]

SEGMENT, GRAPH = ".rows", ".graph"
MERGE_RATIO = 4  # a segment is merged into the one before it unless that is this much larger
KEEP_DAYS = 30  # rows of vanished content that are younger are kept when segments are merged
_ALIGN = 64
_STRIPE = 4096  # rows converted to float at a time: what stays in the processor's cache
_BATCH = 256  # texts embedded at a time


class Rows(NamedTuple):
    """What one process holds of one segment, or of the pending records.

    Args:
        keys: sorted; document i has the rows from starts[i] to starts[i + 1], at least one.
        days: when each was made (days since 1970).
        rows, scales: int8 passages and what to multiply each with to get a vector of length 1.
        titles, title_scales: the same for the one title of each document.
        tokens: what the rows were made of, one row after the other; none where the model does not tell.
        token_starts: row i has the tokens from token_starts[i] to token_starts[i + 1].
    """

    keys: Integers
    starts: Integers
    days: Integers
    rows: npt.NDArray[np.int8]
    scales: Floats
    titles: npt.NDArray[np.int8]
    title_scales: Floats
    tokens: npt.NDArray[np.uint16]
    token_starts: Integers


class Texts(NamedTuple):
    """What is to be embedded of one document: its title and its passages, filed under `key`."""

    key: int
    title: str
    passages: tuple[str, ...]


# reading


def read(path: Path) -> Rows:
    try:
        data = np.memmap(path, dtype=np.uint8, mode="r")
        size = int.from_bytes(data[:8].tobytes(), "little")
        layout: dict[str, tuple[int, str, list[int]]] = json.loads(data[8 : 8 + size].tobytes())
        arrays = {
            name: np.frombuffer(data, dtype=kind, count=int(np.prod(shape)), offset=offset).reshape(shape)
            for name, (offset, kind, shape) in layout.items()
        }
    except (OSError, ValueError, TypeError) as error:
        raise IndexDamaged(f"{path.name} cannot be read") from error
    try:
        return Rows(**arrays)
    except TypeError:
        raise IndexDamaged(f"{path.name} holds something else than vectors") from None


def best_rows(part: Rows, query: Floats) -> Floats:
    """Return for each document the cosine of its passage nearest to the query."""
    scores = np.empty(len(part.rows), dtype=np.float32)
    for at in range(0, len(scores), _STRIPE):
        stripe = slice(at, at + _STRIPE)
        scores[stripe] = part.rows[stripe].astype(np.float32) @ query
    scores *= part.scales
    best: Floats = np.maximum.reduceat(scores, part.starts[:-1]) if len(scores) else scores
    return best


def find(part: Rows, keys: Sequence[int]) -> Integers:
    """Return where those of the keys that the part has stand in it."""
    if not len(part.keys):
        return np.zeros(0, dtype=np.int64)
    wanted = np.array(sorted(set(keys)), dtype=np.int64)  # not np.unique, which imports numpy.ma: a tenth of numpy
    at = np.minimum(np.searchsorted(part.keys, wanted), len(part.keys) - 1)
    found: Integers = at[part.keys[at] == wanted]
    return found


def best_of(part: Rows, query: Floats, at: Integers) -> Floats:
    """Return what `best_rows` would say of the documents at some places."""
    counts = part.starts[at + 1] - part.starts[at]
    begins = np.cumsum(counts) - counts
    rows = _ranges(part.starts[at], counts)
    scores = (part.rows[rows].astype(np.float32) @ query) * part.scales[rows]
    best: Floats = np.maximum.reduceat(scores, begins) if len(scores) else scores
    return best


def title_scores(part: Rows, query: Floats, at: Integers) -> Floats:
    """Return the cosines of the titles of the documents at some places."""
    scores: Floats = (part.titles[at].astype(np.float32) @ query) * part.title_scales[at]
    return scores


def wording(part: Rows, asked: Wording, at: Integers) -> Floats:
    """Return how well the words of a query are met, each by its nearest token, in the best passage of some documents.

    Each different token is compared once, however often it stands.
    """
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
    ends = np.cumsum(counts)
    found: Integers = np.repeat(starts - ends + counts, counts) + np.arange(int(ends[-1]) if len(ends) else 0)
    return found


# writing


def embed(texts: Iterable[Texts], model: Embedder, day: int = 0) -> Rows:
    """Return the vectors of documents, each key once.

    Args:
        day: today, in days since 1970.

    Raises:
        ModelUnavailable: see `Embedder`.
    """
    items = sorted({item.key: item for item in texts}.values(), key=lambda item: item.key)
    passages = [item.passages or (item.title,) for item in items]
    rows, scales, tokens, token_counts = _encoded([text for own in passages for text in own], model)
    titles, title_scales, _, _ = _encoded([item.title for item in items], model)
    return Rows(
        keys=np.array([item.key for item in items], dtype=np.int64),
        starts=np.cumsum([0, *(len(own) for own in passages)], dtype=np.int64),
        days=np.full(len(items), day, dtype=np.int64),
        rows=rows,
        scales=scales,
        titles=titles,
        title_scales=title_scales,
        tokens=tokens,
        token_starts=_starts(token_counts),
    )


def missing(parts: Iterable[Rows], keys: Iterable[int]) -> set[int]:
    """Return the keys that no part has vectors for."""
    left = np.unique(np.array(list(keys), dtype=np.int64))
    for part in parts:
        left = left[~np.isin(left, part.keys, assume_unique=True)]
    return set(left.tolist())


def merged(parts: Sequence[Rows], keys: Collection[int]) -> Rows:
    """Return the documents of some parts, one at least, that have one of the keys, as one part."""
    whole = _merge(parts)
    kept = [at for at, key in enumerate(whole.keys.tolist()) if key in keys]
    return whole if len(kept) == len(whole.keys) else _part(whole, np.array(kept, dtype=np.int64))


def write(folder: Path, new: Sequence[Rows], living: Iterable[int] | None, day: int) -> tuple[Path, Rows] | None:
    """Add a segment to a staged generation and merge what has become too many; return what was written, if anything.

    Args:
        folder: the staged vectors: links to the segments of the last generation.
        new: vectors of content that no segment has, in any number of parts.
        living: keys of all content in the tree, if what is dead and old is to be dropped while merging.
        day: today, in days since 1970.
    """
    names = sorted(entry.name for entry in os.scandir(folder) if entry.name.endswith(SEGMENT))
    number = 1 + max((int(Path(name).stem) for name in names), default=0)
    segments = [(name, read(folder / name)) for name in names]
    merged = [part for part in new if len(part.keys)]
    absorbed = False
    while segments and merged and len(segments[-1][1].rows) < MERGE_RATIO * sum(len(part.rows) for part in merged):
        absorbed = True
        name, part = segments.pop()
        merged.append(part)
        (folder / name).unlink()
        (folder / name).with_suffix(GRAPH).unlink(missing_ok=True)
    if not merged:
        return None
    result = _merge(merged)
    if absorbed and living is not None:
        result = _pruned(result, set(living), day)
    path = folder / f"{number:08d}{SEGMENT}"
    _write(path, result)
    return path, result


class _Encoded(NamedTuple):
    """Texts as int8 rows, the scales that bring each back to length 1, their tokens, and how many each has."""

    rows: npt.NDArray[np.int8]
    scales: Floats
    tokens: npt.NDArray[np.uint16]
    counts: Integers


def _encoded(texts: Sequence[str], model: Embedder) -> _Encoded:
    kept: list[npt.NDArray[np.int8]] = []
    factors: list[Floats] = []
    tokens = [np.zeros(0, dtype=np.uint16)]
    counts = [np.zeros(0, dtype=np.int64)]
    for at in range(0, max(1, len(texts)), _BATCH):
        batch = [clean(text) for text in texts[at : at + _BATCH]]
        if isinstance(model, BundledModel):
            rows, read = model.read(batch)
            tokens.append(read.ids)
            counts.append(read.counts)
        else:
            rows = model.encode(batch)
            counts.append(np.zeros(len(batch), dtype=np.int64))
        peak = np.maximum(np.abs(rows).max(axis=1, initial=0.0), 1e-9)
        small = np.rint(rows * (127 / peak)[:, None]).astype(np.int8)
        lengths = np.sqrt((small.astype(np.float32) ** 2).sum(axis=1))
        kept.append(small)
        factors.append(np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0))
    scales = np.concatenate(factors).astype(np.float32)
    return _Encoded(np.concatenate(kept), scales, np.concatenate(tokens), np.concatenate(counts))


def _merge(parts: Sequence[Rows]) -> Rows:
    """Return all documents of the parts as one, sorted by key."""
    if len(parts) == 1:
        return parts[0]
    counts = np.concatenate([np.diff(part.starts) for part in parts])
    sums = np.cumsum([0, *(len(part.rows) for part in parts)])
    begins = np.concatenate([part.starts[:-1] + before for part, before in zip(parts, sums[:-1], strict=True)])
    joined = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("keys", "days", "rows", "scales", "titles", "title_scales", "tokens")
    }
    joined["token_starts"] = _starts(np.concatenate([np.diff(part.token_starts) for part in parts]))
    order = np.argsort(joined["keys"], kind="stable")
    ordered = joined["keys"][order]
    order = order[np.append(True, ordered[1:] != ordered[:-1])]  # each once, without np.unique: see `find`
    return _selected(joined, begins, counts, order)


def _pruned(part: Rows, living: set[int], day: int) -> Rows:
    """Return a part without what is dead and old, if most of it is."""
    alive = np.isin(part.keys, np.fromiter(living, dtype=np.int64, count=len(living)))
    keep = alive | (part.days > day - KEEP_DAYS)
    if 2 * int(alive.sum()) > len(alive) or bool(keep.all()):
        return part
    return _part(part, np.flatnonzero(keep))


def _part(part: Rows, order: Integers) -> Rows:
    """Return the documents of a part at `order`."""
    return _selected(part._asdict(), part.starts[:-1], np.diff(part.starts), order)


def _selected(fields: Mapping[str, Any], begins: Integers, counts: Integers, order: Integers) -> Rows:
    """Return the documents at `order`, their rows brought along."""
    own = counts[order]
    rows = _ranges(begins[order], own)
    lengths = np.diff(fields["token_starts"])[rows]
    tokens = fields["tokens"][_ranges(fields["token_starts"][:-1][rows], lengths)]
    by_document = {name: fields[name][order] for name in ("keys", "days", "titles", "title_scales")}
    by_row = {name: fields[name][rows] for name in ("rows", "scales")}
    return Rows(starts=_starts(own), **by_document, **by_row, tokens=tokens, token_starts=_starts(lengths))


def _starts(counts: Integers) -> Integers:
    """Return where parts of these sizes begin, and where the last ends."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts, dtype=np.int64)])


def _write(path: Path, part: Rows) -> None:
    layout: dict[str, tuple[int, str, list[int]]] = {}
    arrays = part._asdict()
    blocks = list(_aligned(arrays.values()))
    for _ in range(2):  # offsets depend on the header's length, which depends on their digits
        start = -(-(8 + len(json.dumps(layout)) + _ALIGN) // _ALIGN) * _ALIGN
        for (name, array), (before, _) in zip(arrays.items(), blocks, strict=True):
            layout[name] = (start + before, array.dtype.str, list(array.shape))
    header = json.dumps(layout).encode()
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for (name, _), (_, data) in zip(arrays.items(), blocks, strict=True):
            file.seek(layout[name][0])
            file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _aligned(arrays: Iterable[npt.NDArray[Any]]) -> Iterator[tuple[int, bytes]]:
    before = 0
    for array in arrays:
        data = array.tobytes()
        yield before, data
        before += -(-len(data) // _ALIGN) * _ALIGN
