"""The record format: text and bytes in, values and bytes out. docs/format.md is the page for users.

What only writing needs is imported at its first use (PEP 562): a search that ends with its process reads, and no more.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from filemem.record.decoding import CONFLICT, MAX_FILE
from filemem.record.edges import edges_in
from filemem.record.foreign import prose
from filemem.record.identity import (
    derived_id,
    heading_key,
    is_id,
    namesake,
    new_id,
    number,
    record_path,
    short_id,
    slug,
    surrogate_id,
    topic_folders,
    topic_key,
    topic_of_heading,
)
from filemem.record.keys import KEY_BY_NAME, KEYS, Key
from filemem.record.lines import cut, heading, one_line, tidy
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
from filemem.record.parse import parse, stated_id
from filemem.record.times import format_time, parse_span, parse_time, unreal

if TYPE_CHECKING:
    from filemem.record.amending import amend
    from filemem.record.merging import merge
    from filemem.record.proof import refuse_unreadable
    from filemem.record.references import (
        ReferenceIndex,
        ambiguous,
        answering,
        names_of,
        numbers_in,
        placed_reference,
        readings,
        reference_index,
        resolve_reference,
    )
    from filemem.record.rendering import normal, render
    from filemem.record.wording import plainly
else:
    _LATER = {
        "ReferenceIndex": "references",
        "amend": "amending",
        "ambiguous": "references",
        "answering": "references",
        "merge": "merging",
        "names_of": "references",
        "normal": "rendering",
        "numbers_in": "references",
        "placed_reference": "references",
        "plainly": "wording",
        "readings": "references",
        "reference_index": "references",
        "refuse_unreadable": "proof",
        "render": "rendering",
        "resolve_reference": "references",
    }  # name -> the module that has it

    def __getattr__(name: str) -> Any:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)


__all__ = [
    "CHECKPOINT",
    "CONFLICT",
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
    "ambiguous",
    "amend",
    "answering",
    "cut",
    "derived_id",
    "edges_in",
    "format_time",
    "heading",
    "heading_key",
    "is_id",
    "merge",
    "names_of",
    "namesake",
    "new_id",
    "normal",
    "number",
    "numbers_in",
    "one_line",
    "parse",
    "parse_outcome",
    "parse_span",
    "parse_time",
    "placed_reference",
    "plainly",
    "prose",
    "readings",
    "record_path",
    "reference_index",
    "refuse_unreadable",
    "render",
    "resolve_reference",
    "short_id",
    "slug",
    "stated_id",
    "surrogate_id",
    "tidy",
    "topic_folders",
    "topic_key",
    "topic_of_heading",
    "unreal",
]
