"""A model that costs nothing: words hashed to directions. For tests where speed demands it."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from filemem.index import Model
from filemem.index.model import EmbeddingTable, Floats, Integers, QueryTokens
from filemem.query.terms import Alternative


class Hashes(EmbeddingTable):
    """A table of no tokens."""

    def __init__(self) -> None:
        pass

    def encode(self, texts: Sequence[str]) -> tuple[Floats, Integers, Integers]:
        out = np.zeros((len(texts), 32), dtype=np.float32)
        for at, text in enumerate(texts):
            for word in text.casefold().split():
                code = zlib.crc32(word.encode("utf-8", "replace"))
                out[at, code % 32] += 1 if code & 256 else -1
        lengths = np.linalg.norm(out, axis=1, keepdims=True)
        np.divide(out, lengths, out=out, where=lengths > 0)
        return out, np.zeros(0, dtype=np.uint16), np.zeros(len(texts), dtype=np.int64)

    def compute_word_weights(self, words: Iterable[str]) -> dict[str, float]:
        return {}

    def build_query_tokens(self, words: Mapping[str, float], said: Iterable[Alternative] = ()) -> QueryTokens:
        tokens, weights = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32)
        return QueryTokens(tokens, weights, tokens, weights)


class Hashing(Model):
    """See the module."""

    def __init__(self) -> None:
        self.name = "hashing"
        self.table = Hashes()
