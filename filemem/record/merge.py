"""Merge two versions of a record that Git cannot merge because both added outcomes.

If one side only added to the log, its entries are added to the other side. Any other conflict is
left to a person.
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

# The `outcome` key, and the fences of a header that was made for it.
_OUTCOME_HEADER = re.compile("---$|['\"]?outcome['\"]? *:")


def merge_versions(base: bytes, ours: bytes, theirs: bytes, path: str) -> bytes:
    """Return the file with the changes of both sides.

    Raises Conflict, with a line of `theirs`, if both changed more than the outcomes.
    """
    if ours == theirs or theirs == base:
        return ours
    if ours == base:
        return theirs
    for side, other_side in ((ours, theirs), (theirs, ours)):
        added_outcomes = _find_added_outcomes(base, other_side, path)
        if added_outcomes is None:
            continue
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
    their_lines = theirs.splitlines()
    for number, line in enumerate(ours.splitlines()[: len(their_lines)]):
        if line != their_lines[number]:
            return number + 1
    return 1


def _find_added_outcomes(base: bytes, side: bytes, path: str) -> list[Outcome] | None:
    """Return the outcomes that a side added; None if it made any other change."""
    before = parse_record(base, path).record
    after = parse_record(side, path).record
    if before is None or after is None:
        return None
    if _list_other_lines(base) != _list_other_lines(side):
        return None
    if any(entry not in after.outcomes for entry in before.outcomes):
        return None
    return [entry for entry in after.outcomes if entry not in before.outcomes]


def _list_other_lines(data: bytes) -> list[str]:
    """Return the lines of a file that do not state outcomes."""
    other_lines = []
    for untrimmed_line in data.decode(errors="replace").splitlines():
        line = untrimmed_line.strip()
        if line and not _is_outcome_line(line):
            other_lines.append(line)
    return other_lines


def _is_outcome_line(line: str) -> bool:
    if _OUTCOME_HEADER.match(line):
        return True
    if line.casefold() == f"## {OUTCOMES}".casefold():
        return True
    log = parse_outcomes([line], [Range(0, 1)])
    return not log.unread_lines
