"""The pure part of a search: reading queries, filters, scores, and the order of hits."""

from filemem.query.filter import (
    TERM_BY_FIELD,
    Filter,
    Reader,
    fold_value,
    get_literal_prefix,
    has_overlap,
    is_covered,
    is_included,
    is_inside_repository,
    is_match,
    merge_filters,
)
from filemem.query.hit import (
    WEAK_SHARE,
    Drift,
    Evidence,
    Hit,
    Provenance,
    RecordLabel,
    Results,
    Snippet,
    strip_store_key,
)
from filemem.query.order import Placement, arrange_hits, is_unclear
from filemem.query.score import (
    FEW_RECORDS,
    HYBRID,
    KEYWORD_ONLY,
    MEANING_ONLY,
    Candidate,
    ScoredCandidate,
    compute_likelihood,
    compute_relevance,
    compute_topicality,
    list_best_positions,
    score_candidates,
)
from filemem.query.snippet import build_snippet, extract_prose, list_named_rejections, strip_title
from filemem.query.terms import (
    MAX_BYTES,
    MAX_TERMS,
    Terms,
    loosen_phrases,
    parse_moment,
    parse_query,
    split_identifiers,
)
