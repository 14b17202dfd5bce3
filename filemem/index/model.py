"""The loaded embedding model: it makes vectors of texts and weighs words.

Only `embed` and `vectors` import this module, when they need it: importing numpy takes longer than
a keyword search.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
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
# How far synonyms turn the vector of a query if every word has some.
_SYNONYM_SHARE = 0.3
_SYNONYM_MATCH = 0.9  # how well a synonym matches a token, at most
_KIND_MATCH = 0.72  # how well a word for a kind of it does
_MAX_QUERY_TOKENS = 48  # the heaviest tokens of a query are compared one by one
# Text that the bundled tokenizer cuts at blanks and punctuation, and only there.
_PLAIN_TEXT = re.compile(r"(?!.*\[(?:PAD|UNK)\])[\t\n\r -~]*", re.DOTALL)
_WORD = re.compile(r"[a-z0-9]+|[^\sa-z0-9]")
_BLANK = re.compile(r"[\t\n\r ]+")
# Up to so many multiplications OpenBLAS uses one thread. More threads are slower on busy cores, and
# cannot be limited once a program has imported numpy.
_PIECE_SIZE = 1 << 18
_MAX_CACHED_WORDS = 32_768  # their tokens take 10 MB


class QueryTokens(NamedTuple):
    """The tokens of a query, each followed by the synonyms that may match in its place."""

    tokens: Integers
    max_matches: Floats  # how well each may match, at most
    starts: Integers  # the positions of the query's own tokens
    weights: Floats  # of the query's own tokens; their sum is 1


class _Phrase(NamedTuple):
    """A word or phrase as the model knows it."""

    tokens: Integers
    weight: float  # how informative it is, from 0 to 1
    vector: Floats


def _is_plain(text: str) -> bool:
    """Whether the bundled tokenizer splits a text at blanks and punctuation only."""
    return bool(_PLAIN_TEXT.fullmatch(text))


class EmbeddingTable:
    """A loaded static model: one vector and one weight for each token."""

    def __init__(
        self,
        rows: npt.NDArray[Any],
        weights: Floats,
        tokenizer: Tokenizer,
        informative_length: float = 0.0,
        *,
        is_word_based: bool = False,
    ) -> None:
        """Set up the model.

        Args:
            rows: the vectors of tokens.
            weights: the factor of each vector.
            tokenizer: splits texts into tokens.
            informative_length: how long the vector of an informative word is; 0 if not known.
            is_word_based: whether the tokenizer is the bundled one, which reads word by word.
        """
        self._rows = rows
        self._weights = weights
        self._tokenizer = tokenizer
        self._informative_length = informative_length
        self._lengths = np.zeros(len(rows), dtype=np.float32)  # of the rows used so far
        # Most queries have the same synonyms.
        self._get_phrase = lru_cache(maxsize=4096)(self._encode_phrase)
        self._is_word_based = is_word_based
        self._get_word_tokens = lru_cache(maxsize=_MAX_CACHED_WORDS)(self._tokenize_word)
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        for unknown_token in ("[UNK]", "<unk>"):
            token_id = self._tokenizer.token_to_id(unknown_token)
            if token_id is not None:
                self._weights[token_id] = 0.0

    def encode(self, texts: Sequence[str]) -> tuple[Floats, Numbers, Integers]:
        """Return a vector for each text, the tokens of all texts joined, and their counts.

        A vector is the sum of those of its tokens, brought to length 1; 0 without known tokens.
        """
        vectors = np.zeros((len(texts), self._rows.shape[1]), dtype=np.float32)
        token_arrays: list[Integers] = []
        clean_texts = [replace_surrogates(text) for text in texts]
        for index, text_tokens in enumerate(self._iter_tokens(clean_texts)):
            ids = np.array(text_tokens, dtype=np.int64)
            total = self._weights[ids] @ self._rows[ids].astype(np.float32)
            length = float(np.sqrt(total @ total))
            if length > 0:
                vectors[index] = total / length
            token_arrays.append(ids)
        counts = np.array([len(ids) for ids in token_arrays], dtype=np.int64)
        if not token_arrays:
            token_arrays.append(np.zeros(0, dtype=np.int64))
        tokens = np.concatenate(token_arrays).astype(np.min_scalar_type(len(self._rows)))
        return vectors, tokens, counts

    def _iter_tokens(self, texts: list[str]) -> Iterator[list[int]]:
        """Yield the tokens of each text."""
        if self._is_word_based:
            for text in texts:
                yield self._tokenize_text(text)
            return
        for encoding in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False):
            yield encoding.ids

    def _tokenize_text(self, text: str) -> list[int]:
        """Return the tokens that the bundled tokenizer makes, without it where words are plain."""
        if _is_plain(text):
            return self._tokenize_plain(text)
        tokens: list[int] = []
        for is_plain, parts in groupby(_BLANK.split(text), _is_plain):
            run = " ".join(parts)
            if is_plain:
                tokens += self._tokenize_plain(run)
            else:
                (encoding,) = self._tokenizer.encode_batch_fast([run], add_special_tokens=False)
                tokens += encoding.ids
        return tokens

    def _tokenize_plain(self, text: str) -> list[int]:
        tokens: list[int] = []
        for word in _WORD.findall(text.lower()):
            tokens += self._get_word_tokens(word)
        return tokens

    def _tokenize_word(self, word: str) -> tuple[int, ...]:
        return tuple(token.id for token in self._tokenizer.model.tokenize(word))

    def compute_word_weights(self, words: Iterable[str]) -> dict[str, float]:
        """Return how informative each word is, from 0 to 1; nothing if the model does not say.

        A word is as informative as the vector of its heaviest token is long.
        """
        if not self._informative_length:
            return {}
        return {word: self._get_phrase(word).weight for word in words}

    def build_query_vector(self, terms: Terms) -> Floats:
        """Return the vector of a query, turned towards the synonyms of its words."""
        vectors, _, _ = self.encode([terms.text])
        query: Floats = vectors[0]
        for row in terms.alternatives:
            synonyms = [
                weight * self._get_phrase(phrase).vector for phrase, weight in row.substitutes
            ]
            total: Floats = np.sum(synonyms, axis=0)
            share = _SYNONYM_SHARE * len(row.words) / len(terms.words)
            query = query + total * (share / max(float(np.linalg.norm(total)), TINY))
        normalized: Floats = query / max(float(np.linalg.norm(query)), TINY)
        return normalized

    def build_query_tokens(
        self, words: Mapping[str, float], alike: Iterable[Alternative] = ()
    ) -> QueryTokens:
        """Return the tokens of the words of a query, and of their synonyms.

        Args:
            words: each with its weight; a token of several words has the highest weight of them.
            alike: the synonyms; only those of single words are used.
        """
        token_weights = self._compute_token_weights(words)
        heaviest = sorted(token_weights, key=token_weights.__getitem__, reverse=True)
        own_tokens = heaviest[:_MAX_QUERY_TOKENS]
        matches_by_token = {token: {token: 1.0} for token in own_tokens}
        for row in alike:
            if len(row.words) == 1:
                self._add_synonyms(matches_by_token, row)
        tokens: list[int] = []
        max_matches: list[float] = []
        starts: list[int] = []
        for matches in matches_by_token.values():
            starts.append(len(tokens))
            tokens += matches.keys()
            max_matches += matches.values()
        weights = np.array([token_weights[token] for token in own_tokens], dtype=np.float32)
        if own_tokens:
            weights /= weights.sum()
        return QueryTokens(
            tokens=np.array(tokens, dtype=np.int64),
            max_matches=np.array(max_matches, dtype=np.float32),
            starts=np.array(starts, dtype=np.int64),
            weights=weights,
        )

    def _compute_token_weights(self, words: Mapping[str, float]) -> dict[int, float]:
        """Return the tokens of words, each with the highest weight that it has in one of them."""
        token_weights: dict[int, float] = {}
        for word, word_weight in words.items():
            for token in self._get_phrase(word).tokens.tolist():
                weight = word_weight * float(self._weights[token])
                if weight > 0:
                    token_weights[token] = max(token_weights.get(token, 0.0), weight)
        return token_weights

    def _add_synonyms(
        self, matches_by_token: dict[int, dict[int, float]], row: Alternative
    ) -> None:
        """Add the synonyms of a word that are one token to what matches the tokens of the word."""
        for phrase, weight in row.substitutes:
            tokens = self._get_phrase(phrase).tokens
            if len(tokens) != 1 or self._weights[tokens[0]] <= 0:
                continue
            synonym = int(tokens[0])
            share = _SYNONYM_MATCH if weight == 1 else _KIND_MATCH
            for token in self._get_phrase(row.words[0]).tokens.tolist():
                if token in matches_by_token:
                    matches_by_token[token].setdefault(synonym, share)

    def compute_directions(self, ids: Integers) -> Floats:
        """Return the vectors of some tokens, each of length 1."""
        rows: Floats = self._rows[ids].astype(np.float32)
        is_unmeasured = self._lengths[ids] == 0
        if is_unmeasured.any():
            lengths = np.sqrt((rows[is_unmeasured] ** 2).sum(axis=1))
            self._lengths[ids[is_unmeasured]] = np.maximum(lengths, TINY)
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

    def _encode_phrase(self, phrase: str) -> _Phrase:
        vectors, tokens, _ = self.encode([phrase])
        lengths = np.linalg.norm(self._rows[tokens].astype(np.float32), axis=1)
        length = float((lengths * self._weights[tokens]).max(initial=0.0))
        weight = 1.0
        if length and self._informative_length:
            weight = min(1.0, length / self._informative_length)
        return _Phrase(tokens.astype(np.int64), weight, vectors[0])


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
    """Return the model that ships with filemem; model2vec would read it too, but starts slower."""
    rows, weights = _read_tensors(folder / "model.safetensors", ("embeddings", "weights"))
    tokenizer: Tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return EmbeddingTable(
        rows, weights.astype(np.float32), tokenizer, _INFORMATIVE_LENGTH, is_word_based=True
    )


def _read_tensors(path: Path, names: Iterable[str]) -> list[npt.NDArray[Any]]:
    """Return arrays of a safetensors file, mapped into memory."""
    types: dict[str, np.dtype[Any]] = {"I8": np.dtype(np.int8), "F16": np.dtype(np.float16)}
    arrays = []
    with path.open("rb") as file:
        header_size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(header_size))
        for name in names:
            entry = header[name]
            array = np.memmap(
                file,
                dtype=types[entry["dtype"]],
                mode="r",
                offset=8 + header_size + entry["data_offsets"][0],
                shape=tuple(entry["shape"]),
            )
            arrays.append(np.asarray(array))
    return arrays


def load_configured(folder: Path) -> EmbeddingTable:
    """Return a model that the user has configured."""
    import logging  # for model2vec only

    from model2vec import StaticModel

    if not folder.is_dir():
        raise FileNotFoundError(folder)  # model2vec would look for it on the network
    # It logs a missing model card on every load.
    logging.getLogger("huggingface_hub.repocard").setLevel(logging.ERROR)
    model = StaticModel.from_pretrained(str(folder), force_download=False)
    rows = model.embedding
    if model.token_mapping is not None:
        rows = rows[model.token_mapping]
    weights = model.weights
    if weights is None:
        weights = np.ones(len(rows), np.float32)
    return EmbeddingTable(rows, weights, model.tokenizer)
