"""What one record file shows by itself: problems, secrets, characters invisible in review. Pure.

What takes other files, Git or the index is `filemem.memory.check`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from filemem import secrets
from filemem.record.lines import hidden_characters, named
from filemem.record.model import Parsed, Problem, Record
from filemem.record.parse import parse

# All but the form feed, which parts pages in old texts.
_CONTROL = re.compile("[\x01-\x08\x0b\x0e-\x1f\x7f-\x84\x86-\x9f]")


def lint(data: bytes, path: str) -> Parsed:
    """Read one record and say all that is wrong with it alone."""
    parsed = parse(data, path)
    return parsed._replace(problems=(*parsed.problems, *in_text(path, data, parsed.record)))


def lint_other(data: bytes, path: str) -> tuple[Problem, ...]:
    """Return what is wrong with a file of the store that by its name is no record.

    Arguments as for `lint`. A file with a NUL byte is no text, such as a picture, and is not read.
    """
    if b"\0" in data:
        return ()
    problems = tuple(_secrets(path, data.decode(errors="replace"), allowed=False))
    record = parse(data, path).record if path.lower().endswith(".md") else None
    if record is None or not record.id_stated:
        return problems
    message = f"states the id {record.id}, and by its name it is no record: rename it"
    return (Problem(path, 1, "hidden-record", "warning", message), *problems)


def _secrets(path: str, text: str, *, allowed: bool) -> Iterator[Problem]:
    level = "hint" if allowed else "error"
    advice = "was allowed by its author" if allowed else "take it out, and revoke it"
    for secret in secrets.find(text):
        message = f"this looks like a secret ({secret.kind}): {advice}"
        yield Problem(path, secret.line, "secret", level, message)


def in_text(path: str, data: bytes, record: Record | None) -> Iterator[Problem]:
    """Yield what the text of a record holds that should not be there."""
    if record is None:
        return
    text = data.decode(errors="replace")
    yield from _secrets(path, text, allowed=record.secrets_allowed)
    control = _CONTROL.search(text)
    if control:
        line = text.count("\n", 0, control.start()) + 1
        message = f"holds the control character U+{ord(control[0]):04X}, which a terminal may obey"
        yield Problem(path, line, "control-character", "warning", message)
    for number, row in enumerate(text.split("\n"), 1):
        hidden = hidden_characters(row)
        if hidden:
            yield Problem(path, number, "hidden-character", "warning", f"holds {named(hidden)}")
