"""Read and write times. Everywhere else a time is epoch milliseconds, UTC."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from filemem.errors import BadInput

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# How the names of months begin: en, de; fr; es, pt; it.
_MONTHS = (
    ("jan", "ene", "gen"),
    ("feb", "fev", "fév"),
    ("mar", "mär"),
    ("apr", "avr", "abr"),
    ("may", "mai", "mag"),
    ("jun", "juin", "giu"),
    ("jul", "juil", "lug"),
    ("aug", "aoû", "aou", "ago"),
    ("sep", "set"),
    ("oct", "okt", "out", "ott"),
    ("nov",),
    ("dec", "dez", "déc", "dic"),
)
_YEAR = r"(?P<year>\d{4})"
_MONTH_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th|er|\.)?"
_MONTH_NAME = r"(?P<month>[^\W\d_]{3,10})\.?"
# What people write besides ISO 8601.
_DATE_PATTERNS = (
    rf"{_YEAR}[-/.](?P<month>\d{{1,2}})[-/.](?P<day>\d{{1,2}})",
    rf"{_YEAR}[ -]{_MONTH_NAME}[ -]{_MONTH_DAY}",
    rf"{_MONTH_DAY}[ -](?:de )?{_MONTH_NAME},?[ -](?:de )?{_YEAR}",
    rf"{_MONTH_NAME} {_MONTH_DAY},? {_YEAR}",
    rf"(?P<day>\d{{1,2}})[.-](?P<month>\d{{1,2}})[.-]{_YEAR}",
    # Of a day and a month between slashes, one must be above 12: else they may be either.
    rf"(?P<day>1[3-9]|2\d|3[01])/(?P<month>\d{{1,2}})/{_YEAR}",
    rf"(?P<month>\d{{1,2}})/(?P<day>1[3-9]|2\d|3[01])/{_YEAR}",
    rf"{_YEAR} ?[年년] ?(?P<month>\d{{1,2}}) ?[月월] ?(?P<day>\d{{1,2}}) ?[日일]",
)
_YEAR_MONTH = r"(\d{4})-(\d{1,2})"
_WEEK = r"\d{4}-?W\d{2}"
_MAX_LENGTH = 40
_DAY = 86_400_000  # milliseconds
_UNITS = (
    ("year", 365 * _DAY),
    ("month", 30 * _DAY),
    ("day", _DAY),
    ("hour", 3_600_000),
    ("minute", 60_000),
)


def parse_time(text: str) -> int | None:
    """Return the time that a text states in epoch milliseconds, or None.

    A bare date is its first second; a time without an offset is UTC. Besides ISO 8601 the usual
    forms in headers are read: `2023-9-5`, `10 Feb 2023`, `September 20, 2024`, epoch seconds or
    milliseconds.
    """
    if len(text) > _MAX_LENGTH:
        return None
    text = text.strip(" \t\"'<>{}()")
    try:
        time: int | None = _to_milliseconds(datetime.fromisoformat(text))
    except ValueError:
        time = _parse_loose_time(text)
    # An offset can move a time out of the years that can be written again.
    if time is None or not _MIN_TIME <= time <= _MAX_TIME:
        return None
    return time


def find_first_date(text: str) -> int | None:
    """Return the first date in a line of text, in epoch milliseconds, or None."""
    first: re.Match[str] | None = None
    for pattern in _DATE_PATTERNS:
        match = re.search(rf"(?<![\w.-]){pattern}(?![\w-]|\.\d)", text[:200])
        if match and (first is None or match.start() < first.start()):
            first = match
    if first is None:
        return None
    return _parse_day(first)


class TimeSpan(NamedTuple):
    """The first and the last millisecond of a period."""

    first: int
    last: int


def parse_span(text: str) -> TimeSpan | None:
    """Return the period that a text states, or None.

    Besides the forms of `parse_time` that is a week, `2025-W07`, or a month, `2025-02`. A text
    without a time of day means the whole day, week or month.
    """
    stripped = text.strip()
    month = re.fullmatch(_YEAR_MONTH, stripped)
    if month:
        return _build_month_span(int(month[1]), int(month[2]))
    first = parse_time(stripped)
    if first is None:
        return None
    if re.fullmatch(_WEEK, stripped):
        return TimeSpan(first, first + 7 * _DAY - 1)
    if _is_date_only(stripped):
        return TimeSpan(first, first + _DAY - 1)
    return TimeSpan(first, first)


def _build_month_span(year: int, month: int) -> TimeSpan | None:
    next_month_year = year + month // 12
    next_month = month % 12 + 1
    first = parse_time(f"{year:04}-{month:02}-01")
    end = parse_time(f"{next_month_year:04}-{next_month:02}-01")
    if first is None or end is None:
        return None
    return TimeSpan(first, end - 1)


def _is_date_only(text: str) -> bool:
    """Whether a valid time has no time of day."""
    try:
        date.fromisoformat(text)
    except ValueError:
        return any(re.fullmatch(pattern, text) for pattern in _DATE_PATTERNS)
    return True


def _parse_loose_time(text: str) -> int | None:
    """Return epoch seconds or milliseconds, or a date in another form than ISO 8601."""
    if text.isascii() and text.isdigit():
        if len(text) == 10:
            return int(text) * 1000
        if len(text) == 13:
            return int(text)
    for pattern in _DATE_PATTERNS:
        match = re.fullmatch(pattern, text)
        if match:
            return _parse_day(match)
    return None


def _parse_day(match: re.Match[str]) -> int | None:
    year = int(match["year"])
    month = _parse_month(match["month"])
    day = int(match["day"])
    try:
        moment = datetime(year, month, day, tzinfo=UTC)
    except ValueError:
        return None
    return _to_milliseconds(moment)


def _parse_month(text: str) -> int:
    """Return the number of a month by its number or name; 0 for other words."""
    if text.isdigit():
        return int(text)
    name = text.casefold()
    for number, starts in enumerate(_MONTHS, 1):
        if name.startswith(starts):
            return number
    return 0


def _to_milliseconds(moment: datetime) -> int:
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(milliseconds=1)


_MIN_TIME = _to_milliseconds(datetime.min.replace(tzinfo=UTC))
_MAX_TIME = _to_milliseconds(datetime.max.replace(tzinfo=UTC))


def to_datetime(ms: int) -> datetime:
    """Return epoch milliseconds as a UTC datetime. Raises BadInput outside the years 1 to 9999."""
    if not _MIN_TIME <= ms <= _MAX_TIME:
        raise BadInput(
            f"{ms} milliseconds since 1970 is outside the years 1 to 9999",
            "check the clock of the machine",
        )
    return _EPOCH + timedelta(milliseconds=ms)


def format_time(ms: int, *, short: bool = False) -> str:
    """Return epoch milliseconds as `2025-11-20T14:46:40.123Z`; raises as `to_datetime`.

    `short` omits the milliseconds if they are zero.
    """
    moment = to_datetime(ms).replace(tzinfo=None)
    if short and ms % 1000 == 0:
        return moment.isoformat(timespec="seconds") + "Z"
    return moment.isoformat(timespec="milliseconds") + "Z"


def format_age(span: int) -> str:
    """Return a span of milliseconds in the largest unit that it fills, such as `3 days`."""
    for name, unit in _UNITS:
        count = span // unit
        if count == 1:
            return f"1 {name}"
        if count > 1:
            return f"{count} {name}s"
    return "less than a minute"
