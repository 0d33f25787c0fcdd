"""A moment is a whole number of microseconds, however it was written."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall_echo_core.times import DAY, days_between, moment, to_datetime

MARCH = datetime(2026, 3, 14, 9, 30, tzinfo=UTC)
zones = st.integers(-14 * 60, 14 * 60).map(lambda m: timezone(timedelta(minutes=m)))
inside = st.datetimes(
    min_value=datetime.fromisoformat("0002-01-01"),
    max_value=datetime.fromisoformat("9998-12-31"),
    timezones=st.just(UTC) | zones,
)


@given(inside)
def test_an_aware_time_comes_back_equal(when: datetime) -> None:
    """To the microsecond, in UTC."""
    back = to_datetime(moment(when))

    assert back == when
    assert back.tzinfo is UTC


@given(inside)
def test_text_means_what_the_time_means(when: datetime) -> None:
    """ISO 8601 with an offset, white space around it aside."""
    assert moment(f" {when.isoformat()}\n") == moment(when)


@given(inside)
def test_a_naive_time_is_utc(when: datetime) -> None:
    """Also as text."""
    naive = when.replace(tzinfo=None)

    assert moment(naive) == moment(naive.isoformat()) == moment(naive.replace(tzinfo=UTC))


@given(st.dates())
def test_a_bare_date_is_a_whole_day(day: date) -> None:
    """Its first microsecond or its last, as a date and as text."""
    start, end = moment(day, day="start"), moment(day, day="end")

    assert (end - start, start % DAY) == (DAY - 1, 0)
    assert (moment(day), moment(f"{day}"), moment(f"{day}".replace("-", ""))) == (end, end, end)


@pytest.mark.parametrize(
    "text",
    ["2026-03-14T09:30Z", "2026-03-14 09:30", "2026-03-14T10:30+01:00", "20260314T093000.000000Z"],
)
def test_iso_8601_has_many_spellings(text: str) -> None:
    """They are all the same moment."""
    assert moment(text) == moment(MARCH)


@given(inside, inside)
def test_moments_are_ordered_as_times_are(one: datetime, other: datetime) -> None:
    """Whatever their zones; days between them are fractional and signed."""
    assert (moment(one) < moment(other)) == (one < other)
    days = days_between(moment(one), moment(other))
    assert days == pytest.approx((other - one) / timedelta(days=1), abs=1e-9)


@pytest.mark.parametrize(
    "text", ["", " ", "now", "2026-13-01", "2026-02-30", "14.3.2026", "\ud800", "1"]
)
def test_other_text_is_refused_by_name(text: str) -> None:
    """The message shows how to write it."""
    with pytest.raises(ValueError, match=r"observed_at .* is not ISO 8601; write it like"):
        moment(text, "observed_at")


@pytest.mark.parametrize(
    "value", [None, 0, 1.5, math.nan, True, b"2026-03-14", [2026], timedelta(1)]
)
def test_what_is_no_time_is_refused_by_name(value: object) -> None:
    """Numbers, too: seconds or milliseconds?"""
    with pytest.raises(TypeError, match="observed_at must be a datetime, a date or ISO 8601 text"):
        moment(value, "observed_at")


@pytest.mark.parametrize(
    "value",
    [
        "0001-01-01T00:00+00:01",
        "9999-12-31T23:59:59-14:00",
        datetime.max.replace(tzinfo=timezone(-timedelta(seconds=1))),
    ],
)
def test_what_could_not_be_shown_is_refused(value: object) -> None:
    """A year before 1 or after 9999 in UTC has no `datetime`."""
    with pytest.raises(ValueError, match=r"^at .* lies outside the years 1 to 9999"):
        moment(value, "at")


def test_the_first_and_the_last_moment_can_be_shown() -> None:
    """The edges belong to it."""
    for edge in (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)):
        assert to_datetime(moment(edge)) == edge
