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
    """a about above after against all also am an and any are aren't as at be because been before
    being below between both but by can can't cannot could couldn't did didn't do does
    doesn't doing don't down during each few for from further had hadn't has hasn't have
    haven't having he he'd he'll he's her here here's hers herself hey hi him himself his
    how how's i i'd i'll i'm i've if in into is isn't it it's its itself just let's me more
    most my myself no nor not now of off oh ok okay on once only or other our ours ourselves
    out over own s same she she'd she'll she's should shouldn't so some such t than that
    that's the their theirs them themselves then there there's these they they'd they'll
    they're they've this those through to too under until up very was wasn't we we'd we'll
    we're we've were weren't what what's when when's where where's which while who who's
    whom why why's will with won't would wouldn't yeah yes you you'd you'll you're you've
    your yours yourself yourselves""".split()
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
