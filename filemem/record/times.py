"""Times are epoch milliseconds, UTC; only this module knows how they are written."""

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
_Y = r"(?P<year>\d{4})"
_D = r"(?P<day>\d{1,2})(?:st|nd|rd|th|er|\.)?"
_NAME = r"(?P<month>[^\W\d_]{3,10})\.?"
# What people write besides ISO 8601.
_DATE_PATTERNS = (
    rf"{_Y}[-/.](?P<month>\d{{1,2}})[-/.](?P<day>\d{{1,2}})",
    rf"{_Y}[ -]{_NAME}[ -]{_D}",
    rf"{_D}[ -](?:de )?{_NAME},?[ -](?:de )?{_Y}",
    rf"{_NAME} {_D},? {_Y}",
    rf"(?P<day>\d{{1,2}})[.-](?P<month>\d{{1,2}})[.-]{_Y}",
    # Of a day and a month between slashes, one must be above 12: else they may be either.
    rf"(?P<day>1[3-9]|2\d|3[01])/(?P<month>\d{{1,2}})/{_Y}",
    rf"(?P<month>\d{{1,2}})/(?P<day>1[3-9]|2\d|3[01])/{_Y}",
    rf"{_Y} ?[年년] ?(?P<month>\d{{1,2}}) ?[月월] ?(?P<day>\d{{1,2}}) ?[日일]",
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
    """Return the moment that `text` names in epoch milliseconds, or None.

    A bare date is its first second; a time without an offset is UTC. Besides ISO 8601 the forms
    that people put into headers are read: `2023-9-5`, `10 Feb 2023`, `September 20, 2024`, epoch
    seconds or milliseconds.
    """
    if len(text) > _MAX_LENGTH:
        return None
    text = text.strip(" \t\"'<>{}()")
    try:
        time: int | None = _to_milliseconds(datetime.fromisoformat(text))
    except ValueError:
        time = _parse_loose_time(text)
    # An offset can carry a time out of the years that can be shown again.
    return time if time is not None and _MIN_TIME <= time <= _MAX_TIME else None


def find_first_date(text: str) -> int | None:
    """Return the first day that a line of text names, in epoch milliseconds, or None."""
    matches = (
        re.search(rf"(?<![\w.-]){form}(?![\w-]|\.\d)", text[:200]) for form in _DATE_PATTERNS
    )
    first = min(filter(None, matches), key=re.Match.start, default=None)
    return _parse_day(first) if first else None


class TimeSpan(NamedTuple):
    """The first and the last millisecond of a time."""

    first: int
    last: int


def parse_span(text: str) -> TimeSpan | None:
    """Return what `text` names, or None.

    Besides what `parse_time` reads that is a week, `2025-W07`, and a month, `2025-02`; without a
    time of day all of the day, week or month is meant.
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
    return TimeSpan(first, first + _DAY - 1 if _is_date_only(stripped) else first)


def _build_month_span(year: int, month: int) -> TimeSpan | None:
    first = parse_time(f"{year:04}-{month:02}-01")
    next_month = parse_time(f"{year + month // 12:04}-{month % 12 + 1:02}-01")
    return None if first is None or next_month is None else TimeSpan(first, next_month - 1)


def _is_date_only(text: str) -> bool:
    """Whether a time that could be read states no time of day."""
    try:
        return bool(date.fromisoformat(text))
    except ValueError:
        return any(re.fullmatch(form, text) for form in _DATE_PATTERNS)


def _parse_loose_time(text: str) -> int | None:
    if text.isascii() and text.isdigit() and len(text) in (10, 13):
        return int(text) * (1000 if len(text) == 10 else 1)
    date = next(filter(None, (re.fullmatch(form, text) for form in _DATE_PATTERNS)), None)
    return _parse_day(date) if date else None


def _parse_day(match: re.Match[str]) -> int | None:
    name = match["month"].casefold()
    month_numbers = (at for at, starts in enumerate(_MONTHS, 1) if name.startswith(starts))
    month = int(name) if name.isdigit() else next(month_numbers, 0)
    try:
        return _to_milliseconds(datetime(int(match["year"]), month, int(match["day"]), tzinfo=UTC))
    except ValueError:
        return None


def _to_milliseconds(moment: datetime) -> int:
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(milliseconds=1)


_MIN_TIME = _to_milliseconds(datetime.min.replace(tzinfo=UTC))
_MAX_TIME = _to_milliseconds(datetime.max.replace(tzinfo=UTC))


def to_datetime(ms: int) -> datetime:
    """Epoch milliseconds as an aware UTC datetime; BadInput outside the years 1 to 9999."""
    if not _MIN_TIME <= ms <= _MAX_TIME:
        raise BadInput(
            f"{ms} milliseconds since 1970 is outside the years 1 to 9999",
            "check the clock of the machine",
        )
    return _EPOCH + timedelta(milliseconds=ms)


def format_time(ms: int, *, short: bool = False) -> str:
    """Return epoch milliseconds as `2025-11-20T14:46:40.123Z`; raises as `moment`.

    `short`: without a fraction of zero.
    """
    timespec = "seconds" if short and not ms % 1000 else "milliseconds"
    return to_datetime(ms).replace(tzinfo=None).isoformat(timespec=timespec) + "Z"


def format_age(span: int) -> str:
    """Return a span of milliseconds in the largest unit that it fills, such as `3 days`."""
    for name, unit in _UNITS:
        if span >= unit:
            count = span // unit
            return f"{count} {name}{'' if count == 1 else 's'}"
    return "less than a minute"
