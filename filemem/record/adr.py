"""A new decision for a folder of numbered ADRs: the next number, in the style of the newest record there. Pure.

The text is read again, and its header states what the text does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote

from filemem.record import body as md
from filemem.record.foreign import read_preamble
from filemem.record.identity import ADR_NAME, slug
from filemem.record.keys import KEYS
from filemem.record.lines import escape, tidy
from filemem.record.model import DECISION, Record
from filemem.record.parse import parse, read_header
from filemem.record.render import value_of
from filemem.record.times import format_time

_FIELD = re.compile(
    r"([ \t>*-]{0,4}[*_]{0,2})(status|date)([*_]{0,2}:[*_]{0,2}[ \t]+)\S", re.IGNORECASE
)
_BULLET = re.compile(r"[ \t]*[*-] ")
_BRACKETS = str.maketrans("[]", "()")
_BY_PATH = ("id", "type", "created")  # what a file in such a folder need not state


def write_adr(
    record: Record, newest: str, like: bytes, replaced: Iterable[tuple[str, str]], step: int = 1
) -> tuple[str, bytes]:
    """Return path and bytes of a new decision, `step` numbers after `newest` and in the style of its bytes, `like`;
    `replaced` are titles and paths of what the new one replaces."""
    found = re.fullmatch(ADR_NAME, newest)
    series, digits, apart = found.groups() if found else ("", "0000", "-")
    number = int(digits) + step
    path = f"{series}{number:0{len(digits)}}{apart or '-'}{slug(record.title)}.md"
    text = like.decode(errors="replace").removeprefix("\ufeff").replace("\r\n", "\n")
    header = read_header(text)
    lines = text[header.body :].split("\n")
    parts = md.outline(lines, frozenset())
    keys = {
        name: name.casefold()
        for name in header.values
        if name.casefold() in ("status", "date", "created")
    }
    standing = next((str(header.values[name]) for name, key in keys.items() if key == "status"), "")
    first = re.search(r"[^\W\d_]", standing or read_preamble(lines, parts).status)
    status = record.status if first and first[0].islower() else record.status.capitalize()
    day = format_time(record.created or 0)[:10]
    rows = [f"{name}: {status if key == 'status' else day}" for name, key in keys.items()]
    heading = parts.title.text if parts.title else ""
    count = re.match(
        rf"((?:[A-Za-z]{{2,8}}[- ]?)?)(0*{int(digits)})([\s.:)–—-]{{1,3}})(?=\S)", heading
    )
    title = (
        f"{count[1]}{number:0{len(count[2])}}{count[3]}{record.title}" if count else record.title
    )
    links = {
        quote(at): f"Supersedes [{name.translate(_BRACKETS)}]({quote(at)})" for name, at in replaced
    }
    sections = _sections(record, lines, status, day, [*links.values()], apart=bool(standing))
    body = "\n\n".join((f"# {title}", *sections)) + "\n"
    wanted = record._replace(supersedes=tuple(links) or (() if record.topic_stated else None))
    said = parse(_whole(rows, body), path).record or record
    for key in KEYS:
        if key.name not in _BY_PATH or (key.name == "created" and said.created is None):
            differs = getattr(said, key.field) != getattr(wanted, key.field)
            rows += (
                [f"{key.name}: {value}"]
                if differs and (value := value_of(wanted, key.field, key.shape))
                else []
            )
    return path, _whole(rows, body)


def _whole(header: Sequence[str], body: str) -> bytes:
    return ("\n".join(("---", *header, "---", body)) if header else body).encode()


def _sections(
    record: Record, like: Sequence[str], status: str, day: str, links: list[str], *, apart: bool
) -> Iterable[str]:
    """Yield the parts below the heading; `apart`: the header says the status."""
    first = next((at for at, line in enumerate(like) if line.startswith("## ")), len(like))
    names = [line[3:].strip() for line in like[first:] if line.startswith("## ")]
    fields = [found for line in like[:first] if (found := _FIELD.match(line))]
    lead = [
        f"{one[1]}{one[2]}{one[3]}{status if one[2].casefold() == 'status' else day}"
        for one in fields
    ]
    listed = any(one[2].casefold() == "status" for one in fields)
    bullet = _BULLET.match(lead[0]) if lead else None
    if bullet:
        lead, links = [*lead, *(bullet[0] + link for link in links)], []
    yield from ["\n".join(lead)] if lead else []
    if apart or listed:
        yield from links
    else:
        yield from ("## Status", status, *links)
    why = next(
        (one for one in names if one.casefold().startswith(("context", "background", "problem"))),
        "Context",
    )
    what = next(
        (one for one in names if one.casefold() in ("decision", "decision outcome")),
        md.DECISION_SECTION,
    )
    known = md.SECTIONS[DECISION]
    yield from (f"## {why}", escape(tidy(record.text), known))
    yield from (
        f"## {what}",
        escape(tidy(record.decision), None if what.casefold() in known else known),
    )
    yield from ["## Consequences"] if "Consequences" in names else []
    yield from [f"## {md.REJECTED}\n{md.write_items(record.rejected)}"] if record.rejected else []
    yield from (
        ["\n".join((f"## {md.OUTCOMES}", *map(md.write_outcome, record.outcomes)))]
        if record.outcomes
        else []
    )
