"""What does a question ask: by which words, and whose words is it about?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from recall_echo_core.terms import terms_of

__all__ = ["POOL", "Asked"]

POOL: Final = 200  # candidates by words and by meaning each; 100 costs up to a point of recall

_OWN: Final = re.compile(r"\b(?:i|me|my|mine|myself|we|us|our|ours|i'm|i've|i'd|i'll)\b", re.I)
# "did you recommend", not "can you list".
_YOURS: Final = re.compile(
    r"\b(?:did|had|have|were|was)\s+you\b|\byou\s+\w+ed\b|\byou (?:said|told|gave|made|wrote)\b",
    re.I,
)


class Asked(msgspec.Struct, frozen=True):
    """A question.

    Attributes:
        text: As it is.
        terms: Its terms.
        own: Whether the one who asks asks about what they said themselves.
        yours: Whether it asks what the one who is asked said or did.
    """

    text: str
    terms: Sequence[str]
    own: bool
    yours: bool

    @classmethod
    def of(cls, text: str) -> Asked:
        """Return a question with what there is to know about it."""
        yours = bool(_YOURS.search(text))
        return cls(text, terms_of(text), bool(_OWN.search(text)) and not yours, yours)
