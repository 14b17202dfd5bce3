"""Change the heading, the text or the outcome log of a file in place."""

from __future__ import annotations

import re
from typing import NamedTuple

from filemem.record import body as md
from filemem.record.document import Document
from filemem.record.escapes import escape_text, unescape_line
from filemem.record.foreign import read_preamble, read_status, with_status
from filemem.record.header import read_header
from filemem.record.lines import Range, tidy
from filemem.record.model import DECISION, Outcome
from filemem.record.outcomes import write_outcome
from filemem.record.parse import parse, stated_title

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
    hashes = _HASHES.match(body.lines[old.line]) if old.marked else None
    return document.splice(at, at + 1, (f"{hashes[0] if hashes else ''}{title}",))


def set_status(document: Document, path: str, status: str) -> Document | None:
    """Return the document with another status where its text states one, None where it states none that can be changed.

    Args:
        document: the file.
        path: for the type, where the header does not say it.
        status: one of ours.
    """
    before = parse(document.data(), path).record
    if before is None or before.type != DECISION or before.id_stated:
        return None
    body = _body(document, DECISION)
    stated = read_preamble(body.lines, body.parts)
    known = read_status(stated.status).status if stated.status else status
    if known == status:
        return document if stated.status else None
    first, line = stated.status.partition("\n")[0].strip(), body.lines[stated.status_line]
    said, new = line.rfind(first), with_status(first, status) if known else status.capitalize()
    at = body.above + stated.status_line
    return document.splice(at, at + 1, (line[:said] + new + line[said + len(first) :],)) if new else None


def set_text(document: Document, path: str, type_: str, text: str) -> Document:
    """Return the document with other text; lines that stay the same keep their bytes."""
    text = tidy(text)
    before = parse(document.data(), path).record
    if before is None or before.text == text:
        return document
    kept = _replace_text(document, type_, text, keep_lines=True)
    after = parse(kept.data(), path).record
    if after is not None and after.text == text:
        return kept
    return _replace_text(document, type_, text, keep_lines=False)


def _replace_text(document: Document, type_: str, text: str, *, keep_lines: bool) -> Document:
    body = _body(document, type_)
    parts = body.parts
    at = parts.title.line + parts.title.height if parts.title else 0
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
            document = _replace_core(document, body, region, lines, keep_lines=keep_lines)
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
    return list(zip(piece.split("\n"), escape_text(piece, md.SECTIONS[type_]).split("\n"), strict=True))


def _replace_core(
    document: Document, body: _Body, core: Range, new: list[tuple[str, str]], *, keep_lines: bool
) -> Document:
    start, stop = core
    if not new:
        while stop < len(body.lines) and not body.lines[stop].strip():
            stop += 1
        return document.splice(body.above + start, body.above + stop, ())
    old = body.lines[start:stop]
    contents = [escaped for _, escaped in new]
    if keep_lines:
        # A line that a person wrote another way and that means the same stays as it is.
        for place in (*range(min(len(old), len(new))), *range(-1, -min(len(old), len(new)) - 1, -1)):
            if unescape_line(old[place]) == new[place][0]:
                contents[place] = old[place]
    raw = [content for content, _ in document.lines[body.above + start : body.above + stop]]
    contents = [
        raw[place] if place < len(raw) and place < len(old) and contents[place] == old[place] else contents[place]
        for place in range(len(contents))
    ]
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
