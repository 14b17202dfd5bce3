"""Read status, date and links from the body of decision records of other tools: MADR, Nygard, FIP.

They are above the first section, in sections such as `## Status`, `### 2. Date` and `## Metadata`,
and in the earliest entry of a changelog. Links stay as written; `references` resolves them.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from filemem.record.lines import HEADING
from filemem.record.links import is_link_start, parse_field_links, parse_links
from filemem.record.model import Edge
from filemem.record.status import index_words, is_status, strip_comments
from filemem.record.times import find_first_date

# A field -> its names in the languages of `status.py`.
_FIELDS = index_words(
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
_LABEL_PREFIX = r"(?:\d+(?:\.\d+)*[.):]?\s+)?(?:(?:adr|rfc|current|decision|proposal)\s+(?=stat))?"
_LINE_MARKERS = r"[ \t]{0,3}(?:[>|*+_-][ \t]*+)*+"  # of quotes, tables, lists and bold type
_FIELD = re.compile(
    rf"{_LINE_MARKERS}([^\W\d][^:：|*_.,;()\[\]]{{1,40}}?)[*_]*[ \t]*[:：][ \t*_]*(.*)$"
)
_FIELD_SEPARATOR = re.compile(r"(?<![ \t])[ \t]++[·•|][ \t]++")  # between two fields on one line
_LABEL_ENDS = ("*", "_", ":", "：")
_UNDERLINE_STARTS = ("---", "===")
_UNDERLINE = re.compile(r"(?:-{3,}|={3,})[ \t]*$")
_LABEL = re.compile(
    r"(?:\*\*|__)[^*_:：|]{2,30}[:：]?(?:\*\*|__)[:：]?\s*$|[^\W\d_][\w ]{1,30}[:：]\s*$"
)
_BULLET = re.compile(r"[ \t]*(?:[-*+]|\d{1,2}[.)])[ \t]|[ \t]*[>|]")
_MAX_PREAMBLE_LINES = 60
_MAX_STATUS_LINES = 20
_MAX_LINE_LENGTH = 2000  # characters of a line that are read
_LOG_FIELD = "log"
_FIELDS_WITH_BLOCKS = ("metadata", "status")


class Statement(NamedTuple):
    """A value that a body states, and its line."""

    text: str = ""
    line: int = 0


_EMPTY_STATEMENT = Statement()


class Preamble(NamedTuple):
    """What a body states; `changelog_date` is the first day of a changelog."""

    status: Statement
    date: Statement
    changelog_date: int | None
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
    """A paragraph, list item or table row on one line, and its first line in the body."""

    text: str
    line: int


class _Field(NamedTuple):
    name: str
    value: str


def parse_preamble(
    lines: Sequence[str], code_lines: frozenset[int], title_line: int = -1
) -> Preamble:
    """Read status, date and links from a body.

    Args:
        lines: The lines of the body.
        code_lines: The lines to skip, such as those in fenced blocks.
        title_line: The line of the heading; -1 if there is none.
    """
    lines = strip_comments("\n".join(lines)).split("\n")
    skipped_lines = code_lines | {title_line}
    reader = _PreambleReader()
    for section in _iter_sections(lines, code_lines, title_line):
        reader.read_section(section, lines, skipped_lines)
    fields = reader.fields
    return Preamble(
        status=fields.get("status", _EMPTY_STATEMENT),
        date=fields.get("date") or fields.get("created", _EMPTY_STATEMENT),
        changelog_date=min(reader.changelog_dates, default=None),
        links=tuple(dict.fromkeys(reader.links)),
    )


def resolve_field(label: str) -> str:
    """Return the field that a label in a text names, or ""."""
    plain_label = re.sub(r"[*_`#-]", " ", label)
    words = " ".join(plain_label.split())
    normalized = words.strip(" :：").casefold()
    name = re.sub(_LABEL_PREFIX, "", normalized, count=1)
    return _FIELDS.get(name, "")


def is_field_line(line: str) -> bool:
    """Whether a line is a field, such as `* Status: accepted`."""
    for name, value in _iter_fields(line):
        if resolve_field(name) or parse_field_links(name, value) is not None:
            return True
    return False


class _PreambleReader:
    """Collects what the sections state; the first statement of each field counts."""

    def __init__(self) -> None:
        self.fields: dict[str, Statement] = {}
        self.links: list[Edge] = []
        self.changelog_dates: list[int] = []

    def read_section(
        self, section: _Section, lines: Sequence[str], skipped_lines: frozenset[int]
    ) -> None:
        """Read a section if its name is a field or a link, or if it is the top of the body."""
        name, _, untrimmed_value = section.name.partition(":")
        field = resolve_field(name)
        value = untrimmed_value.strip()
        if value:
            self._read_field(name, value, section.start - 1)
        elif field == _LOG_FIELD:
            self._read_changelog(lines[section.start : section.stop])
        elif field or not section.name or is_link_start(name):
            self._read_content(section, field, lines, skipped_lines)

    def _read_content(
        self,
        section: _Section,
        field: str,
        lines: Sequence[str],
        skipped_lines: frozenset[int],
    ) -> None:
        """Read the fields and links in a section, and the section as a value."""
        max_lines = _MAX_STATUS_LINES
        if field in ("", "metadata"):
            max_lines = _MAX_PREAMBLE_LINES
        stop = min(section.stop, section.start + max_lines)
        numbers = [at for at in range(section.start, stop) if at not in skipped_lines]
        if not section.name or field in _FIELDS_WITH_BLOCKS:
            for block in _iter_blocks(lines, numbers):
                self._read_block(block)
        self._read_text(section.name, field, lines, numbers)

    def _read_changelog(self, lines: Sequence[str]) -> None:
        for line in lines:
            date = find_first_date(line[:80])
            if date is not None:
                self.changelog_dates.append(date)

    def _read_text(
        self, name: str, field: str, lines: Sequence[str], numbers: Sequence[int]
    ) -> None:
        """Take all of a section as the value of its field, or as its links."""
        filled_lines = [number for number in numbers if lines[number].strip()]
        if not filled_lines:
            return
        text = "\n".join(lines[number] for number in numbers).strip()
        if field:
            self.fields.setdefault(field, Statement(text, filled_lines[0]))
        elif name:
            self.links += parse_field_links(name, text) or ()

    def _read_block(self, block: _Block) -> None:
        has_fields = False
        for name, value in _iter_fields(block.text):
            if self._read_field(name, value, block.line):
                has_fields = True
        if not has_fields:
            self.links += parse_links(block.text)

    def _read_field(self, name: str, value: str, line: int) -> bool:
        """Take the value of a field or its links; return False if the name is neither."""
        field = resolve_field(name)
        if not field:
            links = parse_field_links(name, value)
            self.links += links or ()
            return links is not None
        if value:
            self.fields.setdefault(field, Statement(value, line))
        if field == "status":
            self.links += parse_links(value)
        return True


def _iter_sections(
    lines: Sequence[str], code_lines: frozenset[int], title_line: int
) -> Iterator[_Section]:
    """Yield the top of a body and its sections; those of a lower level are named `-`."""
    headings = [heading for heading in _iter_headings(lines) if heading.line not in code_lines]
    top_level = _find_top_level(headings, title_line)
    name = ""
    start = 0
    for heading in headings:
        if heading.line == title_line and not resolve_field(heading.text):
            continue
        yield _Section(name, start, heading.line)
        name = heading.text if heading.level <= top_level else "-"
        start = heading.line + 1
    yield _Section(name, start, len(lines))


def _find_top_level(headings: Sequence[_Heading], title_line: int) -> int:
    """Return the level of the first section."""
    for heading in headings:
        if heading.line != title_line and heading.level > 1:
            return heading.level
    return 2


def _iter_headings(lines: Sequence[str]) -> Iterator[_Heading]:
    """Yield the headings: `## x`, an underlined line, or a known label in bold type."""
    for number, (line, next_line) in enumerate(pairwise([*lines, ""])):
        heading = _parse_hash_heading(line, number)
        if heading is None:
            heading = _parse_label_heading(line, number)
        if heading is None and next_line.startswith(_UNDERLINE_STARTS):
            heading = _parse_underlined_heading(line, next_line, number)
        if heading is not None:
            yield heading


def _parse_hash_heading(line: str, number: int) -> _Heading | None:
    if not line.startswith("#"):
        return None
    match = HEADING.match(line)
    if match is None:
        return None
    level = len(match[1])
    text = line[match.end() :].strip(" \t#*_")
    return _Heading(number, level, text)


def _parse_label_heading(line: str, number: int) -> _Heading | None:
    if not line.rstrip().endswith(_LABEL_ENDS):
        return None
    if not _LABEL.match(line) or not resolve_field(line):
        return None
    return _Heading(number, 2, line.strip(" \t*_:："))


def _parse_underlined_heading(line: str, next_line: str, number: int) -> _Heading | None:
    text = line.strip()
    if not text or _BULLET.match(line) or not _UNDERLINE.match(next_line):
        return None
    return _Heading(number, 2, text)


def _iter_blocks(lines: Sequence[str], numbers: Iterable[int]) -> Iterator[_Block]:
    """Yield the blocks of these lines, the rows of a table as fields."""
    rows: list[list[str]] = []  # of the table above
    text = ""
    start = 0
    for number in numbers:
        line = lines[number][:_MAX_LINE_LENGTH]
        if line.lstrip(" \t>").startswith("|"):
            cells = line.strip(" \t>|").split("|")
            rows.append([cell.strip() for cell in cells])
            continue
        for field in _iter_table_fields(rows):
            yield _Block(field, number - 1)
        rows.clear()
        if text and not _is_continuation(text, line):
            yield _Block(text, start)
            text = ""
        has_hard_break = line.endswith(("  ", "\\"))
        stripped = line.lstrip() if has_hard_break else line.strip(" \t")
        if text:
            text = f"{text} {stripped}"
        else:
            text = stripped
            start = number
    yield _Block(text, start)
    for field in _iter_table_fields(rows):
        yield _Block(field, start)


def _is_continuation(text: str, line: str) -> bool:
    """Whether a line continues the block above it."""
    if not line.strip() or text.endswith(("  ", "\\")):
        return False
    if _BULLET.match(line) or is_field_line(line):
        return False
    stripped = line.lstrip()
    if not is_link_start(stripped):
        return True
    return stripped[0].islower() and not is_status(text)


def _iter_table_fields(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the fields of a table: of its two columns, or of its last row below a row of names."""
    if not rows:
        return
    first_row = rows[0]
    names = [resolve_field(cell) for cell in first_row]
    is_header_row = "status" in names and (len(names) > 2 or all(names))
    if is_header_row and len(rows) > 2:
        for name, value in zip(first_row, rows[-1], strict=False):
            yield _format_field(name, value)
        return
    for row in rows:
        if len(row) == 2:
            yield _format_field(row[0], row[1])


def _format_field(name: str, value: str) -> str:
    label = name.rstrip("*_:： ")
    return f"{label}: {value}"


def _iter_fields(text: str) -> Iterator[_Field]:
    """Yield the fields on a line."""
    if ":" not in text and "：" not in text:
        return
    for part in _FIELD_SEPARATOR.split(text):
        match = _FIELD.match(part)
        if match:
            yield _Field(match[1], match[2].strip())
