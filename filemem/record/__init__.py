"""The record format: text and bytes in, values and bytes out. Users read docs/format.md."""

from filemem.record.adr_write import DATED_NAME, render_adr
from filemem.record.amend import amend_record, refuse_markup
from filemem.record.body import parse_edges, parse_named_edges, parse_outcome, strip_edges
from filemem.record.identity import (
    build_id,
    build_import_id,
    build_record_path,
    build_topic_key,
    compute_number,
    derive_id,
    is_markup,
    parse_adr_number,
    parse_topic,
    shorten_id,
    slugify,
)
from filemem.record.keys import KEYS
from filemem.record.lines import (
    MAX_FILE_SIZE,
    describe_character,
    find_hidden_characters,
    join_lines,
    shorten_line,
)
from filemem.record.merge import merge_versions
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
    ParsedRecord,
    Problem,
    Record,
)
from filemem.record.parse import parse_record, resolve_own_status
from filemem.record.references import (
    ReferenceIndex,
    build_reference_index,
    iter_names,
    iter_readings,
    list_matching_ids,
    list_numbers,
    resolve_reference,
)
from filemem.record.render import refuse_unreadable, render_record
from filemem.record.times import format_age, format_time, parse_span, parse_time, to_datetime
