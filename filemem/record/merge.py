"""Merge two versions of a record where Git cannot: both sides added outcomes.

If one side only added to the log, the other takes these entries over. Anything else is for a
person to settle.
"""

from __future__ import annotations

import re
from contextlib import suppress

from filemem.errors import BadInput, Conflict
from filemem.record.amend import amend
from filemem.record.body import OUTCOMES, read_outcomes
from filemem.record.lines import Range
from filemem.record.model import Outcome
from filemem.record.parse import parse

_OF_HEADER = re.compile("---$|['\"]?outcome['\"]? *:")  # the key, and a header that was made for it


def merge(base: bytes, ours: bytes, theirs: bytes, path: str) -> bytes:
    """Return what both sides made of a file.

    Raises Conflict, with a line of `theirs`, if both did more than add outcomes.
    """
    if ours == theirs or theirs == base:
        return ours
    if ours == base:
        return theirs
    for side, other in ((ours, theirs), (theirs, ours)):
        added = _added(base, other, path)
        if added is not None:
            with suppress(BadInput, Conflict):  # this side cannot be amended
                return _with_outcomes(side, path, added)
    line = _first_difference(ours, theirs)
    raise Conflict(f"{path}:{line}: both sides changed this", "keep one side")


def _with_outcomes(data: bytes, path: str, added: list[Outcome]) -> bytes:
    record = parse(data, path).record
    for entry in added:
        if record is None or entry not in record.outcomes:
            data = amend(data, path, outcome=entry)
    return data


def _first_difference(ours: bytes, theirs: bytes) -> int:
    """Return the first line that differs, counted from 1."""
    pairs = zip(ours.splitlines(), theirs.splitlines(), strict=False)
    different = (number for number, (left, right) in enumerate(pairs, 1) if left != right)
    return next(different, 1)


def _added(base: bytes, side: bytes, path: str) -> list[Outcome] | None:
    """Return the outcomes that a side added, None if it did anything else."""
    before = parse(base, path).record
    after = parse(side, path).record
    if before is None or after is None or _without_log(base) != _without_log(side):
        return None
    kept = set(before.outcomes) <= set(after.outcomes)
    return [entry for entry in after.outcomes if entry not in before.outcomes] if kept else None


def _without_log(data: bytes) -> list[str]:
    """Return the lines of a file that say nothing of outcomes."""
    lines = [line.strip() for line in data.decode(errors="replace").splitlines()]
    return [line for line in lines if line and not _OF_HEADER.match(line) and not _is_log(line)]


def _is_log(line: str) -> bool:
    is_heading = line.casefold() == f"## {OUTCOMES}".casefold()
    return is_heading or not read_outcomes([line], [Range(0, 1)]).unread
