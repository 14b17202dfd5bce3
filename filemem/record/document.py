"""A file as lines that keep their own ends, and edits of its heading, text or log that leave all other bytes alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from filemem.errors import Conflict
from filemem.record import body as md
from filemem.record.body import write_outcome
from filemem.record.foreign import read_preamble, read_status
from filemem.record.keys import stated_title
from filemem.record.lines import Range, escape, tidy, unescape_line
from filemem.record.model import DECISION, Outcome, is_foreign
from filemem.record.parse import parse, read_header

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


_ONE_WORD = re.compile(r"[\W_]*([^\W\d_]+)[\W_]*")
_HASHES = re.compile(r"#{1,6}[ \t]+")
_BULLET = re.compile(r"[ \t]*([-*+])[ \t]")


class _Body(NamedTuple):
    """The body of a document: its lines, its parts, and how many lines stand above it."""

    lines: list[str]
    parts: md.Outline
    above: int


def _body(document: Document, type_: str) -> _Body:
    text = document.text()
    header = read_header(text)
    start = header.body
    lines = text[start:].split("\n")
    if not lines[-1]:
        lines.pop()  # the end of the last line is no line of its own
    above = text.count("\n", 0, start) + (0 < start == len(text) and not text.endswith("\n"))
    return _Body(lines, md.outline(lines, md.SECTIONS[type_], stated=stated_title(header)), above)


def append_outcome(document: Document, outcome: Outcome) -> Document:
    """Return the document with one more line in `## Outcomes`, which is made where it is missing."""
    body = _body(document, DECISION)
    ranges = body.parts.known.get(md.OUTCOMES.casefold())
    if ranges:
        start, stop = ranges[-1]
        last = _last_line(body.lines, start, stop)
        bullet = _BULLET.match(body.lines[last]) if last >= start else None
        at = body.above + last + 1
        return document.splice(at, at, (write_outcome(outcome, bullet[1] if bullet else "-"),))
    last = _last_line(body.lines, 0, len(body.lines))
    at = min(body.above + last + 1, len(document.lines))
    new = (f"## {md.OUTCOMES}", write_outcome(outcome))
    return document.splice(at, at, ("", *new) if last >= 0 else new)


def _last_line(lines: list[str], start: int, stop: int) -> int:
    """Return the last line with text between two lines, or the line before `start`."""
    while stop > start and not lines[stop - 1].strip():
        stop -= 1
    return stop - 1


def set_title(document: Document, type_: str, title: str) -> Document:
    """Return the document with another heading; without one it gets one above its text."""
    body = _body(document, type_)
    old = body.parts.title
    if old is None:
        first = next((n for n, line in enumerate(body.lines) if line.strip()), len(body.lines))
        new = (f"# {title}", "") if first < len(body.lines) else (f"# {title}",)
        at = min(body.above + first, len(document.lines))
        return document.splice(at, at, new)
    if old.text == title:
        return document
    at = body.above + old.line
    hashes = _HASHES.match(body.lines[old.line])
    return document.splice(at, at + 1, (f"{hashes[0] if hashes else '# '}{title}",))


def set_status(document: Document, path: str, status: str) -> Document | None:
    """Return the document with another status where its text states one, None if it states none.

    Args:
        document: the file.
        path: for the type, where the header does not say it, and for messages.
        status: one of ours; written with a capital if the old one was.

    Raises:
        Conflict: the text says more than a word.
    """
    before = parse(document.data(), path).record
    if before is None or not is_foreign(before):
        return None
    body = _body(document, DECISION)
    stated = read_preamble(body.lines, body.parts)
    if not stated.status or read_status(stated.status).status == status:
        return document if stated.status else None
    first, at = stated.status.partition("\n")[0].strip(), body.above + stated.status_line
    word = _ONE_WORD.fullmatch(first)
    if not word:
        raise Conflict(f"{path}:{at + 1}: the text says more than a status: {first[:80]}", "change it there by hand")
    line = body.lines[stated.status_line]
    start = line.rfind(first) + word.start(1)
    written = status.capitalize() if word[1][0].isupper() else status
    return document.splice(at, at + 1, (line[:start] + written + line[start + len(word[1]) :],))


def set_text(document: Document, path: str, type_: str, text: str) -> Document:
    """Return the document with other text; lines that stay the same keep their bytes."""
    text = tidy(text)
    before = parse(document.data(), path).record
    if before is None or before.text == text:
        return document
    body = _body(document, type_)
    parts = body.parts
    at = parts.title.line + 1 if parts.title else 0
    regions = [core for start, stop in parts.text if (core := _core(body.lines, start, stop))]
    home = next((place for place, (_, stop) in enumerate(regions) if stop > at), len(regions))
    if home == len(regions) or not any(start <= regions[home][0] < stop for start, stop in parts.text if start == at):
        regions.insert(home, (at, at))  # the place below the heading, where new text goes
    pieces = [md.read_text(body.lines, [region], parts.code) for region in regions]
    for place in (home, len(regions) - 1):
        piece = _only_change(pieces, place, text)
        if piece is not None and (place == home or piece.startswith("#")):
            changes = {regions[place]: piece}
            break
    else:
        changes = dict.fromkeys(regions, "") | {regions[home]: text}
    for region, piece in sorted(changes.items(), reverse=True):
        lines = _escaped(piece, type_)
        if region == (at, at):
            document = _insert_text(document, body, at, lines)
        else:
            document = _replace_core(document, body, region, lines)
    return document


def _only_change(pieces: list[str], place: int, text: str) -> str | None:
    """Return what one piece must become for the whole to be `text`, None where others must change too."""
    before = "".join(f"{piece}\n\n" for piece in pieces[:place] if piece)
    after = "".join(f"\n\n{piece}" for piece in pieces[place + 1 :] if piece)
    if text == (before + after[2:] if before or after else ""):
        return ""
    if len(text) > len(before) + len(after) and text.startswith(before) and text.endswith(after):
        return text[len(before) : len(text) - len(after)]
    return None


def _core(lines: list[str], start: int, stop: int) -> Range | None:
    """Return a range without its blank first and last lines, None where nothing is left."""
    stop = _last_line(lines, start, stop) + 1
    while start < stop and not lines[start].strip():
        start += 1
    return (start, stop) if start < stop else None


def _escaped(piece: str, type_: str) -> list[tuple[str, str]]:
    """Return the lines of a text, each as it is and as it is written."""
    if not piece:
        return []
    return list(zip(piece.split("\n"), escape(piece, md.SECTIONS[type_]).split("\n"), strict=True))


def _replace_core(document: Document, body: _Body, core: Range, new: list[tuple[str, str]]) -> Document:
    start, stop = core
    if not new:
        while stop < len(body.lines) and not body.lines[stop].strip():
            stop += 1
        return document.splice(body.above + start, body.above + stop, ())
    old = body.lines[start:stop]
    raw = [content for content, _ in document.lines[body.above + start : body.above + stop]]
    contents = [escaped for _, escaped in new]
    # A line that a person wrote another way and that means the same stays as it is.
    most = min(len(old), len(new)) if len(raw) == len(old) else 0
    for place in (*range(most), *range(-1, -most - 1, -1)):
        if unescape_line(old[place]) == new[place][0]:
            contents[place] = raw[place]
    return document.splice_changed(body.above + start, body.above + stop, contents)


def _insert_text(document: Document, body: _Body, at: int, lines: list[tuple[str, str]]) -> Document:
    new = [escaped for _, escaped in lines]
    if not new:
        return document
    if at:
        new.insert(0, "")
    if at < len(body.lines) and body.lines[at].strip():
        new.append("")
    at = min(body.above + at, len(document.lines))
    return document.splice(at, at, new)
