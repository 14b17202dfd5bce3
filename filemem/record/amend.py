"""Change some values of an existing file and leave every other byte as it is.

The result is proved before it is returned: it is read again, and what was asked for must be the only
difference. Where that cannot be had, the answer is an error that says why, never a rewritten file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from filemem.errors import BadInput, Conflict
from filemem.record.body import tidy_outcomes
from filemem.record.document import Document, append_outcome, set_status, set_text, set_title
from filemem.record.keys import ALIASES, KEY_BY_NAME, KEY_ORDER, TITLE, stated_title
from filemem.record.lines import MAX_FILE, WAY_OUT, conflicts, one_line, tidy
from filemem.record.model import DECISION, Outcome, Record
from filemem.record.parse import Split, is_wide, parse, read_header, split_header
from filemem.record.render import refuse_unreadable
from filemem.record.yaml import Entry, Value, flow, read_entries, scalar, typed

_ALSO_CHANGES: Mapping[str, frozenset[str]] = {
    "topic": frozenset(("topic_stated",)),
    "id": frozenset(("id_stated",)),
    "status": frozenset(("superseded_by", "supersedes")),
    TITLE.name: frozenset(("title", "topic", "decision", "mentions", "text")),
}
_IN_TEXT = frozenset(("status",))  # what a file without an id may state in its text as well as in its header
_NO_KEYS: Mapping[str, object] = {}


def amend(
    data: bytes,
    path: str,
    *,
    keys: Mapping[str, object] = _NO_KEYS,
    outcome: Outcome | None = None,
    title: str | None = None,
    text: str | None = None,
) -> bytes:
    """Return the bytes of a file with some values changed.

    Args:
        data: the file as it is.
        path: store-relative, for messages and for the type where the header does not say it.
        keys: front matter key -> its new value (text, number, list of text, mapping); None removes the key.
        outcome: an entry to add to the log; the `outcome` key follows the newest entry.
        title: the new heading.
        text: the new text below the heading, without the known sections.

    Raises:
        BadInput: the file is broken (file:line in the message) or would be; the request is empty or of the wrong type.
        Conflict: it cannot be done without touching other lines.
    """
    document = Document.of(data)
    _refuse_broken(document, data, path)
    before = parse(data, path).record
    if before is None:
        raise BadInput(f"{path} cannot be read", "correct the file, then try again")
    restated = set_status(document, path, str(keys["status"])) if keys.get("status") and text is None else None
    said = _IN_TEXT if restated else frozenset[str]()
    document = restated or document
    stated = read_header(document.text()).values
    for name, value in keys.items():
        if (name not in said or name in stated) and not (name == "outcome" and outcome):
            document = set_key(document, path, name, value)
    if outcome is not None:
        document = _with_outcome(document, path, before, outcome)
    if title is not None:
        document = _with_title(document, path, before, title)
    if text is not None:
        document = set_text(document, path, before.type, text)
    changed = document.data()
    if changed != data:
        refuse_unreadable(changed, path, data)
        wrong = _unwanted(before, changed, path, keys, outcome, title, text, said)
        if wrong:
            raise Conflict(f"{path}: {wrong}", "edit the file by hand")
    return changed


def _refuse_broken(document: Document, data: bytes, path: str) -> None:
    if len(data) > MAX_FILE:
        raise BadInput(f"{path}: the file is larger than 1 MiB", "split it")
    if is_wide(data):
        raise BadInput(
            f"{path}:1: UTF-16, and only UTF-8 is changed in place", "write the file as UTF-8, then try again"
        )
    text = document.text()
    lines = text.split("\n") if "<<<<<<<" in text else []
    if found := conflicts(lines):
        raise BadInput(
            f"{path}:{found[0][0] + 1}: an unresolved merge conflict", f"{WAY_OUT}, remove the markers, then try again"
        )
    header = read_header(text)
    if not header.sound:
        note = next((note for note in header.notes if note.level == "error"), header.notes[0])
        raise BadInput(f"{path}:{note.line}: {note.message}", "correct the file, then try again")


def _with_outcome(document: Document, path: str, before: Record, outcome: Outcome) -> Document:
    if before.type != DECISION:
        raise BadInput(f"{path} is of type {before.type}; only decisions have outcomes", field="outcome")
    document = append_outcome(document, outcome)
    after = parse(document.data(), path).record
    newest = after.outcome if after else outcome.outcome
    stated = read_header(document.text()).values.get("outcome")
    if stated is not None and before.outcome == newest and "outcome" not in before.extra:
        return document  # the key says it already, perhaps in another spelling
    return set_key(document, path, "outcome", newest)


def _with_title(document: Document, path: str, before: Record, title: str) -> Document:
    title = one_line(title)
    if not title:
        raise BadInput("title must not be empty", field="title")
    if stated_title(read_header(document.text())):
        return set_key(document, path, TITLE.name, title)
    return set_title(document, before.type, title)


# -- the proof ----------------------------------------------------------------------------------------------


def _unwanted(
    before: Record,
    changed: bytes,
    path: str,
    keys: Mapping[str, object],
    outcome: Outcome | None,
    title: str | None,
    text: str | None,
    said: frozenset[str],
) -> str:
    """Return what is wrong with the result, or ""; `said` are keys that the text states."""
    after = parse(changed, path).record
    header = read_header(Document.of(changed).text())
    if after is None or not header.sound:
        return "the change would break the file"
    for name, value in keys.items():
        if name in said and name not in header.values:
            continue
        if not (name == "outcome" and outcome) and not holds(header.values.get(name), value):
            return f"`{name}` cannot be changed in the way it is written"
    if said and after.status != keys["status"]:
        return "the status cannot be changed in the way the text states it"
    if outcome is not None and set(after.outcomes) != {*before.outcomes, *tidy_outcomes([outcome])}:
        return "the outcome cannot be added to `## Outcomes` as it is written"
    if title is not None and after.title != one_line(title):
        return "the heading cannot be changed in the way it is written"
    if text is not None and after.text != tidy(text):
        return "the text cannot be changed in the way it is written"
    allowed = frozenset(_allowed(keys, outcome, title, text)) | ({"text"} if said else set())
    for name in Record._fields:
        if name not in allowed and getattr(before, name) != getattr(after, name):
            return f"the change would alter `{name}` as well"
    touched = {*keys, *ALIASES, "outcome"}
    if {k: v for k, v in before.extra.items() if k not in touched} != {
        k: v for k, v in after.extra.items() if k not in touched
    }:
        return "the change would alter other keys as well"
    return ""


def _allowed(keys: Mapping[str, object], outcome: Outcome | None, title: str | None, text: str | None) -> Iterator[str]:
    yield "extra"
    for name in keys:
        yield KEY_BY_NAME[name].field if name in KEY_BY_NAME else ALIASES.get(name, "extra")
        yield from _ALSO_CHANGES.get(name, ())
    if outcome is not None:
        yield from ("outcome", "outcomes")
    if title is not None:
        yield from ("title", "decision", "topic", "mentions", "text")
    if text is not None:
        yield from ("text", "mentions", "title", "decision", "topic")


# -- one key of the header ----------------------------------------------------------------------------------

_COMMENT = re.compile(r"(?:^|\s)#", re.MULTILINE)
_DASH = re.compile(r"[ \t]*-[ \t]*")


def holds(stated: Value | None, wanted: object) -> bool:
    """Return whether a value as read means the value that was asked for (None: the key is absent)."""
    if wanted is None or stated is None:
        return stated is None and wanted is None
    if isinstance(wanted, str):
        return isinstance(stated, str) and str(stated) == wanted
    if isinstance(wanted, list | tuple):
        return isinstance(stated, list) and stated == [str(item) for item in wanted]
    return typed(stated) == wanted


def set_key(document: Document, path: str, name: str, value: object) -> Document:
    """Return the document with `name` set to `value`, or without it where the value is None."""
    text = document.text()
    split = split_header(text)
    if not split.kind:
        return document if value is None else document.splice(0, 0, ("---", _line(name, value), "---"))
    if split.kind != "yaml":
        line = read_header(text).lines.get(name, text.count("\n", 0, split.start) + 1)
        raise Conflict(
            f"{path}:{line}: the header is written in {split.kind.upper()}, and only YAML headers are changed in place",
            f"set `{name}` by hand there, or rewrite the header as YAML",
        )
    entries, braces = read_entries(text[split.start : split.end])
    if braces:
        line = text.count("\n", 0, split.start) + 2
        raise Conflict(f"{path}:{line}: the header is one mapping in braces", "write one `key: value` on each line")
    edit = _Edit(document, text, split, path, name)
    entry = next((entry for entry in entries if entry.key == name), None)
    if entry is None:
        return document if value is None else edit.insert(entries, value)
    if holds(entry.value, value):
        return document
    edit.refuse_odd_layout(entry)
    if value is None:
        first, last = edit.place(entry.at)[0], edit.place(edit.end(entry))[0]
        return document.splice(first, last + 1, ())
    return edit.change(entry, value)


def _line(name: str, value: object) -> str:
    return f"{scalar(name)}: {flow(value)}"


class _Edit:
    """One change of one header: positions in the header become lines and columns of the document."""

    def __init__(self, document: Document, text: str, split: Split, path: str, name: str) -> None:
        self.document = document
        self.text = text
        self.split = split
        self.path = path
        self.name = name

    def place(self, position: int) -> tuple[int, int]:
        """Return the line and column of a position in the header."""
        at = self.split.start + position
        return self.text.count("\n", 0, at), at - self.text.rfind("\n", 0, at) - 1

    def end(self, entry: Entry) -> int:
        """Return where the value ends; a block scalar's own end is the start of the next line."""
        start = self.split.start
        if entry.style == "scalar":
            kept = self.text[start + entry.start : start + entry.end].rstrip()
            return max(entry.start + len(kept), entry.key_end)
        return entry.end

    def conflict(self, entry: Entry, why: str) -> Conflict:
        """Return the refusal to change this key."""
        where = f"{self.path}:{self.place(entry.at)[0] + 1}"
        return Conflict(f"{where}: `{self.name}` {why}", f"set `{self.name}` there by hand")

    def refuse_odd_layout(self, entry: Entry) -> None:
        """Raise Conflict unless the key starts its line."""
        line, column = self.place(entry.at)
        if self.document.lines[line][0][:column].strip():
            raise self.conflict(entry, "does not start its line")

    def insert(self, entries: list[Entry], value: object) -> Document:
        """Add the key behind the one that comes before it in new files, else at the end of the header."""
        order = KEY_ORDER.get(self.name, len(KEY_ORDER))
        before = [entry for entry in entries if entry.key and KEY_ORDER.get(entry.key, order) < order]
        indent = ""
        if entries:
            content = self.document.lines[self.place(entries[0].at)[0]][0]
            indent = content[: len(content) - len(content.lstrip())]
        if before:
            at = max(self.place(self.end(entry))[0] for entry in before) + 1
        else:
            at = self.text.count("\n", 0, self.split.end)
        return self.document.splice(at, at, (indent + _line(self.name, value),))

    def change(self, entry: Entry, value: object) -> Document:
        """Replace the value of an existing key."""
        if isinstance(value, list | tuple) and value and isinstance(entry.value, list):
            wanted = [str(item) for item in value]
            if entry.style == "block":
                return self._change_block(entry, entry.value, wanted)
            if entry.value and wanted[: len(entry.value)] == entry.value:
                added = "".join(f", {scalar(item)}" for item in wanted[len(entry.value) :])
                return self._replace(entry.items[-1][1], entry.items[-1][1], added)
        if entry.style == "block":
            return self._block_to_line(entry, flow(value))
        span = self.text[self.split.start + entry.start : self.split.start + self.end(entry)]
        if "\n" in span and _COMMENT.search(span if entry.style == "flow" else span.partition("\n")[0]):
            raise self.conflict(entry, "holds comments that the change would remove")
        if entry.start == entry.end:
            return self._replace(self._after_colon(entry), self._after_colon(entry), f" {flow(value)}")
        return self._replace(entry.start, self.end(entry), flow(value))

    def _after_colon(self, entry: Entry) -> int:
        at = self.text.index(":", self.split.start + entry.key_end) + 1
        return at - self.split.start

    def _replace(self, start: int, end: int, new: str) -> Document:
        first, column = self.place(start)
        last, after = self.place(end)
        lines = self.document.lines
        content = lines[first][0][:column] + new + lines[last][0][after:]
        return self.document.splice(first, last + 1, (content,))

    def _block_to_line(self, entry: Entry, new: str) -> Document:
        key_line = self.place(entry.at)[0]
        last = self.place(entry.end)[0]
        below = "\n".join(content for content, _ in self.document.lines[key_line + 1 : last + 1])
        if _COMMENT.search(below):
            raise self.conflict(entry, "holds comments that the change would remove")
        content = self.document.lines[key_line][0]
        column = self.place(self._after_colon(entry))[1]
        return self.document.splice(key_line, last + 1, (f"{content[:column]} {new}{content[column:]}",))

    def _change_block(self, entry: Entry, old: list[Value], wanted: list[str]) -> Document:
        """Keep the lines of items that stay, with their comments; write new items in the same layout."""
        lines = self.document.lines
        starts = [self.place(start)[0] for start, _ in entry.items]
        stops = [self.place(end)[0] + 1 for _, end in entry.items]
        dash = _DASH.match(lines[starts[0]][0])
        if len(set(starts)) < len(starts) or not dash or any(not isinstance(item, str) for item in old):
            raise self.conflict(entry, "is not one item on each line")
        marker = dash[0].rstrip() + " "
        unused = list(range(len(old)))
        contents: list[str] = []
        ends = [*starts[1:], stops[-1]]
        for item in wanted:
            known = next((place for place in unused if old[place] == item), None)
            if known is None:
                contents.append(f"{marker}{scalar(item)}")
                continue
            for dropped in [place for place in unused if place < known]:
                contents += [lines[number][0] for number in range(stops[dropped], ends[dropped])]
                unused.remove(dropped)
            contents += [lines[number][0] for number in range(starts[known], ends[known])]
            unused.remove(known)
        for dropped in unused:
            contents += [lines[number][0] for number in range(stops[dropped], ends[dropped])]
        return self.document.splice_changed(starts[0], stops[-1], contents)
