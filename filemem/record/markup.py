"""Convert AsciiDoc and reStructuredText to Markdown; other modules read only Markdown.

Lines keep their numbers: a line without a meaning in Markdown becomes empty. Such files are never
written.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from filemem.record.adr_read import is_field_line
from filemem.record.keys import ALIASES

# Patterns and their replacements, as `re.sub` takes them.
Rules = tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...]
_VERBATIM = re.compile(r"-{4,}|\.{4,}|/{4,}|```.*")  # the delimiters of code and of comments
_LONE_CELL = re.compile(r"\|[^|]*")  # a line with a single cell
_UNDERLINE = re.compile(r"([!-/:-@\[-`{-~])\1{2,}")
_COMMENT = re.compile(r"\s*\.\.(?:$|\s+(?![_|\[]|[\w:-]+::))")
_TARGET = re.compile(r"^ *\.\. _`?([^:`\n]{1,200})`?:[ \t]+(\S+)", re.MULTILINE)
_NAMED_REFERENCE = re.compile(r"`([^`\n]{1,200})`_")


def to_markdown(text: str, path: str) -> str:
    """Return AsciiDoc or reStructuredText as Markdown; the suffix of `path` tells which it is."""
    if path.lower().endswith(".rst"):
        return "\n".join(_convert_rst(text))
    return "\n".join(_convert_asciidoc(text))


def _apply_rules(rules: Rules, line: str) -> str:
    for pattern, replacement in rules:
        line = re.sub(pattern, replacement, line)
    return line


# -- AsciiDoc -------------------------------------------------------------------------------------


def _format_link(match: re.Match[str]) -> str:
    target = match[1]
    text = match[2] or target
    return f"[{text}]({target})"


def _format_attribute(match: re.Match[str]) -> str:
    """Return an attribute such as `:status: accepted` as a list item, if it states a field.

    Other attributes are settings of the page; they become an empty line.
    """
    value = match[2]
    if not value:
        return ""
    key = match[1].removeprefix("rev").replace("-", "_")
    name = ALIASES.get(key, key).replace("_", " ")
    item = f"- {name}: {value}"
    if is_field_line(item):
        return item
    return ""


def _format_heading(match: re.Match[str]) -> str:
    level = len(match[0])
    return "#" * level


_LINK_START = r"(?:xref:(?:[\w@.-]{1,60}:){0,3}+|link:|(?=https?://))"
_LINK_TARGET = r"([^\s\[\]]{1,300}+)"
_ASCIIDOC: Rules = (
    (rf"{_LINK_START}{_LINK_TARGET}\[([^\]]{{0,300}})\]", _format_link),
    (r"<<([^,>]{1,300}+)(?:,\s*([^>]{0,300}))?>>", _format_link),
    (r"^(?:={4,}|\*{4,}|_{4,}|\+{4,}|\+|--|[|!]={3,}|'''|<<<|\[.*\]|//.*)$", ""),
    (r"^:!?([\w-]{1,60})!?:(?:\s+(.*))?$", _format_attribute),
    (r"^v\d[\w.]{0,20},\s*(\d{4}-\d\d-\d\d)\b.*", r"- Date: \1"),  # the revision
    (r"^([^\W\d_][^:]{0,60})::\s+", r"- \1: "),
    (r"^([^\W\d_][^:]{0,60})::$", r"**\1**"),
    (r"(?:^|(?<=\s))[\d.*+<^>]{0,8}[adehlmsv]?\|", "|"),  # `2+a|` begins a cell
    (r"^={1,6}(?= )", _format_heading),
    (r"^\*{2,5}(?= )", "  -"),
    (r"^\.{1,5}(?= )", "1."),
)


def _convert_asciidoc(text: str) -> list[str]:
    rows = []
    delimiter = ""  # of the open block of code or comment
    for untrimmed_line in text.split("\n"):
        line = untrimmed_line.rstrip()
        if not delimiter and not _VERBATIM.fullmatch(line):
            rows.append(_apply_rules(_ASCIIDOC, line))
            continue
        is_comment = (delimiter or line).startswith("/")
        row = "```"
        if not delimiter:
            delimiter = re.sub("```.*", "```", line)
        elif line == delimiter:
            delimiter = ""
        else:
            row = line
        rows.append("" if is_comment else row)
    return _join_cells(rows)


def _join_cells(rows: list[str]) -> list[str]:
    """Write two cells below each other, with no cell around them, as one row of a table.

    A blank line between two rows becomes the line that separates the header row.
    """
    is_lone_cell = [_LONE_CELL.fullmatch(row) is not None for row in rows]
    for index in range(1, len(rows) - 1):
        surroundings = is_lone_cell[index - 1 : index + 3]
        if surroundings == [False, True, True, False]:
            rows[index + 1] = f"{rows[index]} {rows[index + 1]}"
            rows[index] = ""
            continue
        above = rows[index - 1]
        below = rows[index + 1]
        if not rows[index] and above.startswith("|") and below.startswith("|"):
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
    lines = _resolve_targets(text).split("\n")
    comment_indent = -1  # of the comment around the line; -1 outside comments
    for line in _convert_titles(lines):
        indent = len(line) - len(line.lstrip())
        if line and indent <= comment_indent:
            comment_indent = -1
        if _COMMENT.match(line):
            comment_indent = indent
        if comment_indent >= 0:
            yield ""
        else:
            yield _apply_rules(_RST, line)


def _resolve_targets(text: str) -> str:
    """Replace references to named targets by Markdown links."""
    links: dict[str, str] = {}
    for name, target in _TARGET.findall(text):
        links[name.casefold()] = f"[{name}]({target})"

    def format_reference(match: re.Match[str]) -> str:
        name = match[1].casefold()
        return links.get(name, match[0])

    return _NAMED_REFERENCE.sub(format_reference, text)


def _convert_titles(lines: Sequence[str]) -> list[str]:
    """Write titles with `#`; the style that comes first has level 1, and so on."""
    rows = [line.rstrip() for line in lines]
    rows.append("")
    level_by_style: dict[str, int] = {}
    for index in range(len(lines)):
        style = _find_title_style(rows, index)
        if not style:
            continue
        level = level_by_style.setdefault(style, len(level_by_style) + 1)
        marks = "#" * min(6, level)
        title = rows[index].strip()
        rows[index] = f"{marks} {title}"
    return rows[:-1]


def _find_title_style(rows: Sequence[str], index: int) -> str:
    """Return the underline sign of a title, twice if it has an overline; "" for other rows."""
    title = rows[index].strip()
    underline = rows[index + 1]
    if not title or len(underline) < len(title):
        return ""
    if not _UNDERLINE.fullmatch(underline) or _UNDERLINE.fullmatch(title):
        return ""
    sign = underline[0]
    if index > 0 and rows[index - 1] == underline:
        return sign * 2
    if rows[index].startswith(" "):
        return ""
    return sign
