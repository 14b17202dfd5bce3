"""Change some values of an existing file and leave every other byte as it is.

The result is read again before it is returned: the requested change must be the only difference,
else an error says why the file cannot be changed. Edits are made on the text with LF line ends;
each line gets its own end back. `record/amend_keys` changes the header, this module the body.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from filemem.errors import BadInput, Conflict
from filemem.record import body as md
from filemem.record.amend_keys import is_same_value, restore_hash_signs, set_key
from filemem.record.body import format_outcome, normalize_outcomes
from filemem.record.identity import is_markup
from filemem.record.keys import ALIASES, KEY_BY_NAME, get_stated_title
from filemem.record.lines import (
    CONFLICT_HINT,
    count_kept_ends,
    escape_text,
    join_lines,
    normalize_line_ends,
    normalize_text,
    restore_line_ends,
)
from filemem.record.model import DECISION, Outcome, Record
from filemem.record.parse import parse_header, parse_record, split_header
from filemem.record.render import refuse_unreadable
from filemem.record.yaml import Value

# The fields that a change may alter besides the field of its name.
_ALSO_CHANGES: Mapping[str, frozenset[str]] = {
    "id": frozenset(("id_stated",)),
    "topic": frozenset(("topic_stated",)),
    "status": frozenset(("superseded_by", "supersedes", "status_written")),
    "outcome": frozenset(("outcomes",)),
    "title": frozenset(("topic", "decision", "mentions", "text")),
    "text": frozenset(("topic", "decision", "mentions", "title")),
}
_NO_KEYS: Mapping[str, object] = {}
_BOM = "\ufeff"


class _Change(NamedTuple):
    """The requested change; None leaves a part as it is."""

    keys: Mapping[str, object]
    outcome: Outcome | None
    title: str | None
    text: str | None

    @property
    def names(self) -> set[str]:
        """The keys and parts that change."""
        names = set(self.keys)
        if self.outcome is not None:
            names.add("outcome")
        if self.title is not None:
            names.add("title")
        if self.text is not None:
            names.add("text")
        return names


def amend_record(
    data: bytes,
    path: str,
    *,
    keys: Mapping[str, object] = _NO_KEYS,
    outcome: Outcome | None = None,
    title: str | None = None,
    text: str | None = None,
) -> bytes:
    """Return the bytes of a file with some values changed.

    Args:
        data: The file.
        path: Its store-relative path, for messages and for the type if the header has none.
        keys: New values of keys: text, a number, a list of text or a mapping; None removes a key.
        outcome: An entry to add to the log; the `outcome` key follows the newest entry.
        title: A new title, or None.
        text: A new text below the heading, without the known sections, or None.

    Raises:
        BadInput: The file is broken, or would be.
        Conflict: The change would touch other lines.
    """
    refuse_markup(path)
    before = _require_readable(data, path)
    file_text = data.decode()
    bom = _BOM if file_text.startswith(_BOM) else ""
    file_text = file_text.removeprefix(bom)
    stated = parse_header(normalize_line_ends(file_text)).values
    new_values = {}
    for name, value in keys.items():
        if name == "outcome" and outcome:
            continue  # the log decides
        new_values[name] = restore_hash_signs(name, stated.get(name), value)
    change = _Change(
        keys=new_values,
        outcome=outcome,
        title=None if title is None else join_lines(title),
        text=None if text is None else normalize_text(text),
    )
    new_data = (bom + _apply_change(file_text, path, before, change)).encode()
    if new_data != data:
        refuse_unreadable(new_data, path, data)
        _verify_change(before, new_data, path, change)
    return new_data


def _require_readable(data: bytes, path: str) -> Record:
    """Return the record of a file that may be changed. Raises BadInput if it has errors."""
    record, problems = parse_record(data, path)
    hint = f"correct the file and save it as UTF-8 ({CONFLICT_HINT}), then try again"
    for problem in problems:
        if problem.level == "error":
            raise BadInput(f"{path}:{problem.line}: {problem.message}", hint)
    if record is None:
        raise BadInput(f"{path}:1: the file cannot be read", hint)
    return record


def _apply_change(file_text: str, path: str, before: Record, change: _Change) -> str:
    """Return the text of a file with the change made."""
    for name, value in change.keys.items():
        text = normalize_line_ends(file_text)
        file_text = restore_line_ends(file_text, set_key(text, path, name, value))
    if change.outcome is not None:
        text = normalize_line_ends(file_text)
        new_text = _append_outcome(text, path, before, change.outcome)
        file_text = restore_line_ends(file_text, new_text)
        text = normalize_line_ends(file_text)
        new_text = _update_outcome_key(text, path, before, change.outcome)
        file_text = restore_line_ends(file_text, new_text)
    if change.title is not None:
        text = normalize_line_ends(file_text)
        new_text = _set_title(text, path, before.type, change.title)
        file_text = restore_line_ends(file_text, new_text)
    if change.text is not None and before.text != change.text:
        text = normalize_line_ends(file_text)
        new_text = _set_text(text, before.type, change.text)
        file_text = restore_line_ends(file_text, new_text)
    return file_text


def refuse_markup(path: str) -> None:
    """Raise BadInput if a file is in a format that is never written."""
    if is_markup(path):
        raise BadInput(
            f"{path}: AsciiDoc and reStructuredText records are read, never changed",
            "change the file in your editor, and commit it",
        )


# -- verification ---------------------------------------------------------------------------------


def _verify_change(before: Record, data: bytes, path: str, change: _Change) -> None:
    """Raise Conflict unless the requested change is the only difference."""
    parsed = parse_record(data, path)
    after = parsed.record or before
    stated = parse_header(normalize_line_ends(data.decode().removeprefix(_BOM))).values
    for name in _iter_unapplied_names(before, after, stated, change):
        why = f"{path}: `{name}` cannot be changed in the way it is written"
        raise Conflict(why, "edit the file by hand")
    if "status" in change.keys:
        for problem in parsed.problems:
            if problem.code == "status-differs":
                why = f"{path}:{problem.line}: {problem.message}"
                raise Conflict(why, "change the status there by hand")
    for name in _iter_altered_names(before, after, change.names):
        why = f"{path}: the change would alter `{name}` as well"
        raise Conflict(why, "edit the file by hand")


def _iter_unapplied_names(
    before: Record, after: Record, stated: Mapping[str, Value], change: _Change
) -> Iterator[str]:
    """Yield the keys and parts without the requested value."""
    for name, value in change.keys.items():
        if not is_same_value(stated.get(name), value):
            yield name
    if change.outcome is not None:
        expected_log = set(before.outcomes)
        expected_log.update(normalize_outcomes([change.outcome]))
        if set(after.outcomes) != expected_log:
            yield "outcome"
    if change.title is not None and after.title != change.title:
        yield "title"
    if change.text is not None and after.text != change.text:
        yield "text"


def _iter_altered_names(before: Record, after: Record, names: Set[str]) -> Iterator[str]:
    """Yield the fields and unknown keys that differ and that a change of `names` may not alter."""
    allowed_fields = _list_allowed_fields(names)
    for field in Record._fields:
        if field in allowed_fields:
            continue
        if getattr(before, field) != getattr(after, field):
            yield field
    allowed_keys = {*names, *ALIASES, "outcome", "outcomes"}
    for key in {**before.extra, **after.extra}:
        if key in allowed_keys:
            continue
        if before.extra.get(key) != after.extra.get(key):
            yield key


def _list_allowed_fields(names: Set[str]) -> set[str]:
    fields = {"extra"}
    for name in names:
        key = KEY_BY_NAME.get(name)
        if key:
            fields.add(key.field)
        else:
            fields.add(ALIASES.get(name, name))
        fields.update(_ALSO_CHANGES.get(name, ()))
    return fields


# -- the body -------------------------------------------------------------------------------------

_HASHES = re.compile(r"#{1,6}[ \t]+")
_BULLET = re.compile(r"[ \t]*([-*+])[ \t]")


class _Body(NamedTuple):
    """The lines of a body and its parts, the text above it, and the final newline or ""."""

    header_text: str
    lines: list[str]
    outline: md.Outline
    final_newline: str

    def strip_range(self, start: int, stop: int) -> int:
        """Return the end of a range without the blank lines at its end."""
        while stop > start and not self.lines[stop - 1].strip():
            stop -= 1
        return stop

    def replace_range(self, start: int, stop: int, new_lines: Sequence[str]) -> str:
        """Return the text of the file with new lines in place of some of the body."""
        lines = self.lines[:start]
        lines += new_lines
        lines += self.lines[stop:]
        return self.join(lines)

    def join(self, lines: Sequence[str]) -> str:
        """Return the text of the file with these lines as its body."""
        return self.header_text + "\n".join(lines) + self.final_newline


def _parse_body(text: str, type_: str) -> _Body:
    header = parse_header(text)
    header_text = text[: header.body_start]
    body_text = text[header.body_start :]
    lines = []
    if body_text:
        lines = body_text.removesuffix("\n").split("\n")
    final_newline = "\n"
    if text and not text.endswith("\n"):
        final_newline = ""
    if header_text and not header_text.endswith("\n"):
        header_text += "\n"
    outline = md.parse_outline(
        lines,
        md.SECTIONS[type_],
        stated_title=get_stated_title(header),
        has_links="supersedes" in header.values,
    )
    return _Body(header_text, lines, outline, final_newline)


def _append_outcome(text: str, path: str, before: Record, outcome: Outcome) -> str:
    """Return the text with one more line in `## Outcomes`; adds the section if it is missing."""
    if before.type != DECISION:
        message = f"{path} is of type {before.type}; only decisions have outcomes"
        raise BadInput(message, field="outcome")
    body = _parse_body(text, DECISION)
    ranges = body.outline.get_ranges(md.OUTCOMES)
    if not ranges:
        stop = body.strip_range(0, len(body.lines))
        new_lines = [f"## {md.OUTCOMES}", format_outcome(outcome)]
        if stop:
            new_lines.insert(0, "")
        return body.replace_range(stop, stop, new_lines)
    log = ranges[-1]
    stop = body.strip_range(log.start, log.stop)
    sign = "-"
    if stop > log.start:
        bullet = _BULLET.match(body.lines[stop - 1])
        if bullet:
            sign = bullet[1]
    return body.replace_range(stop, stop, [format_outcome(outcome, sign)])


def _update_outcome_key(text: str, path: str, before: Record, outcome: Outcome) -> str:
    """Return the text with the newest outcome of the log in the `outcome` key.

    A file without a header stays without one.
    """
    if not split_header(text).kind:
        return text
    after = parse_record(text.encode(), path).record
    newest = after.outcome if after else outcome.outcome
    is_stated = "outcome" in parse_header(text).values and "outcome" not in before.extra
    if is_stated and before.outcome == newest:
        return text  # perhaps in another spelling
    return set_key(text, path, "outcome", newest)


def _set_title(text: str, path: str, type_: str, title: str) -> str:
    """Return the text with another title; a heading is added if the file has none."""
    if not title:
        raise BadInput("title must not be empty", field="title")
    if get_stated_title(parse_header(text)):
        return set_key(text, path, "title", title)
    body = _parse_body(text, type_)
    heading = body.outline.title
    if heading is None:
        return _insert_heading(body, title)
    if heading.text == title:
        return text
    hashes = _HASHES.match(body.lines[heading.line])
    prefix = hashes[0] if hashes else "# "
    return body.replace_range(heading.line, heading.line + 1, [prefix + title])


def _insert_heading(body: _Body, title: str) -> str:
    """Return the text with a heading above the first line that is not blank."""
    position = 0
    while position < len(body.lines) and not body.lines[position].strip():
        position += 1
    new_lines = [f"# {title}"]
    if position < len(body.lines):
        new_lines.append("")
    return body.replace_range(position, position, new_lines)


class _Insertion(NamedTuple):
    """New lines, and the line of the body before which they go."""

    position: int
    lines: list[str]


def _set_text(text: str, type_: str, new_text: str) -> str:
    """Return the text of a file with other text below its heading; kept lines keep their bytes."""
    body = _parse_body(text, type_)
    old_lines = md.list_text_lines(body.lines, body.outline)
    new_lines: list[str] = []
    if new_text:
        new_lines = new_text.split("\n")
        new_lines.append("")
    old_texts = [line.text for line in old_lines]
    head, tail = count_kept_ends(old_texts, new_lines)
    if head and _is_trimmed(body, old_lines[head - 1]):
        head -= 1  # its blanks would count once more text follows
    old_stop = len(old_lines) - tail
    new_stop = len(new_lines) - tail
    escaped_lines = escape_text(new_text, md.SECTIONS[type_]).split("\n")
    escaped_lines.append("")
    added_lines = escaped_lines[head:new_stop]
    insertion = _build_insertion(body, old_lines, head, added_lines)
    replaced_positions = {line.position for line in old_lines[head:old_stop]}
    above: list[str] = []
    below: list[str] = []
    for number, line in enumerate(body.lines):
        if number in replaced_positions:
            continue
        if number < insertion.position:
            above.append(line)
        else:
            below.append(line)
    return body.join(above + insertion.lines + below)


def _is_trimmed(body: _Body, line: md.TextLine) -> bool:
    """Whether a line ends in blanks that were not read, because it ends a range of text."""
    if not line.text:
        return False
    written_line = body.lines[line.position]
    return written_line[-1] != line.text[-1]


def _build_insertion(
    body: _Body, old_lines: Sequence[md.TextLine], head: int, new_lines: list[str]
) -> _Insertion:
    """Return the place of new text: below the first `head` lines of the old, else on top."""
    kept_lines = old_lines[:head]
    if kept_lines:
        position = max(line.position for line in kept_lines) + 1
        if kept_lines[-1].position < 0:
            new_lines = ["", *new_lines]  # the body has no such blank line
        return _Insertion(position, new_lines)
    text_start = body.outline.text_start
    if old_lines:
        old_start = old_lines[0].position
        if body.strip_range(text_start, old_start) == text_start:
            return _Insertion(old_start, new_lines)
    next_lines = body.lines[text_start : text_start + 1]
    rows = _add_blank_lines(new_lines, text_start, next_lines)
    return _Insertion(text_start, rows)


def _add_blank_lines(new_lines: list[str], position: int, next_lines: Sequence[str]) -> list[str]:
    """Return new lines with a blank one between them and the lines above and below."""
    rows = [*new_lines]
    while rows and not rows[-1]:
        rows.pop()
    if not rows:
        return []
    if position:
        rows.insert(0, "")
    if any(line.strip() for line in next_lines):
        rows.append("")
    return rows
