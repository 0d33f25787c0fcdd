"""When are two names the same, and what id does a name get?"""

from __future__ import annotations

import hashlib
import unicodedata
from typing import Final

__all__ = ["MAX_NAME", "MAX_TEXT", "checked_name", "checked_text", "identity", "normalised"]

MAX_NAME: Final = 1_000
MAX_TEXT: Final = 1_000_000
ID_BYTES: Final = 16


def normalised(name: str) -> str:
    r"""Return the form names are matched by: Unicode NFKC, casefolded, white space collapsed.

    >>> normalised("  Zoë\\u00a0 SMITH ") == normalised("zoe\\u0308 smith")
    True
    """
    folded = unicodedata.normalize("NFKC", name).casefold()
    return " ".join(unicodedata.normalize("NFKC", folded).split())


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


def identity(salt: bytes, *parts: str) -> bytes:
    """Return the id of a thing from what names it: keyed BLAKE2b, 16 bytes (RFC 7693).

    The salt is secret to one namespace, so an id says nothing about the name it came from.

    >>> identity(b"salt", "entity", "ann") == identity(b"salt", "entity", "ann")
    True
    >>> identity(b"salt", "entity", "ann") == identity(b"other", "entity", "ann")
    False
    """
    digest = hashlib.blake2b(key=salt, digest_size=ID_BYTES)
    for part in parts:
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(encoded)
    return digest.digest()
