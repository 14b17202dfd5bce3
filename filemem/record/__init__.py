"""The record format: text and bytes in, values and bytes out. docs/format.md is the page for users."""

from filemem.record.amend import amend
from filemem.record.edges import edges_in
from filemem.record.identity import (
    derived_id,
    new_id,
    number,
    record_path,
    short_id,
    slug,
    topic_folders,
    topic_key,
)
from filemem.record.keys import KEY_BY_NAME, KEYS, Key
from filemem.record.lines import heading, one_line, tidy
from filemem.record.model import (
    CHECKPOINT,
    DECIDERS,
    DECISION,
    EDGE_KINDS,
    KINDS,
    OBSERVATION,
    OUTCOMES,
    STATUSES,
    TYPES,
    VISIBILITIES,
    Edge,
    Outcome,
    Parsed,
    Problem,
    Record,
)
from filemem.record.outcomes import parse_outcome
from filemem.record.parse import MAX_FILE, parse
from filemem.record.references import ReferenceIndex, reference_index, resolve_reference
from filemem.record.render import normal, render
from filemem.record.times import format_time, parse_time

__all__ = [
    "CHECKPOINT",
    "DECIDERS",
    "DECISION",
    "EDGE_KINDS",
    "KEYS",
    "KEY_BY_NAME",
    "KINDS",
    "MAX_FILE",
    "OBSERVATION",
    "OUTCOMES",
    "STATUSES",
    "TYPES",
    "VISIBILITIES",
    "Edge",
    "Key",
    "Outcome",
    "Parsed",
    "Problem",
    "Record",
    "ReferenceIndex",
    "amend",
    "derived_id",
    "edges_in",
    "format_time",
    "heading",
    "new_id",
    "normal",
    "number",
    "one_line",
    "parse",
    "parse_outcome",
    "parse_time",
    "record_path",
    "reference_index",
    "render",
    "resolve_reference",
    "short_id",
    "slug",
    "tidy",
    "topic_folders",
    "topic_key",
]
