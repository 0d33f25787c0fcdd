"""Whose memory is a call about?

One engine serves many users: what a framework passes along with a call names the user, and each
user has a namespace. Nothing is kept between calls, so two users never meet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from recall_echo_core import Memory

__all__ = ["NobodyNamed", "memory_of", "named_in"]


class NobodyNamed(ValueError):
    """A call does not say whose memory it is about, and has to."""


def memory_of(memory: Memory, key: str, *places: object, required: bool = False) -> Memory:
    """Return the namespace that the first of some places names, else the memory itself.

    Args:
        memory: Any namespace of the store.
        key: What the places call the user's id, such as `user_id`.
        places: Mappings, or objects with attributes; `None` names nobody.
        required: Whether naming nobody is an error, instead of meaning `memory` itself.

    Raises:
        NobodyNamed: nobody is named though somebody has to be; a `ValueError`.
        ValueError: somebody is named by an empty text.
        TypeError: the id is neither text nor a number.
    """
    for place in places:
        named = named_in(place, key)
        if named is not None:
            return _namespace(memory, key, named)
    if required:
        raise NobodyNamed(
            f"no {key}: this memory belongs to one user each, so every call has to say whose."
            f' Pass it along, as in config={{"configurable": {{"{key}": "alice"}}}}'
        )
    return memory


def named_in(place: object, key: str) -> object:
    """Return what a mapping or an object says under a key; `None` if it says nothing."""
    return place.get(key) if isinstance(place, Mapping) else getattr(place, key, None)


def _namespace(memory: Memory, key: str, named: object) -> Memory:
    if isinstance(named, bool) or not isinstance(named, str | int | UUID):
        raise TypeError(f"{key} must be text or a number, not {named!r:.60}")
    name = str.__str__(named) if isinstance(named, str) else str(named)  # also of an enum
    if not name.strip():
        raise ValueError(f"{key} is empty; leave it out, or say who it is")
    return memory if name == memory.name else memory.namespace(name)
