"""A record as what it says, for reviews: keys in the order of the format, then its text, one sentence a line.

Rule: a reviewer sees every change that says something. A line of the header is left out only where its key is said
otherwise; comments, keys that are not of this type or not ours, mappings and ids stand as they are.
For the eye alone: nothing here is written to a record, whose text is kept as it was given.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from filemem.record.header import split_header
from filemem.record.keys import FLAG, KEYS, MAPPING, TIME, Key
from filemem.record.lines import fenced
from filemem.record.model import DECISION, Record
from filemem.record.outcomes import write_outcome
from filemem.record.times import format_time

_END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][\"')\]]))\s+(?=[\"'(\[]*[^\W\d_a-z])|(?<=[。！？])\s*")
_BLOCK = re.compile(r"\s*(?:[-*+>|#]|\d{1,9}[.)]\s)")
_KEY = re.compile(r"([^\s#][^:]{0,200}?)[ \t]*:(?:[ \t]+(.*)|()$)")
_SAID = frozenset(("id", "type", "topic", "supersedes", "outcome"))  # said otherwise
_DEMOTES = ("accepted", "deprecated")


def plainly(record: Record, titles: Mapping[str, str], file: str = "") -> str:
    """Return a record in words, line by line.

    Args:
        record: as `parse` reads it.
        titles: of the records that it supersedes, by id, as far as they are known.
        file: the text that it was read from, for what of its header no word here says.
    """
    about = f" on {record.topic}" if record.type == DECISION and record.topic_stated else ""
    return (
        "\n".join(
            (f"{record.type}{about}: {record.title}", *_keys(record, titles), *_rest(record, file), *_text(record))
        )
        + "\n"
    )


def _keys(record: Record, titles: Mapping[str, str]) -> Iterator[str]:
    for key in KEYS:
        value = getattr(record, key.field)
        if key.name in _SAID or record.type not in key.types or value in (None, "", (), False) or key.shape == MAPPING:
            continue
        if key.shape == TIME:
            yield f"{key.name}: {format_time(value)}"
        elif isinstance(value, tuple):
            yield from (f"{key.name}: {one}" for one in value)
        else:
            yield f"{key.name}" if key.shape == FLAG else f"{key.name}: {value}"
    for old in (record.supersedes or ()) if record.status in _DEMOTES else ():
        name = f"{titles[old]} ({old.rpartition('_')[2]})" if old in titles else old
        yield f"{name}: status accepted -> superseded by {record.title}"
    for new in record.superseded_by:
        yield f"status {record.status} -> superseded by {new}"


def _rest(record: Record, file: str) -> Iterator[str]:
    """The lines of a header that are not said otherwise, and what in the log of outcomes is no entry."""
    text = file.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    split = split_header(text)
    said = {key.name for key in KEYS if _is_said(key, record)} if split.kind == "yaml" else set()
    shown = False
    for line in text[split.start : split.end].split("\n"):
        if match := _KEY.match(line):
            shown = match[1] not in said or "#" in match[2]
        if line.strip() and (shown or line.lstrip().startswith("#")):
            yield line.rstrip()
    unread = record.extra.get("outcomes")
    yield from map(str, unread) if isinstance(unread, list) else ()


def _is_said(key: Key, record: Record) -> bool:
    """Whether what a record has under a key stands elsewhere in the words for it."""
    if record.type not in key.types or key.name in record.extra or key.shape == MAPPING or key.name == "id":
        return False
    if key.name == "outcome":
        return bool(record.outcomes)
    if key.name == "supersedes":
        return bool(record.supersedes) and record.status in _DEMOTES
    return True


def _text(record: Record) -> Iterator[str]:
    decision = record.decision if record.decision != record.title else ""
    for text in (decision, record.text, record.next_steps):
        if text:
            yield ""
            yield from sentences(text)
    for name, items in (("rejected", record.rejected), ("fact", record.facts)):
        yield from ("", *(f"{name}: {item}" for item in items)) if items else ()
    if record.outcomes:
        yield from ("", *(write_outcome(entry).removeprefix("- ") for entry in record.outcomes))


def sentences(text: str) -> Iterator[str]:
    """Yield the lines of a text, prose cut into one sentence each; lists, tables and code stay as they are."""
    lines = text.split("\n")
    code = fenced(lines)
    prose: list[str] = []
    for number, line in enumerate(lines):
        if number not in code and line.strip() and not _BLOCK.match(line):
            prose.append(line.strip())
            continue
        yield from _cut(prose)
        prose = []
        yield line
    yield from _cut(prose)


def _cut(prose: list[str]) -> list[str]:
    return [part for part in _END.split(" ".join(prose)) if part] if prose else []
