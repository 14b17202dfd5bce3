"""Write a new decision in the style of a folder of decision records. Pure.

The newest record is the model for the file name, the number in the heading, the header keys and
fields, the names of sections and the word for the status. The header states what the text cannot,
such as a topic that differs from the heading.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from urllib.parse import quote

from filemem.record import body as md
from filemem.record.adr_read import parse_preamble, resolve_field
from filemem.record.identity import ADR_NAME, SUFFIX, is_markup, slugify
from filemem.record.keys import KEYS, TEXT
from filemem.record.lines import escape_text, normalize_text
from filemem.record.markup import to_markdown
from filemem.record.model import DECISION, Record
from filemem.record.parse import parse_header, parse_record
from filemem.record.render import format_key_value, format_link
from filemem.record.status import index_words, is_status, parse_status
from filemem.record.times import find_first_date
from filemem.record.yaml import Header

DATED_NAME = rf"(?:\d{{4}}-\d\d-\d\d|\d{{8}})([-_ ]).+{SUFFIX}"
_FIELD = re.compile(
    r"(?P<lead>[ \t>*-]{0,4}[*_]{0,2})(?P<label>[^\W\d_][^:|\n]{0,30}?)"
    r"(?P<colon>[ \t]*[*_]{0,2}:[*_]{0,2}[ \t]*)(?P<value>\S.*)"
)
_BULLET = re.compile(r"[ \t]*[*-] ")
_SECTION = re.compile(r"## (?P<number>(?:\d+[.)][ \t]+)?)(?P<name>.*\S)")
_OMITTED_KEYS = ("id", "type", "created")  # known from the path and from Git
_STATUS_KEYS = ("status", "state")
_DATE_KEYS = ("date", "created", "start-date", "creation-date", "date-created")

# Names of sections by their content, from templates in en, de, fr, es, pt, it, ja, ko, zh.
SECTION_KINDS = index_words(
    {
        "context": """
            context, background, problem, kontext, hintergrund, contexte, contexto, contesto,
            コンテキスト, 背景, 맥락, 배경, 上下文
        """,
        "decision": """
            decision, decision outcome, entscheidung, décision, decisión, decisão, decisione,
            決定, 결정, 决定, 决策
        """,
        "consequences": """
            consequences, konsequenzen, conséquences, consecuencias, consequências, conseguenze,
            結果, 결과, 后果, 影响
        """,
    }
)
_CONTEXT_NAMES = tuple(word for word, kind in SECTION_KINDS.items() if kind == "context")


class NewFile(NamedTuple):
    """The new decision's file; `id` is the id in its header, or ""."""

    path: str
    data: bytes
    id: str


class Shape(NamedTuple):
    """The form of the model, the newest record of the folder."""

    header: str  # the text of its header, with the fences
    keys: tuple[str, ...]  # of the header, as written
    heading: str
    lead_lines: tuple[str, ...]  # lines above the first section
    sections: tuple[str, ...]  # names of its `##` sections, as written
    status: str  # as written

    @property
    def has_status_key(self) -> bool:
        """Whether its header states the status."""
        return any(key.casefold() in _STATUS_KEYS for key in self.keys)


class FileName(NamedTuple):
    """The name of the new file; `number` is None in a folder that names its files by date."""

    path: str
    number: int | None
    model_number: int  # the model's number


def render_adr(
    record: Record,
    model_name: str,
    model_data: bytes,
    replaced_records: Iterable[tuple[str, str]],
    day: str,
    step: int = 1,
) -> NewFile:
    """Return path, bytes and stated id of a new decision in the style of the newest record.

    Args:
        record: The decision.
        model_name: The file name of the newest record.
        model_data: Its bytes.
        replaced_records: Titles and paths of the records that the decision replaces.
        day: The writer's date, such as `2025-11-20`.
        step: 1, and one more for each name that is taken: added to the number, or to the name of
            files with a date.
    """
    shape = _parse_shape(model_data, model_name)
    name = _build_name(model_name, record.title, day, step)
    status = _format_status(shape, record.status)
    links: list[str] = []
    targets: list[str] = []
    for title, path in replaced_records:
        links.append(f"Supersedes {format_link(title, path)}")
        targets.append(quote(path))
    heading = _format_heading(shape, record, name)
    parts = [f"# {heading}"]
    parts += _iter_parts(record, shape, status, day, links)
    body = "\n\n".join(parts) + "\n"
    rows = list(_iter_header_rows(shape, record, name, status, day))
    actual = parse_record(_render_file(rows, body), name.path).record or record
    expected = record._replace(supersedes=tuple(targets))
    if not targets and not record.topic_stated:
        expected = record._replace(supersedes=None)  # only a stated topic needs an empty list
    rows += _iter_missing_rows(expected, actual)
    stated_id = ""
    if actual.id_stated:
        stated_id = actual.id
    return NewFile(name.path, _render_file(rows, body), stated_id)


def _parse_shape(data: bytes, name: str) -> Shape:
    text = data.decode(errors="replace").removeprefix("\ufeff").replace("\r\n", "\n")
    if is_markup(name):
        text = to_markdown(text, name)
    header = parse_header(text)
    lines = text[header.body_start :].split("\n")
    outline = md.parse_outline(lines, frozenset())
    heading = ""
    title_line = -1
    if outline.title:
        heading = outline.title.text
        title_line = outline.title.line
    status = _find_stated_status(header)
    if not status:
        status = parse_preamble(lines, outline.code_lines, title_line).status.text
    return Shape(
        header=text[: header.body_start],
        keys=tuple(header.values),
        heading=heading,
        lead_lines=_list_lead_lines(lines),
        sections=_list_sections(lines),
        status=status,
    )


def _find_stated_status(header: Header) -> str:
    values = {key.casefold(): str(value) for key, value in header.values.items()}
    for key in _STATUS_KEYS:
        if key in values:
            return values[key]
    return ""


def _list_lead_lines(lines: Sequence[str]) -> tuple[str, ...]:
    for number, line in enumerate(lines):
        if line.startswith("## "):
            return tuple(lines[:number])
    return tuple(lines)


def _list_sections(lines: Sequence[str]) -> tuple[str, ...]:
    names = []
    for line in lines:
        match = _SECTION.match(line)
        if match:
            names.append(match["name"])
    return tuple(names)


def _build_name(model_name: str, title: str, day: str, step: int) -> FileName:
    slug = slugify(title)
    date_match = re.fullmatch(DATED_NAME, model_name)
    if date_match:
        separator = date_match[1]
        date = day if model_name[4] == "-" else day.replace("-", "")
        suffix = f"-{step}" if step > 1 else ""
        return FileName(f"{date}{separator}{slug}{suffix}.md", number=None, model_number=0)
    series = ""
    digits = "0000"
    separator = "-"
    number_match = re.fullmatch(ADR_NAME, model_name)
    if number_match:
        series, digits, stated_separator = number_match.groups()
        separator = stated_separator or "-"
    number = int(digits) + step
    padded_number = str(number).zfill(len(digits))
    return FileName(f"{series}{padded_number}{separator}{slug}.md", number, int(digits))


def _format_status(shape: Shape, status: str) -> str:
    """Return the status in the model's word if it has this status, else in its letter case."""
    model_status = shape.status.strip().strip("*_")
    if is_status(model_status) and parse_status(model_status).status == status:
        return model_status
    first_letter = re.search(r"[^\W\d_]", model_status)
    if first_letter and first_letter[0].islower():
        return status
    return status.capitalize()


def _format_heading(shape: Shape, record: Record, name: FileName) -> str:
    """Return the heading, with the new number if the model's heading has its number."""
    if name.number is None:
        return record.title
    pattern = rf"((?:[A-Za-z]{{2,8}}[- ]?)?)(0*{name.model_number})([\s.:)–—-]{{1,3}})(?=\S)"
    match = re.match(pattern, shape.heading)
    if match is None:
        return record.title
    prefix, model_number, separator = match.groups()
    number = str(name.number).zfill(len(model_number))
    return f"{prefix}{number}{separator}{record.title}"


def _iter_header_rows(
    shape: Shape, record: Record, name: FileName, status: str, day: str
) -> Iterator[str]:
    """Yield the model's keys that we can fill, in its order and spelling."""
    for key in shape.keys:
        folded_key = key.casefold()
        if folded_key in _STATUS_KEYS:
            yield f"{key}: {status}"
        elif folded_key in _DATE_KEYS:
            yield f"{key}: {day}"
        elif folded_key == "title":
            title = format_key_value(record, "title", TEXT)
            yield f"{key}: {title}"
        elif folded_key == "id":
            yield from _iter_id_rows(shape, name)


def _iter_id_rows(shape: Shape, name: FileName) -> Iterator[str]:
    """Yield the model's `id` line with the new number, if its id contains its number."""
    if name.number is None:
        return
    header = shape.header
    match = re.search(rf"(?mi)^id:.*?\b(0*{name.model_number})\b(?=\D*$)", header)
    if match is None:
        return
    number = str(name.number).zfill(len(match[1]))
    before_number = header[match.start() : match.start(1)]
    line_end = header.find("\n", match.end(1))
    after_number = header[match.end(1) : line_end]
    yield before_number + number + after_number


def _iter_missing_rows(expected: Record, actual: Record) -> Iterator[str]:
    """Yield header rows for what the file does not state yet."""
    for key in KEYS:
        if key.name in _OMITTED_KEYS:
            continue
        if getattr(actual, key.field) == getattr(expected, key.field):
            continue
        value = format_key_value(expected, key.field, key.shape)
        if value:
            yield f"{key.name}: {value}"


def _render_file(header_rows: Sequence[str], body: str) -> bytes:
    if not header_rows:
        return body.encode()
    rows = ["---", *header_rows, "---", body]
    return "\n".join(rows).encode()


def _iter_parts(
    record: Record, shape: Shape, status: str, day: str, links: list[str]
) -> Iterator[str]:
    """Yield the parts below the heading."""
    lead_lines = _fill_lead_lines(shape, status, day)
    bullet = None
    if lead_lines:
        bullet = _BULLET.match(lead_lines[0])
    if bullet:
        lead_lines += [bullet[0] + link for link in links]
    if lead_lines:
        yield "\n".join(lead_lines)
    has_status = any(status in line for line in lead_lines)
    if not has_status and not shape.has_status_key:
        yield f"## {_find_status_section(shape)}"
        yield status
    if not bullet:
        yield from links
    yield from _iter_sections(record, shape)


def _fill_lead_lines(shape: Shape, status: str, day: str) -> list[str]:
    lead_lines = []
    for model_line in shape.lead_lines:
        line = _fill_line(model_line, status, day)
        if line:
            lead_lines.append(line)
    return lead_lines


def _fill_line(line: str, status: str, day: str) -> str:
    """Return a line that states status or date with the new value; "" for any other line."""
    field = _FIELD.match(line)
    if field is None:
        return ""
    label = field["label"]
    kind = resolve_field(label)
    if kind == "date" or find_first_date(field["value"][:40]) is not None:
        new_value = day
    elif kind == "status":
        new_value = status
    else:
        return ""
    colon = field["colon"].rstrip()
    return f"{field['lead']}{label}{colon} {new_value}"


def _find_section_name(shape: Shape, kind: str, default: str) -> str:
    """Return the model's name for a section of this kind."""
    for name in shape.sections:
        if SECTION_KINDS.get(name.casefold()) == kind:
            return name
    return default


def _find_status_section(shape: Shape) -> str:
    for name in shape.sections:
        if resolve_field(name) == "status":
            return name
    return "Status"


def _find_context_section(shape: Shape) -> str:
    """Return the model's name for the reasons, such as `Context and Problem Statement`."""
    for name in shape.sections:
        if name.casefold().startswith(_CONTEXT_NAMES):
            return name
    return "Context"


def _iter_sections(record: Record, shape: Shape) -> Iterator[str]:
    known_names = md.SECTIONS[DECISION]
    yield f"## {_find_context_section(shape)}"
    yield escape_text(normalize_text(record.text), known_names)
    decision_name = _find_section_name(shape, "decision", md.DECISION_SECTION)
    yield f"## {decision_name}"
    decision = normalize_text(record.decision)
    if decision_name.casefold() in known_names:
        yield escape_text(decision)
    else:
        yield escape_text(decision, known_names)
    consequences_name = _find_section_name(shape, "consequences", "")
    if consequences_name:
        yield f"## {consequences_name}"
    if record.rejected:
        yield f"## {md.REJECTED}\n{md.format_items(record.rejected)}"
    if record.outcomes:
        rows = [f"## {md.OUTCOMES}"]
        rows += [md.format_outcome(entry) for entry in record.outcomes]
        yield "\n".join(rows)
