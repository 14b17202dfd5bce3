"""The last resort for a word that no record holds: other spellings of it, one slip away, that records do hold.

Rule: exact words are never touched. So a query whose words are all known pays nothing for this.
"""

from __future__ import annotations

from collections import Counter

from filemem.index import keyword, plan
from filemem.index.keyword import Words
from filemem.index.pending import Scorer
from filemem.index.plan import EXACT, Plan
from filemem.index.reading import normal
from filemem.query import may_be_misspelt

MOST_LOST = 3  # words of a query that are looked up
MOST_SPELLINGS = 3  # of each
_FIELDS = ("body_exact", "title_exact")

Instead = tuple[tuple[str, tuple[str, ...]], ...]  # word as typed, the spellings under which it is searched


def respelt(asked: Plan, scorer: Scorer, words: Words | None) -> tuple[Plan, Instead]:
    """Return a plan in which words that nothing holds are looked for under their most frequent other spellings.

    Args:
        asked: the plan as typed.
        scorer: knows how many records hold a term.
        words: the disk index, if there is one.
    """
    clauses = dict(asked.words)
    lost = [typed for typed, of in clauses.items() if of and scorer.unknown(of)]
    instead: dict[str, tuple[str, ...]] = {}
    for typed in lost[:MOST_LOST]:
        tokens = keyword.analyze(EXACT, normal(typed))
        if len(tokens) != 1 or not may_be_misspelt(tokens[0]):
            continue
        known: Counter[str] = Counter()
        for name in _FIELDS:
            known.update(words.spellings(name, tokens[0]) if words else {})
            known.update(scorer.spellings(name, tokens[0]))
        if known:
            instead[typed] = tuple(word for word, _ in known.most_common(MOST_SPELLINGS))
            clauses[typed] = plan.respelt(instead[typed], keyword.analyze)
    return asked._replace(words=tuple(clauses.items())), tuple(instead.items())
