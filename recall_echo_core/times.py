"""How a moment is written down: whole microseconds since 1970, UTC.

People give moments as `datetime` (naive means UTC), `date` or ISO 8601 text. A bare date is a
whole day: asked about or observed, it means the day's last microsecond; as the start of a
period it means the day's first.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, Literal, TypeAlias

__all__ = ["DAY", "Clock", "Moment", "days_between", "moment", "to_datetime"]

Moment: TypeAlias = datetime | date | str
Clock: TypeAlias = Callable[[], datetime]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
DAY: Final = 86_400_000_000


def moment(value: Moment, name: str = "time", *, day: Literal["start", "end"] = "end") -> int:
    """Return a moment as microseconds since 1970, UTC.

    Args:
        value: `datetime`, `date`, or ISO 8601 text.
        name: What the caller calls this value, for the error message.
        day: Which end of the day a bare date means.

    >>> moment("1970-01-01T00:00:01Z"), moment("1970-01-01", day="start"), moment("1970-01-01")
    (1000000, 0, 86399999999)

    Raises:
        TypeError: not a date, a time or text.
        ValueError: text that is not ISO 8601, or a time outside the years 1 to 9999 of UTC.
    """
    if isinstance(value, str):
        value = _parsed(value, name)
    if isinstance(value, datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        try:
            return (aware.astimezone(UTC) - EPOCH) // MICROSECOND
        except OverflowError as error:
            raise ValueError(f"{name} {value} lies outside the years 1 to 9999 of UTC") from error
    if isinstance(value, date):
        edge = time.min if day == "start" else time.max
        return (datetime.combine(value, edge, UTC) - EPOCH) // MICROSECOND
    raise TypeError(
        f"{name} must be a datetime, a date or ISO 8601 text, not {type(value).__name__}"
    )


def _parsed(text: str, name: str) -> datetime | date:
    stripped = text.strip()
    for parse in (date.fromisoformat, datetime.fromisoformat):
        try:
            return parse(stripped)
        except ValueError:
            continue
    raise ValueError(
        f"{name} {text[:60]!r} is not ISO 8601; write it like 2026-03-14 or 2026-03-14T09:30Z"
    )


def to_datetime(microseconds: int) -> datetime:
    """Return the aware UTC `datetime` of a stored moment.

    >>> to_datetime(0).isoformat()
    '1970-01-01T00:00:00+00:00'
    """
    return EPOCH + timedelta(microseconds=microseconds)


def days_between(earlier: int, later: int) -> float:
    """Return the fractional days from one stored moment to another, negative when reversed.

    >>> days_between(0, DAY // 2)
    0.5
    """
    return (later - earlier) / DAY
