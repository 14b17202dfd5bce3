"""What callers hand in, checked: one function for each kind of value, in the same words on every surface.

Rule: nothing else looks at the type or the size of an argument. What is wrong is named by its field and refused.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from filemem.errors import BadInput
from filemem.record import OUTCOMES

LINE, TEXT = 500, 100_000  # characters of a one-line field and of a free text
ITEMS = 200  # entries of a list
LONGEST = 4096  # bytes of a path, as Linux allows
_CONTROL = "[\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]"

_OUTCOME_WORDS = {"failure": "failed", "fail": "failed", "succeeded": "success", **{word: word for word in OUTCOMES}}

Check = Callable[[str, object], object]
_Action = TypeVar("_Action", bound=Callable[..., object])


def outcome(field: str, value: object) -> str:
    """Read an outcome in any case, `failure` for `failed` included.

    Raises:
        BadInput: another word.
    """
    word = _OUTCOME_WORDS.get(str(value).strip().casefold())
    if word is None or not isinstance(value, str):
        raise BadInput(f"{field} must be one of {', '.join(OUTCOMES)}, not {shown(value)}", field=field)
    return word


def text(field: str, value: object, limit: int = TEXT) -> str:
    """Check a free text.

    Raises:
        BadInput: not text, longer than `limit` characters, or holding NUL or other control characters.
    """
    if not isinstance(value, str):
        raise BadInput(f"{field} must be text, not {shown(value)}", field=field)
    clean = value.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    if len(clean) > limit:
        kept, instead = ("line", "") if limit == LINE else ("text", ", or split it into several records")
        instead = ", or split it into several entries" if field.endswith("]") else instead
        told = f"{field} has {len(clean):,} characters; at most {limit:,} are kept in one {kept}"
        raise BadInput(told, f"shorten it{instead}", field=field)
    if not clean.isprintable() and (bad := re.search(_CONTROL, clean)):
        if "\udc80" <= bad[0] <= "\udcff":  # how Python keeps a byte that is not UTF-8
            told = f"{field} is not UTF-8: it holds the byte {ord(bad[0]) - 0xDC00:#04x}"
            raise BadInput(told, "send it as UTF-8", field=field)
        raise BadInput(f"{field} holds the control character U+{ord(bad[0]):04X}", "remove it", field=field)
    return clean


def line(field: str, value: object) -> str:
    """Check a text of one line: runs of white space, newlines included, become one space.

    Raises:
        BadInput: as for `text`, at most LINE characters.
    """
    return " ".join(text(field, value, LINE).split())


def each(field: str, values: object, check: Check = line) -> tuple[Any, ...]:
    """Check a collection of any size, such as ids or paths.

    Args:
        check: of one entry.

    Raises:
        BadInput: as for `check`, or a single text.
    """
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise BadInput(f"{field} must be a list of texts, not {shown(values)}", field=field)
    return tuple(check(f"{field}[{i}]", entry) for i, entry in enumerate(values))


def path(field: str, value: object) -> str:
    """Check the name of a file, which may hold what no other text may.

    Raises:
        BadInput: no file can have it.
    """
    if not isinstance(value, str):
        raise BadInput(f"{field} must be a path, not {shown(value)}", field=field)
    try:
        name = os.fsencode(value)
        if len(name) <= LONGEST and b"\0" not in name:
            return value
    except UnicodeEncodeError:
        pass
    raise BadInput(f"{field}: no file can be named {shown(value)}", "give a path of this system", field=field)


def lines(field: str, value: object) -> tuple[str, ...]:
    """Check a list of one-line texts; a single text counts as a list of one.

    Raises:
        BadInput: as for `line`, or more than ITEMS entries.
    """
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, (list, tuple)):
        raise BadInput(f"{field} must be a list of texts, not {shown(value)}", field=field)
    if len(values) > ITEMS:
        raise BadInput(f"{field} has {len(values):,} entries; at most {ITEMS} are kept", field=field)
    return tuple(item for item in each(field, values) if item)


def words(field: str, value: object) -> tuple[str, ...]:
    """Check a list of words; a single text is split at commas, as it is in a file (docs/format.md).

    Raises:
        BadInput: as for `lines`.
    """
    return lines(field, value.split(",") if isinstance(value, str) else value)


def one_of(words: tuple[str, ...]) -> Check:
    """Return the check of a word in any case that must be one of these."""

    def check(field: str, value: object) -> str:
        word = str(value).strip().casefold()
        if not isinstance(value, str) or word not in words:
            raise BadInput(f"{field} must be one of {', '.join(words)}, not {shown(value)}", field=field)
        return word

    return check


def fraction(field: str, value: object) -> float:
    """Check a number from 0 to 1. Raises BadInput."""
    number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    if not 0 <= number <= 1:
        raise BadInput(f"{field} must be a number between 0 and 1, not {shown(value)}", field=field)
    return float(number)


def whole(field: str, value: object, least: int, most: int) -> int:
    """Check a whole number. Raises BadInput."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        wanted = f"a whole number between {least:,} and {most:,}"
        raise BadInput(f"{field} must be {wanted}, not {shown(value)}", field=field)
    return value


def flag(field: str, value: object) -> bool:
    """Check a truth value; no other value stands for one. Raises BadInput."""
    if not isinstance(value, bool):
        raise BadInput(f"{field} must be true or false, not {shown(value)}", field=field)
    return value


def action(field: str, value: _Action) -> _Action:
    """Check what is to be called later. Raises BadInput."""
    if not callable(value):
        raise BadInput(f"{field} must be a function, not {shown(value)}", field=field)
    return value


def mapping(field: str, value: object) -> Mapping[str, object]:
    """Check a mapping with text keys, of at most TEXT characters. Raises BadInput."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise BadInput(f"{field} must be a mapping with text keys, not {shown(value)}", field=field)
    if len(str(value)) > TEXT:
        raise BadInput(f"{field} is larger than {TEXT:,} characters", field=field)
    return value


def takes(name: str, known: Iterable[str]) -> str:
    """What to say of a name that is not known: which of those that are was probably meant, or all of them."""
    from difflib import get_close_matches  # noqa: PLC0415 - for a wrong word only

    names = list(known)
    near = get_close_matches(name[:LINE], names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(names)}"


def shown(value: object) -> str:
    """A short picture of a wrong value for a message."""
    if value is None:
        return "nothing"
    picture = repr(value) if isinstance(value, (str, int, float, bool)) else type(value).__name__
    return picture if len(picture) <= 60 else picture[:59] + "…"
