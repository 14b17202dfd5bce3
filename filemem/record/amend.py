"""Change some values of an existing file and leave every other byte as it is.

The result is proved before it is returned: it is read again, and what was asked for must be the
only difference. If that cannot be had, the answer is an error that says why, never a rewritten
file. Edits are made on the text with LF line ends; each line gets its own end back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import NamedTuple

from filemem.errors import BadInput, Conflict
from filemem.record import body as md
from filemem.record.body import format_outcome, normalize_outcomes
from filemem.record.identity import is_markup
from filemem.record.keys import ALIASES, KEY_BY_NAME, KEY_ORDER, get_stated_title, strip_hash_sign
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
from filemem.record.parse import HeaderSplit, parse_header, parse_record, split_header
from filemem.record.render import refuse_unreadable
from filemem.record.yaml import (
    Entry,
    Span,
    Value,
    format_flow,
    format_scalar,
    parse_entries,
    to_typed_value,
)

# What a change may alter besides the field of its name.
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
    """What is asked for; None leaves a part as it is."""

    keys: Mapping[str, object]
    outcome: Outcome | None
    title: str | None
    text: str | None

    @property
    def names(self) -> set[str]:
        """The keys and parts that change."""
        parts = ("outcome", "title", "text")
        return {*self.keys, *(part for part in parts if getattr(self, part) is not None)}


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

    `path` is store-relative: for messages, and for the type where the header does not say it.
    `keys` have new values: text, a number, a list of text, a mapping; None removes the key.
    `outcome` is added to the log, and the `outcome` key follows the newest entry. `text` is what
    stands below the heading, without the known sections.

    Raises BadInput: the file is broken or would be; Conflict: it cannot be done without touching
    other lines.
    """
    refuse_markup(path)
    before = _require_readable(data, path)
    file_text = data.decode()
    bom = _BOM if file_text.startswith(_BOM) else ""
    file_text = file_text.removeprefix(bom)
    stated = parse_header(normalize_line_ends(file_text)).values
    change = _Change(
        keys={
            name: _restore_hash_signs(name, stated.get(name), value)
            for name, value in keys.items()
            if not (name == "outcome" and outcome)
        },
        outcome=outcome,
        title=None if title is None else join_lines(title),
        text=None if text is None else normalize_text(text),
    )
    for edit in _iter_edits(path, before, change):
        file_text = restore_line_ends(file_text, edit(normalize_line_ends(file_text)))
    new_data = (bom + file_text).encode()
    if new_data != data:
        refuse_unreadable(new_data, path, data)
        _verify_change(before, new_data, path, change)
    return new_data


def _require_readable(data: bytes, path: str) -> Record:
    """Return the record of a file that may be changed. Raises BadInput if it has errors."""
    parsed = parse_record(data, path)
    error = next((problem for problem in parsed.problems if problem.level == "error"), None)
    if parsed.record is not None and error is None:
        return parsed.record
    line = error.line if error else 1
    why = error.message if error else "the file cannot be read"
    hint = f"correct the file and save it as UTF-8 ({CONFLICT_HINT}), then try again"
    raise BadInput(f"{path}:{line}: {why}", hint)


def _iter_edits(path: str, before: Record, change: _Change) -> Iterator[Callable[[str], str]]:
    """Yield the steps of a change; each makes a text with LF line ends of another."""
    for name, value in change.keys.items():
        yield partial(_set_key, path=path, name=name, value=value)
    if change.outcome is not None:
        yield partial(_append_outcome, path=path, before=before, outcome=change.outcome)
        yield partial(_update_outcome_key, path=path, before=before, outcome=change.outcome)
    if change.title is not None:
        yield partial(_set_title, path=path, type_=before.type, title=change.title)
    if change.text is not None and before.text != change.text:
        yield partial(_set_text, type_=before.type, new_text=change.text)


def refuse_markup(path: str) -> None:
    """Raise BadInput where a file would be changed that is only read."""
    if is_markup(path):
        raise BadInput(
            f"{path}: AsciiDoc and reStructuredText records are read, never changed",
            "change the file in your editor, and commit it",
        )


# -- the proof ------------------------------------------------------------------------------------


def _verify_change(before: Record, data: bytes, path: str, change: _Change) -> None:
    """Raise Conflict unless what was asked for is the only difference."""
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
    """Yield the names of what did not become as it was asked for."""
    for name, value in change.keys.items():
        if not _is_same_value(stated.get(name), value):
            yield name
    if change.outcome is not None:
        log = {*before.outcomes, *normalize_outcomes([change.outcome])}
        if set(after.outcomes) != log:
            yield "outcome"
    if change.title is not None and after.title != change.title:
        yield "title"
    if change.text is not None and after.text != change.text:
        yield "text"


def _iter_altered_names(before: Record, after: Record, names: Set[str]) -> Iterator[str]:
    """Yield the fields and unknown keys that differ beside these names."""
    allowed = {"extra"}
    for name in names:
        key = KEY_BY_NAME.get(name)
        allowed.add(key.field if key else ALIASES.get(name, name))
        allowed |= _ALSO_CHANGES.get(name, frozenset())
    for field in Record._fields:
        if field not in allowed and getattr(before, field) != getattr(after, field):
            yield field
    allowed = {*names, *ALIASES, "outcome", "outcomes"}
    for name in {**before.extra, **after.extra}:
        if name not in allowed and before.extra.get(name) != after.extra.get(name):
            yield name


# -- the body -------------------------------------------------------------------------------------

_HASHES = re.compile(r"#{1,6}[ \t]+")
_BULLET = re.compile(r"[ \t]*([-*+])[ \t]")


class _Body(NamedTuple):
    """The lines of a body and its parts, what stands above it, and how it ends."""

    header_text: str
    lines: list[str]
    outline: md.Outline
    final_newline: str

    def replace_lines(self, lines: Sequence[str]) -> str:
        """Return the text of the file with these lines in place of its body."""
        return self.header_text + "\n".join(lines) + self.final_newline


def _parse_body(text: str, type_: str) -> _Body:
    header = parse_header(text)
    header_text = text[: header.body_start]
    body_text = text[header.body_start :]
    final_newline = "\n" if (body_text or header_text or "\n").endswith("\n") else ""
    lines = body_text.removesuffix("\n").split("\n") if body_text else []
    header_text += "\n" if header_text and not header_text.endswith("\n") else ""
    has_links = "supersedes" in header.values
    outline = md.parse_outline(
        lines, md.SECTIONS[type_], stated_title=get_stated_title(header), has_links=has_links
    )
    return _Body(header_text, lines, outline, final_newline)


def _append_outcome(text: str, path: str, before: Record, outcome: Outcome) -> str:
    """Return the text with one more line in `## Outcomes`, which is made if it is missing."""
    if before.type != DECISION:
        message = f"{path} is of type {before.type}; only decisions have outcomes"
        raise BadInput(message, field="outcome")
    body = _parse_body(text, DECISION)
    lines = body.lines
    ranges = body.outline.get_ranges(md.OUTCOMES)
    start, stop = ranges[-1] if ranges else (0, len(lines))
    while stop > start and not lines[stop - 1].strip():
        stop -= 1
    if ranges:
        bullet = _BULLET.match(lines[stop - 1]) if stop > start else None
        new_lines = [format_outcome(outcome, bullet[1] if bullet else "-")]
    else:
        new_lines = [*([""] if stop else []), f"## {md.OUTCOMES}", format_outcome(outcome)]
    return body.replace_lines([*lines[:stop], *new_lines, *lines[stop:]])


def _update_outcome_key(text: str, path: str, before: Record, outcome: Outcome) -> str:
    """Return the text with the `outcome` key that the newest entry of the log asks for.

    A file without a header gets none.
    """
    if not split_header(text).kind:
        return text
    after = parse_record(text.encode(), path).record
    newest = after.outcome if after else outcome.outcome
    is_stated = "outcome" in parse_header(text).values and "outcome" not in before.extra
    if is_stated and before.outcome == newest:
        return text  # perhaps in another spelling
    return _set_key(text, path, "outcome", newest)


def _set_title(text: str, path: str, type_: str, title: str) -> str:
    """Return the text with another heading; without one it gets one above its text."""
    if not title:
        raise BadInput("title must not be empty", field="title")
    if get_stated_title(parse_header(text)):
        return _set_key(text, path, "title", title)
    body = _parse_body(text, type_)
    lines = body.lines
    title_line = body.outline.title
    if title_line is None:
        first_line = next((n for n, line in enumerate(lines) if line.strip()), len(lines))
        heading = [f"# {title}", *([""] if lines[first_line:] else [])]
        return body.replace_lines([*lines[:first_line], *heading, *lines[first_line:]])
    if title_line.text == title:
        return text
    hashes = _HASHES.match(lines[title_line.line])
    heading = [f"{hashes[0] if hashes else '# '}{title}"]
    return body.replace_lines([*lines[: title_line.line], *heading, *lines[title_line.line + 1 :]])


class _Insertion(NamedTuple):
    """Lines to write, and the line of the body that they go in front of."""

    position: int
    lines: list[str]


def _set_text(text: str, type_: str, new_text: str) -> str:
    """Return the text of a file with other text below its heading.

    Lines that stay keep their bytes.
    """
    body = _parse_body(text, type_)
    old_lines = md.list_text_lines(body.lines, body.outline)
    new_lines = [*new_text.split("\n"), ""] if new_text else []
    head, tail = count_kept_ends([line.text for line in old_lines], new_lines)
    if head and _is_trimmed(body, old_lines[head - 1]):
        head -= 1  # its blanks would count once more follows
    added_lines = [*escape_text(new_text, md.SECTIONS[type_]).split("\n"), ""][
        head : len(new_lines) - tail
    ]
    replaced_positions = {line.position for line in old_lines[head : len(old_lines) - tail]}
    position, inserted_lines = _build_insertion(
        body, old_lines[:head], old_lines[head:], added_lines
    )
    lines = [*enumerate(body.lines)]
    above = [line for number, line in lines[:position] if number not in replaced_positions]
    below = [line for number, line in lines[position:] if number not in replaced_positions]
    return body.replace_lines([*above, *inserted_lines, *below])


def _is_trimmed(body: _Body, line: md.TextLine) -> bool:
    """Whether a line ends in blanks that are not read, because it ends a part."""
    return bool(line.text) and body.lines[line.position][-1] != line.text[-1]


def _build_insertion(
    body: _Body,
    kept_lines: Sequence[md.TextLine],
    following_lines: Sequence[md.TextLine],
    new_lines: list[str],
) -> _Insertion:
    """Return where new text goes: behind what is kept, in place of the rest, or on top."""
    if kept_lines:
        position = max(line.position for line in kept_lines) + 1
        return _Insertion(position, new_lines if kept_lines[-1].position >= 0 else ["", *new_lines])
    text_start = body.outline.text_start
    if following_lines and not any(
        line.strip() for line in body.lines[text_start : following_lines[0].position]
    ):
        return _Insertion(following_lines[0].position, new_lines)
    return _Insertion(
        text_start, _add_blank_lines(new_lines, text_start, body.lines[text_start : text_start + 1])
    )


def _add_blank_lines(text: list[str], position: int, next_lines: Sequence[str]) -> list[str]:
    """Return text with one blank line to what stands above and below, none at its end."""
    while text and not text[-1]:
        text.pop()
    if not text:
        return []
    above = [""] if position else []
    below = [""] if any(map(str.strip, next_lines)) else []
    return [*above, *text, *below]


# -- one key of the header ------------------------------------------------------------------------

_COMMENT = re.compile(r"(?:^|\s)#", re.MULTILINE)
_DASH = re.compile(r"[ \t]*-[ \t]*")


def _is_same_value(stated: Value | None, expected: object) -> bool:
    """Return whether a value as read means the wanted one; None: the key is absent."""
    if expected is None or stated is None:
        return stated is None and expected is None
    if isinstance(expected, str):
        return isinstance(stated, str) and str(stated) == expected
    if isinstance(expected, list | tuple):
        items = [item if isinstance(item, Mapping) else str(item) for item in expected]
        return isinstance(stated, list) and stated == items
    return to_typed_value(stated) == expected


def _restore_hash_signs(name: str, stated: Value | None, value: object) -> object:
    """Return a new value of a key, its words with the `#` that they have in the file."""
    if not (isinstance(stated, list) and isinstance(value, list | tuple)):
        return value
    if name not in ("tags", "concepts"):
        return value
    written_words = {strip_hash_sign(item): item for item in stated if isinstance(item, str)}
    return tuple(written_words.get(item, item) for item in value)


def _set_key(text: str, path: str, name: str, value: object) -> str:
    """Return the text with a key set to a value, or without it if the value is None."""
    split = split_header(text)
    if not split.kind and value is None:
        return text
    if not split.kind:
        return f"---\n{format_scalar(name)}: {format_flow(value)}\n---\n{text}"
    entries = _require_entries(text, split, path, name)
    entry = next((entry for entry in entries if entry.key == name), None)
    if entry is None:
        return text if value is None else _insert_key(text, split, entries, name, value)
    if _is_same_value(entry.value, value):
        return text
    entry = _shift_entry(entry, text, split.start)
    try:
        return _set_entry(text, entry, value)
    except _UnsupportedSyntax as reason:
        line = text.count("\n", 0, entry.key_start) + 1
        why = f"{path}:{line}: `{name}` {reason}"
        raise Conflict(why, f"set `{name}` there by hand") from None


def _require_entries(text: str, split: HeaderSplit, path: str, name: str) -> Sequence[Entry]:
    """Return the keys of a header. Raises Conflict if they are not one on each line."""
    if split.kind == "yaml":
        entries, in_braces = parse_entries(split.header)
        if not in_braces:
            return entries
    line = parse_header(text).lines.get(name, text.count("\n", 0, split.start) + 2)
    why = (
        "the header is TOML, JSON or in braces, and only lines of `key: value` are changed in place"
    )
    raise Conflict(f"{path}:{line}: {why}", f"set `{name}` there by hand")


def _set_entry(text: str, entry: Entry, value: object) -> str:
    """Return the text with another value of a key, or without its lines if that is None."""
    line_start = text.rfind("\n", 0, entry.key_start) + 1
    if text[line_start : entry.key_start].strip():
        raise _UnsupportedSyntax("does not start its line")
    if value is None:
        return text[:line_start] + text[_find_next_line(text, entry.end) :]
    return _replace_value(text, entry, value)


class _UnsupportedSyntax(Exception):
    """A key is written in a way that is not changed; the text says why."""


def _refuse_comments(text: str) -> None:
    if _COMMENT.search(text):
        raise _UnsupportedSyntax("holds comments that the change would remove")


def _find_next_line(text: str, position: int) -> int:
    """Return where the line after a position starts."""
    return text.find("\n", position) + 1 or len(text)


def _shift_entry(entry: Entry, text: str, offset: int) -> Entry:
    """Return an entry with positions in the whole text, its end without blanks and empty lines."""
    end = len(text[: entry.end + offset].rstrip())
    return entry._replace(
        key_start=entry.key_start + offset,
        key_end=entry.key_end + offset,
        start=entry.start + offset,
        end=max(end, entry.key_end + offset),
        items=tuple(
            Span(start + offset, len(text[: stop + offset].rstrip())) for start, stop in entry.items
        ),
    )


def _insert_key(
    text: str, split: HeaderSplit, entries: Sequence[Entry], name: str, value: object
) -> str:
    """Add a key behind the one that comes before it in new files, else at the end of the header."""
    order = KEY_ORDER.get(name, len(KEY_ORDER))
    preceding_entries = [
        entry for entry in entries if KEY_ORDER.get(entry.key or "", order) < order
    ]
    ends = [_shift_entry(entry, text, split.start).end for entry in preceding_entries]
    position = _find_next_line(text, max(ends)) if ends else split.end
    indent = ""
    if entries:
        key = split.start + entries[0].key_start
        line = text[text.rfind("\n", 0, key) + 1 :]
        indent = line[: len(line) - len(line.lstrip(" \t"))]
    return (
        f"{text[:position]}{indent}{format_scalar(name)}: {format_flow(value)}\n{text[position:]}"
    )


def _list_texts(value: object) -> list[str]:
    """Return the items of a list of text; none for a list of mappings, such as guards."""
    items = value if isinstance(value, list | tuple) else []
    return [str(item) for item in items if not isinstance(item, Mapping)]


def _replace_value(text: str, entry: Entry, value: object) -> str:
    """Replace the value of a key; positions are those of the text."""
    new_items = _list_texts(value)
    if new_items and isinstance(entry.value, list):
        if entry.style == "block":
            return _replace_items(text, entry, entry.value, new_items)
        if entry.value and new_items[: len(entry.value)] == entry.value:
            return _append_items(text, entry, new_items[len(entry.value) :])
    colon = text.index(":", entry.key_end) + 1
    if entry.style == "block":
        return _replace_block(text, entry, colon, value)
    span = text[entry.start : entry.end]
    if not span:
        return f"{text[:colon]} {format_flow(value)}{text[colon:]}"
    if "\n" in span:
        _refuse_comments(span if entry.style == "flow" else span.partition("\n")[0])
    return text[: entry.start] + format_flow(value) + text[entry.end :]


def _append_items(text: str, entry: Entry, items: list[str]) -> str:
    """Add items to a list in brackets."""
    end = entry.items[-1].stop
    new_text = "".join(f", {format_scalar(item)}" for item in items)
    return text[:end] + new_text + text[end:]


def _replace_block(text: str, entry: Entry, colon: int, value: object) -> str:
    """Write a value on the line of its key, in place of the lines below."""
    next_line = _find_next_line(text, colon)
    end = _find_next_line(text, entry.end)
    _refuse_comments(text[next_line:end])
    return f"{text[:colon]} {format_flow(value)}{text[colon:next_line]}{text[end:]}"


def _replace_items(text: str, entry: Entry, old_items: list[Value], new_items: list[str]) -> str:
    """Keep the lines of items that stay at both ends; write new items in the same layout."""
    starts = [text.rfind("\n", 0, start) + 1 for start, _ in entry.items]
    stops = [_find_next_line(text, stop) for _, stop in entry.items]
    dash = _DASH.match(text, starts[0])
    is_text = all(isinstance(item, str) for item in old_items)
    if dash is None or len(set(starts)) < len(old_items) or not is_text:
        raise _UnsupportedSyntax("is not one item on each line")
    head, tail = count_kept_ends(old_items, new_items)
    kept_end = len(old_items) - tail
    start = starts[head] if head < len(old_items) else stops[-1]
    stop = stops[kept_end - 1] if head < kept_end else start
    _refuse_comments(text[start:stop])
    added_items = new_items[head : len(new_items) - tail]
    new_lines = "".join(f"{dash[0].rstrip()} {format_scalar(item)}\n" for item in added_items)
    return text[:start] + new_lines + text[stop:]
