"""Set or remove one front matter key in place: comments, order, quotes and line ends of all else stay."""

from __future__ import annotations

import re

from filemem.errors import Conflict
from filemem.record.document import Document
from filemem.record.header import Split, split_header
from filemem.record.keys import KEY_ORDER
from filemem.record.yamlevents import Entry, read_entries
from filemem.record.yamltext import Value, flow, scalar, typed

_COMMENT = re.compile(r"(?:^|\s)#", re.MULTILINE)
_DASH = re.compile(r"[ \t]*-[ \t]*")


def holds(stated: Value | None, wanted: object) -> bool:
    """Tell whether a value as read means the value that was asked for (None: the key is absent)."""
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
        raise Conflict(
            f"{path}: the header is written in {split.kind.upper()}, and only YAML headers are changed in place",
            f"set `{name}` by hand, or rewrite the header as YAML",
        )
    entries, braces = read_entries(text[split.start : split.end])
    if braces:
        raise Conflict(f"{path}: the header is one mapping in braces", "write one `key: value` on each line")
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

    def conflict(self, why: str) -> Conflict:
        """Return the refusal to change this key."""
        return Conflict(f"{self.path}: `{self.name}` {why}", f"set `{self.name}` by hand")

    def refuse_odd_layout(self, entry: Entry) -> None:
        """Raise Conflict unless the key starts its line."""
        line, column = self.place(entry.at)
        if self.document.lines[line][0][:column].strip():
            raise self.conflict("does not start its line")

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
            raise self.conflict("holds comments that the change would remove")
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
            raise self.conflict("holds comments that the change would remove")
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
            raise self.conflict("is not one item on each line")
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
