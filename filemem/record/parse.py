"""From the bytes of a file to a Record and its problems. Lenient: never raises, whatever the bytes are.

A value that cannot be used is a problem and stays under its key in `extra`; a value that is missing is at most
a hint. One bad file never hides the others.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from filemem.record import body as md
from filemem.record.decoding import MAX_FILE, decode
from filemem.record.edges import edges_in
from filemem.record.fields import add_links, read_fields
from filemem.record.foreign import Preamble, read_preamble, read_status
from filemem.record.header import Header, Note, read_header
from filemem.record.identity import PRIVATE, TYPE_OF_FOLDER, derived_id, topic_of_heading
from filemem.record.keys import TITLE_KEY
from filemem.record.lines import Range, heading, one_line
from filemem.record.model import CHECKPOINT, DECISION, OBSERVATION, Outcome, Parsed, Problem, Record
from filemem.record.outcomes import read_outcomes
from filemem.record.times import parse_time
from filemem.record.values import shown

_CONTROL = re.compile("[\x01-\x08\x0b\x0e-\x1f\x7f-\x84\x86-\x9f]")  # form feeds part pages in old texts
_STEERING = bytes({*range(32), 0x7F} - {*b"\t\n\f\r"})  # those of them that are ASCII: looked for faster
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
    text = decode(data, notes)
    header = read_header(text)
    notes += header.notes
    fields, extra = read_fields(header, notes)
    type_ = _type(fields, path)
    fields |= {"type": type_, "path": path}
    if not fields["id_stated"]:
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
    if not fields["id_stated"] and type_ == DECISION:
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
    fields, _ = read_fields(read_header(decode(data, notes)), notes)
    return str(fields.get("id", ""))


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


def _type(fields: dict[str, object], path: str) -> str:
    stated = fields.get("type")
    if isinstance(stated, str) and stated:
        return stated
    folder, _, rest = path.partition("/")
    if folder == PRIVATE:
        folder = rest.partition("/")[0]
    return TYPE_OF_FOLDER.get(folder, DECISION)


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
    if found.status and "status" in fields:
        body = read_status(found.status).status
        if body not in (None, fields["status"]):
            message = f"status is {fields['status']}, which counts, but the text says {body}"
            reading.note(found.status_line, "status-differs", "warning", message)
    if found.status and "status" not in fields and "status" not in extra:
        standing = read_status(found.status)
        if standing.status:
            fields["status"] = standing.status
        else:
            first = found.status.partition("\n")[0]
            reading.note(found.status_line, "bad-status", "warning", f"not a known status: {shown(first)}")
        add_links(fields, "superseded_by", standing.superseded_by)
        add_links(fields, "supersedes", standing.supersedes)
    add_links(fields, "superseded_by", found.superseded_by)
    add_links(fields, "supersedes", found.supersedes)
    if found.date and "created" not in fields and "created" not in extra:
        at = parse_time(found.date)
        if at is None:
            reading.note(found.date_line, "bad-created", "warning", f"not a date: {shown(found.date)}")
        else:
            fields["created"] = at
