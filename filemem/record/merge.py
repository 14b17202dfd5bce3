"""Merge two versions of a record where Git cannot: both sides added outcomes.

If one side only added to the log, the other takes these entries over. Anything else is for a
person to settle.
"""

from __future__ import annotations

import re
from contextlib import suppress

from filemem.errors import BadInput, Conflict
from filemem.record.amend import amend_record
from filemem.record.body import OUTCOMES, parse_outcomes
from filemem.record.lines import Range
from filemem.record.model import Outcome
from filemem.record.parse import parse_record

_HEADER_LINE = re.compile(
    "---$|['\"]?outcome['\"]? *:"
)  # the key, and a header that was made for it


def merge_versions(base: bytes, ours: bytes, theirs: bytes, path: str) -> bytes:
    """Return what both sides made of a file.

    Raises Conflict, with a line of `theirs`, if both did more than add outcomes.
    """
    if ours == theirs or theirs == base:
        return ours
    if ours == base:
        return theirs
    for side, other_side in ((ours, theirs), (theirs, ours)):
        added_outcomes = _find_added_outcomes(base, other_side, path)
        if added_outcomes is not None:
            with suppress(BadInput, Conflict):  # this side cannot be amended
                return _add_outcomes(side, path, added_outcomes)
    line = _find_first_difference(ours, theirs)
    raise Conflict(f"{path}:{line}: both sides changed this", "keep one side")


def _add_outcomes(data: bytes, path: str, outcomes: list[Outcome]) -> bytes:
    record = parse_record(data, path).record
    for entry in outcomes:
        if record is None or entry not in record.outcomes:
            data = amend_record(data, path, outcome=entry)
    return data


def _find_first_difference(ours: bytes, theirs: bytes) -> int:
    """Return the first line that differs, counted from 1."""
    pairs = zip(ours.splitlines(), theirs.splitlines(), strict=False)
    line_numbers = (number for number, (left, right) in enumerate(pairs, 1) if left != right)
    return next(line_numbers, 1)


def _find_added_outcomes(base: bytes, side: bytes, path: str) -> list[Outcome] | None:
    """Return the outcomes that a side added, None if it did anything else."""
    before = parse_record(base, path).record
    after = parse_record(side, path).record
    if before is None or after is None or _list_other_lines(base) != _list_other_lines(side):
        return None
    has_all_old = set(before.outcomes) <= set(after.outcomes)
    return (
        [entry for entry in after.outcomes if entry not in before.outcomes] if has_all_old else None
    )


def _list_other_lines(data: bytes) -> list[str]:
    """Return the lines of a file that say nothing of outcomes."""
    lines = [line.strip() for line in data.decode(errors="replace").splitlines()]
    return [
        line for line in lines if line and not _HEADER_LINE.match(line) and not _is_log_line(line)
    ]


def _is_log_line(line: str) -> bool:
    is_heading = line.casefold() == f"## {OUTCOMES}".casefold()
    return is_heading or not parse_outcomes([line], [Range(0, 1)]).unread_lines
