"""The score of a candidate: parts on 0..1 and their weighted mean.

No part depends on the tail of a result list. The keyword part is relative to the best of this
query, the meaning parts are plain cosines; so a record gets nearly the same score whatever else was
found.
"""

import math
import re
from collections.abc import Container, Iterable, Sequence
from functools import lru_cache
from itertools import islice
from operator import attrgetter, mul
from typing import NamedTuple

from filemem.chain import NO_FACTS, Facts, Node
from filemem.query.snippet import COMMON_WORDS
from filemem.record import DECISION


class Weights(NamedTuple):
    """How much each part counts; only the ratios matter, the final score is their weighted mean."""

    keyword: float
    vector: float = 0.0
    title: float = 0.0
    wording: float = 0.0
    recency: float = 0.0


# Measured on three retrieval sets, each part left out in turn: bench/relevance.md. Recency moves
# a record past another only if they are within .04.
HYBRID = Weights(keyword=0.35, vector=0.60, title=0.10, wording=0.30, recency=0.05)
KEYWORD_ONLY = Weights(keyword=1.0)
MEANING_ONLY = Weights(keyword=0.0, vector=0.60, title=0.10, wording=0.30)

# A checkpoint has the words of all work in progress; decisions should come before it.
LESSER_FACTOR = 0.5

# The mean of cosines at which a record is as likely relevant as not, and the slope there.
EVEN_POINT = 0.42
STEEPNESS = 12.0

# Share of a query's words, by weight, in a full match: else "use" alone would be one.
FULL_MATCH_SHARE = 0.5

# The highest score of several words without a vector.
WORDS_ONLY_LIMIT = 0.94

FEW_RECORDS = 3  # records with a word that separates them from the others

HALF_LIFE = 180 * 86_400_000  # milliseconds after which recency is worth half


class Candidate(NamedTuple):
    """A record that retrieval nominates."""

    node: Node
    blob: str
    keyword: float = 0.0  # the raw BM25 score; 0 if no word matched
    cosine: float | None = None  # of the best passage; None without a vector
    title_cosine: float | None = None
    wording: float | None = None  # similarity of its words to the query's; None if not compared
    facts: Facts = NO_FACTS

    @property
    def id(self) -> str:
        """The record's id."""
        return self.node.id

    @property
    def path(self) -> str:
        """The record's path."""
        return self.node.path


class Scores(NamedTuple):
    """The parts of a score and their weighted mean, all on 0..1."""

    keyword: float = 0.0
    vector: float = 0.0
    title: float = 0.0
    wording: float = 0.0
    recency: float = 0.0
    final: float = 0.0


class ScoredCandidate(NamedTuple):
    """A candidate with its scores."""

    id: str
    created: int
    scores: Scores

    @property
    def rank(self) -> tuple[float, int, str]:
        """Sort key, best first: score, then the younger, then the id, so that no two are equal."""
        return (-self.scores.final, -self.created, self.id)


class _Scale(NamedTuple):
    """The weights for the candidates of one query, and the best values among them."""

    weights: Weights
    keyword: float
    cosine: float
    best_wording: float
    least_wording: float


def score_candidates(
    candidates: Iterable[Candidate],
    *,
    now: int,
    recency: bool = True,
    weights: Weights | None = None,
    lesser_ids: Container[str] = (),
    full_score: float = 0.0,
    is_word: bool = False,
) -> tuple[ScoredCandidate, ...]:
    """Return the candidates with scores, best first.

    Args:
        candidates: what words and vectors found, each record once.
        now: the time in epoch milliseconds.
        recency: whether age counts.
        weights: HYBRID by default, and KEYWORD_ONLY if no candidate has a cosine.
        lesser_ids: records whose score is multiplied by LESSER_FACTOR.
        full_score: the BM25 of a record with every word; the best must have half of it to count in
            full.
        is_word: whether the query is a single word. If it separates a few records from the others,
            they come first, in the upper half of the scale: a name that was typed is meant, however
            near in meaning other texts are.
    """
    rows = list(candidates)
    scale = _build_scale(rows, weights, recency=recency, full_score=full_score, is_word=is_word)
    matching_count = sum(row.keyword > 0 for row in rows)
    is_few = 0 < matching_count <= FEW_RECORDS
    is_name = is_word and is_few and scale.weights.keyword > 0
    scored: list[ScoredCandidate] = []
    for row in rows:
        node = row.node
        node_recency = _compute_node_recency(node, now) if recency else 0.0
        parts = _compute_parts(row, scale, node_recency)
        final = min(1.0, _compute_mean(scale.weights, parts))
        if node.id in lesser_ids:
            final *= LESSER_FACTOR
        if is_name:
            final = final / 2
            if row.keyword > 0:
                final += 0.5
        scored.append(ScoredCandidate(node.id, node.created, Scores(*parts, final)))
    scored.sort(key=attrgetter("rank"))
    return tuple(scored)


def _compute_mean(weights: Weights, parts: Iterable[float]) -> float:
    """Return the weighted mean of the parts of a score."""
    total: float = sum(map(mul, weights, parts))
    return total / sum(weights)


def _build_scale(
    rows: Sequence[Candidate],
    weights: Weights | None,
    *,
    recency: bool,
    full_score: float,
    is_word: bool,
) -> _Scale:
    cosines = [row.cosine for row in rows if row.cosine is not None]
    wordings = [row.wording for row in rows if row.wording is not None]
    best_keyword = max((row.keyword for row in rows), default=0.0)
    if cosines:
        best_possible = FULL_MATCH_SHARE * full_score
    elif is_word or not full_score:
        best_possible = full_score
    else:  # one word in common with a sentence is not a full match
        best_possible = max(full_score, best_keyword / WORDS_ONLY_LIMIT)
    selected_weights = _select_weights(
        weights,
        has_cosines=bool(cosines),
        has_wordings=bool(wordings),
        recency=recency,
    )
    return _Scale(
        weights=selected_weights,
        keyword=max(best_keyword, best_possible) or 1.0,
        cosine=_clamp_cosine(max(cosines, default=0.0)),
        best_wording=_clamp_cosine(max(wordings, default=0.0)),
        least_wording=_clamp_cosine(min(wordings, default=0.0)),
    )


def _select_weights(
    weights: Weights | None, *, has_cosines: bool, has_wordings: bool, recency: bool
) -> Weights:
    """Return the weights of the parts that the candidates have."""
    if weights is None or not (has_cosines or weights.keyword):
        weights = HYBRID if has_cosines else KEYWORD_ONLY
    if not has_wordings:
        weights = weights._replace(wording=0.0)
    return weights if recency else weights._replace(recency=0.0)


_Parts = tuple[float, float, float, float, float]


def _compute_parts(row: Candidate, scale: _Scale, recency: float) -> _Parts:
    """Return the parts of a score, in the order of Weights.

    A record without a vector is scored by its words on the scale of this query; else a new save
    would come last.
    """
    keyword = row.keyword / scale.keyword
    if row.cosine is None:
        vector = keyword * scale.cosine
        wording = keyword * scale.best_wording
    else:
        vector = _clamp_cosine(row.cosine)
        wording = scale.least_wording
    if row.wording is not None:
        wording = _clamp_cosine(row.wording)
    title = vector if row.title_cosine is None else _clamp_cosine(row.title_cosine)
    return keyword, vector, title, wording, recency


def compute_relevance(scores: Scores) -> float:
    """Return how likely a record is about the question, 0..1, see `compute_likelihood`.

    It does not depend on other results. Only the cosines count: the keyword part is relative to the
    best record of the query, which may be far off.
    """
    if not scores.vector and not scores.wording:  # without vectors only the words are known
        return scores.keyword
    parts = scores[: len(MEANING_ONLY)]
    return compute_likelihood(_compute_mean(MEANING_ONLY, parts))


def compute_likelihood(meaning: float) -> float:
    """Put a mean of cosines on a scale of 0..1: a logistic curve, .5 at EVEN_POINT.

    Measured on two retrieval sets with the bundled model: relevant records have a mean of .40 to
    .80 (median .58), the best record for a question about something else .17 to .44 (median .30).
    """
    exponent = -STEEPNESS * (meaning - EVEN_POINT)
    return 1.0 / (1.0 + math.exp(exponent))


# The quickly known scores of a candidate: keyword, cosine and title_cosine.
QuickScores = tuple[float, float | None, float | None]


def list_best_positions(parts: Sequence[QuickScores], limit: int) -> list[int]:
    """Return the positions of the best candidates, by an estimate of their scores."""
    keywords = [keyword for keyword, _, _ in parts]
    cosines = [cosine for _, cosine, _ in parts if cosine is not None]
    best_keyword = max(keywords, default=0.0) or 1.0
    best_cosine = max(cosines, default=0.0)

    def estimate_score(position: int) -> float:
        keyword, cosine, title = parts[position]
        vector = cosine
        if vector is None:
            vector = keyword / best_keyword * best_cosine
        title_vector = vector if title is None else title
        meaning = (HYBRID.vector + HYBRID.wording) * vector
        closeness = meaning + HYBRID.title * title_vector
        return HYBRID.keyword * keyword / best_keyword + closeness

    return sorted(range(len(parts)), key=estimate_score, reverse=True)[:limit]


def compute_recency(created: int, now: int) -> float:
    """Return 1 for now or the future, one half after each HALF_LIFE."""
    return float(0.5 ** (max(0, now - created) / HALF_LIFE))


def _compute_node_recency(node: Node, now: int) -> float:
    """Return the recency of a record; a decision does not age, it is live until superseded."""
    return 1.0 if node.type == DECISION else compute_recency(node.created, now)


def _clamp_cosine(cosine: float) -> float:
    if cosine < 0.0:
        return 0.0
    return 1.0 if cosine > 1.0 else cosine


MAX_WORDS = 2_000  # of each text; more does not change the answer
_STEM_LENGTH = 6  # letters; the rest counts as an ending


def compute_topicality(question: str, topic: str) -> float:
    """Return how far a question is about a topic, 0..1, by the share of words in common."""
    words = _split_stems(question.replace("_", " "))
    names = _split_stems(topic.replace("_", " "))
    word_count = len(words) + len(names)
    if not word_count:
        return 0.0
    return 2 * len(words & names) / word_count


@lru_cache(maxsize=4)  # a text is compared with several
def _split_stems(text: str) -> frozenset[str]:
    stems = set[str]()
    for match in islice(re.finditer(r"\w+", text), MAX_WORDS):
        word = match.group().casefold()
        if word not in COMMON_WORDS:
            stems.add(word[:_STEM_LENGTH])
    return frozenset(stems)
