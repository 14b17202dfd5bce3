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
from filemem.record.links import is_link_start, parse_field_links, parse_links
from filemem.record.model import Edge
from filemem.record.status import index_words, is_status, strip_comments
from filemem.record.times import find_first_date

# The field, and the names that it has in the languages of `status.py`.
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
_MAX_LINE_LENGTH = 2000  # characters of it count


class Statement(NamedTuple):
    """A value that a body states, and the line that it stands on."""

    text: str = ""
    line: int = 0


_EMPTY_STATEMENT = Statement()


class Preamble(NamedTuple):
    """What the body says where the header does not; `logged` is the first day of a changelog."""

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
    """A paragraph, an item or a row: its text, wrapped lines joined, and where it begins."""

    text: str
    line: int


def parse_preamble(
    lines: Sequence[str], code_lines: frozenset[int], title_line: int = -1
) -> Preamble:
    """Read what a body states; `code` are lines in fenced blocks, `title` that of the heading."""
    lines = strip_comments("\n".join(lines)).split("\n")
    reader = _PreambleReader()
    for section in _iter_sections(lines, code_lines, title_line):
        reader.read_section(section, lines, code_lines | {title_line})
    fields = reader.fields
    return Preamble(
        status=fields.get("status", _EMPTY_STATEMENT),
        date=fields.get("date") or fields.get("created") or _EMPTY_STATEMENT,
        changelog_date=min(reader.changelog_dates, default=None),
        links=tuple(dict.fromkeys(reader.links)),
    )


def resolve_field(label: str) -> str:
    """Return the field that a label in a text names, or ""."""
    normalized = " ".join(re.sub(r"[*_`#-]", " ", label).split()).strip(" :：").casefold()
    return _FIELDS.get(re.sub(_LABEL_PREFIX, "", normalized, count=1), "")


def is_field_line(line: str) -> bool:
    """Whether a line of a text is a field, such as `* Status: accepted`."""
    return any(
        resolve_field(name) or parse_field_links(name, value) is not None
        for name, value in _iter_fields(line)
    )


class _PreambleReader:
    """What was read so far; the first of each field counts."""

    def __init__(self) -> None:
        self.fields: dict[str, Statement] = {}
        self.links: list[Edge] = []
        self.changelog_dates: list[int] = []

    def read_section(
        self, section: _Section, lines: Sequence[str], skipped_lines: frozenset[int]
    ) -> None:
        """Read one section, if its name says that it states something."""
        name, _, value = section.name.partition(":")
        field = resolve_field(name)
        if value.strip():
            self._read_field(name, value.strip(), section.start - 1)
        elif field == "log":
            dates = (find_first_date(lines[at][:80]) for at in range(section.start, section.stop))
            self.changelog_dates += [day for day in dates if day is not None]
        elif field or not section.name or is_link_start(name):
            max_lines = _MAX_PREAMBLE_LINES if field in ("", "metadata") else _MAX_STATUS_LINES
            end = min(section.stop, section.start + max_lines)
            numbers = [at for at in range(section.start, end) if at not in skipped_lines]
            self._read_text(section.name, field, lines, numbers)

    def _read_text(
        self, name: str, field: str, lines: Sequence[str], numbers: Sequence[int]
    ) -> None:
        if not name or field in ("metadata", "status"):
            for block in _iter_blocks(lines, numbers):
                self._read_block(block)
        filled_lines = [at for at in numbers if lines[at].strip()]
        if not filled_lines:
            return
        text = "\n".join(lines[at] for at in numbers).strip()
        if field:
            self.fields.setdefault(field, Statement(text, filled_lines[0]))
        elif name:
            self.links += parse_field_links(name, text) or ()

    def _read_block(self, block: _Block) -> None:
        stated = [
            self._read_field(name, value, block.line) for name, value in _iter_fields(block.text)
        ]
        if not any(stated):
            self.links += parse_links(block.text)

    def _read_field(self, name: str, value: str, line: int) -> bool:
        field = resolve_field(name)
        links = None if field else parse_field_links(name, value)
        if field and value:
            self.fields.setdefault(field, Statement(value, line))
        if field == "status":
            self.links += parse_links(value)
        self.links += links or ()
        return bool(field) or links is not None


def _iter_sections(
    lines: Sequence[str], code_lines: frozenset[int], title_line: int
) -> Iterator[_Section]:
    """Yield what stands above the sections, then each; a lower one states nothing, named `-`."""
    headings = [heading for heading in _iter_headings(lines) if heading.line not in code_lines]
    levels = [row.level for row in headings if row.line != title_line and row.level > 1]
    top_level = levels[0] if levels else 2
    name = ""
    start = 0
    for line, level, text in (*headings, _Heading(len(lines), 0, "")):
        if line == title_line and not resolve_field(text):
            continue
        yield _Section(name, start, line)
        name = text if level <= top_level else "-"
        start = line + 1


def _iter_headings(lines: Sequence[str]) -> Iterator[_Heading]:
    """Yield the headings: `## x`, a line that is underlined, or a known label in bold type."""
    for number, (line, next_line) in enumerate(pairwise((*lines, ""))):
        heading = _parse_hash_heading(line, number) or _parse_label_heading(line, number)
        if heading is None and next_line.startswith(_UNDERLINE_STARTS):
            heading = _parse_underlined_heading(line, next_line, number)
        if heading is not None:
            yield heading


def _parse_hash_heading(line: str, number: int) -> _Heading | None:
    match = HEADING.match(line) if line.startswith("#") else None
    if match is None:
        return None
    return _Heading(number, len(match[1]), line[match.end() :].strip(" \t#*_"))


def _parse_label_heading(line: str, number: int) -> _Heading | None:
    is_label = line.rstrip().endswith(_LABEL_ENDS) and _LABEL.match(line) and resolve_field(line)
    return _Heading(number, 2, line.strip(" \t*_:：")) if is_label else None


def _parse_underlined_heading(line: str, next_line: str, number: int) -> _Heading | None:
    is_heading = _UNDERLINE.match(next_line) and line.strip() and not _BULLET.match(line)
    return _Heading(number, 2, line.strip()) if is_heading else None


def _iter_blocks(lines: Sequence[str], numbers: Iterable[int]) -> Iterator[_Block]:
    """Yield the blocks of these lines; a line begins one where it cannot go on with another."""
    rows: list[list[str]] = []
    block = _Block("", 0)
    for number in numbers:
        line = lines[number][:_MAX_LINE_LENGTH]
        if line.lstrip(" \t>").startswith("|"):
            rows.append([cell.strip() for cell in line.strip(" \t>|").split("|")])
            continue
        yield from (_Block(text, number - 1) for text in _iter_table_fields(rows))
        rows.clear()
        if block.text and not _is_continuation(block.text, line):
            yield block
            block = _Block("", number)
        text = line.strip(" \t") if not line.endswith(("  ", "\\")) else line.lstrip()
        block = _Block(f"{block.text} {text}", block.line) if block.text else _Block(text, number)
    yield block
    yield from (_Block(text, block.line) for text in _iter_table_fields(rows))


def _is_continuation(text: str, line: str) -> bool:
    if (
        not line.strip()
        or text.endswith(("  ", "\\"))
        or _BULLET.match(line)
        or is_field_line(line)
    ):
        return False
    stripped = line.lstrip()
    return not is_link_start(stripped) or (stripped[:1].islower() and not is_status(text))


def _iter_table_fields(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the fields of a table, in two columns or, below a row of names, side by side."""
    if not rows:
        return
    names = [resolve_field(cell) for cell in rows[0]]
    has_header_row = len(rows) > 2 and "status" in names and (len(names) > 2 or all(names))
    pairs = (
        zip(rows[0], rows[-1], strict=False)
        if has_header_row
        else (row for row in rows if len(row) == 2)
    )
    for name, value in pairs:
        yield f"{name.rstrip('*_:： ')}: {value}"


def _iter_fields(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names and values that a line states."""
    if ":" in text or "：" in text:
        for part in _FIELD_SEPARATOR.split(text):
            field = _FIELD.match(part)
            if field:
                yield field[1], field[2].strip()
