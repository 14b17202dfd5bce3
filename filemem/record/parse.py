"""From the bytes of a file to a Record and its problems. Never raises, whatever the bytes are.

A value that cannot be used is a problem and stays under its key in `extra`; a value that is missing
is at most a hint. One bad file never hides the others.

python-frontmatter splits the header from the text, and reads JSON. Its own readers of YAML and TOML
are not used: they retype what people write (`no`, `1.10`), drop a header that is a list, take the
last of two equal keys in silence, and crash on deep nesting.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from filemem.record import body as md
from filemem.record.adr_read import Preamble, Statement, read_preamble
from filemem.record.body import edges_in
from filemem.record.identity import (
    PRIVATE,
    TYPE_OF_FOLDER,
    derived_id,
    is_markup,
    stem_of,
    topic_of_heading,
)
from filemem.record.keys import (
    NAMES,
    add_edges,
    add_links,
    note_status,
    quoted,
    read_fields,
    stated_title,
)
from filemem.record.lines import CONFLICT, MAX_FILE, WAY_OUT, fenced, heading, lf
from filemem.record.markup import in_markdown
from filemem.record.model import (
    DECISION,
    UNKNOWN,
    UNKNOWN_STATUS,
    Parsed,
    Problem,
    Record,
)
from filemem.record.status import Words, own_words, read_status
from filemem.record.times import first_date, parse_time
from filemem.record.yaml import Header, Refused, flow, read_entries, read_yaml

MAX_HEADER = 64 * 1024  # characters
_MOST_UNREAD = 20  # lines of a log that are reported
_MAX_OTHER = 16 * 1024  # of TOML or JSON
_MOST_DOTS = 256  # of a line: tomllib takes the square of a dotted key's length
_TOML = re.compile(r"^\+{3,}\s*$", re.MULTILINE)
_BLANK = re.compile(r"(?:[ \t]*\n)*+")
_FILE_NUMBER = re.compile(
    r"^(?:\d{4}-?\d\d-?\d\d[-_ ]+)?(?:(?:[A-Za-z]{2,8}-)?\d{1,5}[-_ ]+)?(?=.)"
)
_FILE_DATE = re.compile(r"(?:\A|--)(\d{4})(-?)(\d\d)\2(\d\d)(?=[-_ .])")


# Sections with a meaning, and the fields of a Record that they fill.
_TEXTS = {md.DECISION_SECTION.casefold(): "decision", md.NEXT_STEPS.casefold(): "next_steps"}
_LISTS = {md.REJECTED.casefold(): "rejected", md.FACTS.casefold(): "facts"}


def parse(data: bytes, path: str) -> Parsed:
    """Read one file; its store-relative path decides the type where the header does not."""
    if len(data) > MAX_FILE:
        problem = Problem(path, 1, "file-size", "error", "the file is larger than 1 MiB")
        return Parsed(None, (problem,))
    notes: list[Problem] = []
    text = in_markdown(_decoded(data, notes), path)
    reading = _reading(text, path, notes)
    _add_sections(reading)
    if reading.is_undated:
        _add_date_of_name(reading, path.rpartition("/")[2])
    if reading.may_be_of_others:
        title = reading.parts.title.line if reading.parts.title else -1
        # The line of links states what the header does.
        no_prose = reading.parts.code | {reading.parts.home - 1}
        _add_preamble(reading, read_preamble(reading.lines, no_prose, title))
    _add_title_and_text(reading)
    if reading.is_undated:
        message = "no `created`; Git's first commit of the file counts"
        notes.append(Problem("", 1, "no-date", "hint", message))
    if reading.extra:
        reading.fields["extra"] = reading.extra
    record = Record(**reading.fields)  # type: ignore[arg-type]
    return Parsed(record, tuple(note._replace(path=path) for note in notes))


def explained(parsed: Parsed, words: Words) -> Parsed:
    """Return a file as read, an unknown status read once more with a project's own words."""
    record = parsed.record
    if not words or record is None or record.status != UNKNOWN:
        return parsed
    stated = read_status(record.status_written, own_words(words))
    if stated.status == UNKNOWN:
        return parsed
    problems = tuple(problem for problem in parsed.problems if problem.code != UNKNOWN_STATUS)
    return Parsed(record._replace(status=stated.status, status_written=""), problems)


class _Reading(NamedTuple):
    """One file half read: `fields` of the Record to be, and where its parts stand."""

    fields: dict[str, object]
    extra: dict[str, object]
    lines: list[str]
    parts: md.Outline
    first_line: int
    header: Header
    notes: list[Problem]

    @property
    def is_undated(self) -> bool:
        """Whether nothing that was read so far states a date, not even a wrong one."""
        return self.fields.get("created") is None and "created" not in self.extra

    @property
    def may_be_of_others(self) -> bool:
        """Whether its text may state what ours state in the header: status, date, links."""
        stated = self.fields["id_stated"] and self.fields.get("topic")
        return self.fields["type"] == DECISION and not stated

    def note(self, number: int, code: str, level: str, message: str) -> None:
        """Add a problem at a line of the body, counted from 0."""
        self.notes.append(Problem("", self.first_line + number, code, level, message))


def _reading(text: str, path: str, notes: list[Problem]) -> _Reading:
    header = read_header(text)
    notes += header.notes
    fields, extra = read_fields(header, notes)
    fields["path"] = path
    type_ = str(fields.setdefault("type", _type_of(path)))
    if not fields["id_stated"]:
        fields["id"] = derived_id(path)
        advice = "" if is_markup(path) else ": `filemem adopt FILE` writes one"
        message = f"no `id`; the file is known by its path{advice}"
        notes.append(Problem("", 1, "no-id", "hint", message))
    lines = text[header.body :].split("\n")
    linked = "supersedes" in header.values
    parts = md.outline(lines, md.SECTIONS[type_], stated=stated_title(header), linked=linked)
    first_line = text.count("\n", 0, header.body) + 1
    return _Reading(fields, extra, lines, parts, first_line, header, notes)


def _type_of(path: str) -> str:
    folder = path.removeprefix(f"{PRIVATE}/").partition("/")[0]
    return TYPE_OF_FOLDER.get(folder, DECISION)


def _add_date_of_name(reading: _Reading, name: str) -> None:
    date = _FILE_DATE.search(name)
    if date:
        reading.fields["created"] = parse_time(f"{date[1]}-{date[3]}-{date[4]}")


def _add_title_and_text(reading: _Reading) -> None:
    fields = reading.fields
    parts = reading.parts
    text = md.read_text(reading.lines, parts.text, parts.code)
    title = stated_title(reading.header) or (parts.title.text if parts.title else "")
    if not title:
        title = _heading_of(text, str(fields["path"]))
        text = "" if text == title else text
        reading.note(0, "no-heading", "hint", "no heading (`# ...`)")
    fields["title"] = title
    fields["text"] = text
    if fields["type"] == DECISION:
        _add_decision(reading, title, text)


def _add_decision(reading: _Reading, title: str, text: str) -> None:
    fields = reading.fields
    decision = str(fields.setdefault("decision", title))
    if not fields.get("topic"):
        fields["topic"] = topic_of_heading(title)
        fields["topic_stated"] = False
        reading.notes.append(Problem("", 1, "no-topic", "hint", "no `topic`; the heading serves"))
    mentions = edges_in(text)
    if decision != title:
        mentions += edges_in(decision)
    add_links(fields, "mentions", mentions)


def _heading_of(text: str, path: str) -> str:
    first = heading(text)
    if first and not first.startswith(("#", "<!--", "```", "---", "|")):
        return first
    stem = stem_of(path.rpartition("/")[2])
    return _FILE_NUMBER.sub("", stem).replace("-", " ").replace("_", " ").strip()


def _add_sections(reading: _Reading) -> None:
    """Read the sections that have a meaning in a record of this type."""
    lines = reading.lines
    code = reading.parts.code
    for name, ranges in reading.parts.sections.items():
        if name in _LISTS:
            reading.fields[_LISTS[name]] = md.read_items(lines, ranges, code)
        elif name in _TEXTS:
            text = md.read_text(lines, ranges, code)
            if text:
                reading.fields[_TEXTS[name]] = text
        else:
            _add_log(reading, md.read_outcomes(lines, ranges))


def _add_log(reading: _Reading, log: md.Log) -> None:
    """Take the log; its newest entry counts, whatever the header says."""
    if log.unread:
        reading.extra["outcomes"] = [reading.lines[number].strip() for number in log.unread]
    for number in log.unread[:_MOST_UNREAD]:
        message = "not an entry such as `- 2025-11-25T09:14:03Z failed: reason`"
        reading.note(number, "bad-outcome", "warning", message)
    if not log.entries:
        return
    newest = log.entries[-1].outcome
    header = reading.fields.get("outcome")
    if header not in (None, newest):
        line = reading.header.lines.get("outcome", 1)
        why = f"the newest entry of `## Outcomes` says {newest}, which counts"
        message = f"outcome is {header}, but {why}"
        reading.notes.append(Problem("", line, "outcome-differs", "warning", message))
    reading.fields["outcomes"] = log.entries
    reading.fields["outcome"] = newest


def _add_preamble(reading: _Reading, preamble: Preamble) -> None:
    """Take what the body states where the header does not."""
    _add_status(reading, preamble.status)
    add_edges(reading.fields, preamble.links)
    if reading.is_undated:
        _add_date(reading, preamble)


def _add_status(reading: _Reading, status: Statement) -> None:
    if not status.text:
        return
    stated = read_status(status.text)
    header = reading.fields.get("status")
    if header is None:
        line = reading.first_line + status.line
        reading.notes.extend(note_status(stated, line, reading.fields))
    elif stated.status not in ("", UNKNOWN, header):
        message = f"status is {header}, which counts, but the text says {stated.status}"
        reading.note(status.line, "status-differs", "warning", message)


def _add_date(reading: _Reading, preamble: Preamble) -> None:
    date = preamble.date
    created = parse_time(date.text) or first_date(date.text)
    if date.text and created is None:
        reading.note(date.line, "bad-created", "warning", f"not a date: {quoted(date.text)}")
    reading.fields["created"] = preamble.logged if created is None else created


# -- the text of a file ---------------------------------------------------------------------------

_MARKS = ("<<<<<<<", "|||||||", "=======", ">>>>>>>")
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")  # of UTF-16


def _decoded(data: bytes, notes: list[Problem]) -> str:
    """Return the text of a file with LF line ends; add what is wrong with it to `notes`."""
    wide = data.startswith(_WIDE_MARKS)
    sound = not wide and b"\0" not in data
    try:
        text = data.decode("utf-16" if wide else "utf-8")
    except UnicodeDecodeError:
        text = data.decode(errors="replace")
        sound = False
    text = lf(text.removeprefix("\ufeff"))
    if not sound:
        text = text.replace("\0", "\ufffd")
        line = text[: text.find("\ufffd") + 1].count("\n") + 1
        message = "not UTF-8 (UTF-16, or another encoding)"
        notes.append(Problem("", line, "encoding", "error", message))
    return _first_sides(text, notes) if "<<<<<<<" in text else text


def _first_sides(text: str, notes: list[Problem]) -> str:
    """Read the first side of unresolved merges; line numbers stay what they are."""
    lines = text.split("\n")
    code = fenced(lines)
    marks: dict[str, int] = {}  # of the merge that was opened last: its first sign of each kind
    for number, line in enumerate(lines):
        if not line.startswith(_MARKS) or number in code or not (marks or line[0] == "<"):
            continue
        if line[0] != ">":
            marks = {"<": number} if line[0] == "<" else {line[0]: number} | marks
        elif "=" in marks:
            start = marks["<"]
            middle = marks.get("|", marks["="])
            message = (
                f"an unresolved merge conflict, up to line {number + 1}; "
                f"the first side is read; {WAY_OUT}"
            )
            notes.append(Problem("", start + 1, CONFLICT, "error", message))
            lines[start] = ""
            lines[middle : number + 1] = [""] * (number + 1 - middle)
            marks = {}
    return "\n".join(lines)


# -- its header -----------------------------------------------------------------------------------


@cache
def _handlers() -> Mapping[str, Any]:
    """Return the handlers of python-frontmatter, ours in place of its YAML and TOML."""
    from frontmatter.default_handlers import (  # noqa: PLC0415 - 12 ms: it imports PyYAML
        BaseHandler,
        JSONHandler,
        YAMLHandler,
    )

    class Guarded(YAMLHandler):
        def load(self, fm: str, **place: Any) -> Any:
            return read_yaml(fm, **place)

    class Toml(BaseHandler):
        def load(self, fm: str) -> dict[str, Any]:
            import tomllib  # noqa: PLC0415 - 5 ms; few files have such a header

            return tomllib.loads(fm)

    return {"yaml": Guarded(), "toml": Toml(_TOML), "json": JSONHandler()}


class Split(NamedTuple):
    """A header and where it stands. Positions are characters; `kind` is "" where there is none."""

    kind: str = ""
    header: str = ""
    start: int = 0  # of the header; `body` of the text below it
    body: int = 0
    notes: tuple[Problem, ...] = ()

    @property
    def end(self) -> int:
        """Where the header ends."""
        return self.start + len(self.header)


def split_header(text: str) -> Split:
    """Find the header of `text` (LF line endings, no byte order mark)."""
    blank = _BLANK.match(text)
    begin = blank.end() if blank else 0
    page = text[begin:]
    if not page.startswith(("-", "+", "{")):  # to JSONHandler, the brace that ends one starts one
        return Split()
    kind = next((kind for kind, handler in _handlers().items() if handler.detect(page)), "")
    if not kind:
        return Split()
    handler = _handlers()[kind]
    opened = handler.FM_BOUNDARY.match(page)
    try:
        header, below = handler.split(page)
    except ValueError:
        if kind == "json":
            return Split()  # a brace alone is more likely text than a header
        line = text.count("\n", 0, begin) + 1
        mark = opened[0].strip()
        message = f"the header opened by `{mark}` is never closed; all is read as text"
        return Split(notes=(Problem("", line, "header-unclosed", "error", message),))
    start = begin + (0 if kind == "json" else opened.end())
    header = text[start : start + len(header)]  # as it stands: JSONHandler sets braces of its own
    return Split(kind, header, start, len(text) - len(below) + below.startswith("\n"))


def read_header(text: str) -> Header:
    """Read the header of `text` (LF line endings, no byte order mark), as far as it can be read.

    A second one right below goes on with it, where a tool put its own in front: the lower counts.
    """
    first = _one_header(text)
    second = _one_header(text[first.body :]) if first.kind else Header()
    if second.kind != "yaml" or second.notes or NAMES.isdisjoint(second.values):
        return first
    above = text.count("\n", 0, first.body)
    lines = {key: above + line for key, line in second.lines.items()}
    return first._replace(
        values={**first.values, **second.values},
        lines={**first.lines, **lines},
        body=first.body + second.body,
    )


def _one_header(text: str) -> Header:
    split = split_header(text)
    if not split.kind:
        return Header(notes=split.notes, sound=not split.notes)
    first_line = text.count("\n", 0, split.start) + 1
    if len(split.header) > MAX_HEADER:
        message = f"the header is larger than {MAX_HEADER // 1024} KiB"
        return _unread(split, "header-size", message, first_line)
    if split.kind != "yaml":
        return _other_header(split, first_line)
    yaml = _handlers()["yaml"]
    header: Header = yaml.load(split.header, first_line=first_line, body=split.body)
    return header


def _unread(split: Split, code: str, message: str, line: int) -> Header:
    problem = Problem("", line, code, "error", message)
    return Header(split.kind, body=split.body, sound=False, notes=(problem,))


def _other_header(split: Split, first_line: int) -> Header:
    """Read TOML or JSON, as the YAML that says the same."""
    text = split.header
    try:
        if len(text) > _MAX_OTHER or any(line.count(".") > _MOST_DOTS for line in text.split("\n")):
            raise ValueError(f"larger than {_MAX_OTHER // 1024} KiB, or a line has too many dots")
        entries = read_entries(flow(_handlers()[split.kind].load(text))).entries
    except RecursionError:
        return _not_readable(split, "it nests too deeply", first_line)
    except (ValueError, Refused) as error:
        return _not_readable(split, str(error), first_line)
    values = {entry.key: entry.value for entry in entries if entry.key is not None}
    lines = {key: first_line + text.count("\n", 0, max(0, text.find(key))) for key in values}
    return Header(split.kind, values, lines, split.body)


def _not_readable(split: Split, reason: str, first_line: int) -> Header:
    """Return a header that a library did not read for this reason, on the line that it names."""
    place = re.search(r"\bline (\d{1,6})", reason)
    line = first_line + int(place[1]) - 1 if place else first_line
    why = reason.partition("\n")[0]
    message = f"the header cannot be read as {split.kind.upper()}: {why}"
    return _unread(split, f"{split.kind}-syntax", message, line)
