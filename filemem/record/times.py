"""Times are epoch milliseconds, UTC; this module is the only one that knows how they are written."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_YEAR_FIRST = r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})"
_DAY_FIRST = r"(\d{1,2})(?:st|nd|rd|th)?[ -]([A-Za-z]{3,9})\.?,?[ -](\d{4})"
_MONTH_FIRST = r"([A-Za-z]{3,9})\.? (\d{1,2})(?:st|nd|rd|th)?,? (\d{4})"
_LONGEST = 40


def parse_time(text: str) -> int | None:
    """Return the moment that `text` names in epoch milliseconds, or None.

    A bare date is its first second; a time without an offset is UTC. Besides ISO 8601 the forms that people
    put into headers are read: `2023-9-5`, `10 Feb 2023`, `September 20, 2024`, epoch seconds or milliseconds.
    """
    if len(text) > _LONGEST:
        return None
    text = text.strip(" \t\"'<>{}()")
    try:
        found: int | None = _milliseconds(datetime.fromisoformat(text))
    except ValueError:
        found = _loose(text)
    # An offset can carry a time out of the years that can be shown again.
    return found if found is not None and _FIRST <= found <= _LAST else None


def _loose(text: str) -> int | None:
    if text.isascii() and text.isdigit() and len(text) in (10, 13):
        return int(text) * (1000 if len(text) == 10 else 1)
    if found := re.fullmatch(_YEAR_FIRST, text):
        year, month, day = found.groups()
        return _date(year, int(month), day)
    if found := re.fullmatch(_DAY_FIRST, text):
        day, name, year = found.groups()
        return _date(year, _month(name), day)
    if found := re.fullmatch(_MONTH_FIRST, text):
        name, day, year = found.groups()
        return _date(year, _month(name), day)
    return None


def _month(name: str) -> int:
    short = name[:3].lower()
    return _MONTHS.index(short) + 1 if short in _MONTHS else 0


def _date(year: str, month: int, day: str) -> int | None:
    try:
        return _milliseconds(datetime(int(year), month, int(day), tzinfo=UTC))
    except ValueError:
        return None


def _milliseconds(moment: datetime) -> int:
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(milliseconds=1)


_FIRST = _milliseconds(datetime.min.replace(tzinfo=UTC))
_LAST = _milliseconds(datetime.max.replace(tzinfo=UTC))


def moment(ms: int) -> datetime:
    """Return epoch milliseconds as an aware UTC datetime; OverflowError outside the years 1 to 9999."""
    return _EPOCH + timedelta(milliseconds=ms)


def format_time(ms: int) -> str:
    """Return epoch milliseconds as `2025-11-20T14:46:40.123Z`; OverflowError outside the years 1 to 9999."""
    return moment(ms).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def format_moment(ms: int) -> str:
    """Return epoch milliseconds as outcome logs show them: without the fraction where it is zero."""
    timespec = "milliseconds" if ms % 1000 else "seconds"
    return moment(ms).replace(tzinfo=None).isoformat(timespec=timespec) + "Z"
