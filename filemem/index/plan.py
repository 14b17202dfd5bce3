"""What a query asks of the words: clauses built from terms with caps, never by a parser; and what they are worth. Pure.

Scripts written without spaces are read character by character, in place, so that any part of a run can be found as a
phrase. BM25 is computed as Tantivy does, so that a record outside of its files gets the score it would have inside.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from math import log
from typing import NamedTuple, Protocol

from filemem.index.document import clean
from filemem.query import Terms, split_identifiers

MAX_WORDS = 64
MAX_WORD = 200  # characters of one word or phrase that count
MAX_RUN = 32  # characters of one unspaced run that count

EXACT, STEM = "exact", "stem"  # the two ways of reading a text; unspaced scripts are in the exact one only
Analyze = Callable[[str, str], list[str]]  # way, text -> tokens

# text field -> (part of the document, way it is read, weight of a match in it). Titles are short, so BM25 favours them
# already: heavier weights than these cost up to 3 points of nDCG@10 on three retrieval sets.
FIELDS: dict[str, tuple[str, str, float]] = {
    "title_exact": ("title", EXACT, 0.3),
    "title_stem": ("title", STEM, 0.7),
    "topic_exact": ("topic", EXACT, 0.3),
    "topic_stem": ("topic", STEM, 0.7),
    "body_exact": ("body", EXACT, 0.6),
    "body_stem": ("body", STEM, 1.0),
}
BODY = tuple(field for field, (part, _, _) in FIELDS.items() if part == "body")
PAIR = 1.5  # weight of two neighbouring characters of an unspaced script, which has no stemmed field to add to it
WHOLE_RUN = 3.0  # weight of a whole run of them, beside its pairs

_K1 = 1.2  # as Tantivy has it


class Clause(NamedTuple):
    """One term of one field, or several in a row, and the weight of finding them."""

    field: str
    terms: tuple[str, ...]
    boost: float = 1.0


class Plan(NamedTuple):
    """A query made ready.

    Args:
        words: (word as typed, its clauses): any may match, each adds to the score.
        required: groups, of each of which one clause must match.
        excluded: groups, of none of which any clause may match.
    """

    words: tuple[tuple[str, tuple[Clause, ...]], ...] = ()
    required: tuple[tuple[Clause, ...], ...] = ()
    excluded: tuple[tuple[Clause, ...], ...] = ()

    @property
    def scored(self) -> tuple[Clause, ...]:
        """Every clause that adds to the score, each once."""
        groups = [clauses for _, clauses in self.words] + list(self.required)
        best: dict[tuple[str, tuple[str, ...]], Clause] = {}
        for clause in (clause for group in groups for clause in group):
            best.setdefault((clause.field, clause.terms), clause)
        return tuple(best.values())


# texts


# Thai, Lao, Myanmar, Khmer, kana, Bopomofo, Hangul, Han with their extensions
UNSPACED_SCRIPTS = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035"
    "\u3040-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)


@cache
def _unspaced() -> re.Pattern[str]:
    return re.compile(f"[{UNSPACED_SCRIPTS}]+")  # 5 ms, which plain English need not pay


@cache
def _character() -> re.Pattern[str]:
    return re.compile(f"[{UNSPACED_SCRIPTS}]")


def normal(text: str) -> str:
    """Return the form in which all text is read: NFKC, so that wide and half-width letters are one; no surrogates."""
    return unicodedata.normalize("NFKC", clean(text))


def prepared(way: str, text: str) -> str:
    """Return a normal text as the analyser of a way takes it: unspaced characters stand alone, or are left out."""
    if text.isascii():
        return text
    return _character().sub(r" \g<0> ", text) if way == EXACT else _unspaced().sub(" ", text)


def runs(text: str) -> list[str]:
    """Return the runs of scripts without spaces in a normal text."""
    return [] if text.isascii() else _unspaced().findall(text)


# queries


def plan(terms: Terms, analyze: Analyze, telling: Mapping[str, float] | None = None) -> Plan:
    """Return what to look for."""
    words = [(word, normal(word)) for word in terms.words[:MAX_WORDS]]
    content = [word for _, word in words if analyze(STEM, word) or runs(word)]
    found = []
    for typed, word in words:
        if word in content or not content:  # stop words count only where there is nothing else
            tells = (telling or {}).get(typed, 1.0)
            clauses = (clause._replace(boost=tells * clause.boost) for clause in _word_clauses(word, analyze))
            found.append((typed, tuple(clauses)))
    phrases = [(typed, _phrase(normal(typed), analyze)) for typed in terms.phrases[:MAX_WORDS]]
    excluded = [_phrase(normal(typed), analyze) for typed in terms.excluded[:MAX_WORDS]]
    return Plan(
        words=(*found, *(phrase for phrase in phrases if phrase[1])),
        required=tuple(group for _, group in phrases if group),
        excluded=tuple(group for group in excluded if group),
    )


def _word_clauses(word: str, analyze: Analyze) -> Iterator[Clause]:
    word = word[:MAX_WORD]
    spelt = prepared(STEM, f"{word} {split_identifiers(word)}")
    for way in (EXACT, STEM):
        for token in dict.fromkeys(analyze(way, spelt)):
            yield from _everywhere(way, (token,))
    for run in runs(word):
        yield from _run_clauses(tuple(analyze(EXACT, run[:MAX_RUN])))


def _run_clauses(run: tuple[str, ...]) -> Iterator[Clause]:
    """Ask for an unspaced run whole, and for each pair of neighbours in it; a single character is a plain term."""
    if len(run) > 2:
        yield from _everywhere(EXACT, run, WHOLE_RUN)
        for pair in pairwise(run):
            yield from _everywhere(EXACT, pair, PAIR)
    elif run:
        yield from _everywhere(EXACT, run, PAIR)


def _phrase(phrase: str, analyze: Analyze) -> tuple[Clause, ...]:
    """Return the ways to find a phrase: its tokens in a row in any of the fields."""
    tokens = tuple(analyze(EXACT, phrase[:MAX_WORD]))
    return tuple(_everywhere(EXACT, tokens)) if tokens else ()


def _everywhere(way: str, tokens: tuple[str, ...], factor: float = 1.0) -> Iterator[Clause]:
    for field, (_, read, boost) in FIELDS.items():
        if read == way:
            yield Clause(field, tokens, boost * factor)


# scores


class Statistics(Protocol):
    """What must be known of all documents: how many, and how many have a term in a field."""

    @property
    def total(self) -> int: ...
    def having(self, field: str, term: str) -> int: ...


def rarity(clauses: Iterable[Clause], known: Statistics) -> float:
    """Return the weight of a word by the rarest of its forms that stands in any text."""
    counts = [known.having(clause.field, term) for clause in clauses for term in clause.terms if clause.boost > 0]
    return _idf(known.total, min((count for count in counts if count), default=0))


def whole(asked: Plan, known: Statistics) -> float:
    """Return the score of a text of usual length that has every word of a plan once."""
    return sum(
        rarity(of, known) * max((one.boost for one in of if one.field == field), default=0.0)
        for _, of in asked.words
        for field in BODY
    )


def bm25(asked: Plan, tokens: Mapping[str, Sequence[str]], known: Statistics) -> float:
    """Return about what a document that waits would score in a generation, taken as of usual length."""
    score = 0.0
    for clause in asked.scored:
        if times := frequency(clause, tokens[clause.field]):
            rare = sum(_idf(known.total, max(1, known.having(clause.field, term))) for term in clause.terms)
            score += clause.boost * rare * (_K1 + 1) * times / (times + _K1)
    return score


def admits(asked: Plan, tokens: Mapping[str, Sequence[str]]) -> bool:
    """Whether a document has what a query requires and nothing that it excludes."""

    def has(group: tuple[Clause, ...]) -> bool:
        return any(frequency(clause, tokens[clause.field]) for clause in group)

    return all(map(has, asked.required)) and not any(map(has, asked.excluded))


def frequency(clause: Clause, tokens: Sequence[str]) -> int:
    """Return how often the terms of a clause stand in a row among the tokens of its field."""
    first, size = clause.terms[0], len(clause.terms)
    if size == 1 or first not in tokens:
        return tokens.count(first)
    return sum(tuple(tokens[at : at + size]) == clause.terms for at in range(len(tokens) - size + 1))


def _idf(total: int, having: int) -> float:
    having = min(having, total)  # removed documents that are not merged away still have their terms
    return log(1 + (total - having + 0.5) / (having + 0.5))
