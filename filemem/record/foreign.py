"""Where records of other makers (MADR, Nygard, FIP and their kin) state status, date and links.

That is above the first section, in sections such as `## Status`, `### 2. Date` and `## Metadata`,
and in the earliest entry of a changelog. Links stay as written, because only the whole store knows
which record they mean.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from filemem.record.lines import HEADING
from filemem.record.links import begins_link, links_in, links_of_field
from filemem.record.model import Edge
from filemem.record.status import by_word, is_status, without_comments
from filemem.record.times import first_date
from filemem.tuples import NamedTuple

# The field, and the names that it has in the languages of `status.py`.
_FIELDS = by_word(
    {
        "status": "status, statut, état, etat, estado, situação, stato, ステータス, 状態, 상태, 状态, 狀態",
        "date": "date, decision date, decided on, datum, fecha, data, 日付, 決定日, 日期, 날짜, 일자",
        "created": "created, created on, creation date, date created, start date, erstellt, erstellt am",
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


class Preamble(NamedTuple):
    """What the body says where the header does not, and where; `logged` is from a changelog."""

    status: str = ""
    status_line: int = 0
    date: str = ""
    date_line: int = 0
    logged: int | None = None
    links: tuple[Edge, ...] = ()


class _Section(NamedTuple):
    name: str  # "" above the first section
    start: int
    stop: int


class _Block(NamedTuple):
    """A paragraph, an item or a row: its text, wrapped lines joined, and where it begins."""

    text: str
    line: int


def read_preamble(lines: Sequence[str], code: frozenset[int], title: int = -1) -> Preamble:
    """Read what a body states; `code` are lines in fenced blocks, `title` is that of the heading."""
    lines = without_comments("\n".join(lines)).split("\n")
    reading = _Fields()
    for section in _sections(lines, code, title):
        reading.read(section, lines, code | {title})
    status, status_line = reading.fields.get("status", ("", 0))
    date, date_line = reading.fields.get("date") or reading.fields.get("created") or ("", 0)
    logged = min(reading.days, default=None)
    links = tuple(dict.fromkeys(reading.links))
    return Preamble(status, status_line, date, date_line, logged, links)


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
        self.fields: dict[str, tuple[str, int]] = {}
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
        text = "\n".join(lines[at] for at in numbers).strip()
        if field and text:
            first = next(at for at in numbers if lines[at].strip())
            self.fields.setdefault(field, (text, first))
        elif name and text:
            self.links += links_of_field(name, text) or ()

    def _block(self, block: _Block) -> None:
        stated = [self._field(name, value, block.line) for name, value in _fields_of(block.text)]
        if not any(stated):
            self.links += links_in(block.text)

    def _field(self, name: str, value: str, line: int) -> bool:
        field = field_named(name)
        links = None if field else links_of_field(name, value)
        if field and value:
            self.fields.setdefault(field, (value, line))
        if field == "status":
            self.links += links_in(value)
        self.links += links or ()
        return bool(field) or links is not None


def _sections(lines: Sequence[str], code: frozenset[int], title: int) -> Iterator[_Section]:
    """Yield what stands above the sections, then each; a lower one states nothing, named `-`."""
    name, start, top = "", 0, 2
    heads = [(at, *head) for at in _likely(lines) if at not in code and (head := _head(lines, at))]
    levels = [level for at, level, _ in heads if at != title and level > 1]
    top = max(2, levels[0]) if levels else 2
    for at, level, text in (*heads, (len(lines), 0, "")):
        if at == title and not field_named(text):
            continue
        yield _Section(name, start, at)
        name, start = (text if level <= top else "-"), at + 1


def _likely(lines: Sequence[str]) -> Iterator[int]:
    """Yield the lines that may be a heading."""
    following = [*lines[1:], ""]
    for at, line in enumerate(lines):
        if (
            line.startswith("#")
            or line.rstrip().endswith(_LABEL_ENDS)
            or following[at][:3] in _RULES
        ):
            yield at


def _head(lines: Sequence[str], at: int) -> tuple[int, str] | None:
    """Return level and text of a heading: `## x`, underlined, or a known label in bold type."""
    line = lines[at]
    if line.startswith("#") and (match := HEADING.match(line)):
        return len(match[1]), line[match.end() :].strip(" \t#*_")
    if _LABEL.match(line) and field_named(line):
        return 2, line.strip(" \t*_:：")
    following = lines[at + 1] if at + 1 < len(lines) else ""
    if _UNDERLINE.match(following) and line.strip() and not _BULLET.match(line):
        return 2, line.strip()
    return None


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
            if match := _FIELD.match(part):
                yield match[1], match[2].strip()
