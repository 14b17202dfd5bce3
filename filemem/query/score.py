"""What a candidate is worth, as parts on 0..1 and their weighted mean.

Rule: no part depends on the tail of a result list. The keyword part is relative to the best of this query, the
meaning parts are cosines as they are; so the same record gets nearly the same score whatever else was found.
"""

import math
import re
from collections.abc import Container, Iterable, Sequence
from functools import lru_cache
from operator import attrgetter, mul
from typing import NamedTuple

from filemem.chain import NO_FACTS, Facts, Node
from filemem.query.snippet import COMMON
from filemem.record import DECISION


class Weights(NamedTuple):
    """How much each part counts; only the ratios matter, the final score is their weighted mean."""

    keyword: float
    vector: float = 0.0
    title: float = 0.0
    wording: float = 0.0
    recency: float = 0.0


# Measured on three retrieval sets, each part left out in turn: bench/relevance.md. Recency moves a record past another
# only where they are within .04.
HYBRID = Weights(keyword=0.35, vector=0.60, title=0.10, wording=0.30, recency=0.05)
KEYWORD_ONLY = Weights(keyword=1.0)
MEANING_ONLY = Weights(keyword=0.0, vector=0.60, title=0.10, wording=0.30)

# A checkpoint holds the words of everything that was in the works; what was decided about it should come first.
LESSER = 0.5

EVEN, STEEP = (
    0.42,
    12.0,
)  # where a record is as likely about what was asked as not, and how fast that turns

ENOUGH = (
    0.5  # share of a query's words, by weight, that a full match has: else "use" alone makes one
)

WORDS_ALONE = (
    0.94  # the most that several words are worth where no vector says that the same is meant
)

FEW = 3  # records that hold a word that is asked for alone

HALF_LIFE = 180 * 86_400_000  # milliseconds after which recency is worth half


class Candidate(NamedTuple):
    """What retrieval puts forward."""

    node: Node
    blob: str
    keyword: float = 0.0  # the raw BM25 score; 0 where no word matched
    cosine: float | None = (
        None  # of the best passage, `title_cosine` of the title; None without a vector
    )
    title_cosine: float | None = None
    wording: float | None = (
        None  # how well its likest words meet the query's; None where nobody looked
    )
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


class Scored(NamedTuple):
    """A candidate with its scores."""

    id: str
    created: int
    scores: Scores

    @property
    def rank(self) -> tuple[float, int, str]:
        """Sort key, best first: score, then the younger, then the id, so that equal input gives equal order."""
        return (-self.scores.final, -self.created, self.id)


def score(
    candidates: Iterable[Candidate],  # the union of what words and vectors found, each record once
    *,
    now: int,
    recency: bool = True,  # whether age counts at all
    weights: Weights
    | None = None,  # None takes HYBRID; where no candidate has a cosine it is KEYWORD_ONLY
    lesser: Container[str] = (),  # ids of records whose worth counts LESSER
    whole: float = 0.0,  # the BM25 of a record with every word; the best must have half of it to count in full
    word: bool = False,
) -> tuple[Scored, ...]:
    """Return the candidates with scores, best first.

    A single `word` that tells FEW records from the others puts them first, in the upper half of the scale: a name that
    was typed is meant, however near in meaning other texts are.
    """
    found = list(candidates)
    cosines = [each.cosine for each in found if each.cosine is not None]
    met = [each.wording for each in found if each.wording is not None]
    use = (
        weights if weights and (cosines or weights.keyword) else HYBRID if cosines else KEYWORD_ONLY
    )
    use = use._replace(wording=use.wording if met else 0.0, recency=use.recency if recency else 0.0)
    best_keyword = max((each.keyword for each in found), default=0.0)
    # Where words are all there is to go by, one that a sentence shares with a record makes no full match.
    full = (
        ENOUGH * whole
        if cosines
        else whole
        if word or not whole
        else max(whole, best_keyword / WORDS_ALONE)
    )
    best_keyword = max(best_keyword, full) or 1.0
    best_cosine = _unit(max(cosines, default=0.0))
    best_met = _unit(max(met, default=0.0))
    least_met = _unit(min(met, default=0.0))
    total = sum(use)
    named = word and use.keyword > 0 and 0 < sum(each.keyword > 0 for each in found) <= FEW
    rated: list[Scored] = []
    for each in found:
        keyword = each.keyword / best_keyword
        # A record not yet embedded is judged by its words on this query's scale, or a fresh save would sink.
        vector = keyword * best_cosine if each.cosine is None else _unit(each.cosine)
        title = vector if each.title_cosine is None else _unit(each.title_cosine)
        unmet = keyword * best_met if each.cosine is None else least_met
        wording = unmet if each.wording is None else _unit(each.wording)
        parts = (
            keyword,
            vector,
            title,
            wording,
            _recency(each.node, now) if recency else 0.0,
        )
        final = min(1.0, sum(map(mul, use, parts)) / total)
        final *= LESSER if each.node.id in lesser else 1.0
        final = final / 2 + (0.5 if each.keyword > 0 else 0.0) if named else final
        rated.append(Scored(each.node.id, each.node.created, Scores(*parts, final)))
    return tuple(sorted(rated, key=attrgetter("rank")))


def relevance(scores: Scores) -> float:
    """How likely a record is about what was asked, 0..1, whatever else was found: see `likely`.

    Only the parts that are cosines count: the keyword part is relative to the best of its query, which may be far off.
    """
    if not scores.vector and not scores.wording:  # no vectors: the words are all there is to go by
        return scores.keyword
    return likely(sum(map(mul, MEANING_ONLY, scores)) / sum(MEANING_ONLY))


def likely(meaning: float) -> float:
    """Put a mean of cosines on the scale on which users set thresholds: a logistic curve through .5 at EVEN.

    Measured on two retrieval sets with the bundled model: relevant records have a mean of .40 to .80 (median .58), the
    best record for a question about something else .17 to .44 (median .30).
    """
    return 1.0 / (1.0 + math.exp(-STEEP * (meaning - EVEN)))


def promising(parts: Sequence[tuple[float, float | None, float | None]], most: int) -> list[int]:
    """Return the places of the best candidates by (keyword, cosine, title_cosine): what is quickly known of many."""
    best_keyword = max([one[0] for one in parts], default=0.0) or 1.0
    best_cosine = max([one[1] for one in parts if one[1] is not None], default=0.0)

    def worth(at: int) -> float:
        keyword, cosine, title = parts[at]
        vector = keyword / best_keyword * best_cosine if cosine is None else cosine
        near = (HYBRID.vector + HYBRID.wording) * vector + HYBRID.title * (
            vector if title is None else title
        )
        return HYBRID.keyword * keyword / best_keyword + near

    return sorted(range(len(parts)), key=worth, reverse=True)[:most]


def recency_of(created: int, now: int) -> float:
    """Return 1 for now or the future, one half after each HALF_LIFE."""
    return float(0.5 ** (max(0, now - created) / HALF_LIFE))


def _recency(node: Node, now: int) -> float:
    """What a record's age is worth: a decision has none, it holds until it is superseded."""
    return 1.0 if node.type == DECISION else recency_of(node.created, now)


def _unit(cosine: float) -> float:
    if cosine < 0.0:
        return 0.0
    return 1.0 if cosine > 1.0 else cosine


MOST_WORDS = 2_000  # of each text; more does not change the answer
_STEM = 6  # letters; what is beyond them is taken for an ending


def topical(asked: str, topic: str) -> float:
    """How far a question is about a topic by its name, 0..1: the share of both their words that they have in common."""
    one, other = (_words(text.replace("_", " ")) for text in (asked, topic))
    return 2 * len(one & other) / ((len(one) + len(other)) or 1)


@lru_cache(maxsize=4)  # a text is compared with several
def _words(text: str) -> frozenset[str]:
    words = (match.group().casefold() for match in re.finditer(r"\w+", text))
    return frozenset(
        word[:_STEM]
        for word, _ in zip(words, range(MOST_WORDS), strict=False)
        if word not in COMMON
    )
