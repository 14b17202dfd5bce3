"""Write a Record as the bytes of a new file. Existing files are amended, never rendered again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
from filemem.record.model import DECISION, Problem, Record
from filemem.record.parse import parse_record, split_header
from filemem.record.times import format_time
from filemem.record.yaml import format_flow, format_scalar, iter_chunks

_DEFAULTS = {"status": "accepted", "outcome": "pending"}
_BRACKETS = str.maketrans("[]", "()")
_EMPTY_LIST_FIELD = "supersedes"  # `[]` marks a first decision; other empty lists are not written


def render_record(record: Record, replaced_records: Iterable[tuple[str, str]] = ()) -> bytes:
    """Return the bytes of a new file for a record: UTF-8, LF line ends, a final newline.

    A record without a title gets the first line of its decision, else of its text, as heading. A
    text or decision that equals the heading is not repeated below it.

    Args:
        record: The record to write.
        replaced_records: Titles and paths of the records that this one replaces. A line below the
            heading links to them; it is not part of the text.
    """
    outcomes = normalize_outcomes(record.outcomes)
    record = record._replace(outcomes=outcomes)
    if outcomes:
        record = record._replace(outcome=outcomes[-1].outcome)
    links = []
    for title, path in replaced_records:
        relative_path = relpath(path, dirname(record.path))
        links.append(format_link(title, relative_path))
    rows = ["---", *_iter_header_rows(record), "---"]
    header = "\n".join(rows)
    body = "\n\n".join(_iter_blocks(record, links))
    if body:
        return f"{header}\n{body}\n".encode()
    return f"{header}\n".encode()


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
    """Yield the parts below the header: heading, text, sections."""
    text = normalize_text(record.text)
    decision = ""
    if record.type == DECISION:
        decision = normalize_text(record.decision)
    title = join_lines(record.title)
    if not title:
        title = get_heading(decision) or get_heading(text)
    if title:
        yield f"# {title}"
    if links:
        yield "Replaces " + ", ".join(links)
    if text and (record.title or text != title):
        yield escape_text(text, md.SECTIONS[record.type])
    if decision.strip() == title:
        decision = ""
    yield from _iter_sections(record, decision)


def _iter_sections(record: Record, decision: str) -> Iterator[str]:
    sections = {
        md.DECISION_SECTION: escape_text(decision),
        md.REJECTED: md.format_items(record.rejected),
        md.OUTCOMES: "\n".join(format_outcome(entry) for entry in record.outcomes),
        md.NEXT_STEPS: escape_text(normalize_text(record.next_steps)),
        md.FACTS: md.format_items(record.facts),
    }
    for name, content in sections.items():
        if content and name.casefold() in md.SECTIONS[record.type]:
            yield f"## {name}\n{content}"


def format_link(title: str, path: str) -> str:
    """Return a Markdown link that forges follow too."""
    text = title.translate(_BRACKETS)
    return f"[{text}]({quote(path)})"


def format_key_value(record: Record, field: str, shape: str) -> str:
    """Return the value of a key as a header states it; "" for a default that is not written."""
    value = getattr(record, field)
    if value is None or value == _DEFAULTS.get(field):
        return ""
    if field == "topic" and not record.topic_stated:
        return ""
    if isinstance(value, tuple):
        value = _list_items(value, shape)
    if not value and field != _EMPTY_LIST_FIELD and shape not in (TIME, SHARE):
        return ""
    return _format_value(value, shape)


def _format_value(value: Any, shape: str) -> str:
    if shape == TIME:
        return format_scalar(format_time(value))
    if shape == SHARE:
        return repr(float(value))
    if shape == FLAG:
        return SECRETS_ALLOWED
    return format_flow(value)


def _list_items(values: Iterable[Any], shape: str) -> list[object]:
    if shape == GUARDS:
        return [guard.mapping for guard in values]
    texts = [text for text in values if text]
    if shape == WORDS:
        return [strip_hash_sign(text) for text in texts]
    return texts


def refuse_unreadable(data: bytes, path: str, before: bytes = b"") -> None:
    """Raise BadInput if a record could not be read again; errors of `before` do not count."""
    old_codes = set()
    if before:
        old_codes = {problem.code for problem in parse_record(before, path).problems}
    for problem in parse_record(data, path).problems:
        if problem.level == "error" and problem.code not in old_codes:
            raise _build_refusal(data, problem)


def _build_refusal(data: bytes, problem: Problem) -> BadInput:
    """Return an error that names the largest field, the likely cause."""
    text = data.decode(errors="replace").replace("\r\n", "\n")
    split = split_header(text)
    sizes: dict[str, int] = {}
    for chunk in iter_chunks(split.header):
        name = chunk.text.partition(":")[0]
        sizes[name] = len(chunk.text)
    if problem.code == "file-size" or not sizes:
        sizes["text"] = len(text) - split.body_start
    field = max(sizes, key=sizes.__getitem__)
    largest = f"the largest field is {field}, with {sizes[field]:,} characters"
    cause = problem.message.partition(";")[0]
    why = f"this could not be read again: {cause}; {largest}"
    hint = f"shorten {field}, or split this into several records"
    return BadInput(why, hint, field=field)
