"""Read the bytes of a file into a Record and its problems. Never raises, whatever the bytes are.

An invalid value is a problem and stays under its key in `extra`; a missing value is at most a hint.

python-frontmatter splits the header from the text, and reads JSON. Its readers of YAML and TOML are
not used: they change the type of values (`no`, `1.10`), drop a header that is a list, take the last
of two equal keys without a word, and crash on deep nesting.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from filemem.record import body as md
from filemem.record.adr_read import Preamble, Statement, parse_preamble
from filemem.record.body import parse_edges
from filemem.record.identity import (
    PRIVATE_FOLDER,
    TYPE_OF_FOLDER,
    derive_id,
    is_markup,
    parse_topic,
    strip_suffix,
)
from filemem.record.keys import (
    HEADER_NAMES,
    add_edges,
    add_links,
    apply_status,
    get_stated_title,
    parse_fields,
    quote_value,
)
from filemem.record.lines import (
    CONFLICT_CODE,
    CONFLICT_HINT,
    MAX_FILE_SIZE,
    find_code_lines,
    get_heading,
    normalize_line_ends,
)
from filemem.record.markup import to_markdown
from filemem.record.model import (
    DECISION,
    UNKNOWN,
    UNKNOWN_STATUS,
    ParsedRecord,
    Problem,
    Record,
)
from filemem.record.status import Words, normalize_words, parse_status
from filemem.record.times import find_first_date, parse_time
from filemem.record.yaml import Header, Value, YamlRefusal, format_flow, parse_entries, parse_yaml

MAX_HEADER = 64 * 1024  # characters
_MAX_UNREAD_LINES = 20  # lines of a log that are reported
_MAX_OTHER_HEADER = 16 * 1024  # of TOML or JSON
_MAX_DOTS = 256  # of a line: tomllib takes the square of a dotted key's length
_TOML = re.compile(r"^\+{3,}\s*$", re.MULTILINE)
_BLANK_LINES = re.compile(r"(?:[ \t]*\n)*+")
_FILE_NUMBER = re.compile(
    r"^(?:\d{4}-?\d\d-?\d\d[-_ ]+)?(?:(?:[A-Za-z]{2,8}-)?\d{1,5}[-_ ]+)?(?=.)"
)
_FILE_DATE = re.compile(r"(?:\A|--)(\d{4})(-?)(\d\d)\2(\d\d)(?=[-_ .])")


# Sections with a meaning, and the fields of a Record that they fill.
_TEXT_FIELDS = {md.DECISION_SECTION.casefold(): "decision", md.NEXT_STEPS.casefold(): "next_steps"}
_LIST_FIELDS = {md.REJECTED.casefold(): "rejected", md.FACTS.casefold(): "facts"}


def parse_record(data: bytes, path: str) -> ParsedRecord:
    """Read one file; its store-relative path decides the type if the header has none."""
    if len(data) > MAX_FILE_SIZE:
        problem = Problem(path, 1, "file-size", "error", "the file is larger than 1 MiB")
        return ParsedRecord(None, (problem,))
    problems: list[Problem] = []
    text = _decode_text(data, problems)
    if is_markup(path):
        text = to_markdown(text, path)
    draft = _build_draft(text, path, problems)
    _add_sections(draft)
    if draft.is_undated:
        _add_file_date(draft, path.rpartition("/")[2])
    if draft.can_be_foreign:
        _add_preamble(draft)
    _add_title_and_text(draft)
    if draft.is_undated:
        message = "no `created`; Git's first commit of the file counts"
        problems.append(Problem("", 1, "no-date", "hint", message))
    if draft.extra:
        draft.fields["extra"] = draft.extra
    record = Record(**draft.fields)  # type: ignore[arg-type]
    return ParsedRecord(record, tuple(problem._replace(path=path) for problem in problems))


def resolve_own_status(parsed: ParsedRecord, words: Words) -> ParsedRecord:
    """Return a parsed file, with an unknown status read again with a project's own words."""
    record = parsed.record
    if not words or record is None or record.status != UNKNOWN:
        return parsed
    stated = parse_status(record.status_written, normalize_words(words))
    if stated.status == UNKNOWN:
        return parsed
    problems = tuple(problem for problem in parsed.problems if problem.code != UNKNOWN_STATUS)
    return ParsedRecord(record._replace(status=stated.status, status_written=""), problems)


class _RecordDraft(NamedTuple):
    """A file while it is read: the fields of the Record so far, and the parts of the body."""

    fields: dict[str, object]
    extra: dict[str, object]
    lines: list[str]
    outline: md.Outline
    first_line: int
    header: Header
    problems: list[Problem]

    @property
    def is_undated(self) -> bool:
        """Whether no date was found so far, not even an invalid one."""
        return self.fields.get("created") is None and "created" not in self.extra

    @property
    def can_be_foreign(self) -> bool:
        """Whether the body may state status, date and links, as in decisions of other tools."""
        if self.fields["type"] != DECISION:
            return False
        return not self.fields["id_stated"] or not self.fields.get("topic")

    def add_problem(self, number: int, code: str, level: str, message: str) -> None:
        """Add a problem at a line of the body, counted from 0."""
        self.problems.append(Problem("", self.first_line + number, code, level, message))


def _build_draft(text: str, path: str, problems: list[Problem]) -> _RecordDraft:
    header = parse_header(text)
    problems += header.problems
    fields, extra = parse_fields(header, problems)
    fields["path"] = path
    type_ = str(fields.setdefault("type", _get_type(path)))
    if not fields["id_stated"]:
        fields["id"] = derive_id(path)
        advice = "" if is_markup(path) else ": `filemem adopt FILE` writes one"
        message = f"no `id`; the file is known by its path{advice}"
        problems.append(Problem("", 1, "no-id", "hint", message))
    lines = text[header.body_start :].split("\n")
    outline = md.parse_outline(
        lines,
        md.SECTIONS[type_],
        stated_title=get_stated_title(header),
        has_links="supersedes" in header.values,
    )
    first_line = text.count("\n", 0, header.body_start) + 1
    return _RecordDraft(fields, extra, lines, outline, first_line, header, problems)


def _get_type(path: str) -> str:
    public_path = path.removeprefix(f"{PRIVATE_FOLDER}/")
    folder = public_path.partition("/")[0]
    return TYPE_OF_FOLDER.get(folder, DECISION)


def _add_file_date(draft: _RecordDraft, name: str) -> None:
    date = _FILE_DATE.search(name)
    if date is None:
        return
    year, _, month, day = date.groups()
    draft.fields["created"] = parse_time(f"{year}-{month}-{day}")


def _add_title_and_text(draft: _RecordDraft) -> None:
    fields = draft.fields
    outline = draft.outline
    text = md.parse_text(draft.lines, outline.text_ranges, outline.code_lines)
    title = get_stated_title(draft.header)
    if not title and outline.title:
        title = outline.title.text
    if not title:
        title = _derive_heading(text, str(fields["path"]))
        if text == title:
            text = ""
        draft.add_problem(0, "no-heading", "hint", "no heading (`# ...`)")
    fields["title"] = title
    fields["text"] = text
    if fields["type"] == DECISION:
        _add_decision(draft, title, text)


def _add_decision(draft: _RecordDraft, title: str, text: str) -> None:
    fields = draft.fields
    decision = str(fields.setdefault("decision", title))
    if not fields.get("topic"):
        fields["topic"] = parse_topic(title)
        fields["topic_stated"] = False
        draft.problems.append(Problem("", 1, "no-topic", "hint", "no `topic`; the heading serves"))
    mentions = parse_edges(text)
    if decision != title:
        mentions += parse_edges(decision)
    add_links(fields, "mentions", mentions)


def _derive_heading(text: str, path: str) -> str:
    first_line = get_heading(text)
    if first_line and not first_line.startswith(("#", "<!--", "```", "---", "|")):
        return first_line
    name = path.rpartition("/")[2]
    words = _FILE_NUMBER.sub("", strip_suffix(name))
    return words.replace("-", " ").replace("_", " ").strip()


def _add_sections(draft: _RecordDraft) -> None:
    """Read the known sections of a record of this type."""
    lines = draft.lines
    code_lines = draft.outline.code_lines
    for name, ranges in draft.outline.sections.items():
        if name in _LIST_FIELDS:
            field = _LIST_FIELDS[name]
            draft.fields[field] = md.parse_items(lines, ranges, code_lines)
        elif name in _TEXT_FIELDS:
            field = _TEXT_FIELDS[name]
            text = md.parse_text(lines, ranges, code_lines)
            if text:
                draft.fields[field] = text
        else:
            log = md.parse_outcomes(lines, ranges)
            _add_log(draft, log)


def _add_log(draft: _RecordDraft, log: md.OutcomeLog) -> None:
    """Take the log; its newest entry counts, whatever the header says."""
    if log.unread_lines:
        draft.extra["outcomes"] = [draft.lines[number].strip() for number in log.unread_lines]
    for number in log.unread_lines[:_MAX_UNREAD_LINES]:
        message = "not an entry such as `- 2025-11-25T09:14:03Z failed: reason`"
        draft.add_problem(number, "bad-outcome", "warning", message)
    if not log.entries:
        return
    newest_outcome = log.entries[-1].outcome
    header_outcome = draft.fields.get("outcome")
    if header_outcome is not None and header_outcome != newest_outcome:
        line = draft.header.lines.get("outcome", 1)
        why = f"the newest entry of `## Outcomes` says {newest_outcome}, which counts"
        message = f"outcome is {header_outcome}, but {why}"
        draft.problems.append(Problem("", line, "outcome-differs", "warning", message))
    draft.fields["outcomes"] = log.entries
    draft.fields["outcome"] = newest_outcome


def _add_preamble(draft: _RecordDraft) -> None:
    """Take status, date and links from the body where the header states none."""
    outline = draft.outline
    title_line = outline.title.line if outline.title else -1
    # The line of links below the heading repeats the header.
    skipped_lines = outline.code_lines | {outline.text_start - 1}
    preamble = parse_preamble(draft.lines, skipped_lines, title_line)
    _add_status(draft, preamble.status)
    add_edges(draft.fields, preamble.links)
    if draft.is_undated:
        _add_date(draft, preamble)


def _add_status(draft: _RecordDraft, status: Statement) -> None:
    if not status.text:
        return
    stated = parse_status(status.text)
    header_status = draft.fields.get("status")
    if header_status is None:
        line = draft.first_line + status.line
        draft.problems.extend(apply_status(stated, line, draft.fields))
    elif stated.status not in ("", UNKNOWN, header_status):
        message = f"status is {header_status}, which counts, but the text says {stated.status}"
        draft.add_problem(status.line, "status-differs", "warning", message)


def _add_date(draft: _RecordDraft, preamble: Preamble) -> None:
    date = preamble.date
    created = parse_time(date.text) or find_first_date(date.text)
    if date.text and created is None:
        message = f"not a date: {quote_value(date.text)}"
        draft.add_problem(date.line, "bad-created", "warning", message)
    if created is None:
        created = preamble.changelog_date
    draft.fields["created"] = created


# -- the text of a file ---------------------------------------------------------------------------

_CONFLICT_MARKS = ("<<<<<<<", "|||||||", "=======", ">>>>>>>")
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def _decode_text(data: bytes, problems: list[Problem]) -> str:
    """Return the text of a file with LF line ends; add its faults to `problems`."""
    is_utf16 = data.startswith(_UTF16_MARKS)
    is_valid = not is_utf16 and b"\0" not in data
    try:
        text = data.decode("utf-16" if is_utf16 else "utf-8")
    except UnicodeDecodeError:
        text = data.decode(errors="replace")
        is_valid = False
    text = normalize_line_ends(text.removeprefix("\ufeff"))
    if not is_valid:
        text = text.replace("\0", "\ufffd")
        position = text.find("\ufffd")
        line = text.count("\n", 0, position + 1) + 1
        message = "not UTF-8 (UTF-16, or another encoding)"
        problems.append(Problem("", line, "encoding", "error", message))
    return _keep_first_sides(text, problems) if "<<<<<<<" in text else text


def _keep_first_sides(text: str, problems: list[Problem]) -> str:
    """Read the first side of unresolved merges; blank lines keep the line numbers as they are."""
    lines = text.split("\n")
    code_lines = find_code_lines(lines)
    marks: dict[str, int] = {}  # sign of a mark -> its first line, in the merge opened last
    for number, line in enumerate(lines):
        if not line.startswith(_CONFLICT_MARKS) or number in code_lines:
            continue
        sign = line[0]
        if sign == "<":
            marks = {sign: number}
        elif sign != ">" and marks:
            marks.setdefault(sign, number)
        elif "=" in marks:
            start = marks["<"]
            second_side = marks.get("|", marks["="])
            problems.append(_build_conflict(start, number))
            lines[start] = ""
            for removed in range(second_side, number + 1):
                lines[removed] = ""
            marks = {}
    return "\n".join(lines)


def _build_conflict(start: int, end: int) -> Problem:
    where = f"an unresolved merge conflict, up to line {end + 1}"
    message = f"{where}; the first side is read; {CONFLICT_HINT}"
    return Problem("", start + 1, CONFLICT_CODE, "error", message)


# -- its header -----------------------------------------------------------------------------------


@cache
def _load_handlers() -> Mapping[str, Any]:
    """Return the handlers of python-frontmatter by the kind of header."""
    from frontmatter.default_handlers import (  # noqa: PLC0415 - 12 ms: it imports PyYAML
        BaseHandler,
        JSONHandler,
        YAMLHandler,
    )

    class TomlHandler(BaseHandler):
        def load(self, fm: str) -> dict[str, Any]:
            import tomllib  # noqa: PLC0415 - 5 ms; few files have such a header

            return tomllib.loads(fm)

    # Of the first, only `detect` and `split` are used.
    return {"yaml": YAMLHandler(), "toml": TomlHandler(_TOML), "json": JSONHandler()}


class HeaderSplit(NamedTuple):
    """A header and its place, in characters; `kind` is "" if there is no header."""

    kind: str = ""
    header: str = ""
    start: int = 0  # of the header
    body_start: int = 0  # of the text below it
    problems: tuple[Problem, ...] = ()

    @property
    def end(self) -> int:
        """Where the header ends."""
        return self.start + len(self.header)


def split_header(text: str) -> HeaderSplit:
    """Find the header of `text` (LF line endings, no byte order mark)."""
    blank_lines = _BLANK_LINES.match(text)
    page_start = blank_lines.end() if blank_lines else 0
    page = text[page_start:]
    kind = _find_kind(page)
    if not kind:
        return HeaderSplit()
    handler = _load_handlers()[kind]
    opening = handler.FM_BOUNDARY.match(page)
    try:
        header, body_text = handler.split(page)
    except ValueError:
        if kind == "json":
            return HeaderSplit()  # a brace alone is more likely text than a header
        line = text.count("\n", 0, page_start) + 1
        mark = opening[0].strip()
        message = f"the header opened by `{mark}` is never closed; all is read as text"
        return HeaderSplit(problems=(Problem("", line, "header-unclosed", "error", message),))
    start = page_start
    if kind != "json":
        start += opening.end()
    header = text[start : start + len(header)]  # as written: JSONHandler adds braces
    body_start = len(text) - len(body_text)
    if body_text.startswith("\n"):
        body_start += 1
    return HeaderSplit(kind, header, start, body_start)


def _find_kind(page: str) -> str:
    """Return the kind of the header that opens a text, or ""."""
    if not page.startswith(("-", "+", "{")):  # JSONHandler also takes a closing brace
        return ""
    for kind, handler in _load_handlers().items():
        if handler.detect(page):
            return kind
    return ""


def parse_header(text: str) -> Header:
    """Read the header of `text` (LF line endings, no byte order mark), as far as possible.

    Some tools put a header of their own above another. Both are read; the lower one counts.
    """
    first = _parse_one_header(text)
    if not first.kind:
        return first
    second = _parse_one_header(text[first.body_start :])
    if second.kind != "yaml" or second.problems or HEADER_NAMES.isdisjoint(second.values):
        return first
    values = dict(first.values)
    values.update(second.values)
    lines = dict(first.lines)
    lines_above = text.count("\n", 0, first.body_start)
    for name, line in second.lines.items():
        lines[name] = lines_above + line
    body_start = first.body_start + second.body_start
    return first._replace(values=values, lines=lines, body_start=body_start)


def _parse_one_header(text: str) -> Header:
    split = split_header(text)
    if not split.kind:
        return Header(problems=split.problems, is_intact=not split.problems)
    first_line = text.count("\n", 0, split.start) + 1
    if len(split.header) > MAX_HEADER:
        message = f"the header is larger than {MAX_HEADER // 1024} KiB"
        return _build_unread_header(split, "header-size", message, first_line)
    if split.kind != "yaml":
        return _parse_other_header(split, first_line)
    return parse_yaml(split.header, first_line, split.body_start)


def _build_unread_header(split: HeaderSplit, code: str, message: str, line: int) -> Header:
    problem = Problem("", line, code, "error", message)
    return Header(split.kind, body_start=split.body_start, is_intact=False, problems=(problem,))


def _parse_other_header(split: HeaderSplit, first_line: int) -> Header:
    """Read TOML or JSON by converting it to YAML."""
    text = split.header
    handler = _load_handlers()[split.kind]
    try:
        _refuse_costly_header(text)
        yaml_text = format_flow(handler.load(text))
        entries = parse_entries(yaml_text).entries
    except RecursionError:
        return _build_failed_header(split, "it nests too deeply", first_line)
    except (ValueError, YamlRefusal) as error:
        return _build_failed_header(split, str(error), first_line)
    values: dict[str, Value] = {}
    lines: dict[str, int] = {}
    for entry in entries:
        if entry.key is not None:
            values[entry.key] = entry.value
            position = max(0, text.find(entry.key))
            lines[entry.key] = first_line + text.count("\n", 0, position)
    return Header(split.kind, values, lines, split.body_start)


def _refuse_costly_header(text: str) -> None:
    """Raise ValueError for a TOML or JSON header that would take too long to read."""
    max_dots = max(line.count(".") for line in text.split("\n"))
    if len(text) > _MAX_OTHER_HEADER or max_dots > _MAX_DOTS:
        size = f"{_MAX_OTHER_HEADER // 1024} KiB"
        raise ValueError(f"larger than {size}, or a line has too many dots")


def _build_failed_header(split: HeaderSplit, reason: str, first_line: int) -> Header:
    """Return a header that a library refused; the problem is on the line that `reason` names."""
    line = first_line
    line_match = re.search(r"\bline (\d{1,6})", reason)
    if line_match:
        line += int(line_match[1]) - 1
    kind = split.kind.upper()
    why = reason.partition("\n")[0]
    message = f"the header cannot be read as {kind}: {why}"
    return _build_unread_header(split, f"{split.kind}-syntax", message, line)
