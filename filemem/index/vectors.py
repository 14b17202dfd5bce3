"""Meaning in numbers: models, vectors made and kept, and how they compare with a query.

Rule: a vector belongs to content, not to a path. Segments are files that are written once, of rows filed under the blob
they were made from, so switching branches embeds nothing again. numpy and tokenizers cost more than a keyword search:
only `embed` imports this module, at first need.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from filemem.index.document import VECTORS, Doc, IndexDamaged, Seal, compare, key
from filemem.query import Terms
from filemem.query.terms import Alike
from filemem.record.lines import valid

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[Any]  # of tokens, in as few bytes as the model needs

MERGE_RATIO = 4  # a segment is merged into the one before it unless that is this much larger
MOSTLY_DEAD = 3  # what no file has is dropped where it is this often as many as all
_SEGMENT = ".rows"
_TELLING = 200.0  # length of the vectors of words that are about something: of five tokens four have more
_TINY = 1e-9  # a length that is none
_TURN = 0.3  # how far what may be said instead turns the vector of a query, if it stands for every word
_MET, _MET_BY_KIND = 0.9, 0.72  # how well a token is met by what may be said instead, at most
_MOST_TOKENS = 48  # of a query, the heaviest, are looked for one by one
_LARGE = 50_000  # rows from which on usearch is so much faster that its import, slow as that of numpy, pays
_STRIPE = 4096  # rows converted to float at a time: what stays in the processor's cache


class Asked(NamedTuple):
    """The tokens of a query, behind each those that may stand for it."""

    tokens: Integers
    most: Floats  # how well each meets, at most
    starts: Integers  # where the query's own are among them
    weights: Floats  # how much each of the own counts, together 1


class Table:
    """A loaded static model: one vector per token, and what each is to be multiplied by.

    `telling` is how long the vectors of words are that are about something; 0 where that is not known.
    """

    def __init__(self, rows: npt.NDArray[Any], weights: Floats, tokenizer: Tokenizer, telling: float = 0.0) -> None:
        self._rows, self._weights, self._tokenizer, self._telling = rows, weights, tokenizer, telling
        self._known = lru_cache(maxsize=4096)(self._look_up)  # what is said instead is the same words again and again
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        for unknown in map(self._tokenizer.token_to_id, ("[UNK]", "<unk>")):
            if unknown is not None:
                self._weights[unknown] = 0.0

    def encode(self, texts: Sequence[str]) -> tuple[Floats, Numbers, Integers]:
        """Return one row per text, the sum of its tokens, of length 1 or 0; all tokens; and how many each text has."""
        out = np.zeros((len(texts), self._rows.shape[1]), dtype=np.float32)
        read: list[Integers] = [np.zeros(0, dtype=np.int64)]
        plain = [valid(text) for text in texts]
        for at, encoding in enumerate(self._tokenizer.encode_batch_fast(plain, add_special_tokens=False)):
            ids = np.array(encoding.ids, dtype=np.int64)
            total = self._weights[ids] @ self._rows[ids].astype(np.float32)
            length = float(np.sqrt(total @ total))
            if length > 0:
                out[at] = total / length
            read.append(ids)
        tokens = np.concatenate(read).astype(np.min_scalar_type(len(self._rows)))
        return out, tokens, np.array([len(ids) for ids in read[1:]], dtype=np.int64)

    def telling(self, words: Iterable[str]) -> dict[str, float]:
        """Return how much each of some words tells of a text, 0..1: how long the vector of its heaviest token is."""
        return {word: self._known(word)[1] for word in words} if self._telling else {}

    def asked(self, terms: Terms) -> Floats:
        """Return the vector of a query, turned towards the mean of what may be said instead of its words."""
        query: Floats = self.encode([terms.text])[0][0]
        for each in terms.alike:
            mean: Floats = np.sum([weight * self._known(phrase)[2] for phrase, weight in each.instead], axis=0)
            share = _TURN * len(each.words) / len(terms.words)
            query = query + mean * (share / max(float(np.linalg.norm(mean)), _TINY))
        turned: Floats = query / max(float(np.linalg.norm(query)), _TINY)
        return turned

    def weighed(self, words: Mapping[str, float], said: Iterable[Alike] = ()) -> Asked:
        """Make words ready for `met`, each with its weight: of a token in several the heaviest counts."""
        found: dict[int, float] = {}
        for word, weight in words.items():
            for token in self._known(word)[0].tolist():
                found[token] = max(found.get(token, 0.0), weight * float(self._weights[token]))
        own = sorted((token for token in found if found[token] > 0), key=found.__getitem__, reverse=True)[:_MOST_TOKENS]
        best: dict[int, dict[int, float]] = {token: {token: 1.0} for token in own}
        for each in said:
            for phrase, weight in each.instead if len(each.words) == 1 else ():
                if len(tokens := self._known(phrase)[0]) == 1 and self._weights[tokens[0]] > 0:
                    for token in self._known(each.words[0])[0].tolist():
                        best.get(token, {}).setdefault(int(tokens[0]), _MET if weight == 1 else _MET_BY_KIND)
        tokens = np.array([token for of in best.values() for token in of], dtype=np.int64)
        most = np.array([most for of in best.values() for most in of.values()], dtype=np.float32)
        weights = np.array([found[token] for token in own], dtype=np.float32)
        starts = _starts([len(of) for of in best.values()])[:-1]
        return Asked(tokens, most, starts, weights / (weights.sum() if own else 1.0))

    def directions(self, ids: Integers) -> Floats:
        """Return the vectors of some tokens, each of length 1."""
        rows: Floats = self._rows[ids].astype(np.float32)
        rows /= np.maximum(np.sqrt((rows**2).sum(axis=1, keepdims=True)), _TINY)
        return rows

    def vectors(self) -> Vectors:
        """Return what compares the documents of one index."""
        return Vectors(self)

    def growth(self, folder: Path) -> Growth:
        """Return what adds vectors to a folder."""
        return Growth(folder, self)

    def _look_up(self, word: str) -> tuple[Integers, float, Floats]:
        """Return the tokens of a word or phrase, how much it tells, and its vector."""
        (row,), ids, _ = self.encode([word])
        lengths = np.linalg.norm(self._rows[ids].astype(np.float32), axis=1)
        length = float((lengths * self._weights[ids]).max(initial=0.0))
        return ids.astype(np.int64), min(1.0, length / self._telling) if length and self._telling else 1.0, row


def bundled(folder: Path) -> Table:
    """Return the model that ships with filemem, which model2vec reads too, but starts slower."""
    rows, weights = _tensors(folder / "model.safetensors", "embeddings", "weights")
    tokenizer: Tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return Table(rows, weights.astype(np.float32), tokenizer, _TELLING)


def _tensors(path: Path, *names: str) -> list[npt.NDArray[Any]]:
    """Return arrays of a safetensors file, of which only what is read comes into memory."""
    kinds: dict[str, np.dtype[Any]] = {"I8": np.dtype(np.int8), "F16": np.dtype(np.float16)}
    with path.open("rb") as file:
        begin = 8 + int.from_bytes(file.read(8), "little")
        known = json.loads(file.read(begin - 8))
        found = map(known.get, names)
        about = [(kinds[one["dtype"]], begin + one["data_offsets"][0], tuple(one["shape"])) for one in found]
        return [np.asarray(np.memmap(file, kind, "r", at, shape)) for kind, at, shape in about]


def configured(folder: Path) -> Table:
    """Return a model of the user's, which model2vec loads."""
    import logging  # with model2vec, which needs it; a search does not

    from model2vec import StaticModel

    if not folder.is_dir():
        raise FileNotFoundError(folder)  # model2vec would look for it on the network
    logging.getLogger("huggingface_hub.repocard").setLevel(logging.ERROR)  # it misses a model card on every load
    model = StaticModel.from_pretrained(str(folder), force_download=False)
    rows = model.embedding if model.token_mapping is None else model.embedding[model.token_mapping]
    return Table(rows, np.ones(len(rows), np.float32) if model.weights is None else model.weights, model.tokenizer)


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
    (rows, scales), (titles, title_scales) = _small(full), _small(table.encode([doc.title for _, doc in items])[0])
    starts = _starts([len(own) for own in passages])
    return Rows(keys, starts, _starts(counts), scales, title_scales, tokens, rows, titles)


def _small(rows: Floats) -> tuple[npt.NDArray[np.int8], Floats]:
    """Return vectors as int8 rows, and the scales that bring each back to length 1."""
    peak = np.maximum(np.abs(rows).max(axis=1, initial=0.0), _TINY)
    small = np.rint(rows * (127 / peak)[:, None]).astype(np.int8)
    lengths = np.sqrt((small.astype(np.float32) ** 2).sum(axis=1))
    return small, np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)


def _starts(counts: Sequence[int] | Integers) -> Integers:
    """Return where parts of these sizes begin, and where the last ends."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts, dtype=np.int64)])


def _ranges(starts: Integers, counts: Integers) -> Integers:
    """Return the numbers from each start on, as many as each count says, one after the other."""
    ends = np.cumsum(counts)
    found: Integers = np.repeat(starts - ends + counts, counts) + np.arange(int(ends[-1]) if len(ends) else 0)
    return found


def places(part: Rows, keys: Iterable[int]) -> Integers:
    """Return where those of the keys that the part has stand in it."""
    if not len(part.keys):
        return np.zeros(0, dtype=np.int64)
    wanted = np.array(sorted(set(keys)), dtype=np.int64)  # not np.unique, which imports numpy.ma: a tenth of numpy
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
        order = order[np.array([each in wanted for each in joined["keys"][order].tolist()], dtype=np.bool_)]
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
            return Rows(*(_mapped(file) for _ in Rows._fields))
    except (OSError, ValueError, EOFError) as error:
        raise IndexDamaged(f"{path.name} cannot be read") from error


def _mapped(file: BinaryIO) -> npt.NDArray[Any]:
    """The next array of a file that `np.save` wrote, of which only what is read comes into memory."""
    np.lib.format.read_magic(file)
    shape, _, kind = np.lib.format.read_array_header_1_0(file)
    begin, size = file.tell(), kind.itemsize * math.prod(shape)
    found = np.asarray(np.memmap(file, kind, "r", begin, shape)) if size else np.zeros(shape, kind)
    file.seek(begin + size)
    return found


class Growth:
    """Vectors for a folder of segments that nobody reads yet."""

    def __init__(self, folder: Path, table: Table) -> None:
        self._folder, self._table = folder, table
        self._paths = sorted(folder.iterdir())
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
        while kept and len(self._known[kept - 1].rows) < MERGE_RATIO * sum(len(part.rows) for part in self._new):
            kept -= 1
            self._new.append(self._known[kept])
        wanted = set(living) if kept < len(self._known) else set()
        dead = wanted and sum(len(part.keys) for part in self._new) > MOSTLY_DEAD * len(wanted)
        result = merged(self._new, wanted if dead else None)
        number = 1 + max((int(path.stem) for path in self._paths), default=0)
        with (self._folder / f"{number:08d}{_SEGMENT}").open("wb") as file:
            for array in result:
                np.save(file, array)
            file.flush()
            os.fsync(file.fileno())
        for path in self._paths[kept:]:
            path.unlink()


# questions


class Ranking:
    """One query against some parts."""

    def __init__(self, parts: Sequence[Rows], query: Floats, table: Table) -> None:
        self._query, self.table = query, table
        self._parts = [(part, nearest(part, query)) for part in parts]

    def first(self, count: int) -> list[int]:
        """Return the keys of the nearest documents, nearest first."""
        best: dict[int, float] = {}
        for part, near in self._parts:
            order = near.argpartition(-count)[-count:] if count < len(near) else slice(None)
            best.update(zip(part.keys[order].tolist(), near[order].tolist(), strict=True))
        return sorted(best, key=best.__getitem__, reverse=True)[:count]

    def likeness(self, keys: Iterable[int]) -> dict[int, tuple[float, float]]:
        """Return how near those of the keys that have vectors are: the cosine of the best passage, and of the title."""
        wanted, found = set(keys), dict[int, tuple[float, float]]()
        for part, near in self._parts:
            at = places(part, wanted)
            titles = (part.titles[at].astype(np.float32) @ self._query) * part.title_scales[at]
            found.update(zip(part.keys[at].tolist(), zip(near[at].tolist(), titles.tolist(), strict=True), strict=True))
        return found

    def wording(self, keys: Iterable[int], words: Mapping[str, float], said: Iterable[Alike] = ()) -> dict[int, float]:
        """Return how well the words of a query, each with its weight, or others, are met by each of the keys."""
        wanted, found, asked = set(keys), dict[int, float](), self.table.weighed(words, said)
        for part, _ in self._parts:
            at = places(part, wanted)
            found.update(zip(part.keys[at].tolist(), met(part, at, self.table, asked).tolist(), strict=True))
        return found


def nearest(part: Rows, query: Floats) -> Floats:
    """Return for each document the cosine of its passage nearest to the query."""
    scores = np.empty(len(part.rows), dtype=np.float32)
    if len(scores) > _LARGE:
        from usearch.index import search

        asked = np.rint(query * (127 / np.abs(query).max())).astype(np.int8)
        matches = search(part.rows, asked, len(scores), exact=True, threads=1)
        scores[matches.keys.astype(np.int64)] = 1.0 - matches.distances
    else:
        for at in range(0, len(scores), _STRIPE):
            stripe = slice(at, at + _STRIPE)
            scores[stripe] = part.rows[stripe].astype(np.float32) @ query
        scores *= part.scales
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
        near = (table.directions(asked.tokens) @ table.directions(different).T) * asked.most[:, None]
        near = np.ascontiguousarray(np.maximum.reduceat(near, asked.starts).T)[place[tokens]]
        begins = (np.cumsum(lengths) - lengths)[lengths > 0]
        passages[lengths > 0] = np.maximum.reduceat(near, begins) @ asked.weights
    best: Floats = np.maximum.reduceat(passages, np.cumsum(counts) - counts) if len(passages) else passages
    return best


class Vectors:
    """The vectors that a process has open: most files of one generation are in the next too."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._open: dict[tuple[int, ...], Rows] = {}  # by what the seal says of a file
        self._made: list[Rows] = []  # of what waited when last asked

    def rank(self, query: Floats, root: Path, seal: Seal, waiting: Iterable[Doc]) -> Ranking:
        """Return how near documents are to a query, those of a generation and those that wait."""
        files = {tuple(about): name for name, about in seal.files.items() if name.startswith(VECTORS)}
        if files.keys() - self._open.keys():
            compare(root, seal, VECTORS)
        self._open = {mark: self._open.get(mark) or read(root / seal.name / name) for mark, name in files.items()}
        docs = {key(doc.blob): doc for doc in waiting}
        new = [docs[number] for number in missing(self._made, docs)]
        if new or not docs:  # each is embedded once, and all are one part, as each part costs time
            self._made = [merged([*self._made, embed(new, self._table)], docs)] if docs else []
        return Ranking([*self._open.values(), *self._made], query, self._table)
