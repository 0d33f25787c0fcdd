"""Which version of which text does a vector belong to?

An item's text is named by the event that gave it: when an abstract changes, the new text gets new
vectors, and the old ones still answer questions about the past.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

__all__ = ["KINDS", "Kind", "TextKey", "parse_key", "vector_key"]

Kind: TypeAlias = Literal["entity", "relation", "episode"]
KINDS: Final[tuple[Kind, ...]] = ("entity", "relation", "episode")


class TextKey(msgspec.Struct, frozen=True, order=True):
    """One version of one item's text: the event that gave it, and the item."""

    position: int
    item: bytes
    kind: Kind


def vector_key(position: int, item: bytes, chunk: int) -> str:
    """Return the key of one chunk in a vector index.

    >>> vector_key(10, b"ab", 0)
    '6162.a.0'
    """
    return f"{item.hex()}.{position:x}.{chunk:x}"


def parse_key(key: str) -> tuple[bytes, int]:
    """Return the item and text position that `vector_key` was made from.

    >>> parse_key("6162.a.0")
    (b'ab', 10)
    """
    item, position, _ = key.split(".")
    return bytes.fromhex(item), int(position, 16)
