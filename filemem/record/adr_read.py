"""Where records of other makers (MADR, Nygard, FIP and their kin) state status, date and links.

That is above the first section, in sections such as `## Status`, `### 2. Date` and `## Metadata`,
and in the earliest entry of a changelog. Links stay as written, because only the whole store knows
which record they mean.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from filemem.record.lines import HEADING
from filemem.record.links import begins_link, links_in, links_of_field
from filemem.record.model import Edge
from filemem.record.status import by_word, is_status, without_comments
from filemem.record.times import first_date

# The field, and the names that it has in the languages of `status.py`.
_FIELDS = by_word(
    {
        "status": "status, statut, état, etat, estado, situação, stato, ステータス, 状態, 상태, 状态, 狀態",
        "date": "date, decision date, decided on, datum, fecha, data, 日付, 決定日, 日期, 날짜, 일자",
        "created": "created, created on, creation date, date created, start date, "
        "erstellt, erstellt am",
        "metadata": "metadata, meta, document control, metadaten, métadonnées, metadatos, 元数据",
        "log": "changelog, change log, change history, revision history, version history, "
        "document history",
    }
)
_BEFORE = r"(?:\d+(?:\.\d+)*[.):]?\s+)?(?:(?:adr|rfc|current|decision|proposal)\s+(?=stat))?"
_MARKS = r"[ \t]{0,3}(?:[>|*+_-][ \t]*+)*+"  # of quotes, tables, lists and bold type
_FIELD = re.compile(rf"{_MARKS}([^\W\d][^:：|*_.,;()\[\]]{{1,40}}?)[*_]*[ \t]*[:：][ \t*_]*(.*)$")
_BESIDE = re.compile(r"(?<![ \t])[ \t]++[·•|][ \t]++")  # between two fields on one line
_LABEL_ENDS = ("*", "_", ":", "：")
_RULES = ("---", "===")
_UNDERLINE = re.compile(r"(?:-{3,}|={3,})[ \t]*$")
_LABEL = re.compile(
    r"(?:\*\*|__)[^*_:：|]{2,30}[:：]?(?:\*\*|__)[:：]?\s*$|[^\W\d_][\w ]{1,30}[:：]\s*$"
)
_BULLET = re.compile(r"[ \t]*(?:[-*+]|\d{1,2}[.)])[ \t]|[ \t]*[>|]")
_PREAMBLE_LINES = 60
_STATUS_LINES = 20
_LONGEST_LINE = 2000  # characters of it count


class Statement(NamedTuple):
    """A value that a body states, and the line that it stands on."""

    text: str = ""
    line: int = 0


_NOTHING = Statement()


class Preamble(NamedTuple):
    """What the body says where the header does not; `logged` is the first day of a changelog."""

    status: Statement
    date: Statement
    logged: int | None
    links: tuple[Edge, ...]


class _Heading(NamedTuple):
    line: int
    level: int
    text: str


class _Section(NamedTuple):
    name: str  # "" above the first section
    start: int
    stop: int


class _Block(NamedTuple):
    """A paragraph, an item or a row: its text, wrapped lines joined, and where it begins."""

    text: str
    line: int


def read_preamble(lines: Sequence[str], code: frozenset[int], title: int = -1) -> Preamble:
    """Read what a body states; `code` are lines in fenced blocks, `title` that of the heading."""
    lines = without_comments("\n".join(lines)).split("\n")
    reading = _Fields()
    for section in _sections(lines, code, title):
        reading.read(section, lines, code | {title})
    fields = reading.fields
    return Preamble(
        status=fields.get("status", _NOTHING),
        date=fields.get("date") or fields.get("created") or _NOTHING,
        logged=min(reading.days, default=None),
        links=tuple(dict.fromkeys(reading.links)),
    )


def field_named(label: str) -> str:
    """Return the field that a label in a text names, or ""."""
    plain = " ".join(re.sub(r"[*_`#-]", " ", label).split()).strip(" :：").casefold()
    return _FIELDS.get(re.sub(_BEFORE, "", plain, count=1), "")


def states_field(line: str) -> bool:
    """Whether a line of a text is a field, such as `* Status: accepted`."""
    return any(
        field_named(name) or links_of_field(name, value) is not None
        for name, value in _fields_of(line)
    )


class _Fields:
    """What was read so far; the first of each field counts."""

    def __init__(self) -> None:
        self.fields: dict[str, Statement] = {}
        self.links: list[Edge] = []
        self.days: list[int] = []

    def read(self, section: _Section, lines: Sequence[str], skipped: frozenset[int]) -> None:
        """Read one section, if its name says that it states something."""
        name, _, value = section.name.partition(":")
        field = field_named(name)
        if value.strip():
            self._field(name, value.strip(), section.start - 1)
        elif field == "log":
            days = (first_date(lines[at][:80]) for at in range(section.start, section.stop))
            self.days += [day for day in days if day is not None]
        elif field or not section.name or begins_link(name):
            most = _PREAMBLE_LINES if field in ("", "metadata") else _STATUS_LINES
            last = min(section.stop, section.start + most)
            numbers = [at for at in range(section.start, last) if at not in skipped]
            self._text(section.name, field, lines, numbers)

    def _text(self, name: str, field: str, lines: Sequence[str], numbers: Sequence[int]) -> None:
        if not name or field in ("metadata", "status"):
            for block in _blocks(lines, numbers):
                self._block(block)
        filled = [at for at in numbers if lines[at].strip()]
        if not filled:
            return
        text = "\n".join(lines[at] for at in numbers).strip()
        if field:
            self.fields.setdefault(field, Statement(text, filled[0]))
        elif name:
            self.links += links_of_field(name, text) or ()

    def _block(self, block: _Block) -> None:
        stated = [self._field(name, value, block.line) for name, value in _fields_of(block.text)]
        if not any(stated):
            self.links += links_in(block.text)

    def _field(self, name: str, value: str, line: int) -> bool:
        field = field_named(name)
        links = None if field else links_of_field(name, value)
        if field and value:
            self.fields.setdefault(field, Statement(value, line))
        if field == "status":
            self.links += links_in(value)
        self.links += links or ()
        return bool(field) or links is not None


def _sections(lines: Sequence[str], code: frozenset[int], title: int) -> Iterator[_Section]:
    """Yield what stands above the sections, then each; a lower one states nothing, named `-`."""
    headings = [heading for heading in _headings(lines) if heading.line not in code]
    levels = [row.level for row in headings if row.line != title and row.level > 1]
    top = levels[0] if levels else 2
    name = ""
    start = 0
    for line, level, text in (*headings, _Heading(len(lines), 0, "")):
        if line == title and not field_named(text):
            continue
        yield _Section(name, start, line)
        name = text if level <= top else "-"
        start = line + 1


def _headings(lines: Sequence[str]) -> Iterator[_Heading]:
    """Yield the headings: `## x`, a line that is underlined, or a known label in bold type."""
    for number, (line, following) in enumerate(pairwise((*lines, ""))):
        heading = _hashed(line, number) or _labelled(line, number)
        if heading is None and following.startswith(_RULES):
            heading = _underlined(line, following, number)
        if heading is not None:
            yield heading


def _hashed(line: str, number: int) -> _Heading | None:
    match = HEADING.match(line) if line.startswith("#") else None
    if match is None:
        return None
    return _Heading(number, len(match[1]), line[match.end() :].strip(" \t#*_"))


def _labelled(line: str, number: int) -> _Heading | None:
    is_label = line.rstrip().endswith(_LABEL_ENDS) and _LABEL.match(line) and field_named(line)
    return _Heading(number, 2, line.strip(" \t*_:：")) if is_label else None


def _underlined(line: str, following: str, number: int) -> _Heading | None:
    is_heading = _UNDERLINE.match(following) and line.strip() and not _BULLET.match(line)
    return _Heading(number, 2, line.strip()) if is_heading else None


def _blocks(lines: Sequence[str], numbers: Iterable[int]) -> Iterator[_Block]:
    """Yield the blocks of these lines; a line begins one where it cannot go on with another."""
    rows: list[list[str]] = []
    block = _Block("", 0)
    for number in numbers:
        line = lines[number][:_LONGEST_LINE]
        if line.lstrip(" \t>").startswith("|"):
            rows.append([cell.strip() for cell in line.strip(" \t>|").split("|")])
            continue
        yield from (_Block(text, number - 1) for text in _of_table(rows))
        rows.clear()
        if block.text and not _goes_on(block.text, line):
            yield block
            block = _Block("", number)
        text = line.strip(" \t") if not line.endswith(("  ", "\\")) else line.lstrip()
        block = _Block(f"{block.text} {text}", block.line) if block.text else _Block(text, number)
    yield block
    yield from (_Block(text, block.line) for text in _of_table(rows))


def _goes_on(text: str, line: str) -> bool:
    if not line.strip() or text.endswith(("  ", "\\")) or _BULLET.match(line) or states_field(line):
        return False
    plain = line.lstrip()
    return not begins_link(plain) or (plain[:1].islower() and not is_status(text))


def _of_table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the fields of a table, in two columns or, below a row of names, side by side."""
    if not rows:
        return
    names = [field_named(cell) for cell in rows[0]]
    across = len(rows) > 2 and "status" in names and (len(names) > 2 or all(names))
    pairs = (
        zip(rows[0], rows[-1], strict=False) if across else (row for row in rows if len(row) == 2)
    )
    for name, value in pairs:
        yield f"{name.rstrip('*_:： ')}: {value}"


def _fields_of(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names and values that a line states."""
    if ":" in text or "：" in text:
        for part in _BESIDE.split(text):
            field = _FIELD.match(part)
            if field:
                yield field[1], field[2].strip()
