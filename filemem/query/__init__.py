"""Searching, as far as it is pure: what a query says, what a filter lets through, where a hit is placed."""

from filemem.query.filter import (
    FIELDS,
    NOTHING,
    Filter,
    affects_match,
    fixed,
    fold,
    governs,
    matches,
    merge,
    touches,
    within,
)
from filemem.query.hit import Drift, Evidence, Hit, Name, Provenance, Results, Snippet
from filemem.query.identifiers import split_identifiers
from filemem.query.order import Placed, arrange, holding, summary
from filemem.query.score import (
    HYBRID,
    MEANING_ONLY,
    NEARLY,
    Candidate,
    Scored,
    Scores,
    Similar,
    Weights,
    likely,
    promising,
    relevance,
    score,
    similar,
    topical,
)
from filemem.query.snippet import beyond, passages, rejected_before, snippet
from filemem.query.terms import MAX_BYTES, MAX_TERMS, Terms, loosened, parse, parse_moment

__all__ = ["FIELDS", "HYBRID", "MAX_BYTES", "MAX_TERMS", "MEANING_ONLY", "NEARLY", "NOTHING", "Candidate", "Drift"]
__all__ += ["Evidence", "Filter", "Hit", "Name", "Placed", "Provenance", "Results", "Scored", "Scores", "Similar"]
__all__ += ["Snippet", "Terms", "Weights", "affects_match", "arrange", "beyond", "fixed", "fold", "governs", "holding"]
__all__ += ["likely", "loosened", "matches", "merge", "parse", "parse_moment", "passages", "promising"]
__all__ += ["rejected_before", "relevance"]
__all__ += ["score", "similar", "snippet", "split_identifiers", "summary", "topical", "touches", "within"]
