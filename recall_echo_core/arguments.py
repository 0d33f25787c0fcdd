"""Is what a caller passed usable, and if not, what is wrong with it?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, cast

from recall_echo_core.confidence import CONTEXTS, Context, checked_weight
from recall_echo_core.names import normalised
from recall_echo_core.texts import KINDS, Kind
from recall_echo_core.times import Moment, moment

__all__ = [
    "MAX_NAME",
    "MAX_TEXT",
    "bounds",
    "checked_count",
    "checked_kinds",
    "checked_name",
    "checked_text",
    "context_of",
    "id_of",
    "weight_of",
]

MAX_NAME: Final = 1_000
MAX_TEXT: Final = 1_000_000


def checked_name(name: object, what: str) -> str:
    """Return a name with its outer white space removed, or say what is wrong with it.

    Raises:
        TypeError: not text.
        ValueError: empty, longer than 1,000 characters, or not encodable as UTF-8.
    """
    text = checked_text(name, what, limit=MAX_NAME).strip()
    if not normalised(text):
        raise ValueError(f"{what} is empty; give it a name")
    return text


def checked_text(text: object, what: str, *, limit: int = MAX_TEXT) -> str:
    """Return `text` if it can be stored, or say what is wrong with it.

    Raises:
        TypeError: not text.
        ValueError: longer than `limit` characters, or not encodable as UTF-8.
    """
    if not isinstance(text, str):
        raise TypeError(f"{what} must be text, not {type(text).__name__} ({text!r:.60})")
    if len(text) > limit:
        raise ValueError(f"{what} has {len(text):,} characters; the limit is {limit:,}, split it")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{what} holds half a surrogate pair at index {error.start} and cannot be stored;"
            " decode the source as UTF-8 or UTF-16 first"
        ) from error
    return text


def bounds(start: Moment | None, end: Moment | None) -> tuple[int | None, int | None]:
    """Return the bounds of a period; a bare date is inside it, as first or last day.

    Raises:
        ValueError: it ends before it begins.
    """
    first = None if start is None else moment(start, "valid_from", day="start")
    last = None
    if end is not None:
        last = moment(end, "valid_until", day="end")
        if last != moment(end, "valid_until", day="start"):
            last += 1  # a bare date is inside, and the end of a period is outside
    if first is not None and last is not None and last <= first:
        raise ValueError(f"valid_until {end} must be later than valid_from {start}")
    return first, last


def weight_of(weight: object) -> float:
    """Return a weight in (0, 1], or say what is wrong with it."""
    if isinstance(weight, bool) or not isinstance(weight, (int, float)):
        raise TypeError(f"weight must be a number in (0, 1], not {type(weight).__name__}")
    return float(checked_weight(weight))


def context_of(context: str) -> Context:
    """Return a context, or say which there are."""
    if context not in CONTEXTS:
        raise ValueError(f"context must be one of {', '.join(CONTEXTS)}, not {context!r}")
    return cast("Context", context)


def id_of(text: object, what: str) -> bytes:
    """Return the bytes of an id as this package shows it, or say that it is not one."""
    try:
        id = bytes.fromhex(text)  # type: ignore[arg-type]  # anything else raises TypeError
    except (TypeError, ValueError):
        id = b""
    if len(id) != 16:
        raise ValueError(f"{what} {text!r:.60} is not an id; ids are 32 hexadecimal digits")
    return id


def checked_count(value: object, what: str) -> int:
    """Return how many are wanted, or say what is wrong with it.

    Raises:
        ValueError: not a whole number, or below 1.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{what} must be a whole number of at least 1, not {value!r}")
    return value


def checked_kinds(kinds: Iterable[str] | None) -> tuple[Kind, ...]:
    """Return the kinds wanted, in their usual order; all of them for `None`.

    Raises:
        ValueError: none, or one that there is not.
    """
    if kinds is None:
        return KINDS
    wanted = {kinds} if isinstance(kinds, str) else set(kinds)
    if not wanted or not wanted <= set(KINDS):
        raise ValueError(f"kinds must be some of {', '.join(KINDS)}, not {kinds!r}")
    return tuple(kind for kind in KINDS if kind in wanted)
