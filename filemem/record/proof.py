"""What is written can be read: bytes that a reader would have trouble with are refused before they reach a file.

The limits of reading are met here and nowhere else, so writing cannot promise what reading does not keep.
"""

from __future__ import annotations

from filemem.errors import BadInput
from filemem.record.header import chunks, split_header
from filemem.record.model import Problem
from filemem.record.parse import parse

_TEXT = "text"  # what the body is called beside the keys


def refuse_unreadable(data: bytes, path: str, before: bytes = b"") -> None:
    """Raise where the bytes of a record, as they would be written, cannot be read again without loss.

    Args:
        data: the bytes of the file.
        path: store-relative, for the type where the header does not say it.
        before: what the file holds now: errors that it has already are not of our making.

    Raises:
        BadInput: says why, and names the field that is largest.
    """
    known = {problem.code for problem in parse(before, path).problems}
    errors = (problem for problem in parse(data, path).problems if problem.level == "error")
    if wrong := next((problem for problem in errors if problem.code not in known), None):
        raise _refusal(wrong, data)


def _refusal(wrong: Problem, data: bytes) -> BadInput:
    text = data.decode(errors="replace").replace("\r\n", "\n")
    split = split_header(text)
    sizes = {chunk.partition(":")[0]: len(chunk) for _, chunk in chunks(text[split.start : split.end])}
    if wrong.code == "file-size" or not sizes:
        sizes[_TEXT] = len(text) - split.body
    field = max(sizes, key=lambda name: sizes[name])
    why = f"{wrong.message.partition(';')[0]}; the largest field is {field}, with {sizes[field]:,} characters"
    return BadInput(
        f"this could not be read again: {why}",
        f"shorten {field}, or split this into several records",
        field=field,
    )
