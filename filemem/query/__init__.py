"""Searching, as far as it is pure: what a query says, what a filter lets through, where a hit is placed."""

from filemem.query.excerpt import beyond, passages, rejected_before, snippet
from filemem.query.filter import FIELDS, NOTHING, Filter, affects_match, fold, governs, matches, merge, touches
from filemem.query.hit import Hit, Name, Provenance, Results, Snippet
from filemem.query.identifiers import split_identifiers
from filemem.query.likeness import NEARLY, Similar, similar, topical
from filemem.query.metadata import terms as metadata_terms
from filemem.query.metadata import wanted as metadata_wanted
from filemem.query.order import Placed, arrange, contested, summary
from filemem.query.score import (
    HYBRID,
    KEYWORD_ONLY,
    MEANING_ONLY,
    Candidate,
    Found,
    Scored,
    Scores,
    Weights,
    likely,
    promising,
    recency_of,
    relevance,
    score,
)
from filemem.query.spelling import may_be_misspelt, one_slip
from filemem.query.terms import MAX_BYTES, MAX_TERMS, Terms, loosened, parse, parse_moment

__all__ = [
    "FIELDS",
    "HYBRID",
    "KEYWORD_ONLY",
    "MAX_BYTES",
    "MAX_TERMS",
    "MEANING_ONLY",
    "NEARLY",
    "NOTHING",
    "Candidate",
    "Filter",
    "Found",
    "Hit",
    "Name",
    "Placed",
    "Provenance",
    "Results",
    "Scored",
    "Scores",
    "Similar",
    "Snippet",
    "Terms",
    "Weights",
    "affects_match",
    "arrange",
    "beyond",
    "contested",
    "fold",
    "governs",
    "likely",
    "loosened",
    "matches",
    "may_be_misspelt",
    "merge",
    "metadata_terms",
    "metadata_wanted",
    "one_slip",
    "parse",
    "parse_moment",
    "passages",
    "promising",
    "recency_of",
    "rejected_before",
    "relevance",
    "score",
    "similar",
    "snippet",
    "split_identifiers",
    "summary",
    "topical",
    "touches",
]
