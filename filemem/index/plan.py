"""What a query asks of the words: clauses built from terms, never by a parser; and their worth.

Scripts written without spaces are read character by character, in place, so that any part of a run
can be found as a phrase. BM25 is computed as Tantivy does, so that a record outside of its files
gets the score it would have inside.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial
from itertools import pairwise
from math import log
from pathlib import Path
from typing import NamedTuple

from filemem.index.words import (
    EXACT,
    FIELDS,
    MUST,
    MUST_NOT,
    STEM,
    Asked,
    Clause,
    Restriction,
    Words,
    analyze,
    normal,
    prepared,
    runs,
    silent,
    stems,
    sum_of,
)
from filemem.query import Terms, split_identifiers
from filemem.query.terms import Alike, Synonyms, alike, synonyms

MAX_RUN = 32  # characters of one unspaced run that count
PAIR = 1.5  # weight of two neighbouring characters of an unspaced script, which has no stems
WHOLE_RUN = 3.0  # weight of a whole run of them, beside its pairs
PART = 0.05  # weight of the parts of a word that mixes letters and digits: the whole word wins
SAID = 0.4  # weight of what may be said instead of a word; measured: bench/relevance.md
AS_WRITTEN, STEMMED = (FIELDS[f"body_{way}"][2] for way in (EXACT, STEM))
# A word of the query is looked for in both ways, what may be said instead in one.
BOTH = AS_WRITTEN + STEMMED
SHORT = 8  # words that say something, in a query that is widened; a longer one says what it means
_list = cache(
    partial((Path(__file__).parents[1] / "query/synonyms.txt").read_text, encoding="utf-8")
)
_K1 = 1.2  # of BM25, as Tantivy has it
_B = 0.75
_Group = tuple[Clause, ...]
_Other = tuple[_Group, ...]  # what may be said instead: of each group one clause must match


class Instead(NamedTuple):
    """What may be said instead of some words of a query."""

    words: tuple[str, ...]  # as typed
    others: tuple[_Other, ...]


class Scored(NamedTuple):
    """What adds to a score: clauses, or what may be said instead of them; the best counts."""

    clauses: _Group
    others: tuple[_Other, ...] = ()


class Plan(NamedTuple):
    """A query made ready."""

    # (word as typed, its clauses): any may match, each adds to the score
    words: tuple[tuple[str, _Group], ...] = ()
    required: tuple[_Group, ...] = ()  # groups, of each of which one clause must match
    excluded: tuple[_Group, ...] = ()  # groups, of none of which any clause may match
    instead: tuple[Instead, ...] = ()

    @property
    def scored(self) -> list[Scored]:
        """What adds to the score, each clause once."""
        left: dict[tuple[str, tuple[str, ...]], Clause] = {}
        for group in (*(clauses for _, clauses in self.words), *self.required):
            for clause in group:
                left.setdefault((clause.field, clause.terms), clause)
        rows: list[Scored] = []
        by_word = dict(self.words)
        for words, others in self.instead:
            clauses = [clause for word in words for clause in by_word.get(word, ())]
            marks = dict.fromkeys((clause.field, clause.terms) for clause in clauses)
            own = tuple(left.pop(mark) for mark in marks if mark in left)
            if own:
                rows.append(Scored(own, others))
        return [*rows, Scored(tuple(left.values()))]

    @property
    def clauses(self) -> Iterator[Clause]:
        """All that may add to the score."""
        for own, others in self.scored:
            yield from own
            yield from (clause for other in others for group in other for clause in group)

    def demands(self, cache: Words) -> Restriction:
        """Return what a hit must have and must not have, also by meaning, without any score."""
        required = [
            (MUST, silent(cache.any_of(group) or cache.these(()))) for group in self.required
        ]
        excluded = [cache.any_of(group) for group in self.excluded]
        return required + [(MUST_NOT, query) for query in excluded if query]


def plan(terms: Terms, telling: Mapping[str, float] | None = None) -> Plan:
    """Return what to look for; `telling`: how much each word tells, 0..1."""
    telling = telling or {}
    phrases = [(typed, _phrase(typed)) for typed in terms.phrases]
    phrases = [(typed, group) for typed, group in phrases if group]
    return Plan(
        words=(*_weighed_words(terms.words, telling), *phrases),
        required=tuple(group for _, group in phrases),
        excluded=tuple(filter(None, map(_phrase, terms.excluded))),
        instead=tuple(Instead(row.words, tuple(_others(row, telling))) for row in terms.alike),
    )


def _weighed_words(words: Iterable[str], telling: Mapping[str, float]) -> list[tuple[str, _Group]]:
    """Words with their clauses; stop words count only where there is nothing else."""
    pairs = [(word, normal(word)) for word in words]
    content = {word for _, word in pairs if analyze(STEM, word) or runs(word)}
    return [
        (typed, _weighed(_word_clauses(word), telling.get(typed, 1.0) if telling else 1.0))
        for typed, word in pairs
        if word in content or not content
    ]


def _weighed(clauses: _Group, weight: float) -> _Group:
    if weight == 1.0:
        return clauses
    return tuple(clause._replace(boost=weight * clause.boost) for clause in clauses)


def said_instead(words: Sequence[str], own: str = "") -> tuple[Alike, ...]:
    """Return what may be said instead of the words of a short query.

    Args:
        words: of the query.
        own: a list of the project's, as a text.
    """
    if sum(bool(analyze(STEM, normal(word)) or runs(word)) for word in words) > SHORT:
        return ()
    # No stemmer changes these.
    begins = sorted({part[:2] for word in words for part in stems(word)})
    return alike(words, [_table(text, begin) for text in (own, _list()) for begin in begins], stems)


@lru_cache(maxsize=1024)
def _table(text: str, begin: str) -> Synonyms:
    """What a list says of the words that begin in one way; a server is asked for the same again."""
    return synonyms(text, stems, (begin,))


def said_in(text: str, alike_words: Iterable[Alike]) -> dict[str, tuple[str, ...]]:
    """Return for words of a query that a text does not have what it says instead."""
    tokens = {*analyze(STEM, normal(text)), *analyze(EXACT, normal(text))}
    instead: dict[str, tuple[str, ...]] = {}
    for row in alike_words:
        typed = " ".join(row.words)
        others = tuple(phrase for phrase, _ in row.instead if tokens.issuperset(stems(phrase)))
        if others and not tokens.issuperset(stems(typed)):
            instead[typed] = others
    return instead


def _others(row: Alike, telling: Mapping[str, float]) -> Iterator[_Other]:
    """Yield how to find each phrase: all of its words, or in a row where one is a stop word."""
    for phrase, weight in row.instead:
        boost = SAID * weight * telling.get(phrase, 1.0)
        tokens = tuple(analyze(EXACT, normal(phrase)))
        stemmed = [analyze(STEM, token) for token in tokens]
        if all(stemmed):
            yield tuple(
                tuple(_everywhere(STEM, (stem,), boost * BOTH / STEMMED))
                for token_stems in stemmed
                for stem in token_stems
            )
        elif tokens:
            yield (tuple(_everywhere(EXACT, tokens, boost * BOTH / AS_WRITTEN)),)


@lru_cache(maxsize=1024)  # a search plans twice, and a server is asked for the same words again
def _word_clauses(word: str) -> tuple[Clause, ...]:
    """Return the ways to find a word."""
    return tuple(_clauses_of(word))


def _clauses_of(word: str) -> Iterator[Clause]:
    mixed = _mixes(word)
    for way in (EXACT, STEM):
        own = analyze(way, prepared(STEM, word))
        parts = analyze(way, prepared(STEM, split_identifiers(word)))
        for token in dict.fromkeys((*own, *parts)):
            is_part = mixed and token not in own and not _mixes(token)
            yield from _everywhere(way, (token,), PART if is_part else 1.0)
    # A run is looked for whole, and by each pair of neighbours; one character is a plain term.
    for run in runs(word):
        characters = tuple(analyze(EXACT, run[:MAX_RUN]))
        if len(characters) > 2:
            yield from _everywhere(EXACT, characters, WHOLE_RUN)
        for pair in pairwise(characters) if len(characters) > 2 else (characters,):
            yield from _everywhere(EXACT, pair, PAIR)


def _mixes(word: str) -> bool:
    """Whether a word has both letters and digits, as `0xdeadbe` and `node17` have."""
    return any(map(str.isdigit, word)) and any(map(str.isalpha, word))


def _phrase(typed: str) -> _Group:
    """Return the ways to find a phrase: its tokens in a row in any of the fields."""
    return tuple(_everywhere(EXACT, tuple(analyze(EXACT, normal(typed)))))


def _everywhere(way: str, tokens: tuple[str, ...], factor: float = 1.0) -> Iterator[Clause]:
    for field, (_, read, boost) in FIELDS.items():
        if read == way and tokens:
            yield Clause(field, tokens, boost * factor)


# scores


class Counts(NamedTuple):
    """Counts of the terms of one question, as `Words` has those of all.

    What a word is worth follows from them alone: candidates of several indexes are on one scale if
    each index gets the counts of all, `added`.
    """

    total: int = 0  # documents
    held: Mapping[tuple[str, str], int] = {}  # (field, term) -> documents that hold it
    sizes: Mapping[str, tuple[int, float]] = {}  # field -> documents, their tokens; if counted

    def having(self, field: str, term: str) -> int:
        """Return how many documents hold a term in a field; 0 for one that was not counted."""
        return self.held.get((field, term), 0)

    def usual(self, field: str, _terms: Iterable[str]) -> float:
        """Return how many tokens a document has in a field, on average; 0 if that is not known."""
        documents, tokens = self.sizes.get(field, (0, 0.0))
        return tokens / documents if documents else 0.0


def added(parts: Iterable[Counts]) -> Counts:
    """Return the counts of all parts together."""
    total = 0
    held: Counter[tuple[str, str]] = Counter()
    sizes: dict[str, tuple[int, float]] = {}
    for part in parts:
        total += part.total
        held.update(part.held)
        for field, (documents, tokens) in part.sizes.items():
            before = sizes.get(field, (0, 0.0))
            sizes[field] = before[0] + documents, before[1] + tokens
    return Counts(total, held, sizes)


def counts_in(words: Words, prepared: Plan) -> Counts:
    """Return the counts that the cache of words has of the terms of a question."""
    held: dict[tuple[str, str], int] = {}
    sizes: dict[str, tuple[int, float]] = {}
    for clause in prepared.clauses:
        held |= {(clause.field, term): words.having(clause.field, term) for term in clause.terms}
        usual = words.usual(clause.field, clause.terms)
        if usual:
            sizes[clause.field] = words.total, words.total * usual
    return Counts(words.total, held, sizes)


def query(prepared: Plan, words: Words, counts: Counts | None) -> Asked | None:
    """Return what the cache of words is asked; None where no document can match."""
    scaled = partial(on_scale, own=words, all_counts=counts)
    queries = []
    for own, others in prepared.scored:
        sides = (map(scaled, groups) for groups in others)
        queries.append(words.best_of(scaled(own), sides))
    return sum_of(queries)


def on_scale(clauses: Sequence[Clause], own: Words, all_counts: Counts | None) -> Sequence[Clause]:
    """Return clauses so weighed that an index, which goes by its own counts, scores by all.

    What a term is worth is exact; how the length of a text counts is so for one of the index's
    usual length.
    """
    if not all_counts:
        return clauses

    def worth(clause: Clause, counts: Words | Counts) -> float:
        length = own.usual(clause.field, clause.terms)
        usual = counts.usual(clause.field, clause.terms)
        long = length / usual if usual and length else 1.0
        rare = sum(_idf(counts.total, counts.having(clause.field, term)) for term in clause.terms)
        return rare / (1 + _K1 * (1 - _B + _B * long))

    return [
        clause._replace(boost=clause.boost * worth(clause, all_counts) / worth(clause, own))
        for clause in clauses
    ]


def rarity(clauses: Iterable[Clause], counts: Words | Counts) -> float:
    """Return the weight of a word by the rarest of its forms that stands in any text."""
    numbers = [
        counts.having(clause.field, term)
        for clause in clauses
        for term in clause.terms
        if clause.boost > 0
    ]
    return _idf(counts.total, min((number for number in numbers if number), default=0))


def whole(question: Plan, counts: Words | Counts) -> float:
    """Return the score of a text of usual length that has every word of a plan once."""
    fields = [field for field, (part, _, _) in FIELDS.items() if part == "body"]
    return sum(
        rarity(clauses, counts) * _highest_boost(clauses, field)
        for _, clauses in question.words
        for field in fields
    )


def _highest_boost(clauses: _Group, field: str) -> float:
    return max((clause.boost for clause in clauses if clause.field == field), default=0.0)


def bm25(question: Plan, tokens: Mapping[str, Sequence[str]], counts: Words | Counts) -> float:
    """Return what Tantivy would give a document that has these tokens, by some counts."""

    def length(clause: Clause) -> float:
        usual = counts.usual(clause.field, clause.terms)
        return 1 - _B + _B * told_apart(len(tokens[clause.field])) / usual if usual else 1.0

    def any_of(clauses: _Group) -> float:
        score = 0.0
        for clause in clauses:
            times = frequency(clause, tokens[clause.field])
            if times:
                rare = sum(
                    _idf(counts.total, max(1, counts.having(clause.field, term)))
                    for term in clause.terms
                )
                score += clause.boost * rare * (_K1 + 1) * times / (times + _K1 * length(clause))
        return score

    def every(other: _Other) -> float:
        scores = list(map(any_of, other))
        return sum(scores) if all(scores) else 0.0

    return sum(max(any_of(own), *map(every, others), 0.0) for own, others in question.scored)


def told_apart(length: int) -> int:
    """Return the length, in tokens, that Tantivy keeps of a text: it has one byte for it."""
    return _LENGTHS[bisect_right(_LENGTHS, length) - 1]


def _lengths() -> list[int]:
    """The lengths that one byte tells apart: all below 40, then eight of each step, doubled."""
    lengths = list(range(40))
    step = 2
    while len(lengths) < 256:
        begin = lengths[-1] + step // 2
        lengths += range(begin, begin + 8 * step, step)
        step *= 2
    return lengths[:256]


_LENGTHS = _lengths()


def counted(prepared: Plan, documents: Iterable[Mapping[str, Sequence[str]]]) -> Counts:
    """Return the counts of the words of a question, from the tokens of all documents."""
    clauses = {(clause.field, term) for clause in prepared.clauses for term in clause.terms}
    held: Counter[tuple[str, str]] = Counter()
    sizes: Counter[str] = Counter()
    total = 0
    for tokens in documents:
        total += 1
        held.update((field, term) for field, term in clauses if term in tokens[field])
        sizes.update({field: len(terms) for field, terms in tokens.items()})
    return Counts(total, held, {field: (total, float(size)) for field, size in sizes.items()})


def admits(question: Plan, tokens: Mapping[str, Sequence[str]]) -> bool:
    """Whether a document has what a query requires and nothing that it excludes."""

    def has(group: _Group) -> bool:
        return any(frequency(clause, tokens[clause.field]) for clause in group)

    return all(map(has, question.required)) and not any(map(has, question.excluded))


def frequency(clause: Clause, tokens: Sequence[str]) -> int:
    """Return how often the terms of a clause stand in a row among the tokens of its field."""
    first = clause.terms[0]
    size = len(clause.terms)
    if size == 1 or first not in tokens:
        return tokens.count(first)
    return sum(
        tuple(tokens[at : at + size]) == clause.terms for at in range(len(tokens) - size + 1)
    )


def _idf(total: int, having: int) -> float:
    having = min(having, total)  # removed documents that are not merged away still have their terms
    return log(1 + (total - having + 0.5) / (having + 0.5))
