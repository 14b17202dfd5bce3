"""The outcome log: one line per entry, `- 2025-11-25T09:14:03Z failed: evicts too early under load`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

from filemem.record.lines import Lines, Range, one_line
from filemem.record.model import OUTCOMES, Outcome
from filemem.record.times import format_moment, parse_time

_ENTRY = (
    r"[ \t]*(?:[-*+][ \t]+)?\**(\d{4}-\d{1,2}-\d{1,2}(?:[T ]\d{1,2}:\d{2}[^\s]{0,20})?)\**[ \t]*[:,]?[ \t]*"
    r"\**([A-Za-z]{2,20})\**(?![\w-])[ \t]*(?::[ \t]*|$)?(.*)$"
)
_BULLET = re.compile(r"[ \t]{0,1}[-*+][ \t]")
_WORDS = {
    **{word: word for word in OUTCOMES},
    "failure": "failed",
    "fail": "failed",
    "succeeded": "success",
    "successful": "success",
    "partially": "partial",
    "open": "pending",
}


def parse_outcome(word: str) -> str | None:
    """Return the outcome that a word means (`FAILURE`, `succeeded`, ...), or None."""
    return _WORDS.get(word.strip().casefold())


def tidy_outcomes(log: Iterable[Outcome]) -> tuple[Outcome, ...]:
    """Return a log as it is kept: oldest first, reasons on one line, equal entries once."""
    return in_order([Outcome(entry.at, entry.outcome, one_line(entry.reason)) for entry in log])


def in_order(entries: list[Outcome]) -> tuple[Outcome, ...]:
    """Return entries oldest first. Of equal times the lower line is newer, unless the lines are out of order
    (a union merge of two branches): then the text decides, so that both directions of a merge read the same."""
    entries = list(dict.fromkeys(entries))
    if any(later.at < earlier.at for earlier, later in pairwise(entries)):
        entries.sort()
    return tuple(entries)


def write_outcome(entry: Outcome, bullet: str = "-") -> str:
    """Return the log line of an entry."""
    line = f"{bullet} {format_moment(entry.at)} {entry.outcome}"
    return f"{line}: {reason}" if (reason := one_line(entry.reason)) else line


def read_outcomes(lines: Lines, ranges: Iterable[Range]) -> tuple[tuple[Outcome, ...], tuple[int, ...]]:
    """Return the entries in these ranges, oldest first, and the numbers of the lines that are none."""
    found: list[tuple[Outcome, list[str]]] = []
    unread: list[int] = []
    for start, stop in ranges:
        joins = False
        for number in range(start, stop):
            line = lines[number]
            if not line.strip():
                joins = False
            elif entry := _entry(line):
                found.append((entry, [entry.reason]))
                joins = True
            elif joins and not _BULLET.match(line):
                found[-1][1].append(line.strip())
            else:
                unread.append(number)
                joins = False
    entries = [Outcome(entry.at, entry.outcome, " ".join(parts).strip()) for entry, parts in found]
    return in_order(entries), tuple(unread)


def _entry(line: str) -> Outcome | None:
    match = re.match(_ENTRY, line)
    if not match:
        return None
    at, outcome = parse_time(match[1].replace(" ", "T")), parse_outcome(match[2])
    return None if at is None or outcome is None else Outcome(at, outcome, match[3].strip())
