"""Meaning as numbers: the only module that knows model2vec and tokenizers.

Rule: no model is ever fetched from the network unless the caller says so, and a model that can not be had is a
reason in words (`ModelUnavailable`), not a crash. Heavy libraries are imported at first need: a keyword search
pays for none of them.
"""

from __future__ import annotations

import json
import mmap
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from filemem.errors import FilememError

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
_MOST_TOKENS = 48  # of a query, the heaviest, are looked for one by one
_HEADER_LENGTH = 8  # bytes: a little-endian integer, then that much JSON, then the arrays

_REPAIR = "make its files whole, or remove the setting to use the one that comes with filemem"
_UNREADABLE = ("cannot be loaded", _REPAIR)
_UNREACHED = (
    "could not be downloaded",
    "look at its name and at the network, or remove the setting to use the one that comes with filemem",
)


class ModelUnavailable(FilememError):
    """No embedding can be made; the message is the reason, for people."""


class Embedder(Protocol):
    """Turns texts into vectors; one that can also tell the words of a text is a `BundledModel`."""

    @property
    def name(self) -> str:
        """What vectors of this model are filed under; known without loading it."""

    def encode(self, texts: Sequence[str]) -> Floats:
        """Return one row per text, of length 1 or all zeros.

        Raises:
            ModelUnavailable: the model can not be had.
        """


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
    for name, value in (
        ("OPENBLAS_NUM_THREADS", "1"),
        ("OMP_NUM_THREADS", "1"),
        ("TOKENIZERS_PARALLELISM", "false"),
    ):
        os.environ.setdefault(name, value)


def let_go(mapped: npt.NDArray[Any]) -> None:
    """Give the system back the pages of a mapped file; they are read again, from its cache, when they are needed."""
    import numpy as np

    held: object = mapped
    while isinstance(held, np.ndarray | memoryview):
        held = held.base if isinstance(held, np.ndarray) else held.obj
    if isinstance(held, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        held.madvise(mmap.MADV_DONTNEED)


class BundledModel:
    """The static model that ships with filemem: a vector per token, read from the file as needed.

    Args:
        folder: where `model.safetensors` and `tokenizer.json` are, in model2vec's layout.
        name: what its vectors are filed under.
    """

    def __init__(self, folder: Path = _SHIPPED, name: str = BUNDLED) -> None:
        self.name = name
        self._folder = folder
        self._loaded: _Table | None = None

    def encode(self, texts: Sequence[str]) -> Floats:
        """See `Embedder`."""
        return self._table().encode(texts)[0]

    def read(self, texts: Sequence[str]) -> tuple[Floats, Tokens]:
        """Return what `encode` returns, and the tokens of each text."""
        return self._table().encode(texts)

    def wording(self, words: Mapping[str, float]) -> Wording:
        """Make the words of a query ready to be looked for, one by one, among the tokens of texts.

        Args:
            words: each with its weight.
        """
        return self._table().wording(words)

    def telling(self, words: Mapping[str, str]) -> dict[str, float]:
        """Return how much each of some words tells of a text, 0..1: how long the vector of its heaviest token is.

        Args:
            words: each as it is called in the answer, with its text.
        """
        return {word: self._table().telling(text) for word, text in words.items()}

    def rest(self) -> None:
        """Let go of memory that the next text can read again from the file."""
        if self._loaded is not None:
            let_go(self._loaded.rows)

    def _table(self) -> _Table:
        if self._loaded is None:
            self._loaded = _Table.load(self._folder)
        return self._loaded


class Tokens(NamedTuple):
    """The tokens of some texts, one text after the other, and how many each has."""

    ids: npt.NDArray[np.uint16]
    counts: Integers


class Wording(NamedTuple):
    """The tokens of a query.

    Args:
        rows: the vector of each, of length 1.
        weights: how much each counts; together 1, or no tokens at all.
        table: the vectors of all tokens.
        lengths: how long they are, NaN where nobody has asked yet.
    """

    rows: Floats
    weights: Floats
    table: npt.NDArray[np.int8]
    lengths: Floats

    def nearness(self, ids: Integers) -> Floats:
        """Return for each of some tokens (rows) its cosine to each token of the query (columns)."""
        rows = self.table[ids].astype("float32")
        near: Floats = rows @ self.rows.T
        near /= _measured(rows, ids, self.lengths)[:, None]
        return near


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
        where, why = self._found()
        logging.getLogger("huggingface_hub.repocard").setLevel(logging.ERROR)  # it misses a model card on every load
        from model2vec import StaticModel

        try:
            return StaticModel.from_pretrained(where, force_download=False)
        except Exception as error:  # the libraries below raise bare Exception for unreadable files
            raise ModelUnavailable(f"the embedding model {self._spec} {why[0]}", why[1]) from error

    def _found(self) -> tuple[str, tuple[str, str]]:
        """Return where the model is, and what to say where it cannot be had from there."""
        if Path(self._spec).is_dir():
            return self._spec, _UNREADABLE
        from model2vec.persistence.hf import maybe_get_cached_model_path

        cached = maybe_get_cached_model_path(self._spec)
        if cached is not None:
            return str(cached), _UNREADABLE
        if self._download and not Path(self._spec).is_absolute():
            return self._spec, _UNREACHED
        raise ModelUnavailable(
            f"the embedding model {self._spec} is not on this machine",
            "download it first, or remove the setting to use the one that comes with filemem",
        )


def _mark(folder: Path) -> str:
    """Return what tells one state of a model's files from another, or "" where they are not there."""
    files = [path for name in ("model.safetensors", "tokenizer.json") if (path := folder / name).is_file()]
    stamps = [(found.st_size, found.st_mtime_ns) for found in (path.stat() for path in files)]
    return f"@{zlib.crc32(repr(stamps).encode()):08x}" if stamps else ""


@dataclass
class _Table:
    """A loaded static model.

    Args:
        tokenizer: cuts text into tokens.
        rows: one int8 vector per token, in a file map.
        weights: what each row is to be multiplied by; 0 for the token that stands for no known word.
        lengths: see `Wording`.
    """

    tokenizer: Tokenizer
    rows: npt.NDArray[np.int8]
    weights: Floats
    lengths: Floats

    @classmethod
    def load(cls, folder: Path) -> _Table:
        limit_threads()
        try:
            return cls._read(folder)
        except Exception as error:  # tokenizers raises bare Exception for unreadable files
            raise ModelUnavailable(f"the embedding model in {folder} cannot be read", _REPAIR) from error

    @classmethod
    def _read(cls, folder: Path) -> _Table:
        import numpy as np
        from tokenizers import Tokenizer

        path = folder / "model.safetensors"
        with path.open("rb") as file:
            size = int.from_bytes(file.read(_HEADER_LENGTH), "little")
            header = json.loads(file.read(min(size, _LONGEST_HEADER)))

        def array(name: str, kind: type[np.generic]) -> npt.NDArray[Any]:
            about = header[name]
            offset = _HEADER_LENGTH + size + about["data_offsets"][0]
            return np.asarray(np.memmap(path, dtype=kind, mode="r", offset=offset, shape=tuple(about["shape"])))

        tokenizer = Tokenizer.from_str((folder / "tokenizer.json").read_text(encoding="utf-8"))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        weights = array("weights", np.float16).astype(np.float32)
        unknown = tokenizer.token_to_id("[UNK]")
        if unknown is not None:
            weights[unknown] = 0.0
        return cls(tokenizer, array("embeddings", np.int8), weights, np.full(len(weights), np.nan, dtype=np.float32))

    def encode(self, texts: Sequence[str]) -> tuple[Floats, Tokens]:
        """Add up the vectors of each text's tokens."""
        import numpy as np

        out = np.zeros((len(texts), self.rows.shape[1]), dtype=np.float32)
        read = [np.zeros(0, dtype=np.int64)]
        for at, encoding in enumerate(self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)):
            ids = np.array(encoding.ids, dtype=np.int64)
            total = self.weights[ids] @ self.rows[ids].astype(np.float32)
            length = float(np.sqrt(total @ total))
            if length > 0:
                out[at] = total / length
            read.append(ids)
        counts = np.array([len(ids) for ids in read[1:]], dtype=np.int64)
        return out, Tokens(np.concatenate(read).astype(np.uint16), counts)

    def telling(self, word: str) -> float:
        """See `BundledModel.telling`; 1 for a word of which the model knows nothing."""
        import numpy as np

        ids = np.array(self.tokenizer.encode(word, add_special_tokens=False).ids, dtype=np.int64)
        longest = float(
            (_measured(self.rows[ids].astype(np.float32), ids, self.lengths) * self.weights[ids]).max(initial=0.0)
        )
        return min(1.0, longest / _TELLING) if longest else 1.0

    def wording(self, words: Mapping[str, float]) -> Wording:
        """See `BundledModel.wording`; of a token in several words the heaviest counts."""
        import numpy as np

        found: dict[int, float] = {}
        for word, weight in words.items():
            for token in self.tokenizer.encode(word, add_special_tokens=False).ids:
                found[token] = max(found.get(token, 0.0), weight * float(self.weights[token]))
        heaviest = sorted((token for token in found if found[token] > 0), key=found.__getitem__, reverse=True)
        ids = np.array(heaviest[:_MOST_TOKENS], dtype=np.int64)
        weights = np.array([found[token] for token in ids.tolist()], dtype=np.float32)
        rows = self.rows[ids].astype(np.float32)
        rows /= _measured(rows, ids, self.lengths)[:, None]
        return Wording(rows, weights / (weights.sum() if len(ids) else 1.0), self.rows, self.lengths)


def _measured(rows: Floats, ids: Integers, lengths: Floats) -> Floats:
    """Return how long the vectors of some tokens are; each is measured once, as few of all are ever asked for.

    Args:
        rows: the vectors, by place.
        ids: the tokens, by place.
        lengths: what is known, by token; added to.
    """
    import numpy as np

    new = np.isnan(lengths[ids])
    lengths[ids[new]] = np.maximum(np.sqrt((rows[new] ** 2).sum(axis=1)), 1e-9)
    found: Floats = lengths[ids]
    return found
