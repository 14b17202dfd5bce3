"""What one record file shows by itself: problems, secrets, characters invisible in review. Pure.

What takes other files, Git or the index is `filemem.memory.check`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from filemem import secrets
from filemem.record.lines import describe_character, find_hidden_characters
from filemem.record.model import ParsedRecord, Problem, Record
from filemem.record.parse import parse_record

# All but the form feed, which parts pages in old texts.
_CONTROL_CHARACTER = re.compile("[\x01-\x08\x0b\x0e-\x1f\x7f-\x84\x86-\x9f]")


def lint_record(data: bytes, path: str) -> ParsedRecord:
    """Read one record and say all that is wrong with it alone."""
    parsed = parse_record(data, path)
    return parsed._replace(problems=(*parsed.problems, *check_text(path, data, parsed.record)))


def lint_other_file(data: bytes, path: str) -> tuple[Problem, ...]:
    """Return what is wrong with a file of the store that by its name is no record.

    Arguments as for `lint`. A file with a NUL byte is no text, such as a picture, and is not read.
    """
    if b"\0" in data:
        return ()
    problems = tuple(_check_secrets(path, data.decode(errors="replace"), is_allowed=False))
    record = parse_record(data, path).record if path.lower().endswith(".md") else None
    if record is None or not record.id_stated:
        return problems
    message = f"states the id {record.id}, and by its name it is no record: rename it"
    return (Problem(path, 1, "hidden-record", "warning", message), *problems)


def _check_secrets(path: str, text: str, *, is_allowed: bool) -> Iterator[Problem]:
    level = "hint" if is_allowed else "error"
    advice = "was allowed by its author" if is_allowed else "take it out, and revoke it"
    for secret in secrets.find_secrets(text):
        message = f"this looks like a secret ({secret.kind}): {advice}"
        yield Problem(path, secret.line, "secret", level, message)


def check_text(path: str, data: bytes, record: Record | None) -> Iterator[Problem]:
    """Yield what the text of a record holds that should not be there."""
    if record is None:
        return
    text = data.decode(errors="replace")
    yield from _check_secrets(path, text, is_allowed=record.secrets_allowed)
    control = _CONTROL_CHARACTER.search(text)
    if control:
        line = text.count("\n", 0, control.start()) + 1
        message = f"holds the control character U+{ord(control[0]):04X}, which a terminal may obey"
        yield Problem(path, line, "control-character", "warning", message)
    for number, row in enumerate(text.split("\n"), 1):
        found_characters = find_hidden_characters(row)
        if found_characters:
            yield Problem(
                path,
                number,
                "hidden-character",
                "warning",
                f"holds {describe_character(found_characters)}",
            )
