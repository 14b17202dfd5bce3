"""Edges that agents state in prose: `builds_on: decision_x`, `debates: ...`, `synthesizes: [a, b]`.

The text is a stranger's and up to a megabyte long: every quantifier is bounded or possessive.
"""

from __future__ import annotations

import re

from filemem.record.model import Edge

_ID = r"(?:decision_[a-z0-9_]{1,200}|file_[0-9a-hjkmnp-tv-z]{16})(?![a-z0-9_])"
_STATED = (
    rf"(?<![\w-])(builds_on|debates|synthesizes)(?:\*\*)?[ \t]{{0,8}}:(?:\*\*)?[ \t]{{0,8}}\[?[ \t]{{0,8}}"
    rf"((?:`?{_ID}`?)(?:[ \t]{{0,8}},[ \t]{{0,8}}`?{_ID}`?){{0,50}})"
)
_QUOTE = 200


def edges_in(text: str) -> tuple[Edge, ...]:
    """Return the edges that `text` states, each once, with the line that states it as the reason."""
    if "decision_" not in text and "file_" not in text:
        return ()
    found: dict[tuple[str, str], Edge] = {}
    for match in re.finditer(_STATED, text, re.IGNORECASE):
        kind = match[1].lower()
        for target in re.findall(_ID, match[2]):
            found.setdefault((kind, target), Edge(kind, target, _line(text, match.start(), match.end())))
    return tuple(found.values())


def _line(text: str, start: int, end: int) -> str:
    begin = max(text.rfind("\n", max(0, start - _QUOTE), start) + 1, start - _QUOTE, 0)
    stop = text.find("\n", end, start + _QUOTE)
    line = text[begin : stop if stop >= 0 else max(end, start + _QUOTE)].strip()
    return line[:_QUOTE]
