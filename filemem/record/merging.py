"""Merging two versions of a record that come from one: what either side changed, and the outcomes of both.

Lines merge as in Git. Where both sides appended to the log of outcomes the merge keeps all entries, and `outcome`
follows the newest; anything else that both sides changed is a conflict, and for a person to settle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from filemem.errors import BadInput, Conflict
from filemem.record.amending import amend
from filemem.record.body import OUTCOMES
from filemem.record.document import Document
from filemem.record.header import read_header
from filemem.record.model import Outcome
from filemem.record.outcomes import read_outcomes
from filemem.record.parse import parse

MOST_LINES = 5_000  # of one version; comparing costs their square at worst

_Lines = Sequence[str]
_Run = tuple[_Lines, _Lines, _Lines, int]  # the same place in all three versions, and its first line in theirs


def merge(base: bytes, ours: bytes, theirs: bytes, path: str) -> bytes:
    """Return what both sides made of a file.

    Args:
        base: the version that both come from; empty where each side made the file.
        ours: one side.
        theirs: the other; line numbers in messages are its own.
        path: store-relative, for messages and for the type where the header does not say it.

    Raises:
        Conflict: both changed the same lines (file:line in the message).
    """
    for one, other in ((ours, theirs), (theirs, ours)):
        if (merged := _logged(base, one, other, path)) is not None:
            return merged
    return _following(_woven(base, ours, theirs, path), path)


def _logged(base: bytes, one: bytes, other: bytes, path: str) -> bytes | None:
    """One side with the outcomes that the other added, where that is all that the other did."""
    before, after, beside = (parse(data, path).record for data in (base, other, one))
    if before is None or after is None or beside is None:
        return None
    added = [entry for entry in after.outcomes if entry not in before.outcomes]
    try:
        if _with(base, added, path) == other:
            return _with(one, [entry for entry in added if entry not in beside.outcomes], path)
    except (BadInput, Conflict):
        pass  # not written as we write it: line by line then
    return None


def _with(data: bytes, added: Sequence[Outcome], path: str) -> bytes:
    for entry in added:
        data = amend(data, path, outcome=entry)
    return data


def _woven(base: bytes, ours: bytes, theirs: bytes, path: str) -> bytes:
    """Merge line by line."""
    texts = [[line + end for line, end in Document.of(data).lines] for data in (base, ours, theirs)]
    if max(map(len, texts)) > MOST_LINES:
        raise Conflict(f"{path}:1: changed on both sides, and too long to merge", "keep one side")
    merged: list[str] = []
    for old, one, other, line in _runs(*texts):
        if one == other or other == old:
            merged += one
        elif one == old:
            merged += other
        else:
            merged += _settled(old, one, other, path, line)
    return Document.of(ours)._replace(lines=tuple((text, "") for text in merged)).data()


def _runs(base: _Lines, ours: _Lines, theirs: _Lines) -> Iterator[_Run]:
    """The three versions cut at the lines that all have in common."""
    at = (0, 0, 0)
    for start, stop, one, other in (*_common(base, ours, theirs), (len(base), len(base), len(ours), len(theirs))):
        yield base[at[0] : start], ours[at[1] : one], theirs[at[2] : other], at[2] + 1
        size = stop - start
        yield base[start:stop], ours[one : one + size], theirs[other : other + size], other + 1
        at = stop, one + size, other + size


def _common(base: _Lines, ours: _Lines, theirs: _Lines) -> Iterator[tuple[int, int, int, int]]:
    """Lines of the base, from and up to, that both others have; and where these have them."""
    left, right = (SequenceMatcher(None, base, side, autojunk=False).get_matching_blocks() for side in (ours, theirs))
    i = j = 0
    while i < len(left) and j < len(right):
        one, other = left[i], right[j]
        start, stop = max(one.a, other.a), min(one.a + one.size, other.a + other.size)
        if start < stop:
            yield start, stop, one.b + start - one.a, other.b + start - other.a
        if one.a + one.size < other.a + other.size:
            i += 1
        else:
            j += 1


def _settled(old: _Lines, one: _Lines, other: _Lines, path: str, line: int) -> list[str]:
    """Lines that both sides changed, where these only say what came of the decision."""
    plain = [text.strip() for text in (*old, *one, *other) if text.strip()]
    if all(text.startswith("outcome:") for text in plain):
        return list(one or other)  # the log decides, see `_following`
    if not all(text.casefold() == f"## {OUTCOMES}".casefold() or _entry(text) for text in plain):
        raise Conflict(f"{path}:{line}: both sides changed this", "keep one side")
    known = {text.strip() for text in one}
    end = next((text[len(text.rstrip("\r\n")) :] for text in one if text.endswith(("\r", "\n"))), "\n")
    whole = [text if text.endswith(("\r", "\n")) else text + end for text in one]
    added = [text for text in other if text.strip() and text.strip() not in known]
    return [*whole, *(text if text.endswith(("\r", "\n")) else text + end for text in added)]


def _entry(text: str) -> bool:
    return not read_outcomes([text], [(0, 1)])[1]


def _following(data: bytes, path: str) -> bytes:
    """The file with its `outcome` key as the newest entry of the log says, where it has both."""
    record, stated = parse(data, path).record, read_header(Document.of(data).text()).values.get("outcome")
    if record is None or not record.outcomes or stated is None or stated == record.outcomes[-1].outcome:
        return data
    try:
        return amend(data, path, keys={"outcome": record.outcomes[-1].outcome})
    except (BadInput, Conflict):
        return data  # `check` tells
