"""How is a text cut for a model that reads only so many tokens?

At sentence ends where possible, else between words, else between graphemes, so that every part of
a long text has a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regex import Pattern

__all__ = ["chunked"]

# Each cuts finer than the one before: sentences, words, runs of graphemes, graphemes. All keep
# every character. Runs of a quarter of the limit come first, since counting the tokens of one
# grapheme at a time is slow. What extends a grapheme may stand after a blank or a full stop, too.
EXTENDING = r"[\p{GCB=Extend}\p{GCB=ZWJ}\p{GCB=SpacingMark}]"
SENTENCE = rf"(?s).*?(?:(?:[.!?。！？؟।]+[\s\"')\]]*|\n+)(?!{EXTENDING})|$)"
WORD = rf"(?:\S|\s(?={EXTENDING}))*\s*(?!{EXTENDING})"
GRAPHEME = r"\X"


@lru_cache(maxsize=16)
def _compiled(cut: str) -> Pattern[str]:
    import regex

    return regex.compile(cut)


def chunked(text: str, limit: int, count: Callable[[str], int]) -> list[str]:
    """Return the text in order as chunks of at most `limit` tokens each.

    Args:
        text: What to cut.
        limit: Most tokens in a chunk; raising it makes fewer, longer chunks.
        count: Returns how many tokens a text has.

    >>> chunked("One two. Three four. Five.", 4, lambda text: len(text.split()))
    ['One two. Three four. ', 'Five.']
    """
    if count(text) <= limit:
        return [text]
    cuts = SENTENCE, WORD, rf"\X{{1,{max(1, limit // 4)}}}", GRAPHEME
    return [chunk for chunk in _packed(text, limit, count, cuts) if chunk.strip()]


def _packed(
    text: str, limit: int, count: Callable[[str], int], cuts: tuple[str, ...]
) -> Iterator[str]:
    held, size = "", 0
    for piece in _compiled(cuts[0]).findall(text):
        if not piece:
            continue
        more = count(piece)
        if held and size + more > limit:
            yield held
            held, size = "", 0
        if more > limit and len(cuts) > 1:
            yield from _packed(piece, limit, count, cuts[1:])
        else:
            held, size = held + piece, size + more
    if held:
        yield held
