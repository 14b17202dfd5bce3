"""Change one key of an existing header and leave every other byte as it is.

Lines of other keys, comments and the layout of lists stay. A key that is written in a way that does
not allow this is a Conflict.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from filemem.errors import Conflict
from filemem.record.keys import KEY_ORDER, strip_hash_sign
from filemem.record.lines import KeptCounts, count_kept_ends
from filemem.record.parse import HeaderSplit, parse_header, split_header
from filemem.record.yaml import (
    Entry,
    Span,
    Value,
    format_flow,
    format_scalar,
    parse_entries,
    to_typed_value,
)

_COMMENT = re.compile(r"(?:^|\s)#", re.MULTILINE)
_DASH = re.compile(r"[ \t]*-[ \t]*")
_TAG_KEYS = ("tags", "concepts")


def is_same_value(stated: Value | None, expected: object) -> bool:
    """Whether a value as read means the expected one; None: the key is absent."""
    if stated is None:
        return expected is None
    if expected is None:
        return False
    if isinstance(expected, str):
        return isinstance(stated, str) and str(stated) == expected
    if isinstance(expected, list | tuple):
        items = [item if isinstance(item, Mapping) else str(item) for item in expected]
        return isinstance(stated, list) and stated == items
    return to_typed_value(stated) == expected


def restore_hash_signs(name: str, stated: Value | None, value: object) -> object:
    """Return a new value of a key; tags that the file writes with `#` keep it."""
    if name not in _TAG_KEYS:
        return value
    if not isinstance(stated, list) or not isinstance(value, list | tuple):
        return value
    written_words = {}
    for item in stated:
        if isinstance(item, str):
            written_words[strip_hash_sign(item)] = item
    return tuple(written_words.get(item, item) for item in value)


def set_key(text: str, path: str, name: str, value: object) -> str:
    """Return the text of a file with a key set to a value, or without the key if that is None.

    Raises Conflict if the key cannot be changed in place.
    """
    split = split_header(text)
    if not split.kind:
        if value is None:
            return text
        return f"---\n{_format_pair(name, value)}\n---\n{text}"
    entries = _require_entries(text, split, path, name)
    for entry in entries:
        if entry.key == name:
            return _set_entry(text, split, path, entry, value)
    if value is None:
        return text
    return _insert_key(text, split, entries, name, value)


def _format_pair(name: str, value: object) -> str:
    return f"{format_scalar(name)}: {format_flow(value)}"


def _require_entries(text: str, split: HeaderSplit, path: str, name: str) -> Sequence[Entry]:
    """Return the keys of a header. Raises Conflict if they are not one on each line."""
    if split.kind == "yaml":
        entries, in_braces = parse_entries(split.header)
        if not in_braces:
            return entries
    first_line = text.count("\n", 0, split.start) + 2
    line = parse_header(text).lines.get(name, first_line)
    why = (
        "the header is TOML, JSON or in braces, and only lines of `key: value` are changed in place"
    )
    raise Conflict(f"{path}:{line}: {why}", f"set `{name}` there by hand")


class _UnsupportedSyntax(Exception):
    """A key is written in a way that is not changed in place; the text says why."""


def _set_entry(text: str, split: HeaderSplit, path: str, entry: Entry, value: object) -> str:
    """Return the text with another value of a key, or without its lines if that is None."""
    if is_same_value(entry.value, value):
        return text
    entry = _shift_entry(entry, text, split.start)
    line_start = text.rfind("\n", 0, entry.key_start) + 1
    try:
        if text[line_start : entry.key_start].strip():
            raise _UnsupportedSyntax("does not start its line")
        if value is None:
            return text[:line_start] + text[_find_next_line(text, entry.end) :]
        return _replace_value(text, entry, value)
    except _UnsupportedSyntax as reason:
        line = text.count("\n", 0, entry.key_start) + 1
        why = f"{path}:{line}: `{entry.key}` {reason}"
        raise Conflict(why, f"set `{entry.key}` there by hand") from None


def _refuse_comments(text: str) -> None:
    if _COMMENT.search(text):
        raise _UnsupportedSyntax("holds comments that the change would remove")


def _find_next_line(text: str, position: int) -> int:
    """Return where the line after a position starts."""
    line_end = text.find("\n", position)
    if line_end < 0:
        return len(text)
    return line_end + 1


def _shift_entry(entry: Entry, text: str, offset: int) -> Entry:
    """Return an entry with positions in the whole text, its end without blanks and empty lines."""
    items = []
    for item in entry.items:
        stop = _strip_end(text, item.stop + offset)
        items.append(Span(item.start + offset, stop))
    key_end = entry.key_end + offset
    return entry._replace(
        key_start=entry.key_start + offset,
        key_end=key_end,
        start=entry.start + offset,
        end=max(key_end, _strip_end(text, entry.end + offset)),
        items=tuple(items),
    )


def _strip_end(text: str, position: int) -> int:
    """Return a position without the blanks and empty lines before it."""
    text_above = text[:position]
    return len(text_above.rstrip())


def _insert_key(
    text: str, split: HeaderSplit, entries: Sequence[Entry], name: str, value: object
) -> str:
    """Add a key after those that precede it in new files, else at the end of the header."""
    order = KEY_ORDER.get(name, len(KEY_ORDER))
    preceding_end = 0
    for entry in entries:
        if KEY_ORDER.get(entry.key or "", order) < order:
            end = _shift_entry(entry, text, split.start).end
            preceding_end = max(preceding_end, end)
    position = split.end
    if preceding_end:
        position = _find_next_line(text, preceding_end)
    indent = ""
    if entries:
        indent = _get_indent(text, split.start + entries[0].key_start)
    row = f"{indent}{_format_pair(name, value)}\n"
    return text[:position] + row + text[position:]


def _get_indent(text: str, position: int) -> str:
    """Return the blanks that the line at a position begins with."""
    line_start = text.rfind("\n", 0, position) + 1
    line = text[line_start:]
    width = len(line) - len(line.lstrip(" \t"))
    return line[:width]


def _replace_value(text: str, entry: Entry, value: object) -> str:
    """Replace the value of a key; positions are those of the text."""
    new_items = _list_texts(value)
    if new_items and isinstance(entry.value, list):
        if entry.style == "block":
            return _replace_items(text, entry, entry.value, new_items)
        kept_count = len(entry.value)
        if entry.value and new_items[:kept_count] == entry.value:
            return _append_items(text, entry, new_items[kept_count:])
    colon = text.index(":", entry.key_end) + 1
    if entry.style == "block":
        return _replace_block(text, entry, colon, value)
    return _replace_scalar(text, entry, colon, value)


def _replace_scalar(text: str, entry: Entry, colon: int, value: object) -> str:
    """Write a value in place of a scalar or of a list in brackets."""
    old_text = text[entry.start : entry.end]
    new_text = format_flow(value)
    if not old_text:
        return f"{text[:colon]} {new_text}{text[colon:]}"
    if "\n" in old_text:
        replaced_text = old_text
        if entry.style != "flow":  # below its first line, a `#` is part of the text
            replaced_text = old_text.partition("\n")[0]
        _refuse_comments(replaced_text)
    return text[: entry.start] + new_text + text[entry.end :]


def _list_texts(value: object) -> list[str]:
    """Return the items of a list of text; none for a list of mappings, such as guards."""
    if not isinstance(value, list | tuple):
        return []
    return [str(item) for item in value if not isinstance(item, Mapping)]


def _append_items(text: str, entry: Entry, items: list[str]) -> str:
    """Add items to a list in brackets."""
    added_text = ""
    for item in items:
        added_text += f", {format_scalar(item)}"
    end = entry.items[-1].stop
    return text[:end] + added_text + text[end:]


def _replace_block(text: str, entry: Entry, colon: int, value: object) -> str:
    """Write a value on the line of its key, in place of the lines below."""
    next_line = _find_next_line(text, colon)
    end = _find_next_line(text, entry.end)
    _refuse_comments(text[next_line:end])
    rest_of_line = text[colon:next_line]
    new_text = format_flow(value)
    return f"{text[:colon]} {new_text}{rest_of_line}{text[end:]}"


def _replace_items(text: str, entry: Entry, old_items: list[Value], new_items: list[str]) -> str:
    """Write a list with one item on each line; kept items at both ends keep their lines."""
    rows = [_find_lines(text, item) for item in entry.items]
    prefix = _find_item_prefix(text, rows, old_items)
    kept = count_kept_ends(old_items, new_items)
    start, stop = _find_replaced_lines(rows, kept)
    _refuse_comments(text[start:stop])
    new_stop = len(new_items) - kept.tail
    added_text = ""
    for item in new_items[kept.head : new_stop]:
        added_text += f"{prefix} {format_scalar(item)}\n"
    return text[:start] + added_text + text[stop:]


def _find_replaced_lines(rows: Sequence[Span], kept: KeptCounts) -> Span:
    """Return the lines of the items between the kept ones; an empty range if there are none."""
    replaced_rows = rows[kept.head : len(rows) - kept.tail]
    if replaced_rows:
        return Span(replaced_rows[0].start, replaced_rows[-1].stop)
    position = rows[-1].stop
    if kept.tail:
        position = rows[kept.head].start
    return Span(position, position)


def _find_item_prefix(text: str, rows: Sequence[Span], items: list[Value]) -> str:
    """Return the indented dash of a list. Raises _UnsupportedSyntax for a list of another form."""
    dash = _DASH.match(text, rows[0].start)
    line_starts = {row.start for row in rows}
    if dash is None or len(line_starts) < len(items):
        raise _UnsupportedSyntax("is not one item on each line")
    for item in items:
        if not isinstance(item, str):
            raise _UnsupportedSyntax("is not one item on each line")
    return dash[0].rstrip()


def _find_lines(text: str, item: Span) -> Span:
    """Return the whole lines that an item is on."""
    start = text.rfind("\n", 0, item.start) + 1
    return Span(start, _find_next_line(text, item.stop))
