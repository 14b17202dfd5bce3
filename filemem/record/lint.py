"""What one record file shows by itself: how it reads, secrets, characters that nobody sees in review. Pure.

What takes other files, Git or the index is `filemem.memory.check`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

from filemem import secrets
from filemem.record.model import Parsed, Problem, Record
from filemem.record.parse import parse

# What a reader of a diff does not see and a program or model reads. After the Unicode Character Database: Bidi_Control
# (UAX #9) and Default_Ignorable_Code_Point (UAX #44), less what ordinary writing needs: marks of direction, single
# variation selectors, joiners outside Latin text (UTS #51; Indic, Persian, Arabic scripts), the flags of regions.
HIDDEN: Mapping[str, str] = {
    "a direction override": "[\u202a-\u202e]",
    "a direction isolate": "[\u2066-\u2069]",
    "a tag character": "(?<![\U0001f3f4\U000e0020-\U000e007f])[\U000e0000-\U000e007f]",
    "a zero-width space": "[\u200b\u2060\u180e]|(?<!^)\ufeff",
    "a zero-width joiner in a Latin word": "(?<=[A-Za-z0-9])[\u200c\u200d]+(?=[A-Za-z0-9])",
    "an invisible operator or format character": "[\u2061-\u2065\u206a-\u206f\ufff9-\ufffb]",
    "a filler that looks like nothing": "[\u115f\u1160\u3164\uffa0]",
    "several variation selectors in a row": "[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2}",
}  # name -> what it looks like as a pattern

_WORD = re.compile(r"[^\W\d_]+")
_ALIKE = (re.compile("[A-Za-z\u00c0-\u024f]"), re.compile("[\u0400-\u052f]"))  # Latin, Cyrillic


def lint(path: str, data: bytes) -> Parsed:
    """Read one record and say all that is wrong with it alone.

    Args:
        path: relative to the store.
        data: the file's bytes.
    """
    parsed = parse(data, path)
    if parsed.record is None:
        return parsed
    return parsed._replace(problems=(*parsed.problems, *_in_text(path, data, parsed.record)))


def lint_other(path: str, data: bytes) -> tuple[Problem, ...]:
    """Return what is wrong with a file of the store that by its name is no record; arguments as for `lint`."""
    record = parse(data, path).record if path.lower().endswith(".md") else None
    message = f"states the id {record.id}, and by its name it is no record: rename it" if record else ""
    lost = Problem(path, 1, "hidden-record", "warning", message)
    found = _secrets(path, data.decode(errors="replace"), allowed=False)
    return (*([lost] if record and record.id_stated else []), *found)


def _secrets(path: str, text: str, *, allowed: bool) -> Iterator[Problem]:
    level, word = ("hint", "was allowed by its author") if allowed else ("error", "take it out, and revoke it")
    for secret in secrets.find(text):
        yield Problem(path, secret.line, "secret", level, f"this looks like a secret ({secret.kind}): {word}")


def _in_text(path: str, data: bytes, record: Record) -> Iterator[Problem]:
    text = data.decode(errors="replace")
    yield from _secrets(path, text, allowed=record.secrets_allowed)
    if text.isascii():
        return
    if mixed := _mixed(record.topic):
        line = next((n for n, row in enumerate(text.splitlines(), 1) if row.startswith("topic:")), 1)
        message = (
            f"the topic's word {mixed} mixes Latin and Cyrillic letters, which look alike: it may pass for another"
        )
        yield Problem(path, line, "mixed-script", "warning", message)
    for number, row in enumerate(text.splitlines(), 1):
        if not row.isascii() and (found := hidden(row)):
            yield Problem(path, number, "hidden-character", "warning", f"holds {found}, which nobody sees in review")


def hidden(row: str) -> str:
    """Return the first kind of hidden character in a line, or ""."""
    return next((name for name, pattern in HIDDEN.items() if _compiled(pattern).search(row)), "")


def _mixed(topic: str) -> str:
    """The first word of a topic that looks like another: of two alphabets that share letter shapes (UTS #39)."""
    return next((word for word in _WORD.findall(topic) if all(script.search(word) for script in _ALIKE)), "")


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
