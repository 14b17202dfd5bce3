"""AsciiDoc and reStructuredText as Markdown, so that nothing else has to know of them.

Line for line: each keeps its number, and what says nothing in Markdown becomes an empty one. Such
files are read and never written.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from filemem.record.adr_read import is_field_line
from filemem.record.identity import is_markup
from filemem.record.keys import ALIASES

Rules = tuple[
    tuple[str, str | Callable[[re.Match[str]], str]], ...
]  # a pattern and what it becomes
_VERBATIM = re.compile(r"-{4,}|\.{4,}|/{4,}|```.*")  # the delimiters of code and of comments
_LONE_CELL = re.compile(r"\|[^|]*")  # a cell on a line of its own
_UNDERLINE = re.compile(r"([!-/:-@\[-`{-~])\1{2,}")
_COMMENT = re.compile(r"\s*\.\.(?:$|\s+(?![_|\[]|[\w:-]+::))")
_TARGET = re.compile(r"^ *\.\. _`?([^:`\n]{1,200})`?:[ \t]+(\S+)", re.MULTILINE)


def to_markdown(text: str, path: str) -> str:
    """Return the text of a record as Markdown."""
    if not is_markup(path):
        return text
    return "\n".join(
        _convert_rst(text) if path.lower().endswith(".rst") else _convert_asciidoc(text)
    )


def _apply_rules(rules: Rules, line: str) -> str:
    for pattern, replacement in rules:
        line = re.sub(pattern, replacement, line)
    return line


# -- AsciiDoc -------------------------------------------------------------------------------------


def _format_link(match: re.Match[str]) -> str:
    target, text = match.groups()
    return f"[{text or target}]({target})"


def _format_attribute(match: re.Match[str]) -> str:
    """An attribute that states a field is an item; the others are settings of the page."""
    name = match[1].removeprefix("rev").replace("-", "_")
    field = f"- {ALIASES.get(name, name).replace('_', ' ')}: {match[2]}"
    return field if match[2] and is_field_line(field) else ""


_LINK_TARGET = r"([^\s\[\]]{1,300}+)"
_ASCIIDOC: Rules = (
    (rf"(?:xref:(?:[\w@.-]{{1,60}}:){{0,3}}+|link:|(?=https?://)){_LINK_TARGET}\[([^\]]{{0,300}})\]", _format_link),
    (r"<<([^,>]{1,300}+)(?:,\s*([^>]{0,300}))?>>", _format_link),
    (r"^(?:={4,}|\*{4,}|_{4,}|\+{4,}|\+|--|[|!]={3,}|'''|<<<|\[.*\]|//.*)$", ""),
    (r"^:!?([\w-]{1,60})!?:(?:\s+(.*))?$", _format_attribute),
    (r"^v\d[\w.]{0,20},\s*(\d{4}-\d\d-\d\d)\b.*", r"- Date: \1"),  # the revision
    (r"^([^\W\d_][^:]{0,60})::\s+", r"- \1: "),
    (r"^([^\W\d_][^:]{0,60})::$", r"**\1**"),
    (r"(?:^|(?<=\s))[\d.*+<^>]{0,8}[adehlmsv]?\|", "|"),  # `2+a|` begins a cell
    (r"^={1,6}(?= )", lambda marks: "#" * len(marks[0])),
    (r"^\*{2,5}(?= )", "  -"),
    (r"^\.{1,5}(?= )", "1."),
)  # fmt: skip


def _convert_asciidoc(text: str) -> list[str]:
    rows = []
    open_delimiter = ""
    for line in map(str.rstrip, text.split("\n")):
        if open_delimiter and line != open_delimiter:
            rows.append("" if open_delimiter[0] == "/" else line)
        elif open_delimiter or _VERBATIM.fullmatch(line):
            rows.append("" if line[0] == "/" else "```")
            open_delimiter = "" if open_delimiter else re.sub("```.*", "```", line)
        else:
            rows.append(_apply_rules(_ASCIIDOC, line))
    return _join_cells(rows)


def _join_cells(rows: list[str]) -> list[str]:
    """Write two cells that stand below each other, and apart from others, as a row.

    A blank line between two rows stands below the names, or says nothing.
    """
    is_lone_cell = [bool(_LONE_CELL.fullmatch(row)) for row in rows]
    for index in range(1, len(rows) - 1):
        if is_lone_cell[index - 1 : index + 3] == [False, True, True, False]:
            rows[index + 1] = f"{rows[index]} {rows[index + 1]}"
            rows[index] = ""
        elif not rows[index] and rows[index - 1][:1] == rows[index + 1][:1] == "|":
            rows[index] = "|---|"
    return rows


# -- reStructuredText -----------------------------------------------------------------------------

_RST: Rules = (
    (r"^\s*\.\.\s+(?:_[^:]{1,200}:.*|\|.*|[\w:-]+::\s*(.*))$", r"\1"),
    (r"(?<!`)(?::[\w:-]{1,30}:)?`([^`<]{1,300}?)\s*<([^`<>]{1,300})>`_{0,2}(?!`)", r"[\1](\2)"),
    (r":(?:doc|ref|any|numref):`([^`<]{1,300})`", r"[\1](\1)"),
    (rf"^(?:{_UNDERLINE.pattern}|\+[-=+]+\+|\s+:[^:`]{{1,60}}:(?:\s.*)?)$", ""),
    (r"^:([^:`]{1,60}):\s+", r"- \1: "),
    (r"^:([^:`]{1,60}):$", r"**\1**"),
    (r"^(\s*)#\. ", r"\g<1>1. "),
)


def _convert_rst(text: str) -> Iterator[str]:
    targets = {name.casefold(): f"[{name}]({target})" for name, target in _TARGET.findall(text)}
    text = re.sub(
        r"`([^`\n]{1,200})`_", lambda name: targets.get(name[1].casefold(), name[0]), text
    )
    comment_indent = -1  # the indent of the comment that a line belongs to
    for line in _convert_titles(text.split("\n")):
        indent = len(line) - len(line.lstrip())
        if line and indent <= comment_indent:
            comment_indent = -1
        if _COMMENT.match(line):
            comment_indent = indent
        yield "" if comment_indent >= 0 else _apply_rules(_RST, line)


def _convert_titles(lines: Sequence[str]) -> list[str]:
    """Write titles with `#`; their levels are in the order in which their lines come."""
    rows = [*map(str.rstrip, lines), ""]
    styles: dict[str, int] = {}
    for index in range(len(lines)):
        if style := _find_title_style(rows, index):
            level = styles.setdefault(style, len(styles) + 1)
            rows[index] = f"{'#' * min(6, level)} {rows[index].strip()}"
    return rows[:-1]


def _find_title_style(rows: Sequence[str], index: int) -> str:
    """How the lines of a title look; "" where a row is no title."""
    title = rows[index].strip()
    underline = rows[index + 1]
    if not title or len(underline) < len(title) or not _UNDERLINE.fullmatch(underline):
        return ""
    has_overline = index > 0 and rows[index - 1] == underline
    is_text = not _UNDERLINE.fullmatch(title) and (has_overline or rows[index][0] != " ")
    return underline[0] * (1 + has_overline) if is_text else ""
