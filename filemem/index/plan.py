"""What a query asks of the words, as data: clauses that a disk index and the pending records both can score. Pure.

Built from terms with caps, never by a parser, so a query costs what its words cost.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from filemem.index.reading import normal, runs, spaced
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
PAIR = 1.5  # weight of two neighbouring characters of an unspaced script, which has no stemmed field to add to it
SLIP = 0.3  # weight of a word found only under another spelling
WHOLE_RUN = 3.0  # weight of a whole run of them, beside its pairs


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


def respelt(spellings: Iterable[str], analyze: Analyze) -> tuple[Clause, ...]:
    """Return how to find a word under other spellings."""
    found = [clause for spelling in spellings for clause in _word_clauses(spelling, analyze)]
    return tuple(clause._replace(boost=SLIP * clause.boost) for clause in found)


def plan(terms: Terms, analyze: Analyze, telling: Mapping[str, float] | None = None) -> Plan:
    """Return what to look for.

    Args:
        terms: a parsed query; what is beyond the caps does not count.
        analyze: how texts are read, the same as when they were indexed.
        telling: how much single words tell in any text, 0..1; 1 where nothing is known of one.
    """
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
    spellings = spaced(f"{word} {split_identifiers(word)}")
    for way in (EXACT, STEM):
        for token in dict.fromkeys(analyze(way, spellings)):
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
