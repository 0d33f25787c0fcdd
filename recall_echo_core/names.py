"""When are two names the same, and what id does a name get?"""

from __future__ import annotations

import hashlib
import unicodedata
from typing import Final

__all__ = ["end_id", "identity", "is_named", "named_id", "normalised", "paired_id"]

ID_BYTES: Final = 16


def normalised(name: str) -> str:
    r"""Return the form names are matched by: Unicode NFKC, casefolded, white space collapsed.

    >>> normalised("  Zoë\u00a0 SMITH ") == normalised("zoe\u0308 smith")
    True
    """
    folded = unicodedata.normalize("NFKC", name).casefold()
    return " ".join(unicodedata.normalize("NFKC", folded).split())


def identity(salt: bytes, *parts: str) -> bytes:
    """Return the id of a thing from what names it: keyed BLAKE2b, 16 bytes (RFC 7693).

    The salt is secret to one namespace, so an id says nothing about the name it came from.

    >>> identity(b"salt", "entity", "ann") == identity(b"salt", "entity", "ann")
    True
    >>> identity(b"salt", "entity", "ann") == identity(b"other", "entity", "ann")
    False
    """
    encoded = [part.encode() for part in parts]
    lengths = b"".join(len(part).to_bytes(8, "little") for part in encoded)
    return hashlib.blake2b(lengths + b"".join(encoded), key=salt, digest_size=ID_BYTES).digest()


# Evidence observed at one moment folds by id, so ids of evidence carry three facts in their bits.
# A fresh id begins with the time it was made, whose first bit is 0 until the year 2262.


def named_id(id: bytes) -> bytes:
    """Return an id, made from what a caller calls a statement, marked as such by its first bit."""
    return bytes([id[0] | 0x80]) + id[1:]


def is_named(id: bytes) -> bool:
    """Return whether an id comes from what a caller calls a statement."""
    return id[0] >= 0x80


def paired_id(id: bytes) -> bytes:
    """Return the id of a statement that also ends another value; `end_id` sorts just before it."""
    return id[:-1] + bytes([id[-1] | 1])


def end_id(id: bytes) -> bytes:
    """Return the id of the end that was told with a statement of `paired_id`.

    >>> end_id(paired_id(b"some evidence id")) < paired_id(b"some evidence id")
    True
    """
    return id[:-1] + bytes([id[-1] & 0xFE])
