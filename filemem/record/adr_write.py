"""A new decision in the shape of its neighbours, in a folder of decision records. Pure.

The newest record is the model: the form of its name, the number in its heading, the header keys
and fields that we can fill, the names of its sections and its word for the status. What the text
cannot say, such as a topic that differs from the heading, the header states.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from urllib.parse import quote

from filemem.record import body as md
from filemem.record.adr_read import parse_preamble, resolve_field
from filemem.record.identity import ADR_NAME, SUFFIX, slugify
from filemem.record.keys import KEYS, TEXT
from filemem.record.lines import escape_text, normalize_text
from filemem.record.markup import to_markdown
from filemem.record.model import DECISION, Record
from filemem.record.parse import parse_header, parse_record
from filemem.record.render import format_key_value, format_link
from filemem.record.status import index_words, is_status, parse_status
from filemem.record.times import find_first_date

DATED_NAME = rf"(?:\d{{4}}-\d\d-\d\d|\d{{8}})([-_ ]).+{SUFFIX}"
_FIELD = re.compile(
    r"(?P<lead>[ \t>*-]{0,4}[*_]{0,2})(?P<label>[^\W\d_][^:|\n]{0,30}?)"
    r"(?P<colon>[ \t]*[*_]{0,2}:[*_]{0,2}[ \t]*)(?P<value>\S.*)"
)
_BULLET = re.compile(r"[ \t]*[*-] ")
_SECTION = re.compile(r"## (?P<number>(?:\d+[.)][ \t]+)?)(?P<name>.*\S)")
_OMITTED_KEYS = ("id", "type", "created")  # the path and Git say these where no neighbour does
_STATUS_KEYS = ("status", "state")
_DATE_KEYS = ("date", "created", "start-date", "creation-date", "date-created")

# Names of sections by what they hold, in the words of templates: en de fr es pt it ja ko zh.
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
    """The new decision's file; `id` is what its header states, "" where it states none."""

    path: str
    data: bytes
    id: str


class Shape(NamedTuple):
    """What the model, the newest record of the folder, looks like."""

    header: str  # the text of its header, without the fences
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

    `newest` and `like` are that record's name and bytes; `replaced` are titles and paths of what
    the new decision replaces, `day` is the writer's own, such as `2025-11-20`. `step` counts up
    where a name is taken: numbers after the newest, or files of one day and title.
    """
    shape = _parse_shape(model_data, model_name)
    name = _build_name(model_name, record.title, day, step)
    status = _format_status(shape, record.status)
    links = [f"Supersedes {format_link(*pair)}" for pair in replaced_records]
    rows = list(_iter_header_rows(shape, record, name, status, day))
    parts = _iter_parts(record, shape, status, day, links)
    body = "\n\n".join((f"# {_format_heading(shape, record, name)}", *parts)) + "\n"
    targets = tuple(quote(path) for _, path in replaced_records)
    expected = record._replace(supersedes=targets or (() if record.topic_stated else None))
    actual = parse_record(_render_file(rows, body), name.path).record or record
    rows += _iter_missing_rows(expected, actual)
    return NewFile(name.path, _render_file(rows, body), actual.id if actual.id_stated else "")


def _parse_shape(data: bytes, name: str) -> Shape:
    text = data.decode(errors="replace").removeprefix("\ufeff").replace("\r\n", "\n")
    text = to_markdown(text, name)
    header = parse_header(text)
    lines = text[header.body_start :].split("\n")
    outline = md.parse_outline(lines, frozenset())
    section_start = next(
        (at for at, line in enumerate(lines) if line.startswith("## ")), len(lines)
    )
    sections = [match["name"] for line in lines if (match := _SECTION.match(line))]
    keys = {key.casefold(): str(value) for key, value in header.values.items()}
    status = next((keys[key] for key in _STATUS_KEYS if key in keys), "")
    title = outline.title.line if outline.title else -1
    return Shape(
        header=text[: header.body_start],
        keys=tuple(header.values),
        heading=outline.title.text if outline.title else "",
        lead_lines=tuple(lines[:section_start]),
        sections=tuple(sections),
        status=status or parse_preamble(lines, outline.code_lines, title).status.text,
    )


def _build_name(model_name: str, title: str, day: str, step: int) -> FileName:
    date_match = re.fullmatch(DATED_NAME, model_name)
    if date_match:
        date = day if model_name[4] == "-" else day.replace("-", "")
        suffix = f"-{step}" if step > 1 else ""
        return FileName(f"{date}{date_match[1]}{slugify(title)}{suffix}.md", None, 0)
    number_match = re.fullmatch(ADR_NAME, model_name)
    series, digits, separator = number_match.groups() if number_match else ("", "0000", "-")
    number = int(digits) + step
    path = f"{series}{number:0{len(digits)}}{separator or '-'}{slugify(title)}.md"
    return FileName(path, number, int(digits))


def _format_status(shape: Shape, status: str) -> str:
    """Our status in the model's word where it has the same one, else in its letter case."""
    model_status = shape.status.strip().strip("*_")
    if is_status(model_status) and parse_status(model_status).status == status:
        return model_status
    first_letter = re.search(r"[^\W\d_]", model_status)
    return status if first_letter and first_letter[0].islower() else status.capitalize()


def _format_heading(shape: Shape, record: Record, name: FileName) -> str:
    """The heading with the new number where the model's heading has its own."""
    pattern = rf"((?:[A-Za-z]{{2,8}}[- ]?)?)(0*{name.model_number})([\s.:)–—-]{{1,3}})(?=\S)"
    number_match = re.match(pattern, shape.heading)
    if not number_match or name.number is None:
        return record.title
    return f"{number_match[1]}{name.number:0{len(number_match[2])}}{number_match[3]}{record.title}"


def _iter_header_rows(
    shape: Shape, record: Record, name: FileName, status: str, day: str
) -> Iterator[str]:
    """The model's keys that we can fill, in its order and its spelling."""
    for key in shape.keys:
        key_name = key.casefold()
        if key_name in _STATUS_KEYS:
            yield f"{key}: {status}"
        elif key_name in _DATE_KEYS:
            yield f"{key}: {day}"
        elif key_name == "title":
            yield f"{key}: {format_key_value(record, 'title', TEXT)}"
        elif key_name == "id":
            yield from _iter_id_rows(shape, name)


def _iter_id_rows(shape: Shape, name: FileName) -> Iterator[str]:
    """The model's `id` line with the new number, where its id is made of its number."""
    row = re.search(rf"(?mi)^id:.*?\b(0*{name.model_number})\b(?=\D*$)", shape.header)
    if row and name.number is not None:
        number = f"{name.number:0{len(row[1])}}"
        start, end = row.span(1)
        line_end = shape.header.find("\n", end)
        yield shape.header[row.start() : start] + number + shape.header[end:line_end]


def _iter_missing_rows(expected: Record, actual: Record) -> Iterator[str]:
    """Header rows for what the file does not say yet."""
    for key in KEYS:
        if key.name in _OMITTED_KEYS or getattr(actual, key.field) == getattr(expected, key.field):
            continue
        value = format_key_value(expected, key.field, key.shape)
        if value:
            yield f"{key.name}: {value}"


def _render_file(header: Sequence[str], body: str) -> bytes:
    return ("\n".join(("---", *header, "---", body)) if header else body).encode()


def _iter_parts(
    record: Record, shape: Shape, status: str, day: str, links: list[str]
) -> Iterator[str]:
    """Yield the parts below the heading."""
    lead_lines = list(filter(None, (_fill_line(line, status, day) for line in shape.lead_lines)))
    bullet = _BULLET.match(lead_lines[0]) if lead_lines else None
    if bullet:
        lead_lines += [bullet[0] + link for link in links]
    if lead_lines:
        yield "\n".join(lead_lines)
    if not (shape.has_status_key or any(status in line for line in lead_lines)):
        yield f"## {_find_status_section(shape)}"
        yield status
    if not bullet:
        yield from links
    yield from _iter_sections(record, shape)


def _fill_line(line: str, status: str, day: str) -> str:
    """A line that states status or date, with our own value; "" for any other line."""
    field = _FIELD.match(line)
    if not field:
        return ""
    kind = resolve_field(field["label"])
    if kind == "date" or find_first_date(field["value"][:40]) is not None:
        new_value = day
    elif kind == "status":
        new_value = status
    else:
        return ""
    return f"{field['lead']}{field['label']}{field['colon'].rstrip()} {new_value}"


def _find_section_name(shape: Shape, kind: str, default: str) -> str:
    """The model's name for a section of this kind."""
    names = (name for name in shape.sections if SECTION_KINDS.get(name.casefold()) == kind)
    return next(names, default)


def _find_status_section(shape: Shape) -> str:
    names = (name for name in shape.sections if resolve_field(name) == "status")
    return next(names, "Status")


def _find_context_section(shape: Shape) -> str:
    """The model's name for the reasons, such as `Context and Problem Statement`."""
    names = (name for name in shape.sections if name.casefold().startswith(_CONTEXT_NAMES))
    return next(names, "Context")


def _iter_sections(record: Record, shape: Shape) -> Iterator[str]:
    names = md.SECTIONS[DECISION]
    yield f"## {_find_context_section(shape)}"
    yield escape_text(normalize_text(record.text), names)
    decision = _find_section_name(shape, "decision", md.DECISION_SECTION)
    yield f"## {decision}"
    yield escape_text(
        normalize_text(record.decision), None if decision.casefold() in names else names
    )
    consequences = _find_section_name(shape, "consequences", "")
    if consequences:
        yield f"## {consequences}"
    if record.rejected:
        yield f"## {md.REJECTED}\n{md.format_items(record.rejected)}"
    if record.outcomes:
        yield "\n".join((f"## {md.OUTCOMES}", *map(md.format_outcome, record.outcomes)))
