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
from filemem.record.adr_read import field_named, read_preamble
from filemem.record.identity import ADR_NAME, SUFFIX, slug
from filemem.record.keys import KEYS, TEXT
from filemem.record.lines import escape, tidy
from filemem.record.markup import in_markdown
from filemem.record.model import DECISION, Record
from filemem.record.parse import parse, read_header
from filemem.record.render import link, value_of
from filemem.record.status import by_word, is_status, read_status
from filemem.record.times import first_date

DATED_NAME = rf"(?:\d{{4}}-\d\d-\d\d|\d{{8}})([-_ ]).+{SUFFIX}"
_FIELD = re.compile(
    r"(?P<lead>[ \t>*-]{0,4}[*_]{0,2})(?P<label>[^\W\d_][^:|\n]{0,30}?)"
    r"(?P<colon>[ \t]*[*_]{0,2}:[*_]{0,2}[ \t]*)(?P<value>\S.*)"
)
_BULLET = re.compile(r"[ \t]*[*-] ")
_SECTION = re.compile(r"## (?P<number>(?:\d+[.)][ \t]+)?)(?P<name>.*\S)")
_LEFT_OUT = ("id", "type", "created")  # the path and Git say these where no neighbour does
_STATUS_KEYS = ("status", "state")
_DATE_KEYS = ("date", "created", "start-date", "creation-date", "date-created")

# Names of sections by what they hold, in the words of templates: en de fr es pt it ja ko zh.
SECTIONS = by_word(
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
_CONTEXT_SECTION = tuple(word for word, kind in SECTIONS.items() if kind == "context")


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
    above: tuple[str, ...]  # lines above the first section
    sections: tuple[str, ...]  # names of its `##` sections, as written
    status: str  # as written

    @property
    def has_status_key(self) -> bool:
        """Whether its header states the status."""
        return any(key.casefold() in _STATUS_KEYS for key in self.keys)


class Name(NamedTuple):
    """The name of the new file; `number` is None in a folder that names its files by date."""

    path: str
    number: int | None
    former: int  # the model's number


def write_adr(
    record: Record,
    newest: str,
    like: bytes,
    replaced: Iterable[tuple[str, str]],
    day: str,
    step: int = 1,
) -> NewFile:
    """Return path, bytes and stated id of a new decision in the style of the newest record.

    `newest` and `like` are that record's name and bytes; `replaced` are titles and paths of what
    the new decision replaces, `day` is the writer's own, such as `2025-11-20`. `step` counts up
    where a name is taken: numbers after the newest, or files of one day and title.
    """
    shape = _shape(like, newest)
    name = _name(newest, record.title, day, step)
    status = _status(shape, record.status)
    links = [f"Supersedes {link(*pair)}" for pair in replaced]
    rows = list(_header_rows(shape, record, name, status, day))
    parts = _parts(record, shape, status, day, links)
    body = "\n\n".join((f"# {_heading(shape, record, name)}", *parts)) + "\n"
    targets = tuple(quote(path) for _, path in replaced)
    wanted = record._replace(supersedes=targets or (() if record.topic_stated else None))
    read = parse(_whole(rows, body), name.path).record or record
    rows += _unsaid(wanted, read)
    return NewFile(name.path, _whole(rows, body), read.id if read.id_stated else "")


def _shape(like: bytes, name: str) -> Shape:
    text = like.decode(errors="replace").removeprefix("\ufeff").replace("\r\n", "\n")
    text = in_markdown(text, name)
    header = read_header(text)
    lines = text[header.body :].split("\n")
    parts = md.outline(lines, frozenset())
    first = next((at for at, line in enumerate(lines) if line.startswith("## ")), len(lines))
    sections = [match["name"] for line in lines if (match := _SECTION.match(line))]
    keys = {key.casefold(): str(value) for key, value in header.values.items()}
    status = next((keys[key] for key in _STATUS_KEYS if key in keys), "")
    title = parts.title.line if parts.title else -1
    return Shape(
        header=text[: header.body],
        keys=tuple(header.values),
        heading=parts.title.text if parts.title else "",
        above=tuple(lines[:first]),
        sections=tuple(sections),
        status=status or read_preamble(lines, parts.code, title).status.text,
    )


def _name(newest: str, title: str, day: str, step: int) -> Name:
    dated = re.fullmatch(DATED_NAME, newest)
    if dated:
        date = day if newest[4] == "-" else day.replace("-", "")
        again = f"-{step}" if step > 1 else ""
        return Name(f"{date}{dated[1]}{slug(title)}{again}.md", None, 0)
    numbered = re.fullmatch(ADR_NAME, newest)
    series, digits, apart = numbered.groups() if numbered else ("", "0000", "-")
    number = int(digits) + step
    path = f"{series}{number:0{len(digits)}}{apart or '-'}{slug(title)}.md"
    return Name(path, number, int(digits))


def _status(shape: Shape, status: str) -> str:
    """Our status in the model's word where it has the same one, else in its letter case."""
    written = shape.status.strip().strip("*_")
    if is_status(written) and read_status(written).status == status:
        return written
    first = re.search(r"[^\W\d_]", written)
    return status if first and first[0].islower() else status.capitalize()


def _heading(shape: Shape, record: Record, name: Name) -> str:
    """The heading with the new number where the model's heading has its own."""
    pattern = rf"((?:[A-Za-z]{{2,8}}[- ]?)?)(0*{name.former})([\s.:)–—-]{{1,3}})(?=\S)"
    count = re.match(pattern, shape.heading)
    if not count or name.number is None:
        return record.title
    return f"{count[1]}{name.number:0{len(count[2])}}{count[3]}{record.title}"


def _header_rows(shape: Shape, record: Record, name: Name, status: str, day: str) -> Iterator[str]:
    """The model's keys that we can fill, in its order and its spelling."""
    for key in shape.keys:
        folded = key.casefold()
        if folded in _STATUS_KEYS:
            yield f"{key}: {status}"
        elif folded in _DATE_KEYS:
            yield f"{key}: {day}"
        elif folded == "title":
            yield f"{key}: {value_of(record, 'title', TEXT)}"
        elif folded == "id":
            yield from _id_row(shape, name)


def _id_row(shape: Shape, name: Name) -> Iterator[str]:
    """The model's `id` line with the new number, where its id is made of its number."""
    row = re.search(rf"(?mi)^id:.*?\b(0*{name.former})\b(?=\D*$)", shape.header)
    if row and name.number is not None:
        number = f"{name.number:0{len(row[1])}}"
        start, end = row.span(1)
        line_end = shape.header.find("\n", end)
        yield shape.header[row.start() : start] + number + shape.header[end:line_end]


def _unsaid(wanted: Record, read: Record) -> Iterator[str]:
    """Header rows for what the file does not say yet."""
    for key in KEYS:
        if key.name in _LEFT_OUT or getattr(read, key.field) == getattr(wanted, key.field):
            continue
        value = value_of(wanted, key.field, key.shape)
        if value:
            yield f"{key.name}: {value}"


def _whole(header: Sequence[str], body: str) -> bytes:
    return ("\n".join(("---", *header, "---", body)) if header else body).encode()


def _parts(record: Record, shape: Shape, status: str, day: str, links: list[str]) -> Iterator[str]:
    """Yield the parts below the heading."""
    lead = list(filter(None, (_filled(line, status, day) for line in shape.above)))
    bullet = _BULLET.match(lead[0]) if lead else None
    if bullet:
        lead += [bullet[0] + link for link in links]
    if lead:
        yield "\n".join(lead)
    if not (shape.has_status_key or any(status in line for line in lead)):
        yield f"## {_status_section(shape)}"
        yield status
    if not bullet:
        yield from links
    yield from _sections(record, shape)


def _filled(line: str, status: str, day: str) -> str:
    """A line that states status or date, with our own value; "" for any other line."""
    field = _FIELD.match(line)
    if not field:
        return ""
    kind = field_named(field["label"])
    if kind == "date" or first_date(field["value"][:40]) is not None:
        filling = day
    elif kind == "status":
        filling = status
    else:
        return ""
    return f"{field['lead']}{field['label']}{field['colon'].rstrip()} {filling}"


def _section(shape: Shape, kind: str, default: str) -> str:
    """The model's name for a section of this kind."""
    names = (name for name in shape.sections if SECTIONS.get(name.casefold()) == kind)
    return next(names, default)


def _status_section(shape: Shape) -> str:
    names = (name for name in shape.sections if field_named(name) == "status")
    return next(names, "Status")


def _context_section(shape: Shape) -> str:
    """The model's name for the reasons, such as `Context and Problem Statement`."""
    names = (name for name in shape.sections if name.casefold().startswith(_CONTEXT_SECTION))
    return next(names, "Context")


def _sections(record: Record, shape: Shape) -> Iterator[str]:
    names = md.SECTIONS[DECISION]
    yield f"## {_context_section(shape)}"
    yield escape(tidy(record.text), names)
    decision = _section(shape, "decision", md.DECISION_SECTION)
    yield f"## {decision}"
    yield escape(tidy(record.decision), None if decision.casefold() in names else names)
    consequences = _section(shape, "consequences", "")
    if consequences:
        yield f"## {consequences}"
    if record.rejected:
        yield f"## {md.REJECTED}\n{md.write_items(record.rejected)}"
    if record.outcomes:
        yield "\n".join((f"## {md.OUTCOMES}", *map(md.write_outcome, record.outcomes)))
