"""The embedding model when it is loaded: texts become vectors, words tell how much they say.

Rule: only `embed` and `vectors` import this module, at first need: numpy costs more than a keyword search.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from filemem.query import Terms
from filemem.query.terms import Alike
from filemem.record.lines import valid
from filemem.tuples import NamedTuple

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[Any]  # of tokens, in as few bytes as the model needs

TINY = 1e-9  # a length that is none
_TELLING = (
    200.0  # length of the vectors of words that are about something: of five tokens four have more
)
_TURN = (
    0.3  # how far what may be said instead turns the vector of a query, if it stands for every word
)
_MET, _MET_BY_KIND = 0.9, 0.72  # how well a token is met by what may be said instead, at most
_MOST_TOKENS = 48  # of a query, the heaviest, are looked for one by one
# Text that the bundled tokenizer cuts at blanks and punctuation, and only there.
_PLAIN = re.compile(r"(?!.*\[(?:PAD|UNK)\])[\t\n\r -~]*", re.DOTALL)
_WORD = re.compile(r"[a-z0-9]+|[^\sa-z0-9]")
_BLANK = re.compile(r"[\t\n\r ]+")
_MOST_WORDS = 32_768  # whose tokens are kept: 10 MB


class Asked(NamedTuple):
    """The tokens of a query, behind each those that may stand for it."""

    tokens: Integers
    most: Floats  # how well each meets, at most
    starts: Integers  # where the query's own are among them
    weights: Floats  # how much each of the own counts, together 1


class Table:
    """A loaded static model: one vector per token, and what each is to be multiplied by.

    `telling` is how long the vectors of words are that are about something; 0 where that is not
    known. `by_word`: the tokenizer is the bundled one, so that the tokens of a word can be kept.
    """

    def __init__(
        self,
        rows: npt.NDArray[Any],
        weights: Floats,
        tokenizer: Tokenizer,
        telling: float = 0.0,
        *,
        by_word: bool = False,
    ) -> None:
        self._rows, self._weights, self._tokenizer, self._telling = (
            rows,
            weights,
            tokenizer,
            telling,
        )
        self._lengths = np.zeros(len(rows), dtype=np.float32)  # of the rows met so far
        self._known = lru_cache(maxsize=4096)(
            self._look_up
        )  # what is said instead is the same words again and again
        self._by_word = by_word
        self._of_word = lru_cache(maxsize=_MOST_WORDS)(self._look_up_word)
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        for unknown in map(self._tokenizer.token_to_id, ("[UNK]", "<unk>")):
            if unknown is not None:
                self._weights[unknown] = 0.0

    def encode(self, texts: Sequence[str]) -> tuple[Floats, Numbers, Integers]:
        """Return one row per text, the sum of its tokens, of length 1 or 0; all tokens; and how many each text has."""
        out = np.zeros((len(texts), self._rows.shape[1]), dtype=np.float32)
        read: list[Integers] = [np.zeros(0, dtype=np.int64)]
        for at, tokens_of_text in enumerate(self._tokens(list(map(valid, texts)))):
            ids = np.array(tokens_of_text, dtype=np.int64)
            total = self._weights[ids] @ self._rows[ids].astype(np.float32)
            length = float(np.sqrt(total @ total))
            if length > 0:
                out[at] = total / length
            read.append(ids)
        tokens = np.concatenate(read).astype(np.min_scalar_type(len(self._rows)))
        return out, tokens, np.array([len(ids) for ids in read[1:]], dtype=np.int64)

    def _tokens(self, texts: list[str]) -> Iterator[list[int]]:
        """The tokens of each text."""
        if self._by_word:
            yield from map(self._by_words, texts)
            return
        for encoding in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False):
            yield encoding.ids

    def _by_words(self, text: str) -> list[int]:
        """What the bundled tokenizer makes of a text; it need not read words that are plain."""
        if _PLAIN.fullmatch(text):
            words = _WORD.findall(text.lower())
            return list(chain.from_iterable(map(self._of_word, words)))
        tokens = list[int]()
        for is_plain, run in groupby(_BLANK.split(text), lambda part: bool(_PLAIN.fullmatch(part))):
            part = " ".join(run)
            if is_plain:
                tokens += self._by_words(part)
            else:
                (encoding,) = self._tokenizer.encode_batch_fast([part], add_special_tokens=False)
                tokens += encoding.ids
        return tokens

    def _look_up_word(self, word: str) -> tuple[int, ...]:
        return tuple(token.id for token in self._tokenizer.model.tokenize(word))

    def telling(self, words: Iterable[str]) -> dict[str, float]:
        """Return how much each of some words tells of a text, 0..1: how long the vector of its heaviest token is."""
        return {word: self._known(word)[1] for word in words} if self._telling else {}

    def asked(self, terms: Terms) -> Floats:
        """Return the vector of a query, turned towards the mean of what may be said instead of its words."""
        query: Floats = self.encode([terms.text])[0][0]
        for each in terms.alike:
            mean: Floats = np.sum(
                [weight * self._known(phrase)[2] for phrase, weight in each.instead], axis=0
            )
            share = _TURN * len(each.words) / len(terms.words)
            query = query + mean * (share / max(float(np.linalg.norm(mean)), TINY))
        turned: Floats = query / max(float(np.linalg.norm(query)), TINY)
        return turned

    def weighed(self, words: Mapping[str, float], said: Iterable[Alike] = ()) -> Asked:
        """Make words ready for `met`, each with its weight: of a token in several the heaviest counts."""
        found: dict[int, float] = {}
        for word, weight in words.items():
            for token in self._known(word)[0].tolist():
                found[token] = max(found.get(token, 0.0), weight * float(self._weights[token]))
        own = sorted(
            (token for token in found if found[token] > 0), key=found.__getitem__, reverse=True
        )[:_MOST_TOKENS]
        best: dict[int, dict[int, float]] = {token: {token: 1.0} for token in own}
        for each in said:
            for phrase, weight in each.instead if len(each.words) == 1 else ():
                if len(tokens := self._known(phrase)[0]) == 1 and self._weights[tokens[0]] > 0:
                    for token in self._known(each.words[0])[0].tolist():
                        best.get(token, {}).setdefault(
                            int(tokens[0]), _MET if weight == 1 else _MET_BY_KIND
                        )
        tokens = np.array([token for of in best.values() for token in of], dtype=np.int64)
        most = np.array([most for of in best.values() for most in of.values()], dtype=np.float32)
        weights = np.array([found[token] for token in own], dtype=np.float32)
        starts = np.cumsum([0, *(len(of) for of in best.values())], dtype=np.int64)[:-1]
        return Asked(tokens, most, starts, weights / (weights.sum() if own else 1.0))

    def directions(self, ids: Integers) -> Floats:
        """Return the vectors of some tokens, each of length 1."""
        rows: Floats = self._rows[ids].astype(np.float32)
        new = self._lengths[ids] == 0
        if new.any():
            lengths = np.sqrt((rows[new] ** 2).sum(axis=1))
            self._lengths[ids[new]] = np.maximum(lengths, TINY)
        rows /= self._lengths[ids][:, None]
        return rows

    def _look_up(self, word: str) -> tuple[Integers, float, Floats]:
        """Return the tokens of a word or phrase, how much it tells, and its vector."""
        (row,), ids, _ = self.encode([word])
        lengths = np.linalg.norm(self._rows[ids].astype(np.float32), axis=1)
        length = float((lengths * self._weights[ids]).max(initial=0.0))
        return (
            ids.astype(np.int64),
            min(1.0, length / self._telling) if length and self._telling else 1.0,
            row,
        )


def bundled(folder: Path) -> Table:
    """Return the model that ships with filemem, which model2vec reads too, but starts slower."""
    rows, weights = _tensors(folder / "model.safetensors", "embeddings", "weights")
    tokenizer: Tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return Table(rows, weights.astype(np.float32), tokenizer, _TELLING, by_word=True)


def _tensors(path: Path, *names: str) -> list[npt.NDArray[Any]]:
    """Return arrays of a safetensors file, of which only what is read comes into memory."""
    kinds: dict[str, np.dtype[Any]] = {"I8": np.dtype(np.int8), "F16": np.dtype(np.float16)}
    with path.open("rb") as file:
        begin = 8 + int.from_bytes(file.read(8), "little")
        known = json.loads(file.read(begin - 8))
        found = map(known.get, names)
        about = [
            (kinds[one["dtype"]], begin + one["data_offsets"][0], tuple(one["shape"]))
            for one in found
        ]
        return [np.asarray(np.memmap(file, kind, "r", at, shape)) for kind, at, shape in about]


def configured(folder: Path) -> Table:
    """Return a model of the user's, which model2vec loads."""
    import logging  # with model2vec, which needs it; a search does not

    from model2vec import StaticModel

    if not folder.is_dir():
        raise FileNotFoundError(folder)  # model2vec would look for it on the network
    logging.getLogger("huggingface_hub.repocard").setLevel(
        logging.ERROR
    )  # it misses a model card on every load
    model = StaticModel.from_pretrained(str(folder), force_download=False)
    rows = model.embedding if model.token_mapping is None else model.embedding[model.token_mapping]
    return Table(
        rows,
        np.ones(len(rows), np.float32) if model.weights is None else model.weights,
        model.tokenizer,
    )
