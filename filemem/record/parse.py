"""From the bytes of a file to a Record and its problems. Lenient: never raises, whatever the bytes are.

A value that cannot be used is a problem and stays under its key in `extra`; a value that is missing is at most
a hint. One bad file never hides the others.

python-frontmatter splits the header from the text, and reads JSON. Its own readers of YAML and TOML
are not used: they retype what people write (`no`, `1.10`), drop a header that is a list, take the
last of two equal keys in silence, and crash on deep nesting.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from filemem.record import body as md
from filemem.record.body import edges_in, read_outcomes
from filemem.record.foreign import Preamble, read_preamble
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
    read_fields,
    shown,
    stated_title,
)
from filemem.record.lines import CONFLICT, MAX_FILE, WAY_OUT, fenced, heading
from filemem.record.markup import in_markdown
from filemem.record.model import DECISION, UNKNOWN, UNKNOWN_STATUS, Parsed, Problem, Record
from filemem.record.status import Words, own_words, read_status
from filemem.record.times import first_date, parse_time
from filemem.record.yaml import Header, Refused, flow, read_entries, read_yaml
from filemem.tuples import NamedTuple

MAX_HEADER = 64 * 1024  # characters
_MAX_OTHER = 16 * 1024  # of TOML or JSON
_MOST_DOTS = 256  # of a line: tomllib takes the square of a dotted key's length
_TOML = re.compile(r"^\+{3,}\s*$", re.MULTILINE)
_BLANK = re.compile(r"(?:[ \t]*\n)*+")
_FILE_NUMBER = re.compile(
    r"^(?:\d{4}-?\d\d-?\d\d[-_ ]+)?(?:(?:[A-Za-z]{2,8}-)?\d{1,5}[-_ ]+)?(?=.)"
)
_FILE_DATE = re.compile(r"(?:\A|--)(\d{4})(-?)(\d\d)\2(\d\d)(?=[-_ .])")


def parse(data: bytes, path: str) -> Parsed:
    """Read one file; its store-relative path decides the type where the header does not."""
    notes: list[Problem] = []
    if len(data) > MAX_FILE:
        return Parsed(
            None, (Problem(path, 1, "file-size", "error", "the file is larger than 1 MiB"),)
        )
    text = in_markdown(_decoded(data, notes), path)
    header = read_header(text)
    notes += header.notes
    fields, extra = read_fields(header, notes)
    type_ = str(
        fields.get("type")
        or TYPE_OF_FOLDER.get(path.removeprefix(f"{PRIVATE}/").partition("/")[0], DECISION)
    )
    fields |= {"type": type_, "path": path}
    if not fields["id_stated"]:
        fields["id"] = derived_id(path)
        way = "" if is_markup(path) else ": `filemem adopt FILE` writes one"
        message = f"no `id`; the file is known by its path{way}"
        notes.append(Problem("", 1, "no-id", "hint", message))
    body = text[header.body :]
    first_line = text.count("\n", 0, header.body) + 1
    lines = body.split("\n")
    parts = md.outline(lines, md.SECTIONS[type_], stated=stated_title(header))
    reading = _Reading(fields, extra, lines, parts, first_line, header, notes)
    _sections(reading)
    stem = path.rpartition("/")[2]
    if "created" not in fields and "created" not in extra and (found := _FILE_DATE.search(stem)):
        fields["created"] = parse_time(f"{found[1]}-{found[3]}-{found[4]}")
    if type_ == DECISION and not (fields["id_stated"] and fields.get("topic")):
        title = parts.title.line if parts.title else -1
        _foreign(reading, read_preamble(lines, parts.code, title))
    _title_and_text(reading)
    if fields.get("created") is None and "created" not in extra:
        notes.append(
            Problem("", 1, "no-date", "hint", "no `created`; Git's first commit of the file counts")
        )
    if extra:
        fields["extra"] = extra
    record = Record(**fields)  # type: ignore[arg-type]
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

    def note(self, number: int, code: str, level: str, message: str) -> None:
        """Add a problem at a line of the body, counted from 0."""
        self.notes.append(Problem("", self.first_line + number, code, level, message))


def _title_and_text(reading: _Reading) -> None:
    fields, parts = reading.fields, reading.parts
    text = md.read_text(reading.lines, parts.text, parts.code)
    title = stated_title(reading.header) or (parts.title.text if parts.title else "")
    if not title:
        title = _heading_of(text, str(fields["path"]))
        text = "" if text == title else text
        reading.notes.append(
            Problem("", reading.first_line, "no-heading", "hint", "no heading (`# ...`)")
        )
    fields["title"], fields["text"] = title, text
    if fields["type"] != DECISION:
        return
    decision = fields.setdefault("decision", title)
    if not fields.get("topic"):
        fields["topic"] = topic_of_heading(title)
        fields["topic_stated"] = False
        reading.notes.append(Problem("", 1, "no-topic", "hint", "no `topic`; the heading serves"))
    add_links(
        fields,
        "mentions",
        (*edges_in(text), *(edges_in(str(decision)) if decision != title else ())),
    )


def _heading_of(text: str, path: str) -> str:
    first = heading(text)
    if first and not first.startswith(("#", "<!--", "```", "---", "|")):
        return first
    stem = stem_of(path.rpartition("/")[2])
    return _FILE_NUMBER.sub("", stem).replace("-", " ").replace("_", " ").strip()


def _sections(reading: _Reading) -> None:
    """Read the sections that have a meaning in a record of this type."""
    for field, name in (("decision", md.DECISION_SECTION), ("next_steps", md.NEXT_STEPS)):
        ranges = reading.parts.known.get(name.casefold(), ())
        if text := md.read_text(reading.lines, ranges, reading.parts.code):
            reading.fields[field] = text
    for field, name in (("rejected", md.REJECTED), ("facts", md.FACTS)):
        ranges = reading.parts.known.get(name.casefold(), ())
        reading.fields[field] = md.read_items(reading.lines, ranges, reading.parts.code)
    log, unread = read_outcomes(reading.lines, reading.parts.known.get(md.OUTCOMES.casefold(), ()))
    if unread:
        reading.extra["outcomes"] = [reading.lines[number].strip() for number in unread]
        message = "not an entry such as `- 2025-11-25T09:14:03Z failed: reason`"
        for number in unread[:20]:
            reading.note(number, "bad-outcome", "warning", message)
    if not log:
        return
    stated, newest = reading.fields.get("outcome"), log[-1].outcome
    if stated is not None and stated != newest:
        message = f"outcome is {stated}, but the newest entry of `## Outcomes` says {newest}, which counts"
        line = reading.header.lines.get("outcome", 1)
        reading.notes.append(Problem("", line, "outcome-differs", "warning", message))
    reading.fields["outcomes"], reading.fields["outcome"] = log, newest


def _foreign(reading: _Reading, found: Preamble) -> None:
    fields, extra = reading.fields, reading.extra
    if found.status and "status" in fields:
        body = read_status(found.status).status
        if body not in ("", UNKNOWN, fields["status"]):
            message = f"status is {fields['status']}, which counts, but the text says {body}"
            reading.note(found.status_line, "status-differs", "warning", message)
    elif found.status:
        line = reading.first_line + found.status_line
        reading.notes.extend(note_status(read_status(found.status), line, fields))
    add_edges(fields, found.links)
    if fields.get("created") is None and "created" not in extra:
        at = parse_time(found.date) or first_date(found.date)
        if found.date and at is None:
            reading.note(
                found.date_line, "bad-created", "warning", f"not a date: {shown(found.date)}"
            )
        fields["created"] = found.logged if at is None else at


# -- the text of a file --------------------------------------------------------------------------------------

_MARKS = ("<<<<<<<", "|||||||", "=======", ">>>>>>>")
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")  # of UTF-16


def _decoded(data: bytes, notes: list[Problem]) -> str:
    """Return the text of a file, its lines ending in a line feed; what is wrong with it is added to `notes`."""
    wide = data.startswith(_WIDE_MARKS)
    try:
        text, sound = data.decode("utf-16" if wide else "utf-8"), not wide and b"\0" not in data
    except UnicodeDecodeError:
        text, sound = data.decode(errors="replace"), False
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if not sound:
        text = text.replace("\0", "\ufffd")
        line = text[: text.find("\ufffd") + 1].count("\n") + 1
        notes.append(
            Problem("", line, "encoding", "error", "not UTF-8 (UTF-16, or another encoding)")
        )
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
            start, middle = marks["<"], marks.get("|", marks["="])
            message = f"an unresolved merge conflict, up to line {number + 1}; the first side is read; {WAY_OUT}"
            notes.append(Problem("", start + 1, CONFLICT, "error", message))
            lines[start] = ""
            lines[middle : number + 1] = [""] * (number + 1 - middle)
            marks = {}
    return "\n".join(lines)


# -- its header ----------------------------------------------------------------------------------------------


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
        note = Problem(
            "",
            first_line,
            "header-size",
            "error",
            f"the header is larger than {MAX_HEADER // 1024} KiB",
        )
        return Header(split.kind, body=split.body, sound=False, notes=(note,))
    if split.kind == "yaml":
        header: Header = _handlers()["yaml"].load(
            split.header, first_line=first_line, body=split.body
        )
        return header
    return _other_header(split, first_line)


def _other_header(split: Split, first_line: int) -> Header:
    """Read TOML or JSON, as the YAML that says the same."""
    kind, text = split.kind, split.header
    try:
        if len(text) > _MAX_OTHER or any(line.count(".") > _MOST_DOTS for line in text.split("\n")):
            raise ValueError(f"larger than {_MAX_OTHER // 1024} KiB, or a line has too many dots")
        read, _ = read_entries(flow(_handlers()[kind].load(text)))
    except (ValueError, RecursionError, Refused) as error:
        place = re.search(r"\bline (\d{1,6})", str(error))
        why = (
            "it nests too deeply"
            if isinstance(error, RecursionError)
            else str(error).partition("\n")[0]
        )
        message = f"the header cannot be read as {kind.upper()}: {why}"
        note = Problem(
            "", first_line + (int(place[1]) if place else 1) - 1, f"{kind}-syntax", "error", message
        )
        return Header(kind, body=split.body, sound=False, notes=(note,))
    values = {entry.key: entry.value for entry in read if entry.key is not None}
    lines = {key: first_line + text.count("\n", 0, max(0, text.find(key))) for key in values}
    return Header(kind, values, lines, split.body)
