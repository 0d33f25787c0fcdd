"""What may be attached to a stored thing, and how does it come back equal?

Metadata is a mapping of text to JSON values, dates and times included. JSON has no times, so they
are stored under a tag of their own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any, Final

from recall_echo_core.arguments import checked_text

__all__ = ["packed", "unpacked"]

TAG: Final = "$recall_echo"
DEPTH: Final = 32


def packed(metadata: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return metadata as plain JSON values, or say which key cannot be stored.

    >>> packed({"a": None, "b": [1], "when": datetime(2026, 3, 14)})
    {'a': None, 'b': [1], 'when': {'$recall_echo': 'datetime', 'iso': '2026-03-14T00:00:00'}}

    Raises:
        TypeError: a value, named by its path, is of a type that JSON does not have.
        ValueError: a number is not finite or too large, text is not UTF-8, or nesting is too deep.
    """
    if metadata is None:
        return None
    if not isinstance(metadata, Mapping):
        raise TypeError(f"metadata must be a mapping, not {type(metadata).__name__}")
    return _packed_mapping(metadata, "metadata", DEPTH)


def _packed_mapping(value: Mapping[Any, Any], path: str, depth: int) -> dict[str, Any]:
    for key in value:
        if not isinstance(key, str):
            raise TypeError(f"{path} has the key {key!r}; keys must be text")
        if key == TAG:
            raise ValueError(f"{path} uses the key {TAG!r}, which is reserved")
        checked_text(key, f"a key of {path}")
    return {key: _packed(item, f"{path}[{key!r}]", depth - 1) for key, item in value.items()}


def _packed(value: Any, path: str, depth: int) -> Any:
    if depth < 0:
        raise ValueError(f"{path} is nested more than {DEPTH} deep")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return checked_text(value, path)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise ValueError(f"{path} does not fit 64 bits; store it as text")
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{path} is {value}; JSON has no such number")
        return value
    if isinstance(value, (datetime, date)):
        kind = "datetime" if isinstance(value, datetime) else "date"  # also of their subclasses
        return {TAG: kind, "iso": value.isoformat()}
    if isinstance(value, Mapping):
        return _packed_mapping(value, path, depth)
    if isinstance(value, (list, tuple)):
        return [_packed(item, f"{path}[{i}]", depth - 1) for i, item in enumerate(value)]
    raise TypeError(
        f"{path} is a {type(value).__name__}; metadata holds text, numbers, booleans, None,"
        " dates, lists and mappings"
    )


def unpacked(stored: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return metadata as it was given; tuples come back as lists.

    >>> given = {"a": None, "b": [1], "c": {}, "d": datetime(2026, 3, 14)}
    >>> unpacked(packed(given)) == given
    True
    """
    return {key: _unpacked(value) for key, value in (stored or {}).items()}


def _unpacked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpacked(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get(TAG) == "datetime":
        return datetime.fromisoformat(value["iso"])
    if value.get(TAG) == "date":
        return date.fromisoformat(value["iso"])
    return unpacked(value)
