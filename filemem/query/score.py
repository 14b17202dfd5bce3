"""What a candidate is worth, as parts on 0..1 and their weighted mean.

Rule: no part depends on the tail of a result list. The keyword part is relative to the best of this query, the
meaning parts are cosines as they are; so the same record gets nearly the same score whatever else was found, and
no list has to be longer than what is shown. Measured against it: joining by rank (RRF) loses 3 points of nDCG@10
with small static embeddings and keeps neither scale.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple, Protocol


class Weights(NamedTuple):
    """How much each part counts; only the ratios matter, the final score is their weighted mean."""

    keyword: float
    vector: float = 0.0
    title: float = 0.0
    recency: float = 0.0


# The weights. Keyword .4 to vector .6 is the best plain form measured on six retrieval sets; the title's own cosine
# adds little beside boosted title words; recency moves a record past another only where they are within .05.
HYBRID = Weights(keyword=0.40, vector=0.60, title=0.05, recency=0.05)
KEYWORD_ONLY = Weights(keyword=1.0)

HALF_LIFE = 180 * 86_400_000  # milliseconds after which recency is worth half


class Candidate(Protocol):
    """What retrieval hands over for one record; any class with these attributes will do.

    `keyword` is the raw BM25 score (0 where no word matched), `cosine` that of the best passage, `title_cosine`
    that of the title alone; None where there is no vector.
    """

    @property
    def id(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def created(self) -> int: ...
    @property
    def keyword(self) -> float: ...
    @property
    def cosine(self) -> float | None: ...
    @property
    def title_cosine(self) -> float | None: ...


class Found(NamedTuple):
    """The plain form of a candidate."""

    id: str
    path: str
    created: int
    keyword: float = 0.0
    cosine: float | None = None
    title_cosine: float | None = None


class Scores(NamedTuple):
    """The parts of a score and their weighted mean, all on 0..1."""

    keyword: float = 0.0
    vector: float = 0.0
    title: float = 0.0
    recency: float = 0.0
    final: float = 0.0


class Scored(NamedTuple):
    """A candidate with its scores."""

    id: str
    path: str
    created: int
    scores: Scores

    @property
    def rank(self) -> tuple[float, int, str]:
        """Sort key, best first: score, then the younger, then the id, so that equal input gives equal order."""
        return (-self.scores.final, -self.created, self.id)


def score(
    candidates: Iterable[Candidate], *, now: int, recency: bool = True, weights: Weights | None = None
) -> tuple[Scored, ...]:
    """Return the candidates with scores, best first.

    Args:
        candidates: the union of what words and vectors found, each record once.
        now: epoch milliseconds.
        recency: whether age counts at all.
        weights: None takes HYBRID where any candidate has a cosine, else KEYWORD_ONLY (final = keyword).
    """
    found = list(candidates)
    cosines = [_unit(each.cosine) for each in found if each.cosine is not None]
    use = weights or (HYBRID if cosines else KEYWORD_ONLY)
    total = use.keyword + use.vector + use.title + (use.recency if recency else 0.0)
    best_keyword = max((_finite(each.keyword) for each in found), default=0.0)
    best_cosine = max(cosines, default=0.0)
    rated: list[Scored] = []
    for each in found:
        keyword = max(0.0, _finite(each.keyword)) / best_keyword if best_keyword > 0 else 0.0
        # A record not yet embedded is judged by its words on this query's scale, or a fresh save would sink.
        vector = keyword * best_cosine if each.cosine is None else _unit(each.cosine)
        title = vector if each.title_cosine is None else _unit(each.title_cosine)
        fresh = recency_of(each.created, now) if recency else 0.0
        worth = use.keyword * keyword + use.vector * vector + use.title * title + use.recency * fresh
        final = min(1.0, worth / total) if total > 0 else 0.0
        rated.append(Scored(each.id, each.path, each.created, Scores(keyword, vector, title, fresh, final)))
    rated.sort(key=lambda item: item.rank)
    return tuple(rated)


def recency_of(created: int, now: int) -> float:
    """Return 1 for now or the future, one half after each HALF_LIFE."""
    return float(0.5 ** (max(0, now - created) / HALF_LIFE))


def _unit(cosine: float | None) -> float:
    return min(1.0, max(0.0, _finite(cosine or 0.0)))


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0
