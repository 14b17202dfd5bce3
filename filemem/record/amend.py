"""Change some values of an existing file and leave every other byte as it is.

The result is proved before it is returned: it is read again, and what was asked for must be the only
difference. Where that cannot be had, the answer is an error that says why, never a rewritten file.
Edits are made on the text with LF line ends; each line gets its own end back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from filemem.errors import BadInput, Conflict
from filemem.record import body as md
from filemem.record.body import tidy_outcomes, write_outcome
from filemem.record.identity import is_markup
from filemem.record.keys import ALIASES, KEY_BY_NAME, KEY_ORDER, stated_title, word
from filemem.record.lines import WAY_OUT, escape, one_line, tidy
from filemem.record.model import DECISION, Outcome, Record
from filemem.record.parse import parse, read_header, split_header
from filemem.record.render import refuse_unreadable
from filemem.record.yaml import Entry, Value, flow, read_entries, scalar, typed

# What a change may alter besides the field of its name.
_ALSO_CHANGES: Mapping[str, frozenset[str]] = {
    "id": frozenset(("id_stated",)),
    "topic": frozenset(("topic_stated",)),
    "status": frozenset(("superseded_by", "supersedes", "status_written")),
    "outcome": frozenset(("outcomes",)),
    "title": frozenset(("topic", "decision", "mentions", "text")),
    "text": frozenset(("topic", "decision", "mentions", "title")),
}
_OTHERS = ("outcome", "title", "text")  # what may be asked for besides keys
_NO_KEYS: Mapping[str, object] = {}
_BOM = "\ufeff"
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


def amend(
    data: bytes,
    path: str,  # store-relative, for messages and for the type where the header does not say it
    *,
    keys: Mapping[
        str, object
    ] = _NO_KEYS,  # key -> its new value: text, number, list of text, mapping; None: gone
    outcome: Outcome
    | None = None,  # an entry to add to the log; the `outcome` key follows the newest entry
    title: str | None = None,
    text: str | None = None,  # below the heading, without the known sections
) -> bytes:
    """Return the bytes of a file with some values changed.

    Raises BadInput: the file is broken or would be; Conflict: it cannot be done without touching other lines.
    """
    refuse_markup(path)
    parsed = parse(data, path)
    before = parsed.record
    wrong = next((problem for problem in parsed.problems if problem.level == "error"), None)
    if wrong or before is None:
        where, why = (wrong.line, wrong.message) if wrong else (1, "the file cannot be read")
        raise BadInput(
            f"{path}:{where}: {why}",
            f"correct the file and save it as UTF-8 ({WAY_OUT}), then try again",
        )
    raw = data.decode()
    bom = _BOM if raw.startswith(_BOM) else ""
    raw = raw.removeprefix(bom)
    stated = read_header(_lf(raw)).values
    keys = {name: _as_written(name, stated.get(name), value) for name, value in keys.items()}
    for name, value in keys.items():
        if not (name == "outcome" and outcome):
            raw = _restored(raw, _set_key(_lf(raw), path, name, value))
    if outcome is not None:
        raw = _restored(raw, _append_outcome(_lf(raw), path, before, outcome))
        raw = _restored(raw, _follow_newest(_lf(raw), path, before, outcome))
    if title is not None:
        raw = _restored(raw, _set_title(_lf(raw), path, before.type, one_line(title)))
    if text is not None and before.text != tidy(text):
        raw = _restored(raw, _set_text(_lf(raw), before.type, tidy(text)))
    changed = (bom + raw).encode()
    if changed != data:
        refuse_unreadable(changed, path, data)
        _prove(before, changed, path, keys, outcome, title, text)
    return changed


def refuse_markup(path: str) -> None:
    """Raise BadInput where a file would be changed that is only read."""
    if is_markup(path):
        raise BadInput(
            f"{path}: AsciiDoc and reStructuredText records are read, never changed",
            "change the file in your editor, and commit it",
        )


def _lf(raw: str) -> str:
    return raw.replace("\r\n", "\n").replace("\r", "\n")


def _restored(old: str, new: str) -> str:
    """Return `new`, edited with LF line ends, with the ends of `old`; new lines end as their neighbours do."""
    was, now = _LINE.findall(old), _LINE.findall(new)
    head, tail = _kept([_lf(line) for line in was], now)
    stop = len(was) - tail
    near = [
        _end(line)
        for line in (
            *was[head:stop],
            *was[max(0, head - 1) : head],
            *was[stop : stop + 1],
            *was[:1],
        )
    ]
    style = next(filter(None, near), "\n")
    middle = []
    for place, line in enumerate(now[head : len(now) - tail], head):
        end = (_end(was[place]) if place < stop else "") or style
        middle.append(line.removesuffix("\n") + (end if line.endswith("\n") else ""))
    return "".join((*was[:head], *middle, *was[stop:]))


def _end(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :]


def _kept(old: Sequence[object], new: Sequence[object]) -> tuple[int, int]:
    """Return how many items stay at the start and at the end."""
    both = min(len(old), len(new))
    tail = next((n for n in range(both) if old[-1 - n] != new[-1 - n]), both)
    return next((n for n in range(both - tail) if old[n] != new[n]), both - tail), tail


def _prove(
    before: Record,
    changed: bytes,
    path: str,
    keys: Mapping[str, object],
    outcome: Outcome | None,
    title: str | None,
    text: str | None,
) -> None:
    """Raise Conflict unless what was asked for is the only difference."""
    parsed = parse(changed, path)
    after = parsed.record or before
    values = read_header(_lf(changed.decode().removeprefix(_BOM))).values
    asked = {*keys}.union(
        name for name, new in zip(_OTHERS, (outcome, title, text), strict=True) if new is not None
    )
    keys = {name: value for name, value in keys.items() if not (name == "outcome" and outcome)}
    missed = [name for name, value in keys.items() if not _holds(values.get(name), value)]
    if outcome is not None and set(after.outcomes) != {*before.outcomes, *tidy_outcomes([outcome])}:
        missed.append("outcome")
    if title is not None and after.title != one_line(title):
        missed.append("title")
    if text is not None and after.text != tidy(text):
        missed.append("text")
    if missed:
        raise Conflict(
            f"{path}: `{missed[0]}` cannot be changed in the way it is written",
            "edit the file by hand",
        )
    for problem in parsed.problems:
        if problem.code == "status-differs" and "status" in keys:
            raise Conflict(
                f"{path}:{problem.line}: {problem.message}", "change the status there by hand"
            )
    fields = {
        KEY_BY_NAME[name].field if name in KEY_BY_NAME else ALIASES.get(name, name)
        for name in asked
    }
    allowed = {"extra", *fields}.union(*(_ALSO_CHANGES.get(name, ()) for name in asked))
    altered = [
        name
        for name in Record._fields
        if name not in allowed and getattr(before, name) != getattr(after, name)
    ]
    touched = {*asked, *ALIASES, "outcome", "outcomes"}
    was, now = (
        {key: one for key, one in each.extra.items() if key not in touched}
        for each in (before, after)
    )
    altered += [key for key in was | now if was.get(key) != now.get(key)]
    if altered:
        raise Conflict(
            f"{path}: the change would alter `{altered[0]}` as well", "edit the file by hand"
        )


# -- the body -----------------------------------------------------------------------------------------------

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
    above, body = text[: header.body], text[header.body :]
    end = "\n" if (body or above or "\n").endswith("\n") else ""
    lines = body.removesuffix("\n").split("\n") if body else []
    above += "\n" if above and not above.endswith("\n") else ""
    return _Body(
        above, lines, md.outline(lines, md.SECTIONS[type_], stated=stated_title(header)), end
    )


def _append_outcome(text: str, path: str, before: Record, outcome: Outcome) -> str:
    """Return the text with one more line in `## Outcomes`, which is made where it is missing."""
    if before.type != DECISION:
        raise BadInput(
            f"{path} is of type {before.type}; only decisions have outcomes", field="outcome"
        )
    body = _body(text, DECISION)
    lines = body.lines
    ranges = body.parts.known.get(md.OUTCOMES.casefold())
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
    """Return the text with the `outcome` key that says what the newest entry of the log does, if it has a header."""
    if not split_header(text).kind:
        return text
    after = parse(text.encode(), path).record
    newest = after.outcome if after else outcome.outcome
    if (
        "outcome" in read_header(text).values
        and before.outcome == newest
        and "outcome" not in before.extra
    ):
        return text  # the key says it already, perhaps in another spelling
    return _set_key(text, path, "outcome", newest)


def _set_title(text: str, path: str, type_: str, title: str) -> str:
    """Return the text with another heading; without one it gets one above its text."""
    if not title:
        raise BadInput("title must not be empty", field="title")
    if stated_title(read_header(text)):
        return _set_key(text, path, "title", title)
    body = _body(text, type_)
    lines, old = body.lines, body.parts.title
    if old is None:
        first = next((n for n, line in enumerate(lines) if line.strip()), len(lines))
        return body.text(
            [*lines[:first], f"# {title}", *([""] if lines[first:] else []), *lines[first:]]
        )
    if old.text == title:
        return text
    hashes = _HASHES.match(lines[old.line])
    return body.text(
        [*lines[: old.line], f"{hashes[0] if hashes else '# '}{title}", *lines[old.line + 1 :]]
    )


def _set_text(text: str, type_: str, wanted: str) -> str:
    """Return the text of a file with other text below its heading; lines that stay keep their bytes."""
    body = _body(text, type_)
    lines, parts = body.lines, body.parts
    old: list[str] = []  # the text as it is read, each part with a blank line behind it
    places: list[int] = []  # where these lines stand; -1: nowhere
    for start, stop in parts.text:
        if part := md.read_text(lines, [(start, stop)], parts.code):
            read = part.split("\n")
            first = next(n for n in range(start, stop) if lines[n].strip())
            after = first + len(read)
            old += [*read, ""]
            places += [
                *range(first, after),
                after if after < stop and not lines[after].strip() else -1,
            ]
    new = [*wanted.split("\n"), ""] if wanted else []
    head, tail = _kept(old, new)
    if head and old[head - 1] and lines[places[head - 1]][-1] != old[head - 1][-1]:
        head -= 1  # blanks at the end of a text would count once more follows
    written = [*escape(wanted, md.SECTIONS[type_]).split("\n"), ""][head : len(new) - tail]
    gone = set(places[head : len(places) - tail])
    home = parts.title.line + 1 if parts.title else 0
    if head:
        at = max(places[:head]) + 1
        written[:0] = [""] if places[head - 1] < 0 else []
    elif places and not any(line.strip() for line in lines[home : places[0]]):
        at = places[0]
    else:
        at = home
        while written and not written[-1]:
            written.pop()
        written[:0] = [""] if home and written else []
        written += [""] if written and at < len(lines) and lines[at].strip() else []
    above = [line for number, line in enumerate(lines[:at]) if number not in gone]
    return body.text(
        [*above, *written, *(line for n, line in enumerate(lines[at:], at) if n not in gone)]
    )


# -- one key of the header ----------------------------------------------------------------------------------

_COMMENT = re.compile(r"(?:^|\s)#", re.MULTILINE)
_DASH = re.compile(r"[ \t]*-[ \t]*")


def _holds(stated: Value | None, wanted: object) -> bool:
    """Return whether a value as read means the value that was asked for (None: the key is absent)."""
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
    """Return the text with a key set to a value, or without it where the value is None."""
    split = split_header(text)
    written = f"{scalar(name)}: {flow(value)}"
    if not split.kind:
        return text if value is None else f"---\n{written}\n---\n{text}"
    entries, odd = read_entries(split.header) if split.kind == "yaml" else ([], True)
    if odd:
        line = read_header(text).lines.get(name, text.count("\n", 0, split.start) + 2)
        why = "the header is TOML, JSON or in braces, and only lines of `key: value` are changed in place"
        raise Conflict(f"{path}:{line}: {why}", f"set `{name}` there by hand")
    entry = next((entry for entry in entries if entry.key == name), None)
    if entry is None:
        return (
            text if value is None else _insert(text, split.start, split.end, entries, name, written)
        )
    if _holds(entry.value, value):
        return text
    entry = _moved(entry, text, split.start)
    first = text.rfind("\n", 0, entry.at) + 1
    try:
        if text[first : entry.at].strip():
            raise _Odd("does not start its line")
        if value is None:
            return text[:first] + text[_line_end(text, entry.end) :]
        return _changed(text, entry, value)
    except _Odd as reason:
        line = text.count("\n", 0, entry.at) + 1
        raise Conflict(f"{path}:{line}: `{name}` {reason}", f"set `{name}` there by hand") from None


class _Odd(Exception):
    """A key is written in a way that is not changed; the text says why."""


def _line_end(text: str, at: int) -> int:
    """Return where the line after a position starts."""
    return text.find("\n", at) + 1 or len(text)


def _moved(entry: Entry, text: str, by: int) -> Entry:
    """Return an entry with positions in the whole text; its end is that of the last character that says something."""
    end = len(text[: entry.end + by].rstrip())
    return entry._replace(
        at=entry.at + by,
        key_end=entry.key_end + by,
        start=entry.start + by,
        end=max(end, entry.key_end + by),
        items=tuple((start + by, len(text[: stop + by].rstrip())) for start, stop in entry.items),
    )


def _insert(text: str, start: int, stop: int, entries: list[Entry], name: str, written: str) -> str:
    """Add a key behind the one that comes before it in new files, else at the end of the header."""
    order = KEY_ORDER.get(name, len(KEY_ORDER))
    before = [
        _moved(one, text, start).end
        for one in entries
        if KEY_ORDER.get(one.key or "", order) < order
    ]
    at = _line_end(text, max(before)) if before else stop
    first = text.rfind("\n", 0, start + entries[0].at) + 1 if entries else 0
    indent = re.match(r"[ \t]*", text[first:]) if entries else None
    return f"{text[:at]}{indent[0] if indent else ''}{written}\n{text[at:]}"


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
            added = "".join(f", {scalar(item)}" for item in wanted[len(entry.value) :])
            return text[: entry.items[-1][1]] + added + text[entry.items[-1][1] :]
    colon = text.index(":", entry.key_end) + 1
    if entry.style == "block":
        below = _line_end(text, colon)
        if _COMMENT.search(text[below : _line_end(text, entry.end)]):
            raise _Odd("holds comments that the change would remove")
        return (
            f"{text[:colon]} {flow(value)}{text[colon:below]}{text[_line_end(text, entry.end) :]}"
        )
    span = text[entry.start : entry.end]
    if "\n" in span and _COMMENT.search(span if entry.style == "flow" else span.partition("\n")[0]):
        raise _Odd("holds comments that the change would remove")
    if not span:
        return f"{text[:colon]} {flow(value)}{text[colon:]}"
    return text[: entry.start] + flow(value) + text[entry.end :]


def _change_items(text: str, entry: Entry, old: list[Value], wanted: list[str]) -> str:
    """Keep the lines of items that stay at both ends; write new items in the same layout."""
    lines = [(text.rfind("\n", 0, start) + 1, _line_end(text, stop)) for start, stop in entry.items]
    dash = _DASH.match(text, lines[0][0])
    if (
        len({start for start, _ in lines}) < len(old)
        or not dash
        or any(not isinstance(item, str) for item in old)
    ):
        raise _Odd("is not one item on each line")
    head, tail = _kept(old, wanted)
    last = len(old) - tail
    start = lines[head][0] if head < len(old) else lines[-1][1]
    stop = lines[last - 1][1] if head < last else start
    if _COMMENT.search(text[start:stop]):
        raise _Odd("holds comments that the change would remove")
    new = "".join(
        f"{dash[0].rstrip()} {scalar(item)}\n" for item in wanted[head : len(wanted) - tail]
    )
    return text[:start] + new + text[stop:]
