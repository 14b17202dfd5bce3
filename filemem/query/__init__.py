"""The pure part of a search: what a query says, what a filter passes, where a hit is placed."""

from filemem.query.filter import (
    FIELDS,
    Filter,
    Reader,
    affects_match,
    among,
    fixed,
    fold,
    merge,
    passes,
    touches,
    within,
)
from filemem.query.hit import (
    WEAK,
    Drift,
    Evidence,
    Hit,
    Name,
    Provenance,
    Results,
    Snippet,
    bare,
)
from filemem.query.order import Placed, arrange, is_unclear
from filemem.query.score import (
    FEW,
    HYBRID,
    KEYWORD_ONLY,
    MEANING_ONLY,
    Candidate,
    Scored,
    likely,
    promising,
    relevance,
    score,
    topical,
)
from filemem.query.snippet import beyond, prose, rejected_before, snippet
from filemem.query.terms import (
    MAX_BYTES,
    MAX_TERMS,
    Terms,
    loosened,
    parse,
    parse_moment,
    split_identifiers,
)
