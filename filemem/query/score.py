"""What a candidate is worth, as parts on 0..1 and their weighted mean.

Rule: no part depends on the tail of a result list. The keyword part is relative to the best of this
query, the meaning parts are cosines as they are; so the same record gets nearly the same score
whatever else was found.
"""

import math
import re
from collections.abc import Container, Iterable, Sequence
from functools import lru_cache
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

# A checkpoint holds the words of all that was in the works; what was decided should come first.
LESSER_FACTOR = 0.5

# Where a record is as likely about the question as not, and how fast that turns.
EVEN_POINT = 0.42
STEEPNESS = 12.0

# Share of a query's words, by weight, that a full match has: else "use" alone makes one.
FULL_MATCH_SHARE = 0.5

# The most that several words are worth if no vector says that the same is meant.
WORDS_ONLY_LIMIT = 0.94

FEW_RECORDS = 3  # records that hold a word that is asked for alone

HALF_LIFE = 180 * 86_400_000  # milliseconds after which recency is worth half


class Candidate(NamedTuple):
    """What retrieval puts forward."""

    node: Node
    blob: str
    keyword: float = 0.0  # the raw BM25 score; 0 if no word matched
    cosine: float | None = None  # of the best passage; None without a vector, as of the title
    title_cosine: float | None = None
    wording: float | None = None  # how well its likest words meet the query's, if compared
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
    """What the candidates of one query are measured by: weights, and the best among them."""

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

    `candidates` are what words and vectors found, each record once. `recency`: whether age counts.
    `weights`: HYBRID by default, and KEYWORD_ONLY if no candidate has a cosine. `lesser` are ids of
    records whose worth counts LESSER. `whole` is the BM25 of a record with every word; the best
    must have half of it to count in full. A single `word` that tells FEW records from the others
    puts them first, in the upper half of the scale: a name that was typed is meant, however near
    in meaning other texts are.
    """
    rows = list(candidates)
    scale = _build_scale(rows, weights, recency=recency, full_score=full_score, is_word=is_word)
    total = sum(scale.weights)
    is_few = 0 < sum(row.keyword > 0 for row in rows) <= FEW_RECORDS
    is_name = is_word and is_few and scale.weights.keyword > 0
    scored: list[ScoredCandidate] = []
    for row in rows:
        parts = _compute_parts(row, scale, _compute_node_recency(row.node, now) if recency else 0.0)
        final = min(1.0, sum(map(mul, scale.weights, parts)) / total)
        if row.node.id in lesser_ids:
            final *= LESSER_FACTOR
        if is_name:
            final = final / 2 + (0.5 if row.keyword > 0 else 0.0)
        scored.append(ScoredCandidate(row.node.id, row.node.created, Scores(*parts, final)))
    return tuple(sorted(scored, key=attrgetter("rank")))


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
    else:  # one word that a sentence shares with a record makes no full match
        best_possible = max(full_score, best_keyword / WORDS_ONLY_LIMIT)
    return _Scale(
        _select_weights(
            weights, has_cosines=bool(cosines), has_wordings=bool(wordings), recency=recency
        ),
        max(best_keyword, best_possible) or 1.0,
        _clamp_cosine(max(cosines, default=0.0)),
        _clamp_cosine(max(wordings, default=0.0)),
        _clamp_cosine(min(wordings, default=0.0)),
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

    A record not yet embedded is judged by its words on this query's scale, or a fresh save would
    sink.
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
    """How likely a record is about the question, 0..1, whatever else was found: see `likely`.

    Only the parts that are cosines count: the keyword part is relative to the best of its query,
    which may be far off.
    """
    if not scores.vector and not scores.wording:  # no vectors: the words are all there is to go by
        return scores.keyword
    return compute_likelihood(sum(map(mul, MEANING_ONLY, scores)) / sum(MEANING_ONLY))


def compute_likelihood(meaning: float) -> float:
    """Put a mean of cosines on the scale of users' thresholds: a logistic curve, .5 at EVEN.

    Measured on two retrieval sets with the bundled model: relevant records have a mean of .40 to
    .80 (median .58), the best record for a question about something else .17 to .44 (median .30).
    """
    return 1.0 / (1.0 + math.exp(-STEEPNESS * (meaning - EVEN_POINT)))


# What is quickly known of a candidate: keyword, cosine and title_cosine.
QuickScores = tuple[float, float | None, float | None]


def list_best_positions(parts: Sequence[QuickScores], limit: int) -> list[int]:
    """Return the places of the best candidates."""
    best_keyword = max([keyword for keyword, _, _ in parts], default=0.0) or 1.0
    best_cosine = max([cosine for _, cosine, _ in parts if cosine is not None], default=0.0)

    def estimate_score(position: int) -> float:
        keyword, cosine, title = parts[position]
        vector = keyword / best_keyword * best_cosine if cosine is None else cosine
        closeness = HYBRID.title * (vector if title is None else title)
        closeness = (HYBRID.vector + HYBRID.wording) * vector + closeness
        return HYBRID.keyword * keyword / best_keyword + closeness

    return sorted(range(len(parts)), key=estimate_score, reverse=True)[:limit]


def compute_recency(created: int, now: int) -> float:
    """Return 1 for now or the future, one half after each HALF_LIFE."""
    return float(0.5 ** (max(0, now - created) / HALF_LIFE))


def _compute_node_recency(node: Node, now: int) -> float:
    """What a record's age is worth: a decision has none, it holds until it is superseded."""
    return 1.0 if node.type == DECISION else compute_recency(node.created, now)


def _clamp_cosine(cosine: float) -> float:
    if cosine < 0.0:
        return 0.0
    return 1.0 if cosine > 1.0 else cosine


MAX_WORDS = 2_000  # of each text; more does not change the answer
_STEM_LENGTH = 6  # letters; what is beyond them is taken for an ending


def compute_topicality(question: str, topic: str) -> float:
    """How far a question is about a topic by its name, 0..1: the share of words in common."""
    words = _split_stems(question.replace("_", " "))
    names = _split_stems(topic.replace("_", " "))
    return 2 * len(words & names) / ((len(words) + len(names)) or 1)


@lru_cache(maxsize=4)  # a text is compared with several
def _split_stems(text: str) -> frozenset[str]:
    words = (match.group().casefold() for match in re.finditer(r"\w+", text))
    return frozenset(
        word[:_STEM_LENGTH]
        for word, _ in zip(words, range(MAX_WORDS), strict=False)
        if word not in COMMON_WORDS
    )
