"""Turn the terms of a query into clauses that Tantivy searches, and compute scores as it does.

A run of a script without spaces is read character by character, so that any part of it can be
found as a phrase. BM25 is computed as in Tantivy, so that a record that is not in its files gets
the score that it would have there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from math import log
from typing import NamedTuple

from filemem.index.words import (
    EXACT,
    FIELDS,
    MUST,
    MUST_NOT,
    STEM,
    Clause,
    Restriction,
    TermCounts,
    WordIndex,
    WordQuery,
    analyze_text,
    build_sum_query,
    build_unscored_query,
    list_runs,
    normalize_text,
    prepare_text,
)
from filemem.query import Terms, split_identifiers
from filemem.query.terms import Alternative

MAX_RUN = 32  # characters of an unspaced run that are searched
PAIR_WEIGHT = 1.5  # of two neighbouring characters of an unspaced script, which has no stems
RUN_WEIGHT = 3.0  # of a whole run of them, in addition to its pairs
PART_WEIGHT = 0.05  # of a part of a word that mixes letters and digits: the whole word must win
SYNONYM_WEIGHT = 0.4  # of a synonym; measured in bench/relevance.md
EXACT_WEIGHT = FIELDS["body_exact"][2]
STEM_WEIGHT = FIELDS["body_stem"][2]
# A word of the query is searched in both ways, a synonym in one.
WORD_WEIGHT = EXACT_WEIGHT + STEM_WEIGHT
_K1 = 1.2  # a parameter of BM25, as in Tantivy
_B = 0.75
_Group = tuple[Clause, ...]  # one of the clauses must match
_Alternative = tuple[_Group, ...]  # a synonym: one clause of each group must match


class WordAlternatives(NamedTuple):
    """The synonyms of some words of a query."""

    words: tuple[str, ...]  # as typed
    alternatives: tuple[_Alternative, ...]


class ScoredClauses(NamedTuple):
    """Clauses and their synonyms, of which the best adds to the score."""

    clauses: _Group
    alternatives: tuple[_Alternative, ...] = ()


class QueryPlan(NamedTuple):
    """A query as clauses."""

    # (word as typed, its clauses): any may match, each adds to the score
    words: tuple[tuple[str, _Group], ...] = ()
    required_groups: tuple[_Group, ...] = ()  # one clause of each must match
    excluded_groups: tuple[_Group, ...] = ()  # no clause of any may match
    word_alternatives: tuple[WordAlternatives, ...] = ()

    @property
    def scored_clauses(self) -> list[ScoredClauses]:
        """The clauses that add to the score, each once."""
        groups = [clauses for _, clauses in self.words]
        groups += self.required_groups
        remaining: dict[tuple[str, tuple[str, ...]], Clause] = {}
        for group in groups:
            for clause in group:
                remaining.setdefault((clause.field, clause.terms), clause)
        rows: list[ScoredClauses] = []
        clauses_by_word = dict(self.words)
        for words, alternatives in self.word_alternatives:
            own_clauses = []
            for word in words:
                for clause in clauses_by_word.get(word, ()):
                    own_clause = remaining.pop((clause.field, clause.terms), None)
                    if own_clause:
                        own_clauses.append(own_clause)
            if own_clauses:
                rows.append(ScoredClauses(tuple(own_clauses), alternatives))
        rows.append(ScoredClauses(tuple(remaining.values())))
        return rows

    @property
    def clauses(self) -> Iterator[Clause]:
        """All clauses that may add to the score."""
        for own_clauses, alternatives in self.scored_clauses:
            yield from own_clauses
            for alternative in alternatives:
                for group in alternative:
                    yield from group

    def build_restriction(self, cache: WordIndex) -> Restriction:
        """Return the part of the query that decides what may be found and adds no score."""
        restriction: Restriction = []
        for group in self.required_groups:
            query = cache.build_any_query(group)
            if query is None:
                query = cache.build_number_query(())  # matches nothing
            restriction.append((MUST, build_unscored_query(query)))
        for group in self.excluded_groups:
            query = cache.build_any_query(group)
            if query is not None:
                restriction.append((MUST_NOT, query))
        return restriction


def build_plan(terms: Terms, word_weights: Mapping[str, float] | None = None) -> QueryPlan:
    """Return the clauses of a query.

    Args:
        terms: of the query.
        word_weights: how informative each word is, from 0 to 1; None if not known.
    """
    weights = word_weights or {}
    words = _list_weighted_words(terms.words, weights)
    required_groups = []
    for phrase in terms.phrases:
        clauses = _build_phrase_clauses(phrase)
        if clauses:
            words.append((phrase, clauses))
            required_groups.append(clauses)
    excluded_groups = []
    for phrase in terms.excluded:
        clauses = _build_phrase_clauses(phrase)
        if clauses:
            excluded_groups.append(clauses)
    word_alternatives = []
    for row in terms.alternatives:
        alternatives = tuple(_iter_alternatives(row, weights))
        word_alternatives.append(WordAlternatives(row.words, alternatives))
    return QueryPlan(
        words=tuple(words),
        required_groups=tuple(required_groups),
        excluded_groups=tuple(excluded_groups),
        word_alternatives=tuple(word_alternatives),
    )


def _list_weighted_words(
    words: Iterable[str], word_weights: Mapping[str, float]
) -> list[tuple[str, _Group]]:
    """Return words with their clauses, without stop words unless there is nothing else."""
    content_rows = []
    stop_rows = []
    for typed in words:
        word = normalize_text(typed)
        clauses = _apply_weight(_build_word_clauses(word), word_weights.get(typed, 1.0))
        if _has_content(word):
            content_rows.append((typed, clauses))
        else:
            stop_rows.append((typed, clauses))
    return content_rows or stop_rows


def _has_content(word: str) -> bool:
    """Whether a normal word is not a stop word."""
    return bool(analyze_text(STEM, word) or list_runs(word))


def _apply_weight(clauses: _Group, weight: float) -> _Group:
    if weight == 1.0:
        return clauses
    return tuple(clause._replace(boost=weight * clause.boost) for clause in clauses)


def _iter_alternatives(
    row: Alternative, word_weights: Mapping[str, float]
) -> Iterator[_Alternative]:
    """Yield how to find each synonym: each of its words, or its exact words in a row.

    The latter if one of them is a stop word.
    """
    for phrase, weight in row.substitutes:
        boost = SYNONYM_WEIGHT * weight * word_weights.get(phrase, 1.0)
        tokens = tuple(analyze_text(EXACT, normalize_text(phrase)))
        stems_by_token = [analyze_text(STEM, token) for token in tokens]
        if all(stems_by_token):
            factor = boost * WORD_WEIGHT / STEM_WEIGHT
            all_stems = chain.from_iterable(stems_by_token)
            yield tuple(tuple(_iter_field_clauses(STEM, (stem,), factor)) for stem in all_stems)
        elif tokens:
            factor = boost * WORD_WEIGHT / EXACT_WEIGHT
            yield (tuple(_iter_field_clauses(EXACT, tokens, factor)),)


@lru_cache(maxsize=1024)  # a search makes two plans, and a server often sees the same words
def _build_word_clauses(word: str) -> tuple[Clause, ...]:
    """Return the clauses that find a normal word."""
    return (*_iter_token_clauses(word), *_iter_run_clauses(word))


def _iter_token_clauses(word: str) -> Iterator[Clause]:
    """Yield the clauses that find a word and the parts of an identifier, in both ways."""
    is_word_mixed = _is_mixed(word)
    text = prepare_text(STEM, word)
    parts_text = prepare_text(STEM, split_identifiers(word))
    for way in (EXACT, STEM):
        own_tokens = analyze_text(way, text)
        part_tokens = analyze_text(way, parts_text)
        for token in dict.fromkeys(own_tokens + part_tokens):
            factor = 1.0
            if is_word_mixed and token not in own_tokens and not _is_mixed(token):
                factor = PART_WEIGHT
            yield from _iter_field_clauses(way, (token,), factor)


def _iter_run_clauses(word: str) -> Iterator[Clause]:
    """Yield the clauses that find the unspaced runs of a word, whole and by pairs of characters."""
    for run in list_runs(word):
        characters = tuple(analyze_text(EXACT, run[:MAX_RUN]))
        if len(characters) <= 2:
            yield from _iter_field_clauses(EXACT, characters, PAIR_WEIGHT)
            continue
        yield from _iter_field_clauses(EXACT, characters, RUN_WEIGHT)
        for pair in pairwise(characters):
            yield from _iter_field_clauses(EXACT, pair, PAIR_WEIGHT)


def _is_mixed(word: str) -> bool:
    """Whether a word has both letters and digits, as `0xdeadbe` and `node17` have."""
    has_digit = any(character.isdigit() for character in word)
    return has_digit and any(character.isalpha() for character in word)


def _build_phrase_clauses(typed: str) -> _Group:
    """Return the clauses that find a phrase: its tokens in a row, in any of the fields."""
    tokens = tuple(analyze_text(EXACT, normalize_text(typed)))
    return tuple(_iter_field_clauses(EXACT, tokens))


def _iter_field_clauses(way: str, tokens: tuple[str, ...], factor: float = 1.0) -> Iterator[Clause]:
    """Yield a clause for each field that is read in a way."""
    if not tokens:
        return
    for field, (_, field_way, boost) in FIELDS.items():
        if field_way == way:
            yield Clause(field, tokens, boost * factor)


# scores


def read_counts(words: WordIndex, query_plan: QueryPlan) -> TermCounts:
    """Return the counts of the terms of a query in a word index."""
    document_counts: dict[tuple[str, str], int] = {}
    field_sizes: dict[str, tuple[int, float]] = {}
    for clause in query_plan.clauses:
        field = clause.field
        for term in clause.terms:
            document_counts[field, term] = words.get_document_count(field, term)
        average_length = words.get_average_length(field, clause.terms)
        if average_length:
            field_sizes[field] = words.total, words.total * average_length
    return TermCounts(words.total, document_counts, field_sizes)


def build_query(
    query_plan: QueryPlan, words: WordIndex, counts: TermCounts | None
) -> WordQuery | None:
    """Return the query for a word index; None if no document can match.

    `counts`: of several indexes together; None for those of the word index.
    """
    queries = []
    for own_clauses, alternatives in query_plan.scored_clauses:
        scaled_alternatives = []
        for groups in alternatives:
            scaled_groups = [scale_clauses(group, words, counts) for group in groups]
            scaled_alternatives.append(scaled_groups)
        scaled_clauses = scale_clauses(own_clauses, words, counts)
        queries.append(words.build_best_query(scaled_clauses, scaled_alternatives))
    return build_sum_query(queries)


def scale_clauses(
    clauses: Sequence[Clause], words: WordIndex, all_counts: TermCounts | None
) -> Sequence[Clause]:
    """Return clauses whose boosts make a word index score by the counts of all indexes.

    The weight of a term is exact; the effect of the length of a text is exact only for a text of
    average length.
    """
    if not all_counts:
        return clauses
    scaled_clauses = []
    for clause in clauses:
        own_length = words.get_average_length(clause.field, clause.terms)
        target_score = _compute_usual_score(clause, all_counts, own_length)
        own_score = _compute_usual_score(clause, words, own_length)
        scaled_clauses.append(clause._replace(boost=clause.boost * target_score / own_score))
    return scaled_clauses


def _compute_usual_score(
    clause: Clause, counts: WordIndex | TermCounts, text_length: float
) -> float:
    """Return the score of a clause in a text of some length, up to a constant factor."""
    average_length = counts.get_average_length(clause.field, clause.terms)
    relative_length = 1.0
    if average_length and text_length:
        relative_length = text_length / average_length
    rarity = 0.0
    for term in clause.terms:
        document_count = counts.get_document_count(clause.field, term)
        rarity += _compute_idf(counts.total, document_count)
    return rarity / (1 + _K1 * (1 - _B + _B * relative_length))


def compute_rarity(clauses: Iterable[Clause], counts: WordIndex | TermCounts) -> float:
    """Return the IDF of the rarest form of a word that any text has."""
    document_counts = []
    for clause in clauses:
        if clause.boost <= 0:
            continue
        for term in clause.terms:
            document_count = counts.get_document_count(clause.field, term)
            if document_count:
                document_counts.append(document_count)
    return _compute_idf(counts.total, min(document_counts, default=0))


def compute_full_score(query_plan: QueryPlan, counts: WordIndex | TermCounts) -> float:
    """Return the score of a text of average length that has every word of a plan once."""
    body_fields = [field for field, (part, _, _) in FIELDS.items() if part == "body"]
    score = 0.0
    for _, clauses in query_plan.words:
        rarity = compute_rarity(clauses, counts)
        for field in body_fields:
            boosts = [clause.boost for clause in clauses if clause.field == field]
            score += rarity * max(boosts, default=0.0)
    return score


def bm25(
    query_plan: QueryPlan, tokens: Mapping[str, Sequence[str]], counts: WordIndex | TermCounts
) -> float:
    """Return the score that Tantivy gives a document.

    Args:
        query_plan: of the query.
        tokens: of the document, by field.
        counts: of terms, which decide their weights.
    """
    total_score = 0.0
    for own_clauses, alternatives in query_plan.scored_clauses:
        best_score = max(0.0, _score_group(own_clauses, tokens, counts))
        for alternative in alternatives:
            scores = [_score_group(group, tokens, counts) for group in alternative]
            if all(scores):
                best_score = max(best_score, sum(scores))
        total_score += best_score
    return total_score


def _score_group(
    clauses: _Group, tokens: Mapping[str, Sequence[str]], counts: WordIndex | TermCounts
) -> float:
    """Return the sum of the BM25 scores of some clauses."""
    score = 0.0
    for clause in clauses:
        field = clause.field
        match_count = count_matches(clause, tokens[field])
        if not match_count:
            continue
        rarity = 0.0
        for term in clause.terms:
            document_count = max(1, counts.get_document_count(field, term))
            rarity += _compute_idf(counts.total, document_count)
        length_factor = 1.0
        average_length = counts.get_average_length(field, clause.terms)
        if average_length:
            length_factor = 1 - _B + _B * round_length(len(tokens[field])) / average_length
        weight = clause.boost * rarity * (_K1 + 1)
        score += weight * match_count / (match_count + _K1 * length_factor)
    return score


def count_terms(
    query_plan: QueryPlan, documents: Iterable[Mapping[str, Sequence[str]]]
) -> TermCounts:
    """Return the counts of the terms of a query in some documents, given as tokens by field."""
    terms = set()
    for clause in query_plan.clauses:
        for term in clause.terms:
            terms.add((clause.field, term))
    total = 0
    document_counts: Counter[tuple[str, str]] = Counter()
    token_counts: Counter[str] = Counter()
    for tokens in documents:
        total += 1
        for field, term in terms:
            if term in tokens[field]:
                document_counts[field, term] += 1
        for field, field_tokens in tokens.items():
            token_counts[field] += len(field_tokens)
    field_sizes = {field: (total, float(count)) for field, count in token_counts.items()}
    return TermCounts(total, document_counts, field_sizes)


def is_match(query_plan: QueryPlan, tokens: Mapping[str, Sequence[str]]) -> bool:
    """Whether a document has all that a query requires and nothing that it excludes."""
    for group in query_plan.required_groups:
        if not has_any_clause(group, tokens):
            return False
    return not any(has_any_clause(group, tokens) for group in query_plan.excluded_groups)


def count_matches(clause: Clause, tokens: Sequence[str]) -> int:
    """Return how often a field with these tokens has the terms of a clause in a row."""
    first_term = clause.terms[0]
    size = len(clause.terms)
    if size == 1 or first_term not in tokens:
        return tokens.count(first_term)
    count = 0
    for start in range(len(tokens) - size + 1):
        if tuple(tokens[start : start + size]) == clause.terms:
            count += 1
    return count


def has_any_clause(group: Iterable[Clause], tokens: Mapping[str, Sequence[str]]) -> bool:
    """Whether a document has the terms of one of some clauses; its tokens are by field."""
    return any(count_matches(clause, tokens[clause.field]) for clause in group)


def _compute_idf(total: int, document_count: int) -> float:
    """Return the inverse document frequency of a term, as BM25 has it."""
    # Removed documents count for a term until Tantivy merges its files.
    count = min(document_count, total)
    return log(1 + (total - count + 0.5) / (count + 0.5))


def round_length(length: int) -> int:
    """Return the length, in tokens, as which Tantivy stores that of a text in one byte."""
    return _LENGTHS[bisect_right(_LENGTHS, length) - 1]


def _build_lengths() -> list[int]:
    """Return the 256 lengths that Tantivy stores: all below 40, then in steps that double."""
    lengths = list(range(40))
    step = 2
    while len(lengths) < 256:
        start = lengths[-1] + step // 2
        lengths += range(start, start + 8 * step, step)
        step *= 2
    return lengths[:256]


_LENGTHS = _build_lengths()
