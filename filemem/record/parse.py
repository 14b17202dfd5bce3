"""From the bytes of a file to a Record and its problems. Lenient: never raises, whatever the bytes are.

A value that cannot be used is a problem and stays under its key in `extra`; a value that is missing is at most
a hint. One bad file never hides the others.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from filemem.record import body as md
from filemem.record.edges import edges_in
from filemem.record.foreign import Preamble, read_preamble, read_status
from filemem.record.header import Header, Note, read_header
from filemem.record.identity import PRIVATE, TYPE_OF_FOLDER, derived_id, topic_of_heading
from filemem.record.keys import (
    ALIASES,
    EDGES,
    KEY_BY_NAME,
    SUPERSEDED_BY,
    TITLE_KEY,
    Key,
)
from filemem.record.lines import Range, conflicts, heading, one_line, way_out
from filemem.record.model import CHECKPOINT, DECISION, OBSERVATION, STATUSES, Outcome, Parsed, Problem, Record
from filemem.record.outcomes import read_outcomes
from filemem.record.times import parse_time
from filemem.record.values import NULL, READERS, ForeignValue, WrongValue, shown
from filemem.record.yamltext import Plain, Value

MAX_FILE = 1024 * 1024  # bytes
CONFLICT = "conflict"  # the code of a merge that was not finished

_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")
_CONTROL = re.compile("[\x01-\x08\x0b\x0e-\x1f\x7f-\x84\x86-\x9f]")  # form feeds part pages in old texts
_STEERING = bytes({*range(32), 0x7F} - {*b"\t\n\f\r"})  # those of them that are ASCII: looked for faster
_ID = re.compile(r"[^\s/\\\x00-\x1f\x7f]{1,200}")
_FILE_NUMBER = re.compile(r"^(?:\d{8}|(?:[A-Za-z]{2,8}-)?\d{1,5})[-_ ]+(?=.)")


def parse(data: bytes, path: str, first_path: str = "") -> Parsed:
    """Read one file.

    Args:
        data: the bytes of the file.
        path: store-relative, with `/`; decides the type where the header does not, and stands in problems.
        first_path: the path at its first commit where known; a file without an id is known by it.
    """
    notes: list[Note] = []
    if len(data) > MAX_FILE:
        return Parsed(None, (Problem(path, 1, "file-size", "error", "the file is larger than 1 MiB"),))
    text = _resolve_conflicts(_decode(data, notes), notes)
    header = read_header(text)
    notes += header.notes
    fields, extra = _fields(header, notes)
    stated = _id_stated(fields, extra, header, notes)
    type_ = _type(fields, path)
    fields |= {"type": type_, "path": path, "id_stated": stated}
    if not stated:
        fields["id"] = derived_id(first_path or path)
        notes.append(Note(1, "no-id", "hint", "no `id`; the file is known by its first name, which a rename keeps"))
    body = text[header.body :]
    first_line = text.count("\n", 0, header.body) + 1
    if not (data.isascii() and data == data.translate(None, _STEERING)) and (control := _CONTROL.search(body)):
        line = first_line + body.count("\n", 0, control.start())
        message = f"the control character U+{ord(control[0]):04X}, which a terminal may obey"
        notes.append(Note(line, "control-character", "warning", message))
    lines = body.split("\n")
    may_fence = "```" in body or "~~~" in body
    parts = md.outline(lines, md.SECTIONS[type_], stated=stated_title(header), may_fence=may_fence)
    reading = _Reading(fields, extra, lines, parts, first_line, header, notes)
    _SECTION_READERS[type_](reading)
    if not stated and type_ == DECISION:
        _foreign(reading, read_preamble(lines, parts))
    _title_and_text(reading)
    if "created" not in fields and "created" not in extra:
        notes.append(Note(1, "no-date", "hint", "no `created`; Git's first commit of the file counts"))
    if extra:
        fields["extra"] = extra
    record = Record(**fields)  # type: ignore[arg-type]
    return Parsed(record, tuple(Problem(path, *note) for note in notes))


def stated_id(data: bytes) -> str:
    """Return the id that a file states, "" where it states none: what `parse` reads, from the header alone."""
    if len(data) > MAX_FILE:
        return ""
    notes: list[Note] = []
    header = read_header(_resolve_conflicts(_decode(data, notes), notes))
    fields, extra = _fields(header, notes)
    return str(fields["id"]) if _id_stated(fields, extra, header, notes) else ""


def stated_title(header: Header) -> str:
    """Return the title that a header states, or ""."""
    stated = header.values.get(TITLE_KEY)
    return one_line(stated) if isinstance(stated, str) else ""


class _Reading(NamedTuple):
    """One file half read: `fields` of the Record to be, and where its parts stand."""

    fields: dict[str, object]
    extra: dict[str, object]
    lines: list[str]
    parts: md.Outline
    first_line: int
    header: Header
    notes: list[Note]

    def note(self, number: int, code: str, level: str, message: str) -> None:
        """Add a problem at a line of the body, counted from 0."""
        self.notes.append(Note(self.first_line + number, code, level, message))

    def section(self, name: str) -> str | None:
        """Return the text of a known section, None where there is none."""
        ranges = self.parts.known.get(name.casefold())
        return None if ranges is None else md.read_text(self.lines, ranges, self.parts.code)

    def items(self, name: str) -> tuple[str, ...]:
        """Return the items of a known section."""
        return md.read_items(self.lines, self.parts.known.get(name.casefold(), ()), self.parts.code)


# -- the whole file -----------------------------------------------------------------------------------------


def is_wide(data: bytes) -> bool:
    """Tell whether a file is UTF-16 by its mark or, where it has none, by every other byte being NUL."""
    return data.startswith(_WIDE_MARKS) or (b"\0" in data and data.count(0) * 3 > len(data))


def _decode(data: bytes, notes: list[Note]) -> str:
    try:
        text = data.decode("utf-16" if data.startswith(_WIDE_MARKS) else "utf-8")
        if is_wide(data):
            notes.append(Note(1, "encoding", "error", "UTF-16, not UTF-8"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        notes.append(Note(line, "encoding", "error", "not UTF-8; unreadable bytes are shown as \ufffd"))
        text = data.decode(errors="replace")
    text = text.removeprefix("\ufeff")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        notes.append(Note(line, "control-character", "warning", "a NUL character; shown as \ufffd"))
        text = text.replace("\0", "\ufffd")
    return text


def _resolve_conflicts(text: str, notes: list[Note]) -> str:
    """Read the first side of unresolved merges; line numbers stay what they are."""
    if "<<<<<<<" not in text:
        return text
    lines = text.split("\n")
    for start, middle, end in conflicts(lines):
        how = way_out(lines, (start, middle, end))
        message = f"an unresolved merge conflict, up to line {end + 1}; the first side is read; {how}"
        notes.append(Note(start + 1, CONFLICT, "error", message))
        lines[start] = ""
        lines[middle : end + 1] = [""] * (end + 1 - middle)
    return "\n".join(lines)


def _type(fields: dict[str, object], path: str) -> str:
    stated = fields.get("type")
    if isinstance(stated, str) and stated:
        return stated
    folder, _, rest = path.partition("/")
    if folder == PRIVATE:
        folder = rest.partition("/")[0]
    return TYPE_OF_FOLDER.get(folder, DECISION)


def _id_stated(fields: dict[str, object], extra: dict[str, object], header: Header, notes: list[Note]) -> bool:
    if "id" not in fields or _ID.fullmatch(str(fields["id"])):
        return "id" in fields
    extra["id"] = fields.pop("id")
    message = f"id must be one word without slashes, not {shown(str(extra['id']))}"
    notes.append(Note(header.lines.get("id", 1), "bad-id", "warning", message))
    return False


# -- front matter -------------------------------------------------------------------------------------------


def _fields(header: Header, notes: list[Note]) -> tuple[dict[str, object], dict[str, object]]:
    fields: dict[str, object] = {}
    extra: dict[str, object] = {}
    for name, value in header.values.items():
        key = KEY_BY_NAME.get(name) or _key_meant(name, header.values, fields)
        if key is None:
            if name != TITLE_KEY or not isinstance(value, str):
                extra[name] = value
            continue
        if isinstance(value, Plain) and value in NULL:
            continue  # a template's blank is nothing stated
        try:
            read = READERS[key.shape](value, key)
        except WrongValue as wrong:
            extra[name] = value
            if not isinstance(wrong, ForeignValue):
                message = f"{name} must be {wrong}, not {shown(value)}"
                notes.append(Note(header.lines.get(name, 1), f"bad-{key.name.replace('_', '-')}", "warning", message))
            continue
        if key.name == "status":
            _read_status(str(read), header, fields, extra, notes)
        elif key.shape == EDGES and fields.get(key.field):
            _add_links(fields, key.field, read)
        elif read is not None:
            fields[key.field] = read
    if fields.get("topic"):
        fields["topic_stated"] = True
    return fields, extra


def _key_meant(name: str, values: Mapping[str, Value], fields: Mapping[str, object]) -> Key | None:
    """Return the key of ours that another maker's means (`date`, `Created`, `superseded-by`) unless ours stands."""
    lower = name.lower()
    ours = ALIASES.get(name) or ALIASES.get(lower) or lower
    key = SUPERSEDED_BY if ours == SUPERSEDED_BY.name else KEY_BY_NAME.get(ours)
    return key if key and ours not in values.keys() - {name} and key.field not in fields else None


def _read_status(
    word: str, header: Header, fields: dict[str, object], extra: dict[str, object], notes: list[Note]
) -> None:
    standing = read_status(word)
    if standing.status != word:
        extra["status"] = word
    if standing.status is None:
        message = f"status must be one of {', '.join(STATUSES)}, not {shown(word)}"
        notes.append(Note(header.lines.get("status", 1), "bad-status", "warning", message))
    else:
        fields["status"] = standing.status
    _add_links(fields, "superseded_by", standing.superseded_by)
    _add_links(fields, "supersedes", standing.supersedes)


def _add_links(fields: dict[str, object], field: str, links: object) -> None:
    known = fields.get(field)
    if isinstance(links, tuple) and links:
        fields[field] = tuple(dict.fromkeys((*known, *links))) if isinstance(known, tuple) else links


# -- body ---------------------------------------------------------------------------------------------------


def _title_and_text(reading: _Reading) -> None:
    fields, parts = reading.fields, reading.parts
    text = md.read_text(reading.lines, parts.text, parts.code)
    title = parts.title.text if parts.title else ""
    if stated := stated_title(reading.header):
        title = stated
    elif not title:
        title = _heading_of(text, str(fields["path"]))
        text = "" if text == title else text
        reading.notes.append(Note(reading.first_line, "no-heading", "hint", "no heading (`# ...`)"))
    fields["title"], fields["text"] = title, text
    if fields["type"] != DECISION:
        return
    decision = fields.setdefault("decision", title)
    if not fields.get("topic"):
        fields["topic"] = topic_of_heading(title)
        fields["topic_stated"] = False
        reading.notes.append(Note(1, "no-topic", "hint", "no `topic`; the heading serves"))
    if mentions := (*edges_in(text), *(edges_in(str(decision)) if decision != title else ())):
        fields["mentions"] = tuple(dict.fromkeys(mentions))


def _heading_of(text: str, path: str) -> str:
    first = heading(text)
    if first and not first.startswith(("#", "<!--", "```", "---", "|")):
        return first
    stem = path.rpartition("/")[2].removesuffix(".md")
    return _FILE_NUMBER.sub("", stem).replace("-", " ").replace("_", " ").strip()


def _decision(reading: _Reading) -> None:
    fields = reading.fields
    if decision := reading.section(md.DECISION_SECTION):
        fields["decision"] = decision
    if rejected := reading.items(md.REJECTED):
        fields["rejected"] = rejected
    ranges = reading.parts.known.get(md.OUTCOMES.casefold())
    if ranges:
        _outcomes(reading, ranges)


def _outcomes(reading: _Reading, ranges: Iterable[Range]) -> None:
    log, unread = read_outcomes(reading.lines, ranges)
    if unread:
        reading.extra["outcomes"] = [reading.lines[number].strip() for number in unread]
        message = "not an entry such as `- 2025-11-25T09:14:03Z failed: reason`"
        for number in unread[:20]:
            reading.note(number, "bad-outcome", "warning", message)
    if not log:
        return
    newest: Outcome = log[-1]
    stated = reading.fields.get("outcome")
    if stated is not None and stated != newest.outcome:
        message = f"outcome is {stated}, but the newest entry of `## Outcomes` says {newest.outcome}, which counts"
        line = reading.header.lines.get("outcome", 1)
        reading.notes.append(Note(line, "outcome-differs", "warning", message))
    reading.fields["outcomes"], reading.fields["outcome"] = log, newest.outcome


def _checkpoint(reading: _Reading) -> None:
    if steps := reading.section(md.NEXT_STEPS):
        reading.fields["next_steps"] = steps


def _observation(reading: _Reading) -> None:
    if facts := reading.items(md.FACTS):
        reading.fields["facts"] = facts


_SECTION_READERS: Mapping[str, Callable[[_Reading], None]] = {
    DECISION: _decision,
    CHECKPOINT: _checkpoint,
    OBSERVATION: _observation,
}


def _foreign(reading: _Reading, found: Preamble) -> None:
    fields, extra = reading.fields, reading.extra
    if found.status and "status" not in fields and "status" not in extra:
        standing = read_status(found.status)
        if standing.status:
            fields["status"] = standing.status
        else:
            first = found.status.partition("\n")[0]
            reading.note(found.status_line, "bad-status", "warning", f"not a known status: {shown(first)}")
        _add_links(fields, "superseded_by", standing.superseded_by)
        _add_links(fields, "supersedes", standing.supersedes)
    _add_links(fields, "superseded_by", found.superseded_by)
    _add_links(fields, "supersedes", found.supersedes)
    if found.date and "created" not in fields and "created" not in extra:
        at = parse_time(found.date)
        if at is None:
            reading.note(found.date_line, "bad-created", "warning", f"not a date: {shown(found.date)}")
        else:
            fields["created"] = at
