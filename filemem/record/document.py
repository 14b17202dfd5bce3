"""A file as lines that keep their own ends, so that an edit of some leaves every byte of the others alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n)|([^\r\n]+)")
_BOM = "\ufeff"
_ESCAPED_BYTES = re.compile("[\ud800-\udfff]")


class Document(NamedTuple):
    """The lines of a file, each with its end ("" for a last line without one), and its byte order mark."""

    lines: tuple[tuple[str, str], ...]
    bom: str = ""

    @staticmethod
    def of(data: bytes) -> Document:
        """Split `data`; bytes that are not UTF-8 survive as they are."""
        text = data.decode(errors="surrogateescape")
        bom = _BOM if text.startswith(_BOM) else ""
        lines = tuple((m[1] or m[3] or "", m[2] or "") for m in _LINE.finditer(text, len(bom)))
        return Document(lines, bom)

    def data(self) -> bytes:
        """Return the bytes of the file."""
        text = self.bom + "".join(content + end for content, end in self.lines)
        return text.encode(errors="surrogateescape")

    def text(self) -> str:
        """Return the text as readers see it, character for character: LF line ends, no byte order mark."""
        text = "".join(content + ("\n" if end else "") for content, end in self.lines)
        return _ESCAPED_BYTES.sub("\ufffd", text).replace("\0", "\ufffd")

    def splice(self, start: int, stop: int, contents: Sequence[str]) -> Document:
        """Return the document with lines `start` up to `stop` replaced; new lines end as their neighbours do."""
        old = self.lines[start:stop]
        style = self._style(start, stop)
        new = [
            (content, (old[place][1] if place < len(old) else "") or style) for place, content in enumerate(contents)
        ]
        before = list(self.lines[:start])
        if stop >= len(self.lines) and new:
            if self.lines:
                new[-1] = new[-1][0], self.lines[-1][1]
            if before and not before[-1][1]:
                before[-1] = before[-1][0], style
        return Document((*before, *new, *self.lines[stop:]), self.bom)

    def splice_changed(self, start: int, stop: int, contents: Sequence[str]) -> Document:
        """Return the same as `splice`, with equal lines at both ends of the range left alone, ends and all."""
        old = [content for content, _ in self.lines[start:stop]]
        both = min(len(old), len(contents))
        head = next((n for n in range(both) if old[n] != contents[n]), both)
        tail = next((n for n in range(both - head) if old[-1 - n] != contents[-1 - n]), both - head)
        return self.splice(start + head, stop - tail, contents[head : len(contents) - tail])

    def _style(self, start: int, stop: int) -> str:
        near = (*self.lines[start:stop], *self.lines[max(0, start - 1) : start], *self.lines[stop : stop + 1])
        return next((end for _, end in (*near, *self.lines[:1]) if end), "\n")
