"""The record format: text and bytes in, values and bytes out. docs/format.md is the page for users."""

from filemem.record.adr import write_adr
from filemem.record.amend import amend
from filemem.record.body import edges_in, parse_outcome
from filemem.record.identity import (
    adr_number,
    derived_id,
    made_id,
    new_id,
    number,
    record_path,
    short_id,
    slug,
    topic_key,
    topic_of_heading,
)
from filemem.record.keys import KEYS
from filemem.record.lines import MAX_FILE, cut, hidden_characters, named, one_line
from filemem.record.merge import merge
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
from filemem.record.parse import parse
from filemem.record.references import (
    ReferenceIndex,
    answering,
    names_of,
    numbers_in,
    readings,
    reference_index,
    resolve_reference,
)
from filemem.record.render import refuse_unreadable, render
from filemem.record.times import format_time, parse_span, parse_time

__all__ = ["CHECKPOINT", "DECIDERS", "DECISION", "EDGE_KINDS", "KEYS", "KINDS", "MAX_FILE", "OBSERVATION"]
__all__ += ["OUTCOMES", "STATUSES", "TYPES", "VISIBILITIES", "Edge", "Outcome", "Parsed", "Problem", "Record"]
__all__ += ["ReferenceIndex", "adr_number", "amend", "answering", "cut", "derived_id", "edges_in", "format_time"]
__all__ += ["hidden_characters", "made_id", "merge", "named", "names_of", "new_id", "number", "numbers_in"]
__all__ += ["one_line", "parse"]
__all__ += ["parse_outcome", "parse_span", "parse_time", "readings", "record_path", "reference_index"]
__all__ += ["refuse_unreadable", "render", "resolve_reference", "short_id", "slug", "topic_key"]
__all__ += ["topic_of_heading", "write_adr"]
