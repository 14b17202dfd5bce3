"""What is stored must not steer a terminal: every answer passes here before it is printed.

Line breaks count as such wherever one line is meant: in a topic or a path they could pass for a line of ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# Sets apart: one set that reaches from control characters to surrogates is compiled into a table of 64 KB.
_UNSEEN = r"[\x00-\x08\x0b-\x1f\x7f-\x9f]|[\u2028-\u202e]|[\u2066-\u2069]|[\u180e\u200b\u2060\ufeff]|[\ud800-\udfff]"
_UNSEEN_OR_BREAK = rf"[\t\n]|{_UNSEEN}"
_TEXTS = frozenset(
    (
        "text",
        "reasoning",
        "decision",
        "summary",
        "next_steps",
        "limitation",
        "facts",
        "snippet",
        "message",
        "hint",
        "note",
        "content",
    )
)


def plain(value: Any, name: str = "") -> Any:
    """The same value with control characters shown as escapes; `name` is the key that it stands under."""
    if isinstance(value, str):
        steering, text = (_UNSEEN, value.replace("\r\n", "\n")) if name in _TEXTS else (_UNSEEN_OR_BREAK, value)
        if text.isprintable() or (name in _TEXTS and text.replace("\n", "").isprintable()):
            return text  # nearly every text: the patterns, slow to compile, are not even needed
        return re.sub(steering, lambda found: found[0].encode("unicode_escape").decode(), text)
    if isinstance(value, Mapping):
        return {key: plain(item, key) for key, item in value.items()}
    return [plain(item, name) for item in value] if isinstance(value, (list, tuple)) else value
