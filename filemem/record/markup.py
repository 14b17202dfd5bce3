"""AsciiDoc and reStructuredText as Markdown, so that nothing else has to know of them.

Line for line: each keeps its number, and what says nothing in Markdown becomes an empty one. Such
files are read and never written.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from filemem.record.adr_read import states_field
from filemem.record.identity import is_markup
from filemem.record.keys import ALIASES

Rules = tuple[
    tuple[str, str | Callable[[re.Match[str]], str]], ...
]  # a pattern and what it becomes
_VERBATIM = re.compile(r"-{4,}|\.{4,}|/{4,}|```.*")  # the delimiters of code and of comments
_ALONE = re.compile(r"\|[^|]*")  # a cell on a line of its own
_UNDERLINE = re.compile(r"([!-/:-@\[-`{-~])\1{2,}")
_REMARK = re.compile(r"\s*\.\.(?:$|\s+(?![_|\[]|[\w:-]+::))")
_TARGET = re.compile(r"^ *\.\. _`?([^:`\n]{1,200})`?:[ \t]+(\S+)", re.MULTILINE)


def in_markdown(text: str, path: str) -> str:
    """Return the text of a record as Markdown."""
    if not is_markup(path):
        return text
    return "\n".join(_of_rst(text) if path.lower().endswith(".rst") else _of_asciidoc(text))


def _by(rules: Rules, line: str) -> str:
    for pattern, written in rules:
        line = re.sub(pattern, written, line)
    return line


# -- AsciiDoc -------------------------------------------------------------------------------------


def _link(match: re.Match[str]) -> str:
    target, text = match.groups()
    return f"[{text or target}]({target})"


def _attribute(match: re.Match[str]) -> str:
    """An attribute that states a field is an item; the others are settings of the page."""
    name = match[1].removeprefix("rev").replace("-", "_")
    field = f"- {ALIASES.get(name, name).replace('_', ' ')}: {match[2]}"
    return field if match[2] and states_field(field) else ""


_TO = r"([^\s\[\]]{1,300}+)"
_ASCIIDOC: Rules = (
    (rf"(?:xref:(?:[\w@.-]{{1,60}}:){{0,3}}+|link:|(?=https?://)){_TO}\[([^\]]{{0,300}})\]", _link),
    (r"<<([^,>]{1,300}+)(?:,\s*([^>]{0,300}))?>>", _link),
    (r"^(?:={4,}|\*{4,}|_{4,}|\+{4,}|\+|--|[|!]={3,}|'''|<<<|\[.*\]|//.*)$", ""),
    (r"^:!?([\w-]{1,60})!?:(?:\s+(.*))?$", _attribute),
    (r"^v\d[\w.]{0,20},\s*(\d{4}-\d\d-\d\d)\b.*", r"- Date: \1"),  # the revision
    (r"^([^\W\d_][^:]{0,60})::\s+", r"- \1: "),
    (r"^([^\W\d_][^:]{0,60})::$", r"**\1**"),
    (r"(?:^|(?<=\s))[\d.*+<^>]{0,8}[adehlmsv]?\|", "|"),  # `2+a|` begins a cell
    (r"^={1,6}(?= )", lambda marks: "#" * len(marks[0])),
    (r"^\*{2,5}(?= )", "  -"),
    (r"^\.{1,5}(?= )", "1."),
)  # fmt: skip


def _of_asciidoc(text: str) -> list[str]:
    rows = []
    opened = ""
    for line in map(str.rstrip, text.split("\n")):
        if opened and line != opened:
            rows.append("" if opened[0] == "/" else line)
        elif opened or _VERBATIM.fullmatch(line):
            rows.append("" if line[0] == "/" else "```")
            opened = "" if opened else re.sub("```.*", "```", line)
        else:
            rows.append(_by(_ASCIIDOC, line))
    return _joined_cells(rows)


def _joined_cells(rows: list[str]) -> list[str]:
    """Write two cells that stand below each other, and apart from others, as a row.

    A blank line between two rows stands below the names, or says nothing.
    """
    alone = [bool(_ALONE.fullmatch(row)) for row in rows]
    for at in range(1, len(rows) - 1):
        if alone[at - 1 : at + 3] == [False, True, True, False]:
            rows[at + 1] = f"{rows[at]} {rows[at + 1]}"
            rows[at] = ""
        elif not rows[at] and rows[at - 1][:1] == rows[at + 1][:1] == "|":
            rows[at] = "|---|"
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


def _of_rst(text: str) -> Iterator[str]:
    targets = {name.casefold(): f"[{name}]({target})" for name, target in _TARGET.findall(text)}
    text = re.sub(
        r"`([^`\n]{1,200})`_", lambda name: targets.get(name[1].casefold(), name[0]), text
    )
    remark = -1  # the indent of the comment that a line belongs to
    for line in _with_titles(text.split("\n")):
        indent = len(line) - len(line.lstrip())
        if line and indent <= remark:
            remark = -1
        if _REMARK.match(line):
            remark = indent
        yield "" if remark >= 0 else _by(_RST, line)


def _with_titles(lines: Sequence[str]) -> list[str]:
    """Write titles with `#`; their levels are in the order in which their lines come."""
    rows = [*map(str.rstrip, lines), ""]
    styles: dict[str, int] = {}
    for at in range(len(lines)):
        if style := _style(rows, at):
            level = styles.setdefault(style, len(styles) + 1)
            rows[at] = f"{'#' * min(6, level)} {rows[at].strip()}"
    return rows[:-1]


def _style(rows: Sequence[str], at: int) -> str:
    """How the lines of a title look; "" where a row is no title."""
    title = rows[at].strip()
    under = rows[at + 1]
    if not title or len(under) < len(title) or not _UNDERLINE.fullmatch(under):
        return ""
    above = at > 0 and rows[at - 1] == under
    is_text = not _UNDERLINE.fullmatch(title) and (above or rows[at][0] != " ")
    return under[0] * (1 + above) if is_text else ""
