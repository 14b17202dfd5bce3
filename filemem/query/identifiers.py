"""Names of code, taken apart, so that any spelling of a name finds any other.

Rule: what is returned is added beside the text, never put in its place; both the index and a query add it. One
pass, no regular expression that could go back.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_NAME = re.compile(r"\w+(?:[-./:]+\w+)*")
_BREAK = re.compile(r"[\W_]+")
_HASH = re.compile(r"[0-9a-f]{7,}")
_PIECE = re.compile(r"[0-9]+|[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_MAX_PARTS = 12  # of one run without separators; longer ones are hashes or noise, not names
_MAX_RUN = 64  # characters; the same


def split_identifiers(text: str) -> str:
    """Return the words inside compound names of `text`, lower case, each once, separated by spaces.

    `getUserById`, `get_user_by_id` and `get-user-by-id` all give `get user by id getuserbyid`; `HTTPServer2` gives
    `http server 2 httpserver2`; paths and versions give their parts. Plain words give nothing.
    """
    found: dict[str, None] = {}
    for name in dict.fromkeys(_NAME.findall(unicodedata.normalize("NFC", text))):
        if not (name.isalpha() and name[1:].islower()):  # most words of prose leave here
            found.update(dict.fromkeys(_parts(name)))
    return " ".join(found)


@lru_cache(maxsize=4096)  # a project speaks of the same names again and again
def _parts(name: str) -> tuple[str, ...]:
    runs = [run for run in _BREAK.split(name) if run]
    words: list[str] = []
    for run in runs:
        pieces = [run] if len(run) > _MAX_RUN or _HASH.fullmatch(run) else _pieces(run)
        words += pieces if len(pieces) <= _MAX_PARTS else [run]
        if 1 < len(pieces) <= _MAX_PARTS and len(runs) > 1:
            words.append(run)
    if len(words) < 2:
        return ()
    is_plain_name = all(char.isalnum() or char in "_-" for char in name)
    if is_plain_name and len(name) <= _MAX_RUN:
        words.append("".join(runs))
    return tuple(word.lower() for word in words)


def _pieces(run: str) -> list[str]:
    """Cut where lower case meets upper case, letters meet digits, and before the last capital of `HTTPServer`."""
    if run.isascii():
        return _PIECE.findall(run)
    shape = "".join("0" if char.isdigit() else "A" if char.isupper() else "a" for char in run)
    return [run[piece.start() : piece.end()] for piece in _PIECE.finditer(shape)]
