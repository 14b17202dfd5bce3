"""The embedding model when it is loaded: texts become vectors, words tell how much they say.

Rule: only `embed` and `vectors` import this module, at first need: numpy costs more than a search
by keywords.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from filemem.query import Terms
from filemem.query.terms import Alternative
from filemem.record.lines import replace_surrogates

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[Any]  # of tokens, in as few bytes as the model needs

TINY = 1e-9  # a length that is none
# Length of the vectors of words that are about something: of five tokens four have more.
_INFORMATIVE_LENGTH = 200.0
# How far what may be said instead turns the vector of a query, if it stands for every word.
_SYNONYM_SHARE = 0.3
_SYNONYM_MATCH = 0.9  # how well a token is met by what may be said instead, at most
_KIND_MATCH = 0.72  # the same by a kind of it
_MAX_QUERY_TOKENS = 48  # of a query, the heaviest, are looked for one by one
# Text that the bundled tokenizer cuts at blanks and punctuation, and only there.
_PLAIN_TEXT = re.compile(r"(?!.*\[(?:PAD|UNK)\])[\t\n\r -~]*", re.DOTALL)
_WORD = re.compile(r"[a-z0-9]+|[^\sa-z0-9]")
_BLANK = re.compile(r"[\t\n\r ]+")
# Up to so many multiplications OpenBLAS uses one thread. More threads are slower on busy cores, and
# cannot be limited once a program has imported numpy.
_PIECE_SIZE = 1 << 18
_MAX_CACHED_WORDS = 32_768  # whose tokens are kept: 10 MB


class QueryTokens(NamedTuple):
    """The tokens of a query, behind each those that may stand for it."""

    tokens: Integers
    max_matches: Floats  # how well each meets, at most
    starts: Integers  # where the query's own are among them
    weights: Floats  # how much each of the own counts, together 1


class EmbeddingTable:
    """A loaded static model: one vector per token, and what each is to be multiplied by.

    `telling` is how long the vectors of words are that are about something; 0 where that is not
    known. `by_word`: the tokenizer is the bundled one, so that the tokens of a word can be kept.
    """

    def __init__(
        self,
        rows: npt.NDArray[Any],
        weights: Floats,
        tokenizer: Tokenizer,
        informative_length: float = 0.0,
        *,
        is_word_based: bool = False,
    ) -> None:
        self._rows = rows
        self._weights = weights
        self._tokenizer = tokenizer
        self._informative_length = informative_length
        self._lengths = np.zeros(len(rows), dtype=np.float32)  # of the rows met so far
        # What may be said instead is the same words again and again.
        self._get_phrase = lru_cache(maxsize=4096)(self._encode_phrase)
        self._is_word_based = is_word_based
        self._get_word_tokens = lru_cache(maxsize=_MAX_CACHED_WORDS)(self._tokenize_word)
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        for token_id in map(self._tokenizer.token_to_id, ("[UNK]", "<unk>")):
            if token_id is not None:
                self._weights[token_id] = 0.0

    def encode(self, texts: Sequence[str]) -> tuple[Floats, Numbers, Integers]:
        """Return a row per text, its tokens summed, of length 1 or 0; all tokens; their counts."""
        vectors = np.zeros((len(texts), self._rows.shape[1]), dtype=np.float32)
        id_arrays: list[Integers] = [np.zeros(0, dtype=np.int64)]
        for index, tokens_of_text in enumerate(
            self._iter_tokens(list(map(replace_surrogates, texts)))
        ):
            ids = np.array(tokens_of_text, dtype=np.int64)
            total = self._weights[ids] @ self._rows[ids].astype(np.float32)
            length = float(np.sqrt(total @ total))
            if length > 0:
                vectors[index] = total / length
            id_arrays.append(ids)
        tokens = np.concatenate(id_arrays).astype(np.min_scalar_type(len(self._rows)))
        return vectors, tokens, np.array([len(ids) for ids in id_arrays[1:]], dtype=np.int64)

    def _iter_tokens(self, texts: list[str]) -> Iterator[list[int]]:
        """The tokens of each text."""
        if self._is_word_based:
            yield from map(self._tokenize_plain, texts)
            return
        for encoding in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False):
            yield encoding.ids

    def _tokenize_plain(self, text: str) -> list[int]:
        """What the bundled tokenizer makes of a text; it need not read words that are plain."""
        if _PLAIN_TEXT.fullmatch(text):
            words = _WORD.findall(text.lower())
            return list(chain.from_iterable(map(self._get_word_tokens, words)))
        tokens = list[int]()
        for is_plain, run in groupby(
            _BLANK.split(text), lambda part: bool(_PLAIN_TEXT.fullmatch(part))
        ):
            part = " ".join(run)
            if is_plain:
                tokens += self._tokenize_plain(part)
            else:
                (encoding,) = self._tokenizer.encode_batch_fast([part], add_special_tokens=False)
                tokens += encoding.ids
        return tokens

    def _tokenize_word(self, word: str) -> tuple[int, ...]:
        return tuple(token.id for token in self._tokenizer.model.tokenize(word))

    def compute_word_weights(self, words: Iterable[str]) -> dict[str, float]:
        """Return how much each of some words tells of a text, 0..1.

        That is how long the vector of its heaviest token is.
        """
        return (
            {word: self._get_phrase(word)[1] for word in words} if self._informative_length else {}
        )

    def build_query_vector(self, terms: Terms) -> Floats:
        """Return the vector of a query, turned towards what may be said instead of its words."""
        query: Floats = self.encode([terms.text])[0][0]
        for row in terms.alternatives:
            vectors = [weight * self._get_phrase(phrase)[2] for phrase, weight in row.substitutes]
            mean: Floats = np.sum(vectors, axis=0)
            share = _SYNONYM_SHARE * len(row.words) / len(terms.words)
            query = query + mean * (share / max(float(np.linalg.norm(mean)), TINY))
        normalized: Floats = query / max(float(np.linalg.norm(query)), TINY)
        return normalized

    def build_query_tokens(
        self, words: Mapping[str, float], alike: Iterable[Alternative] = ()
    ) -> QueryTokens:
        """Make words ready for `met`: of a token in several the heaviest counts."""
        token_weights = self._compute_token_weights(words)
        own_tokens = sorted(token_weights, key=token_weights.__getitem__, reverse=True)[
            :_MAX_QUERY_TOKENS
        ]
        matches_by_token: dict[int, dict[int, float]] = {
            token: {token: 1.0} for token in own_tokens
        }
        for row in alike:
            if len(row.words) == 1:
                self._add_synonyms(matches_by_token, row)
        tokens = [token for matches in matches_by_token.values() for token in matches]
        max_matches = [share for others in matches_by_token.values() for share in others.values()]
        weights = np.array([token_weights[token] for token in own_tokens], dtype=np.float32)
        if own_tokens:
            weights /= weights.sum()
        return QueryTokens(
            np.array(tokens, dtype=np.int64),
            np.array(max_matches, dtype=np.float32),
            np.cumsum([0, *map(len, matches_by_token.values())], dtype=np.int64)[:-1],
            weights,
        )

    def _compute_token_weights(self, words: Mapping[str, float]) -> dict[int, float]:
        """The tokens of words, each with the highest weight that it has in one."""
        token_weights: dict[int, float] = {}
        for word, weight in words.items():
            for token in self._get_phrase(word)[0].tolist():
                weighted = weight * float(self._weights[token])
                token_weights[token] = max(token_weights.get(token, 0.0), weighted)
        return {token: weight for token, weight in token_weights.items() if weight > 0}

    def _add_synonyms(
        self, matches_by_token: dict[int, dict[int, float]], row: Alternative
    ) -> None:
        """Let the tokens of a word be met by what may be said instead, where that is one token."""
        for phrase, weight in row.substitutes:
            tokens = self._get_phrase(phrase)[0]
            if len(tokens) != 1 or self._weights[tokens[0]] <= 0:
                continue
            share = _SYNONYM_MATCH if weight == 1 else _KIND_MATCH
            for token in self._get_phrase(row.words[0])[0].tolist():
                matches_by_token.get(token, {}).setdefault(int(tokens[0]), share)

    def compute_directions(self, ids: Integers) -> Floats:
        """Return the vectors of some tokens, each of length 1."""
        rows: Floats = self._rows[ids].astype(np.float32)
        unmeasured = self._lengths[ids] == 0
        if unmeasured.any():
            lengths = np.sqrt((rows[unmeasured] ** 2).sum(axis=1))
            self._lengths[ids[unmeasured]] = np.maximum(lengths, TINY)
        rows /= self._lengths[ids][:, None]
        return rows

    def compute_token_cosines(self, tokens: Numbers, query_tokens: QueryTokens) -> Floats:
        """Return how like each token (rows) is to each token of a query (columns)."""
        # Each different token is compared once.
        positions = np.zeros(int(tokens.max()) + 1, dtype=np.int64)
        positions[tokens] = 1
        unique_tokens = np.flatnonzero(positions)
        positions[unique_tokens] = np.arange(len(unique_tokens))
        directions = self.compute_directions(unique_tokens)
        query_directions = self.compute_directions(query_tokens.tokens)
        cosines = multiply_rows(directions, query_directions.T) * query_tokens.max_matches
        best: Floats = np.maximum.reduceat(cosines, query_tokens.starts, axis=1)
        return best[positions[tokens]]

    def _encode_phrase(self, phrase: str) -> tuple[Integers, float, Floats]:
        """Return the tokens of a word or phrase, how much it tells, and its vector."""
        (row,), ids, _ = self.encode([phrase])
        lengths = np.linalg.norm(self._rows[ids].astype(np.float32), axis=1)
        length = float((lengths * self._weights[ids]).max(initial=0.0))
        word_weight = (
            min(1.0, length / self._informative_length)
            if length and self._informative_length
            else 1.0
        )
        return ids.astype(np.int64), word_weight, row


def multiply_rows(rows: npt.NDArray[Any], columns: Floats) -> Floats:
    """Return `rows @ columns`, computed in pieces."""
    products = np.empty((len(rows), columns.shape[1]), dtype=np.float32)
    count = max(1, _PIECE_SIZE // columns.size)
    for start in range(0, len(rows), count):
        piece = slice(start, start + count)
        np.matmul(rows[piece].astype(np.float32, copy=False), columns, out=products[piece])
    return products


def quantize_rows(rows: Floats) -> tuple[npt.NDArray[np.int8], Floats]:
    """Return vectors as int8 rows, and the scales that bring each back to length 1."""
    largest = np.abs(rows).max(axis=1, initial=0.0)
    factors = 127 / np.maximum(largest, TINY)
    quantized = np.rint(rows * factors[:, None]).astype(np.int8)
    lengths = np.sqrt((quantized.astype(np.float32) ** 2).sum(axis=1))
    scales = np.zeros_like(lengths)
    np.divide(1.0, lengths, out=scales, where=lengths > 0)
    return quantized, scales


def load_bundled(folder: Path) -> EmbeddingTable:
    """Return the model that ships with filemem, which model2vec reads too, but starts slower."""
    rows, weights = _read_tensors(folder / "model.safetensors", "embeddings", "weights")
    tokenizer: Tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return EmbeddingTable(
        rows, weights.astype(np.float32), tokenizer, _INFORMATIVE_LENGTH, is_word_based=True
    )


def _read_tensors(path: Path, *names: str) -> list[npt.NDArray[Any]]:
    """Return arrays of a safetensors file, of which only what is read comes into memory."""
    kinds: dict[str, np.dtype[Any]] = {"I8": np.dtype(np.int8), "F16": np.dtype(np.float16)}
    with path.open("rb") as file:
        begin = 8 + int.from_bytes(file.read(8), "little")
        entries = json.loads(file.read(begin - 8))
        arrays = []
        for name in names:
            entry = entries[name]
            offset = begin + entry["data_offsets"][0]
            shape = tuple(entry["shape"])
            arrays.append(np.asarray(np.memmap(file, kinds[entry["dtype"]], "r", offset, shape)))
        return arrays


def load_configured(folder: Path) -> EmbeddingTable:
    """Return a model of the user's, which model2vec loads."""
    import logging  # with model2vec, which needs it; a search does not

    from model2vec import StaticModel

    if not folder.is_dir():
        raise FileNotFoundError(folder)  # model2vec would look for it on the network
    # It misses a model card on every load.
    logging.getLogger("huggingface_hub.repocard").setLevel(logging.ERROR)
    model = StaticModel.from_pretrained(str(folder), force_download=False)
    rows = model.embedding if model.token_mapping is None else model.embedding[model.token_mapping]
    return EmbeddingTable(
        rows,
        np.ones(len(rows), np.float32) if model.weights is None else model.weights,
        model.tokenizer,
    )
