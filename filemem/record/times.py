"""Times are epoch milliseconds, UTC; this module is the only one that knows how they are written."""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import UTC, date, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_YEAR_FIRST = r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})"
_DAY_FIRST = r"(\d{1,2})(?:st|nd|rd|th)?[ -]([A-Za-z]{3,9})\.?,?[ -](\d{4})"
_MONTH_FIRST = r"([A-Za-z]{3,9})\.? (\d{1,2})(?:st|nd|rd|th)?,? (\d{4})"
_YEAR_MONTH = r"(\d{4})-(\d{1,2})"
_WEEK = r"\d{4}-?W\d{2}"
_LONGEST = 40
_DAY = 86_400_000  # milliseconds


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


def parse_span(text: str) -> tuple[int, int] | None:
    """Return the first and the last millisecond of what `text` names, or None.

    Besides what `parse_time` reads that is a week, `2025-W07`, and a month, `2025-02`; without a time of day all of the
    day, week or month is meant.
    """
    plain = text.strip()
    if (
        (found := re.fullmatch(_YEAR_MONTH, plain))
        and not unreal(plain)
        and (first := _date(found[1], int(found[2]), "1"))
    ):
        return first, first + monthrange(int(found[1]), int(found[2]))[1] * _DAY - 1
    at = parse_time(plain)
    if at is None:
        return None
    return at, at + (7 * _DAY if re.fullmatch(_WEEK, plain) else _DAY if _is_day(plain) else 1) - 1


def unreal(text: str) -> str:
    """Say why what is written like a date, year first, is none; "" where that is not why."""
    found = re.match(r"(\d{4})[-/.](\d{1,2})(?:[-/.](\d{1,2}))?(?!\d)", text.strip())
    if not found or int(found[1]) == 0:
        return "there is no year 0" if found else ""
    if not 1 <= int(found[2]) <= 12:
        return f"there is no month {int(found[2])}"
    days = monthrange(int(found[1]), int(found[2]))[1]
    return f"{found[1]}-{int(found[2]):02} has {days} days" if found[3] and not 1 <= int(found[3]) <= days else ""


def _is_day(text: str) -> bool:
    """Whether a time that could be read states no time of day."""
    try:
        return bool(date.fromisoformat(text))
    except ValueError:
        return any(re.fullmatch(form, text) for form in (_YEAR_FIRST, _DAY_FIRST, _MONTH_FIRST))


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
