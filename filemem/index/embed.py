"""Meaning as numbers: the only module that knows model2vec and tokenizers.

Rule: no model is fetched from the network unless the caller says so, and a model that can not be had is a reason in
words (`ModelUnavailable`), not a crash. Heavy libraries are imported at first need: a keyword search pays for none.
"""

from __future__ import annotations

import json
import mmap
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from filemem.errors import FilememError
from filemem.index.document import Doc, clean, key

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from tokenizers import Tokenizer

    Floats = npt.NDArray[np.float32]
    Integers = npt.NDArray[np.int64]

BUNDLED = "static-128.4"  # renamed whenever the files in filemem/model change, or what is kept of a text
_SHIPPED = Path(__file__).parents[1] / "model"  # importlib.resources takes 60 ms to say the same
_LONGEST_HEADER = 1 << 20  # bytes
_TELLING = 200.0  # length of the vectors of words that are about something: of five tokens four have more
_BATCH = 256  # texts embedded at a time
_MOST_TOKENS = 48  # of a query, the heaviest, are looked for one by one
_HEADER_LENGTH = 8  # bytes: a little-endian integer, then that much JSON, then the arrays
_REPAIR = "make its files whole, or remove the setting to use the one that comes with filemem"
_UNREACHED = "look at its name and at the network, or remove the setting to use the one that comes with filemem"


class ModelUnavailable(FilememError):
    """No embedding can be made; the message is the reason, for people."""


class Embedder(Protocol):
    """Turns texts into vectors; one that also knows the words of a text is a `BundledModel`."""

    @property
    def name(self) -> str:
        """What vectors of this model are filed under; known without loading it."""

    def encode(self, texts: Sequence[str]) -> Floats:
        """Return one row per text, of length 1 or all zeros; raises `ModelUnavailable`."""


def unavailable(model: Embedder | None) -> str:
    """Return why a model can not be had and what to do, or ""; loads it."""
    if model is None:
        return "no embedding model is configured"
    try:
        model.encode(["memory"])
    except ModelUnavailable as error:
        return error.told
    return ""


def limit_threads() -> None:
    """Keep the numeric libraries to one thread each; must run before they are imported.

    Two BLAS threads that fight for busy cores make a search 100 times slower than one.
    """
    for name, value in (("OPENBLAS_NUM_THREADS", "1"), ("OMP_NUM_THREADS", "1"), ("TOKENIZERS_PARALLELISM", "false")):
        os.environ.setdefault(name, value)


def let_go(mapped: npt.NDArray[Any]) -> None:
    """Give the system back the pages of a mapped file; they are read again, from its cache, when they are needed."""
    import numpy as np

    held: object = mapped
    while isinstance(held, np.ndarray | memoryview):
        held = held.base if isinstance(held, np.ndarray) else held.obj
    if isinstance(held, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        held.madvise(mmap.MADV_DONTNEED)


class Tokens(NamedTuple):
    """The tokens of some texts, one text after the other, and how many each has."""

    ids: npt.NDArray[np.uint16]
    counts: Integers


class Wording(NamedTuple):
    """The tokens of a query: the vector of each, of length 1, and how much it counts, together 1."""

    rows: Floats
    weights: Floats
    table: _Table

    def nearness(self, ids: Integers) -> Floats:
        """Return for each of some tokens (rows) its cosine to each token of the query (columns)."""
        near: Floats = self.table.directions(ids) @ self.rows.T
        return near


class BundledModel:
    """The static model that ships with filemem: a vector per token, read from the file as needed.

    Args:
        folder: where `model.safetensors` and `tokenizer.json` are, in model2vec's layout.
        name: what its vectors are filed under.
    """

    def __init__(self, folder: Path = _SHIPPED, name: str = BUNDLED) -> None:
        self.name, self._folder = name, folder

    @cached_property
    def _table(self) -> _Table:
        limit_threads()
        try:
            return _Table(self._folder)
        except Exception as error:  # tokenizers raises bare Exception for unreadable files
            raise ModelUnavailable(f"the embedding model in {self._folder} cannot be read", _REPAIR) from error

    def encode(self, texts: Sequence[str]) -> Floats:
        """See `Embedder`."""
        return self.read(texts)[0]

    def read(self, texts: Sequence[str]) -> tuple[Floats, Tokens]:
        """Return what `encode` returns, and the tokens of each text."""
        return self._table.encode(texts)

    def wording(self, words: Mapping[str, float]) -> Wording:
        """Make the words of a query, each with its weight, ready to be looked for among the tokens of texts.

        Of a token in several words the heaviest counts.
        """
        import numpy as np

        table = self._table
        found: dict[int, float] = {}
        for word, weight in words.items():
            for token in table.ids(word).tolist():
                found[token] = max(found.get(token, 0.0), weight * float(table.weights[token]))
        heaviest = sorted((token for token in found if found[token] > 0), key=found.__getitem__, reverse=True)
        ids = np.array(heaviest[:_MOST_TOKENS], dtype=np.int64)
        weights = np.array([found[token] for token in ids.tolist()], dtype=np.float32)
        return Wording(table.directions(ids), weights / (weights.sum() if len(ids) else 1.0), table)

    def telling(self, words: Mapping[str, str]) -> dict[str, float]:
        """Return how much each of some words tells of a text, 0..1: how long the vector of its heaviest token is."""
        table = self._table
        longest = {word: table.longest(table.ids(text)) for word, text in words.items()}
        return {word: min(1.0, length / _TELLING) if length else 1.0 for word, length in longest.items()}

    def rest(self) -> None:
        """Let go of memory that the next text can read again from the file."""
        if "_table" in self.__dict__:
            let_go(self._table.rows)


class ConfiguredModel:
    """A model2vec model that the user named: a folder, or a name on the hub that was downloaded before.

    Vectors of a folder are filed under its full path and a mark that changes with its files.

    Args:
        spec: hub name, or folder: what is one, or is written as only a path can be.
        download: whether the network may be asked for it.
    """

    def __init__(self, spec: str, download: bool = False) -> None:
        folder = Path(spec).expanduser()
        is_path = folder.is_absolute() or spec.startswith(".") or folder.is_dir()
        self._spec = str(folder.resolve()) if is_path else spec
        self.name = self._spec + _mark(Path(self._spec))
        self._download = download
        self._loaded: Any = None
        self._refused: ModelUnavailable | None = None

    def encode(self, texts: Sequence[str]) -> Floats:
        """See `Embedder`."""
        import numpy as np

        if self._refused:
            raise ModelUnavailable(self._refused.message, self._refused.hint)
        if self._loaded is None:
            try:
                self._loaded = self._load()
            except ModelUnavailable as error:
                self._refused = error  # asked once: a missing model does not appear between two queries
                raise
        rows: Floats = np.asarray(self._loaded.encode(list(texts), use_multiprocessing=False), dtype=np.float32)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        np.divide(rows, lengths, out=rows, where=lengths > 0)
        return rows

    def _load(self) -> Any:
        import logging

        limit_threads()
        where, why, hint = self._found()
        logging.getLogger("huggingface_hub.repocard").setLevel(logging.ERROR)  # it misses a model card on every load
        from model2vec import StaticModel

        try:
            return StaticModel.from_pretrained(where, force_download=False)
        except Exception as error:  # the libraries below raise bare Exception for unreadable files
            raise ModelUnavailable(f"the embedding model {self._spec} {why}", hint) from error

    def _found(self) -> tuple[str, str, str]:
        """Where the model is, and what to say if it cannot be had from there."""
        if Path(self._spec).is_dir():
            return self._spec, "cannot be loaded", _REPAIR
        from model2vec.persistence.hf import maybe_get_cached_model_path

        if (cached := maybe_get_cached_model_path(self._spec)) is not None:
            return str(cached), "cannot be loaded", _REPAIR
        if self._download and not Path(self._spec).is_absolute():
            return self._spec, "could not be downloaded", _UNREACHED
        raise ModelUnavailable(
            f"the embedding model {self._spec} is not on this machine",
            "download it first, or remove the setting to use the one that comes with filemem",
        )


def _mark(folder: Path) -> str:
    """Return what tells one state of a model's files from another, or "" where they are not there."""
    files = [path for name in ("model.safetensors", "tokenizer.json") if (path := folder / name).is_file()]
    stamps = [(found.st_size, found.st_mtime_ns) for found in (path.stat() for path in files)]
    return f"@{zlib.crc32(repr(stamps).encode()):08x}" if stamps else ""


class _Table:
    """A loaded static model: one int8 vector per token, in a file map, and what each is to be multiplied by."""

    def __init__(self, folder: Path) -> None:
        import numpy as np
        from tokenizers import Tokenizer

        path = folder / "model.safetensors"
        with path.open("rb") as file:
            size = int.from_bytes(file.read(_HEADER_LENGTH), "little")
            header = json.loads(file.read(min(size, _LONGEST_HEADER)))

        def array(name: str, kind: type[np.generic]) -> npt.NDArray[Any]:
            offset = _HEADER_LENGTH + size + header[name]["data_offsets"][0]
            return np.asarray(np.memmap(path, dtype=kind, mode="r", offset=offset, shape=tuple(header[name]["shape"])))

        self._tokenizer: Tokenizer = Tokenizer.from_str((folder / "tokenizer.json").read_text(encoding="utf-8"))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.rows: npt.NDArray[np.int8] = array("embeddings", np.int8)
        self.weights: Floats = array("weights", np.float16).astype(np.float32)
        unknown = self._tokenizer.token_to_id("[UNK]")
        if unknown is not None:
            self.weights[unknown] = 0.0
        self._lengths = np.full(len(self.weights), np.nan, dtype=np.float32)  # measured once, as few are ever asked for

    def encode(self, texts: Sequence[str]) -> tuple[Floats, Tokens]:
        """Add up the vectors of each text's tokens."""
        import numpy as np

        out = np.zeros((len(texts), self.rows.shape[1]), dtype=np.float32)
        read = [np.zeros(0, dtype=np.int64)]
        for at, encoding in enumerate(self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)):
            ids = np.array(encoding.ids, dtype=np.int64)
            total = self.weights[ids] @ self.rows[ids].astype(np.float32)
            length = float(np.sqrt(total @ total))
            if length > 0:
                out[at] = total / length
            read.append(ids)
        counts = np.array([len(ids) for ids in read[1:]], dtype=np.int64)
        return out, Tokens(np.concatenate(read).astype(np.uint16), counts)

    def ids(self, word: str) -> Integers:
        """Return the tokens of a word."""
        import numpy as np

        return np.array(self._tokenizer.encode(word, add_special_tokens=False).ids, dtype=np.int64)

    def longest(self, ids: Integers) -> float:
        """Return the length of the longest vector among some tokens, weighted."""
        self.directions(ids)
        return float((self._lengths[ids] * self.weights[ids]).max(initial=0.0))

    def directions(self, ids: Integers) -> Floats:
        """Return the vectors of some tokens, each of length 1."""
        import numpy as np

        rows = self.rows[ids].astype(np.float32)
        new = np.isnan(self._lengths[ids])
        self._lengths[ids[new]] = np.maximum(np.sqrt((rows[new] ** 2).sum(axis=1)), 1e-9)
        rows /= self._lengths[ids][:, None]
        return rows


# documents


class Rows(NamedTuple):
    """What one process holds of one segment, or of the records that wait.

    Args:
        keys: sorted; document i has the rows from starts[i] to starts[i + 1], at least one.
        tokens: what the rows were made of, one row after the other; none where the model does not tell.
        token_starts: row i has the tokens from token_starts[i] to token_starts[i + 1].
        rows, scales: int8 passages and what to multiply each with to get a vector of length 1.
        titles, title_scales: the same for the one title of each document.
    """

    keys: Integers
    starts: Integers
    token_starts: Integers
    scales: Floats
    title_scales: Floats
    tokens: npt.NDArray[np.uint16]
    rows: npt.NDArray[np.int8]
    titles: npt.NDArray[np.int8]


def embed(docs: Iterable[Doc], model: Embedder) -> Rows:
    """Return the vectors of documents, each content once; raises `ModelUnavailable`."""
    limit_threads()
    import numpy as np

    items = sorted({key(doc.blob): doc for doc in docs}.items())
    passages = [doc.passages or (doc.title,) for _, doc in items]
    keys = np.array([number for number, _ in items], dtype=np.int64)
    starts = np.cumsum([0, *(len(own) for own in passages)], dtype=np.int64)
    rows, scales, tokens, counts = _encoded([text for own in passages for text in own], model)
    titles, title_scales, _, _ = _encoded([doc.title for _, doc in items], model)
    return Rows(keys, starts, starts_of(counts), scales, title_scales, tokens, rows, titles)


def _encoded(
    texts: Sequence[str], model: Embedder
) -> tuple[npt.NDArray[np.int8], Floats, npt.NDArray[np.uint16], Integers]:
    """Return texts as int8 rows, the scales that bring each back to length 1, their tokens, and how many each has."""
    import numpy as np

    kept, factors, tokens, counts = [], [], [np.zeros(0, dtype=np.uint16)], [np.zeros(0, dtype=np.int64)]
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
    return np.concatenate(kept), scales, np.concatenate(tokens), np.concatenate(counts)


def starts_of(counts: Integers) -> Integers:
    """Return where parts of these sizes begin, and where the last ends."""
    import numpy as np

    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts, dtype=np.int64)])
