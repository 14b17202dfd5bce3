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
from filemem.record.body import tidy_outcomes, write_outcome
from filemem.record.identity import is_markup
from filemem.record.keys import ALIASES, KEY_BY_NAME, KEY_ORDER, stated_title, word
from filemem.record.lines import WAY_OUT, escape, kept_at_ends, lf, one_line, tidy, with_ends_of
from filemem.record.model import DECISION, Outcome, Record
from filemem.record.parse import Split, parse, read_header, split_header
from filemem.record.render import refuse_unreadable
from filemem.record.yaml import Entry, Span, Value, flow, read_entries, scalar, typed

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


def amend(
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
    before = _readable(data, path)
    raw = data.decode()
    bom = _BOM if raw.startswith(_BOM) else ""
    raw = raw.removeprefix(bom)
    stated = read_header(lf(raw)).values
    change = _Change(
        keys={
            name: _as_written(name, stated.get(name), value)
            for name, value in keys.items()
            if not (name == "outcome" and outcome)
        },
        outcome=outcome,
        title=None if title is None else one_line(title),
        text=None if text is None else tidy(text),
    )
    for edit in _edits(path, before, change):
        raw = with_ends_of(raw, edit(lf(raw)))
    changed = (bom + raw).encode()
    if changed != data:
        refuse_unreadable(changed, path, data)
        _prove(before, changed, path, change)
    return changed


def _readable(data: bytes, path: str) -> Record:
    """Return the record of a file that may be changed. Raises BadInput if it has errors."""
    parsed = parse(data, path)
    error = next((problem for problem in parsed.problems if problem.level == "error"), None)
    if parsed.record is not None and error is None:
        return parsed.record
    line = error.line if error else 1
    why = error.message if error else "the file cannot be read"
    hint = f"correct the file and save it as UTF-8 ({WAY_OUT}), then try again"
    raise BadInput(f"{path}:{line}: {why}", hint)


def _edits(path: str, before: Record, change: _Change) -> Iterator[Callable[[str], str]]:
    """Yield the steps of a change; each makes a text with LF line ends of another."""
    for name, value in change.keys.items():
        yield partial(_set_key, path=path, name=name, value=value)
    if change.outcome is not None:
        yield partial(_append_outcome, path=path, before=before, outcome=change.outcome)
        yield partial(_follow_newest, path=path, before=before, outcome=change.outcome)
    if change.title is not None:
        yield partial(_set_title, path=path, type_=before.type, title=change.title)
    if change.text is not None and before.text != change.text:
        yield partial(_set_text, type_=before.type, wanted=change.text)


def refuse_markup(path: str) -> None:
    """Raise BadInput where a file would be changed that is only read."""
    if is_markup(path):
        raise BadInput(
            f"{path}: AsciiDoc and reStructuredText records are read, never changed",
            "change the file in your editor, and commit it",
        )


# -- the proof ------------------------------------------------------------------------------------


def _prove(before: Record, changed: bytes, path: str, change: _Change) -> None:
    """Raise Conflict unless what was asked for is the only difference."""
    parsed = parse(changed, path)
    after = parsed.record or before
    stated = read_header(lf(changed.decode().removeprefix(_BOM))).values
    for name in _missed(before, after, stated, change):
        why = f"{path}: `{name}` cannot be changed in the way it is written"
        raise Conflict(why, "edit the file by hand")
    if "status" in change.keys:
        for problem in parsed.problems:
            if problem.code == "status-differs":
                why = f"{path}:{problem.line}: {problem.message}"
                raise Conflict(why, "change the status there by hand")
    for name in _altered(before, after, change.names):
        why = f"{path}: the change would alter `{name}` as well"
        raise Conflict(why, "edit the file by hand")


def _missed(
    before: Record, after: Record, stated: Mapping[str, Value], change: _Change
) -> Iterator[str]:
    """Yield the names of what did not become as it was asked for."""
    for name, value in change.keys.items():
        if not _holds(stated.get(name), value):
            yield name
    if change.outcome is not None:
        log = {*before.outcomes, *tidy_outcomes([change.outcome])}
        if set(after.outcomes) != log:
            yield "outcome"
    if change.title is not None and after.title != change.title:
        yield "title"
    if change.text is not None and after.text != change.text:
        yield "text"


def _altered(before: Record, after: Record, names: Set[str]) -> Iterator[str]:
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

    above: str
    lines: list[str]
    parts: md.Outline
    end: str

    def text(self, lines: Sequence[str]) -> str:
        """Return the text of the file with these lines in place of its body."""
        return self.above + "\n".join(lines) + self.end


def _body(text: str, type_: str) -> _Body:
    header = read_header(text)
    above = text[: header.body]
    below = text[header.body :]
    end = "\n" if (below or above or "\n").endswith("\n") else ""
    lines = below.removesuffix("\n").split("\n") if below else []
    above += "\n" if above and not above.endswith("\n") else ""
    linked = "supersedes" in header.values
    parts = md.outline(lines, md.SECTIONS[type_], stated=stated_title(header), linked=linked)
    return _Body(above, lines, parts, end)


def _append_outcome(text: str, path: str, before: Record, outcome: Outcome) -> str:
    """Return the text with one more line in `## Outcomes`, which is made if it is missing."""
    if before.type != DECISION:
        message = f"{path} is of type {before.type}; only decisions have outcomes"
        raise BadInput(message, field="outcome")
    body = _body(text, DECISION)
    lines = body.lines
    ranges = body.parts.ranges(md.OUTCOMES)
    start, stop = ranges[-1] if ranges else (0, len(lines))
    while stop > start and not lines[stop - 1].strip():
        stop -= 1
    if ranges:
        bullet = _BULLET.match(lines[stop - 1]) if stop > start else None
        new = [write_outcome(outcome, bullet[1] if bullet else "-")]
    else:
        new = [*([""] if stop else []), f"## {md.OUTCOMES}", write_outcome(outcome)]
    return body.text([*lines[:stop], *new, *lines[stop:]])


def _follow_newest(text: str, path: str, before: Record, outcome: Outcome) -> str:
    """Return the text with the `outcome` key that the newest entry of the log asks for.

    A file without a header gets none.
    """
    if not split_header(text).kind:
        return text
    after = parse(text.encode(), path).record
    newest = after.outcome if after else outcome.outcome
    is_stated = "outcome" in read_header(text).values and "outcome" not in before.extra
    if is_stated and before.outcome == newest:
        return text  # perhaps in another spelling
    return _set_key(text, path, "outcome", newest)


def _set_title(text: str, path: str, type_: str, title: str) -> str:
    """Return the text with another heading; without one it gets one above its text."""
    if not title:
        raise BadInput("title must not be empty", field="title")
    if stated_title(read_header(text)):
        return _set_key(text, path, "title", title)
    body = _body(text, type_)
    lines = body.lines
    old = body.parts.title
    if old is None:
        first = next((n for n, line in enumerate(lines) if line.strip()), len(lines))
        heading = [f"# {title}", *([""] if lines[first:] else [])]
        return body.text([*lines[:first], *heading, *lines[first:]])
    if old.text == title:
        return text
    hashes = _HASHES.match(lines[old.line])
    heading = [f"{hashes[0] if hashes else '# '}{title}"]
    return body.text([*lines[: old.line], *heading, *lines[old.line + 1 :]])


class _Insertion(NamedTuple):
    """Lines to write, and the line of the body that they go in front of."""

    place: int
    lines: list[str]


def _set_text(text: str, type_: str, wanted: str) -> str:
    """Return the text of a file with other text below its heading.

    Lines that stay keep their bytes.
    """
    body = _body(text, type_)
    old = md.text_lines(body.lines, body.parts)
    new = [*wanted.split("\n"), ""] if wanted else []
    head, tail = kept_at_ends([line.text for line in old], new)
    if head and _is_trimmed(body, old[head - 1]):
        head -= 1  # its blanks would count once more follows
    written = [*escape(wanted, md.SECTIONS[type_]).split("\n"), ""][head : len(new) - tail]
    replaced = {line.place for line in old[head : len(old) - tail]}
    place, inserted = _insertion(body, old[:head], old[head:], written)
    lines = [*enumerate(body.lines)]
    above = [line for number, line in lines[:place] if number not in replaced]
    below = [line for number, line in lines[place:] if number not in replaced]
    return body.text([*above, *inserted, *below])


def _is_trimmed(body: _Body, line: md.TextLine) -> bool:
    """Whether a line ends in blanks that are not read, because it ends a part."""
    return bool(line.text) and body.lines[line.place][-1] != line.text[-1]


def _insertion(
    body: _Body, kept: Sequence[md.TextLine], rest: Sequence[md.TextLine], written: list[str]
) -> _Insertion:
    """Return where new text goes: behind what is kept, in place of the rest, or on top."""
    if kept:
        place = max(line.place for line in kept) + 1
        return _Insertion(place, written if kept[-1].place >= 0 else ["", *written])
    top = body.parts.home
    if rest and not any(line.strip() for line in body.lines[top : rest[0].place]):
        return _Insertion(rest[0].place, written)
    return _Insertion(top, _set_apart(written, top, body.lines[top : top + 1]))


def _set_apart(text: list[str], top: int, following: Sequence[str]) -> list[str]:
    """Return text with one blank line to what stands above and below, none at its end."""
    while text and not text[-1]:
        text.pop()
    if not text:
        return []
    above = [""] if top else []
    below = [""] if any(map(str.strip, following)) else []
    return [*above, *text, *below]


# -- one key of the header ------------------------------------------------------------------------

_COMMENT = re.compile(r"(?:^|\s)#", re.MULTILINE)
_DASH = re.compile(r"[ \t]*-[ \t]*")


def _holds(stated: Value | None, wanted: object) -> bool:
    """Return whether a value as read means the wanted one; None: the key is absent."""
    if wanted is None or stated is None:
        return stated is None and wanted is None
    if isinstance(wanted, str):
        return isinstance(stated, str) and str(stated) == wanted
    if isinstance(wanted, list | tuple):
        plain = [item if isinstance(item, Mapping) else str(item) for item in wanted]
        return isinstance(stated, list) and stated == plain
    return typed(stated) == wanted


def _as_written(name: str, stated: Value | None, value: object) -> object:
    """Return a new value of a key, its words with the `#` that they have in the file."""
    if not (isinstance(stated, list) and isinstance(value, list | tuple)):
        return value
    if name not in ("tags", "concepts"):
        return value
    written = {word(item): item for item in stated if isinstance(item, str)}
    return tuple(written.get(item, item) for item in value)


def _set_key(text: str, path: str, name: str, value: object) -> str:
    """Return the text with a key set to a value, or without it if the value is None."""
    split = split_header(text)
    if not split.kind and value is None:
        return text
    if not split.kind:
        return f"---\n{scalar(name)}: {flow(value)}\n---\n{text}"
    entries = _entries(text, split, path, name)
    entry = next((entry for entry in entries if entry.key == name), None)
    if entry is None:
        return text if value is None else _insert(text, split, entries, name, value)
    if _holds(entry.value, value):
        return text
    entry = _moved(entry, text, split.start)
    try:
        return _set_entry(text, entry, value)
    except _Odd as reason:
        line = text.count("\n", 0, entry.at) + 1
        why = f"{path}:{line}: `{name}` {reason}"
        raise Conflict(why, f"set `{name}` there by hand") from None


def _entries(text: str, split: Split, path: str, name: str) -> Sequence[Entry]:
    """Return the keys of a header. Raises Conflict if they are not one on each line."""
    if split.kind == "yaml":
        entries, in_braces = read_entries(split.header)
        if not in_braces:
            return entries
    line = read_header(text).lines.get(name, text.count("\n", 0, split.start) + 2)
    why = (
        "the header is TOML, JSON or in braces, and only lines of `key: value` are changed in place"
    )
    raise Conflict(f"{path}:{line}: {why}", f"set `{name}` there by hand")


def _set_entry(text: str, entry: Entry, value: object) -> str:
    """Return the text with another value of a key, or without its lines if that is None."""
    first = text.rfind("\n", 0, entry.at) + 1
    if text[first : entry.at].strip():
        raise _Odd("does not start its line")
    if value is None:
        return text[:first] + text[_line_end(text, entry.end) :]
    return _changed(text, entry, value)


class _Odd(Exception):
    """A key is written in a way that is not changed; the text says why."""


def _refuse_comments(text: str) -> None:
    if _COMMENT.search(text):
        raise _Odd("holds comments that the change would remove")


def _line_end(text: str, at: int) -> int:
    """Return where the line after a position starts."""
    return text.find("\n", at) + 1 or len(text)


def _moved(entry: Entry, text: str, by: int) -> Entry:
    """Return an entry with positions in the whole text, its end without blanks and empty lines."""
    end = len(text[: entry.end + by].rstrip())
    return entry._replace(
        at=entry.at + by,
        key_end=entry.key_end + by,
        start=entry.start + by,
        end=max(end, entry.key_end + by),
        items=tuple(
            Span(start + by, len(text[: stop + by].rstrip())) for start, stop in entry.items
        ),
    )


def _insert(text: str, split: Split, entries: Sequence[Entry], name: str, value: object) -> str:
    """Add a key behind the one that comes before it in new files, else at the end of the header."""
    order = KEY_ORDER.get(name, len(KEY_ORDER))
    before = [entry for entry in entries if KEY_ORDER.get(entry.key or "", order) < order]
    ends = [_moved(entry, text, split.start).end for entry in before]
    at = _line_end(text, max(ends)) if ends else split.end
    indent = ""
    if entries:
        key = split.start + entries[0].at
        line = text[text.rfind("\n", 0, key) + 1 :]
        indent = line[: len(line) - len(line.lstrip(" \t"))]
    return f"{text[:at]}{indent}{scalar(name)}: {flow(value)}\n{text[at:]}"


def _texts(value: object) -> list[str]:
    """Return the items of a list of text; none for a list of mappings, such as guards."""
    items = value if isinstance(value, list | tuple) else []
    return [str(item) for item in items if not isinstance(item, Mapping)]


def _changed(text: str, entry: Entry, value: object) -> str:
    """Replace the value of a key; positions are those of the text."""
    wanted = _texts(value)
    if wanted and isinstance(entry.value, list):
        if entry.style == "block":
            return _change_items(text, entry, entry.value, wanted)
        if entry.value and wanted[: len(entry.value)] == entry.value:
            return _append_items(text, entry, wanted[len(entry.value) :])
    colon = text.index(":", entry.key_end) + 1
    if entry.style == "block":
        return _replace_block(text, entry, colon, value)
    span = text[entry.start : entry.end]
    if not span:
        return f"{text[:colon]} {flow(value)}{text[colon:]}"
    if "\n" in span:
        _refuse_comments(span if entry.style == "flow" else span.partition("\n")[0])
    return text[: entry.start] + flow(value) + text[entry.end :]


def _append_items(text: str, entry: Entry, items: list[str]) -> str:
    """Add items to a list in brackets."""
    end = entry.items[-1].stop
    added = "".join(f", {scalar(item)}" for item in items)
    return text[:end] + added + text[end:]


def _replace_block(text: str, entry: Entry, colon: int, value: object) -> str:
    """Write a value on the line of its key, in place of the lines below."""
    below = _line_end(text, colon)
    end = _line_end(text, entry.end)
    _refuse_comments(text[below:end])
    return f"{text[:colon]} {flow(value)}{text[colon:below]}{text[end:]}"


def _change_items(text: str, entry: Entry, old: list[Value], wanted: list[str]) -> str:
    """Keep the lines of items that stay at both ends; write new items in the same layout."""
    starts = [text.rfind("\n", 0, start) + 1 for start, _ in entry.items]
    stops = [_line_end(text, stop) for _, stop in entry.items]
    dash = _DASH.match(text, starts[0])
    is_text = all(isinstance(item, str) for item in old)
    if dash is None or len(set(starts)) < len(old) or not is_text:
        raise _Odd("is not one item on each line")
    head, tail = kept_at_ends(old, wanted)
    last = len(old) - tail
    start = starts[head] if head < len(old) else stops[-1]
    stop = stops[last - 1] if head < last else start
    _refuse_comments(text[start:stop])
    items = wanted[head : len(wanted) - tail]
    new = "".join(f"{dash[0].rstrip()} {scalar(item)}\n" for item in items)
    return text[:start] + new + text[stop:]
