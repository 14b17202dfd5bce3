"""Check one record file: problems, secrets, characters invisible in review. Pure.

`filemem.memory.check` has the checks that need other files, Git or the index.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from filemem import secrets
from filemem.record.lines import describe_character, find_hidden_characters
from filemem.record.model import ParsedRecord, Problem, Record
from filemem.record.parse import parse_record

# Without the form feed, which separates pages in old texts.
_CONTROL_CHARACTER = re.compile("[\x01-\x08\x0b\x0e-\x1f\x7f-\x84\x86-\x9f]")


def lint_record(data: bytes, path: str) -> ParsedRecord:
    """Read one record and find all problems in the file."""
    parsed = parse_record(data, path)
    text_problems = check_text(path, data, parsed.record)
    return parsed._replace(problems=(*parsed.problems, *text_problems))


def lint_other_file(data: bytes, path: str) -> tuple[Problem, ...]:
    """Return the problems of a file in the store that is not a record by its name.

    A file with a NUL byte, such as a picture, is not read.
    """
    if b"\0" in data:
        return ()
    text = data.decode(errors="replace")
    problems = tuple(_check_secrets(path, text, is_allowed=False))
    if not path.lower().endswith(".md"):
        return problems
    record = parse_record(data, path).record
    if record is None or not record.id_stated:
        return problems
    message = f"states the id {record.id}, and by its name it is no record: rename it"
    return (Problem(path, 1, "hidden-record", "warning", message), *problems)


def _check_secrets(path: str, text: str, *, is_allowed: bool) -> Iterator[Problem]:
    level = "error"
    advice = "take it out, and revoke it"
    if is_allowed:
        level = "hint"
        advice = "was allowed by its author"
    for secret in secrets.find_secrets(text):
        message = f"this looks like a secret ({secret.kind}): {advice}"
        yield Problem(path, secret.line, "secret", level, message)


def check_text(path: str, data: bytes, record: Record | None) -> Iterator[Problem]:
    """Yield secrets and invisible characters in the text of a record."""
    if record is None:
        return
    text = data.decode(errors="replace")
    yield from _check_secrets(path, text, is_allowed=record.secrets_allowed)
    control = _CONTROL_CHARACTER.search(text)
    if control:
        line = text.count("\n", 0, control.start()) + 1
        code_point = ord(control[0])
        message = f"holds the control character U+{code_point:04X}, which a terminal may obey"
        yield Problem(path, line, "control-character", "warning", message)
    for line, row in enumerate(text.split("\n"), 1):
        characters = find_hidden_characters(row)
        if characters:
            message = f"holds {describe_character(characters)}"
            yield Problem(path, line, "hidden-character", "warning", message)
