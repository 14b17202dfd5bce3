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
    Clause,
    Restriction,
    WordIndex,
    WordQuery,
    analyze_text,
    build_sum_query,
    build_unscored_query,
    list_runs,
    normalize_text,
    prepare_text,
    stem_phrase,
)
from filemem.query import Terms, split_identifiers
from filemem.query.terms import Alternative, Synonyms, build_synonyms, list_alternatives

MAX_RUN = 32  # characters of one unspaced run that count
PAIR_WEIGHT = 1.5  # weight of two neighbouring characters of an unspaced script, which has no stems
RUN_WEIGHT = 3.0  # weight of a whole run of them, beside its pairs
PART_WEIGHT = (
    0.05  # weight of the parts of a word that mixes letters and digits: the whole word wins
)
SYNONYM_WEIGHT = 0.4  # weight of what may be said instead of a word; measured: bench/relevance.md
EXACT_WEIGHT, STEM_WEIGHT = (FIELDS[f"body_{way}"][2] for way in (EXACT, STEM))
# A word of the query is looked for in both ways, what may be said instead in one.
WORD_WEIGHT = EXACT_WEIGHT + STEM_WEIGHT
MAX_WIDENED_WORDS = (
    8  # words that say something, in a query that is widened; a longer one says what it means
)
_read_synonyms = cache(
    partial((Path(__file__).parents[1] / "query/synonyms.txt").read_text, encoding="utf-8")
)
_K1 = 1.2  # of BM25, as Tantivy has it
_B = 0.75
_Group = tuple[Clause, ...]
_Alternative = tuple[_Group, ...]  # what may be said instead: of each group one clause must match


class WordAlternatives(NamedTuple):
    """What may be said instead of some words of a query."""

    words: tuple[str, ...]  # as typed
    alternatives: tuple[_Alternative, ...]


class ScoredClauses(NamedTuple):
    """What adds to a score: clauses, or what may be said instead of them; the best counts."""

    clauses: _Group
    alternatives: tuple[_Alternative, ...] = ()


class QueryPlan(NamedTuple):
    """A query made ready."""

    # (word as typed, its clauses): any may match, each adds to the score
    words: tuple[tuple[str, _Group], ...] = ()
    required_groups: tuple[_Group, ...] = ()  # groups, of each of which one clause must match
    excluded_groups: tuple[_Group, ...] = ()  # groups, of none of which any clause may match
    word_alternatives: tuple[WordAlternatives, ...] = ()

    @property
    def scored_clauses(self) -> list[ScoredClauses]:
        """What adds to the score, each clause once."""
        remaining: dict[tuple[str, tuple[str, ...]], Clause] = {}
        for group in (*(clauses for _, clauses in self.words), *self.required_groups):
            for clause in group:
                remaining.setdefault((clause.field, clause.terms), clause)
        rows: list[ScoredClauses] = []
        by_word = dict(self.words)
        for words, alternatives in self.word_alternatives:
            clauses = [clause for word in words for clause in by_word.get(word, ())]
            clause_keys = dict.fromkeys((clause.field, clause.terms) for clause in clauses)
            own_clauses = tuple(
                remaining.pop(clause_key) for clause_key in clause_keys if clause_key in remaining
            )
            if own_clauses:
                rows.append(ScoredClauses(own_clauses, alternatives))
        return [*rows, ScoredClauses(tuple(remaining.values()))]

    @property
    def clauses(self) -> Iterator[Clause]:
        """All that may add to the score."""
        for own_clauses, alternatives in self.scored_clauses:
            yield from own_clauses
            yield from (
                clause for alternative in alternatives for group in alternative for clause in group
            )

    def build_restriction(self, cache: WordIndex) -> Restriction:
        """Return what a hit must have and must not have, also by meaning, without any score."""
        required = [
            (
                MUST,
                build_unscored_query(cache.build_any_query(group) or cache.build_number_query(())),
            )
            for group in self.required_groups
        ]
        excluded = [cache.build_any_query(group) for group in self.excluded_groups]
        return required + [(MUST_NOT, query) for query in excluded if query]


def build_plan(terms: Terms, word_weights: Mapping[str, float] | None = None) -> QueryPlan:
    """Return what to look for; `telling`: how much each word tells, 0..1."""
    word_weights = word_weights or {}
    phrases = [(typed, _build_phrase_clauses(typed)) for typed in terms.phrases]
    phrases = [(typed, group) for typed, group in phrases if group]
    return QueryPlan(
        words=(*_list_weighted_words(terms.words, word_weights), *phrases),
        required_groups=tuple(group for _, group in phrases),
        excluded_groups=tuple(filter(None, map(_build_phrase_clauses, terms.excluded))),
        word_alternatives=tuple(
            WordAlternatives(row.words, tuple(_iter_alternatives(row, word_weights)))
            for row in terms.alternatives
        ),
    )


def _list_weighted_words(
    words: Iterable[str], word_weights: Mapping[str, float]
) -> list[tuple[str, _Group]]:
    """Words with their clauses; stop words count only where there is nothing else."""
    pairs = [(word, normalize_text(word)) for word in words]
    content = {word for _, word in pairs if analyze_text(STEM, word) or list_runs(word)}
    return [
        (
            typed,
            _apply_weight(
                _build_word_clauses(word), word_weights.get(typed, 1.0) if word_weights else 1.0
            ),
        )
        for typed, word in pairs
        if word in content or not content
    ]


def _apply_weight(clauses: _Group, weight: float) -> _Group:
    if weight == 1.0:
        return clauses
    return tuple(clause._replace(boost=weight * clause.boost) for clause in clauses)


def find_synonyms(words: Sequence[str], own_list: str = "") -> tuple[Alternative, ...]:
    """Return what may be said instead of the words of a short query.

    Args:
        words: of the query.
        own: a list of the project's, as a text.
    """
    if (
        sum(bool(analyze_text(STEM, normalize_text(word)) or list_runs(word)) for word in words)
        > MAX_WIDENED_WORDS
    ):
        return ()
    # No stemmer changes these.
    prefixes = sorted({part[:2] for word in words for part in stem_phrase(word)})
    return list_alternatives(
        words,
        [
            _build_synonym_table(text, prefix)
            for text in (own_list, _read_synonyms())
            for prefix in prefixes
        ],
        stem_phrase,
    )


@lru_cache(maxsize=1024)
def _build_synonym_table(text: str, prefix: str) -> Synonyms:
    """What a list says of the words that begin in one way; a server is asked for the same again."""
    return build_synonyms(text, stem_phrase, (prefix,))


def match_synonyms(text: str, alike_words: Iterable[Alternative]) -> dict[str, tuple[str, ...]]:
    """Return for words of a query that a text does not have what it says instead."""
    tokens = {*analyze_text(STEM, normalize_text(text)), *analyze_text(EXACT, normalize_text(text))}
    matches: dict[str, tuple[str, ...]] = {}
    for row in alike_words:
        typed = " ".join(row.words)
        phrases = tuple(
            phrase for phrase, _ in row.substitutes if tokens.issuperset(stem_phrase(phrase))
        )
        if phrases and not tokens.issuperset(stem_phrase(typed)):
            matches[typed] = phrases
    return matches


def _iter_alternatives(
    row: Alternative, word_weights: Mapping[str, float]
) -> Iterator[_Alternative]:
    """Yield how to find each phrase: all of its words, or in a row where one is a stop word."""
    for phrase, weight in row.substitutes:
        boost = SYNONYM_WEIGHT * weight * word_weights.get(phrase, 1.0)
        tokens = tuple(analyze_text(EXACT, normalize_text(phrase)))
        stemmed = [analyze_text(STEM, token) for token in tokens]
        if all(stemmed):
            yield tuple(
                tuple(_iter_field_clauses(STEM, (stem,), boost * WORD_WEIGHT / STEM_WEIGHT))
                for token_stems in stemmed
                for stem in token_stems
            )
        elif tokens:
            yield (tuple(_iter_field_clauses(EXACT, tokens, boost * WORD_WEIGHT / EXACT_WEIGHT)),)


@lru_cache(maxsize=1024)  # a search plans twice, and a server is asked for the same words again
def _build_word_clauses(word: str) -> tuple[Clause, ...]:
    """Return the ways to find a word."""
    return tuple(_iter_word_clauses(word))


def _iter_word_clauses(word: str) -> Iterator[Clause]:
    is_mixed = _is_mixed(word)
    for way in (EXACT, STEM):
        own_tokens = analyze_text(way, prepare_text(STEM, word))
        parts = analyze_text(way, prepare_text(STEM, split_identifiers(word)))
        for token in dict.fromkeys((*own_tokens, *parts)):
            is_part = is_mixed and token not in own_tokens and not _is_mixed(token)
            yield from _iter_field_clauses(way, (token,), PART_WEIGHT if is_part else 1.0)
    # A run is looked for whole, and by each pair of neighbours; one character is a plain term.
    for run in list_runs(word):
        characters = tuple(analyze_text(EXACT, run[:MAX_RUN]))
        if len(characters) > 2:
            yield from _iter_field_clauses(EXACT, characters, RUN_WEIGHT)
        for pair in pairwise(characters) if len(characters) > 2 else (characters,):
            yield from _iter_field_clauses(EXACT, pair, PAIR_WEIGHT)


def _is_mixed(word: str) -> bool:
    """Whether a word has both letters and digits, as `0xdeadbe` and `node17` have."""
    return any(map(str.isdigit, word)) and any(map(str.isalpha, word))


def _build_phrase_clauses(typed: str) -> _Group:
    """Return the ways to find a phrase: its tokens in a row in any of the fields."""
    return tuple(_iter_field_clauses(EXACT, tuple(analyze_text(EXACT, normalize_text(typed)))))


def _iter_field_clauses(way: str, tokens: tuple[str, ...], factor: float = 1.0) -> Iterator[Clause]:
    for field, (_, field_way, boost) in FIELDS.items():
        if field_way == way and tokens:
            yield Clause(field, tokens, boost * factor)


# scores


class TermCounts(NamedTuple):
    """Counts of the terms of one question, as `Words` has those of all.

    What a word is worth follows from them alone: candidates of several indexes are on one scale if
    each index gets the counts of all, `added`.
    """

    total: int = 0  # documents
    document_counts: Mapping[tuple[str, str], int] = {}  # (field, term) -> documents that hold it
    field_sizes: Mapping[
        str, tuple[int, float]
    ] = {}  # field -> documents, their tokens; if counted

    def get_document_count(self, field: str, term: str) -> int:
        """Return how many documents hold a term in a field; 0 for one that was not counted."""
        return self.document_counts.get((field, term), 0)

    def get_average_length(self, field: str, _terms: Iterable[str]) -> float:
        """Return how many tokens a document has in a field, on average; 0 if that is not known."""
        documents, tokens = self.field_sizes.get(field, (0, 0.0))
        return tokens / documents if documents else 0.0


def merge_counts(parts: Iterable[TermCounts]) -> TermCounts:
    """Return the counts of all parts together."""
    total = 0
    document_counts: Counter[tuple[str, str]] = Counter()
    field_sizes: dict[str, tuple[int, float]] = {}
    for part in parts:
        total += part.total
        document_counts.update(part.document_counts)
        for field, (documents, tokens) in part.field_sizes.items():
            before = field_sizes.get(field, (0, 0.0))
            field_sizes[field] = before[0] + documents, before[1] + tokens
    return TermCounts(total, document_counts, field_sizes)


def read_counts(words: WordIndex, query_plan: QueryPlan) -> TermCounts:
    """Return the counts that the cache of words has of the terms of a question."""
    document_counts: dict[tuple[str, str], int] = {}
    field_sizes: dict[str, tuple[int, float]] = {}
    for clause in query_plan.clauses:
        document_counts |= {
            (clause.field, term): words.get_document_count(clause.field, term)
            for term in clause.terms
        }
        average_length = words.get_average_length(clause.field, clause.terms)
        if average_length:
            field_sizes[clause.field] = words.total, words.total * average_length
    return TermCounts(words.total, document_counts, field_sizes)


def build_query(
    query_plan: QueryPlan, words: WordIndex, counts: TermCounts | None
) -> WordQuery | None:
    """Return what the cache of words is asked; None where no document can match."""
    scale = partial(scale_clauses, own=words, all_counts=counts)
    queries = []
    for own_clauses, alternatives in query_plan.scored_clauses:
        sides = (map(scale, groups) for groups in alternatives)
        queries.append(words.build_best_query(scale(own_clauses), sides))
    return build_sum_query(queries)


def scale_clauses(
    clauses: Sequence[Clause], own: WordIndex, all_counts: TermCounts | None
) -> Sequence[Clause]:
    """Return clauses so weighed that an index, which goes by its own counts, scores by all.

    What a term is worth is exact; how the length of a text counts is so for one of the index's
    usual length.
    """
    if not all_counts:
        return clauses

    def compute_worth(clause: Clause, counts: WordIndex | TermCounts) -> float:
        length = own.get_average_length(clause.field, clause.terms)
        average_length = counts.get_average_length(clause.field, clause.terms)
        relative_length = length / average_length if average_length and length else 1.0
        term_rarity = sum(
            _compute_idf(counts.total, counts.get_document_count(clause.field, term))
            for term in clause.terms
        )
        return term_rarity / (1 + _K1 * (1 - _B + _B * relative_length))

    return [
        clause._replace(
            boost=clause.boost * compute_worth(clause, all_counts) / compute_worth(clause, own)
        )
        for clause in clauses
    ]


def compute_rarity(clauses: Iterable[Clause], counts: WordIndex | TermCounts) -> float:
    """Return the weight of a word by the rarest of its forms that stands in any text."""
    numbers = [
        counts.get_document_count(clause.field, term)
        for clause in clauses
        for term in clause.terms
        if clause.boost > 0
    ]
    return _compute_idf(counts.total, min((number for number in numbers if number), default=0))


def compute_full_score(query_plan: QueryPlan, counts: WordIndex | TermCounts) -> float:
    """Return the score of a text of usual length that has every word of a plan once."""
    fields = [field for field, (part, _, _) in FIELDS.items() if part == "body"]
    return sum(
        compute_rarity(clauses, counts) * _find_highest_boost(clauses, field)
        for _, clauses in query_plan.words
        for field in fields
    )


def _find_highest_boost(clauses: _Group, field: str) -> float:
    return max((clause.boost for clause in clauses if clause.field == field), default=0.0)


def bm25(
    query_plan: QueryPlan, tokens: Mapping[str, Sequence[str]], counts: WordIndex | TermCounts
) -> float:
    """Return what Tantivy would give a document that has these tokens, by some counts."""

    def normalize_length(clause: Clause) -> float:
        average_length = counts.get_average_length(clause.field, clause.terms)
        return (
            1 - _B + _B * round_length(len(tokens[clause.field])) / average_length
            if average_length
            else 1.0
        )

    def score_group(clauses: _Group) -> float:
        score = 0.0
        for clause in clauses:
            match_count = count_matches(clause, tokens[clause.field])
            if match_count:
                term_rarity = sum(
                    _compute_idf(
                        counts.total, max(1, counts.get_document_count(clause.field, term))
                    )
                    for term in clause.terms
                )
                score += (
                    clause.boost
                    * term_rarity
                    * (_K1 + 1)
                    * match_count
                    / (match_count + _K1 * normalize_length(clause))
                )
        return score

    def score_alternative(alternative: _Alternative) -> float:
        scores = list(map(score_group, alternative))
        return sum(scores) if all(scores) else 0.0

    return sum(
        max(score_group(own_clauses), *map(score_alternative, alternatives), 0.0)
        for own_clauses, alternatives in query_plan.scored_clauses
    )


def round_length(length: int) -> int:
    """Return the length, in tokens, that Tantivy keeps of a text: it has one byte for it."""
    return _LENGTHS[bisect_right(_LENGTHS, length) - 1]


def _build_lengths() -> list[int]:
    """The lengths that one byte tells apart: all below 40, then eight of each step, doubled."""
    lengths = list(range(40))
    step = 2
    while len(lengths) < 256:
        start = lengths[-1] + step // 2
        lengths += range(start, start + 8 * step, step)
        step *= 2
    return lengths[:256]


_LENGTHS = _build_lengths()


def count_terms(
    query_plan: QueryPlan, documents: Iterable[Mapping[str, Sequence[str]]]
) -> TermCounts:
    """Return the counts of the words of a question, from the tokens of all documents."""
    clauses = {(clause.field, term) for clause in query_plan.clauses for term in clause.terms}
    document_counts: Counter[tuple[str, str]] = Counter()
    field_sizes: Counter[str] = Counter()
    total = 0
    for tokens in documents:
        total += 1
        document_counts.update((field, term) for field, term in clauses if term in tokens[field])
        field_sizes.update({field: len(terms) for field, terms in tokens.items()})
    return TermCounts(
        total, document_counts, {field: (total, float(size)) for field, size in field_sizes.items()}
    )


def is_match(query_plan: QueryPlan, tokens: Mapping[str, Sequence[str]]) -> bool:
    """Whether a document has what a query requires and nothing that it excludes."""

    def has_any(group: _Group) -> bool:
        return any(count_matches(clause, tokens[clause.field]) for clause in group)

    return all(map(has_any, query_plan.required_groups)) and not any(
        map(has_any, query_plan.excluded_groups)
    )


def count_matches(clause: Clause, tokens: Sequence[str]) -> int:
    """Return how often the terms of a clause stand in a row among the tokens of its field."""
    first_term = clause.terms[0]
    size = len(clause.terms)
    if size == 1 or first_term not in tokens:
        return tokens.count(first_term)
    return sum(
        tuple(tokens[start : start + size]) == clause.terms
        for start in range(len(tokens) - size + 1)
    )


def _compute_idf(total: int, document_count: int) -> float:
    document_count = min(
        document_count, total
    )  # removed documents that are not merged away still have their terms
    return log(1 + (total - document_count + 0.5) / (document_count + 0.5))
