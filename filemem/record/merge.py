"""Merging two versions of a record where Git cannot: both sides added outcomes.

Where one side only added to the log, the other takes these entries over. Anything else is for a person to settle.
"""

from __future__ import annotations

import re
from contextlib import suppress

from filemem.errors import BadInput, Conflict
from filemem.record.amend import amend
from filemem.record.body import OUTCOMES, read_outcomes
from filemem.record.model import Outcome
from filemem.record.parse import parse

_OF_HEADER = re.compile("---$|['\"]?outcome['\"]? *:")  # the key, and a header that was made for it


def merge(base: bytes, ours: bytes, theirs: bytes, path: str) -> bytes:
    """Return what both sides made of a file; Conflict, with a line of `theirs`, if both did more than add outcomes."""
    if ours == theirs or theirs == base:
        return ours
    if ours == base:
        return theirs
    for one, other in ((ours, theirs), (theirs, ours)):
        with suppress(BadInput, Conflict):  # this side cannot be amended
            if (added := _added(base, other, path)) is not None:
                record = parse(one, path).record
                for entry in added:
                    if record is None or entry not in record.outcomes:
                        one = amend(one, path, outcome=entry)  # noqa: PLW2901
                return one
    pairs = zip(ours.splitlines(), theirs.splitlines(), strict=False)
    line = next((number for number, (one, other) in enumerate(pairs, 1) if one != other), 1)
    raise Conflict(f"{path}:{line}: both sides changed this", "keep one side")


def _added(base: bytes, side: bytes, path: str) -> list[Outcome] | None:
    """Return the outcomes that a side added, None if it did anything else."""
    before, after = parse(base, path).record, parse(side, path).record
    if before is None or after is None or _without_log(base) != _without_log(side):
        return None
    kept = set(before.outcomes) <= set(after.outcomes)
    return [entry for entry in after.outcomes if entry not in before.outcomes] if kept else None


def _without_log(data: bytes) -> list[str]:
    """Return the lines of a file that say nothing of outcomes."""

    def is_log(line: str) -> bool:
        return (
            line.casefold() == f"## {OUTCOMES}".casefold() or not read_outcomes([line], [(0, 1)])[1]
        )

    lines = [line.strip() for line in data.decode(errors="replace").splitlines()]
    return [line for line in lines if line and not _OF_HEADER.match(line) and not is_log(line)]
