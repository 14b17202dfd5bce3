"""From a Record to the bytes of a new file. Existing files are amended, never rendered again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from posixpath import dirname, relpath
from typing import Any
from urllib.parse import quote

from filemem.errors import BadInput
from filemem.record import body as md
from filemem.record.body import format_outcome, normalize_outcomes
from filemem.record.keys import (
    FLAG,
    GUARDS,
    KEYS,
    SECRETS_ALLOWED,
    SHARE,
    TIME,
    WORDS,
    strip_hash_sign,
)
from filemem.record.lines import escape_text, get_heading, join_lines, normalize_text
from filemem.record.model import DECISION, Record
from filemem.record.parse import parse_record, split_header
from filemem.record.times import format_time
from filemem.record.yaml import format_flow, format_scalar, iter_chunks

_DEFAULTS = {"status": "accepted", "outcome": "pending"}
_BRACKETS = str.maketrans("[]", "()")
_EMPTY_LIST_FIELD = "supersedes"  # `[]` says "a first decision"; all other empty lists say nothing


def render_record(record: Record, replaced_records: Iterable[tuple[str, str]] = ()) -> bytes:
    """Return the bytes of a new file for a record: UTF-8, LF line ends, a final newline.

    A record without a title gets the first line of its decision, else of its text, as heading; what
    is the whole of a text or decision is not written again below it. `replaced`: titles and paths
    of the records to which a line below the heading links. It is no part of the text.
    """
    record = record._replace(outcomes=normalize_outcomes(record.outcomes))
    if record.outcomes:
        record = record._replace(outcome=record.outcomes[-1].outcome)
    header = "".join(f"{row}\n" for row in ("---", *_iter_header_rows(record), "---"))
    links = [
        format_link(title, relpath(path, dirname(record.path))) for title, path in replaced_records
    ]
    body = "\n\n".join(_iter_blocks(record, links))
    return (f"{header}{body}\n" if body else header).encode()


def _iter_header_rows(record: Record) -> Iterator[str]:
    """Yield the lines of the header."""
    written_keys = {"title"}  # the heading is the title
    for key in KEYS:
        value = format_key_value(record, key.field, key.shape)
        if value:
            written_keys.add(key.name)
            yield f"{key.name}: {value}"
    for name, extra_value in record.extra.items():
        if name not in written_keys:
            yield f"{format_scalar(name)}: {format_flow(extra_value)}"


def _iter_blocks(record: Record, links: list[str]) -> Iterator[str]:
    """Yield what stands below the header: heading, text, sections."""
    text = normalize_text(record.text)
    decision = normalize_text(record.decision) if record.type == DECISION else ""
    title = join_lines(record.title) or get_heading(decision) or get_heading(text)
    if title:
        yield f"# {title}"
    if links:
        yield f"Replaces {', '.join(links)}"
    if text and (record.title or text != title):
        yield escape_text(text, md.SECTIONS[record.type])
    yield from _iter_sections(record, "" if decision.strip() == title else decision)


def _iter_sections(record: Record, decision: str) -> Iterator[str]:
    sections = {
        md.DECISION_SECTION: escape_text(decision),
        md.REJECTED: md.format_items(record.rejected),
        md.OUTCOMES: "\n".join(map(format_outcome, record.outcomes)),
        md.NEXT_STEPS: escape_text(normalize_text(record.next_steps)),
        md.FACTS: md.format_items(record.facts),
    }
    for name, content in sections.items():
        if content and name.casefold() in md.SECTIONS[record.type]:
            yield f"## {name}\n{content}"


_SCALAR_FORMATS: Mapping[str, Callable[[Any], str]] = {
    TIME: lambda time: format_scalar(format_time(time)),
    SHARE: lambda share: repr(float(share)),
    FLAG: lambda is_set: SECRETS_ALLOWED if is_set else "",
}


def format_link(title: str, path: str) -> str:
    """Return a link in Markdown that forges follow, too."""
    return f"[{title.translate(_BRACKETS)}]({quote(path)})"


def format_key_value(record: Record, field: str, shape: str) -> str:
    """Return the value of a key as a header says it; "" where that says nothing."""
    value = getattr(record, field)
    is_implied = field == "topic" and not record.topic_stated
    if is_implied or value is None or value == _DEFAULTS.get(field):
        return ""
    if shape in _SCALAR_FORMATS:
        return _SCALAR_FORMATS[shape](value)
    if isinstance(value, tuple):
        value = _list_items(value, shape)
    return format_flow(value) if value or field == _EMPTY_LIST_FIELD else ""


def _list_items(values: Iterable[Any], shape: str) -> list[object]:
    if shape == GUARDS:
        return [guard.mapping for guard in values]
    texts = filter(None, values)
    return [*map(strip_hash_sign, texts)] if shape == WORDS else [*texts]


def refuse_unreadable(data: bytes, path: str, before: bytes = b"") -> None:
    """Raise BadInput if a record could not be read again; errors of `before` do not count."""
    old_codes = {problem.code for problem in parse_record(before, path).problems} if before else ()
    errors = (problem for problem in parse_record(data, path).problems if problem.level == "error")
    error = next((problem for problem in errors if problem.code not in old_codes), None)
    if error is None:
        return
    text = data.decode(errors="replace").replace("\r\n", "\n")
    split = split_header(text)
    sizes = {chunk.text.partition(":")[0]: len(chunk.text) for chunk in iter_chunks(split.header)}
    if error.code == "file-size" or not sizes:
        sizes["text"] = len(text) - split.body_start
    field = max(sizes, key=lambda name: sizes[name])
    largest = f"the largest field is {field}, with {sizes[field]:,} characters"
    why = f"this could not be read again: {error.message.partition(';')[0]}; {largest}"
    hint = f"shorten {field}, or split this into several records"
    raise BadInput(why, hint, field=field)
