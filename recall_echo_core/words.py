"""Which words of a text carry its content?

Words are found by Unicode's default word boundaries (UAX #29) through the `regex` package, so
text in any script has words; scripts written without spaces come apart into single characters.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from recall_echo_core.names import normalised

if TYPE_CHECKING:
    from regex import Pattern

__all__ = ["content_words", "mentions", "shortened"]

# Function words of English. Elsewhere short words pass as content, which costs precision only.
STOP_WORDS: Final = frozenset(
    """a about after all also am an and any are as at be because been before being but by can could
    did do does doing for from further had has have having he her here hers him his how i if in
    into is it its just me more most my no nor not now of off on once only or other our out over
    own s same she should so some such t than that the their them then there these they this those
    through to too under until up very was we were what when where which while who whom why will
    with would you your yes ok okay""".split()
)


# Where a name may begin and end: also inside what counts as one word, such as Ann's or ann_lee.
START: Final = r"(?:\b|(?<![^\W_]))"
END: Final = r"(?:\b|(?![^\W_]))"


@lru_cache(maxsize=1)
def _word() -> Pattern[str]:
    import regex  # 30 ms that opening a memory should not pay

    return regex.compile(r"\b\w.*?\b", flags=regex.WORD)


def content_words(text: str, without: Iterable[str] = ()) -> frozenset[str]:
    """Return the distinct words of a text that are not function words, in normal form.

    >>> sorted(content_words("Where does Ann work? She works at ACME."))
    ['acme', 'ann', 'work', 'works']
    >>> sorted(content_words("Ann works at Acme", without={"ann"}))
    ['acme', 'works']
    """
    found = frozenset(_word().findall(normalised(text)))
    return found - STOP_WORDS - frozenset(without)


def mentions(text: str, names: Iterable[str]) -> bool:
    """Return whether a text names one of some things, as whole words in any case and form.

    >>> mentions("I met ANN  Lee's dog.", ["ann lee"]), mentions("An annual fee", ["Ann"])
    (True, False)
    """
    import regex

    plain = normalised(text)
    return any(
        (name := normalised(given)) in plain
        and regex.search(START + regex.escape(name) + END, plain, flags=regex.WORD) is not None
        for given in names
    )


def shortened(text: str, limit: int) -> str:
    r"""Return at most `limit` characters of a text, cut between graphemes, marked with an ellipsis.

    >>> shortened("a cafe\u0301 in Oslo", 7)
    'a caf…'
    """
    if len(text) <= limit:
        return text
    import regex

    end = 0
    for grapheme in regex.finditer(r"\X", text, endpos=min(len(text), limit + 64)):
        if grapheme.end() > limit - 1:
            break
        end = grapheme.end()
    return text[:end] + "…" if limit > 0 else ""
