"""When are two names the same, and what id does a name get?"""

from __future__ import annotations

import hashlib
import unicodedata
from typing import Final

__all__ = ["identity", "normalised"]

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
