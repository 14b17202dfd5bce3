"""Characters that a reader does not see and a model reads: which a text holds, where, and how many.

After the Unicode Character Database: Bidi_Control (UAX #9) and Default_Ignorable_Code_Point (UAX #44), less what
ordinary writing needs: marks of direction, single variation selectors, joiners outside Latin text (UTS #51; Indic,
Persian, Arabic scripts), the flags of regions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

HIDDEN: Mapping[str, str] = {
    "a direction override": "[\u202a-\u202e]+",
    "a direction isolate": "[\u2066-\u2069]+",
    "a tag character": "(?<![\U0001f3f4\U000e0020-\U000e007f])[\U000e0000-\U000e007f]+",
    "a zero-width space": "(?:[\u200b\u2060\u180e]|(?<!\\A)\ufeff)+",
    "a zero-width joiner in a Latin word": "(?<=[A-Za-z0-9])[\u200c\u200d]+(?=[A-Za-z0-9])",
    "an invisible operator or format character": "[\u2061-\u2065\u206a-\u206f\ufff9-\ufffb]+",
    "a filler that looks like nothing": "[\u115f\u1160\u3164\uffa0]+",
    "several variation selectors in a row": "[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2,}",
}  # name -> the pattern of a run of them
_ANY = "|".join(f"({pattern})" for pattern in HIDDEN.values())
_NAMES = tuple(HIDDEN)


class Hidden(NamedTuple):
    """One kind of hidden character: how many there are, and where the first stands, counted from 1."""

    name: str
    amount: int
    line: int
    column: int


def hidden_characters(text: str) -> tuple[Hidden, ...]:
    """Return the kinds of hidden characters in a text, each once, in the order in which they first stand there."""
    if text.isascii():
        return ()
    found: dict[int, Hidden] = {}
    for run in re.finditer(_ANY, text):
        kind = run.lastindex or 1
        if kind in found:
            found[kind] = found[kind]._replace(amount=found[kind].amount + len(run[0]))
        else:
            start = run.start()
            line, column = text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)
            found[kind] = Hidden(_NAMES[kind - 1], len(run[0]), line, column)
    return tuple(found.values())
