"""The record format: text and bytes in, values and bytes out. Users read docs/format.md."""

from filemem.record.adr_write import DATED_NAME, write_adr
from filemem.record.amend import amend, refuse_markup
from filemem.record.body import edges_in, parse_outcome, references_said, without_edges
from filemem.record.identity import (
    adr_number,
    derived_id,
    is_markup,
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
    UNKNOWN,
    UNKNOWN_STATUS,
    VISIBILITIES,
    Edge,
    Outcome,
    Parsed,
    Problem,
    Record,
)
from filemem.record.parse import explained, parse
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
from filemem.record.times import age, format_time, moment, parse_span, parse_time
