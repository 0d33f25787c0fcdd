"""Which terms has a text, and which names does it mention?

Plain and for English on purpose: the yardstick has its own, so that what it shares with the house
is the formula only. Stems are Snowball's English ones (PyStemmer).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING

import Stemmer

if TYPE_CHECKING:
    from recall_quality_parts.sets import Unit

STOP = frozenset(
    """a about above after again against all also am an and any are aren't as at be because been
    before being below between both but by can can't cannot could couldn't d did didn't do does
    doesn't doing don't down during each few for from further had hadn't has hasn't have haven't
    having he he's her here here's hers herself him himself his how how's i i'd i'll i'm i've if in
    into is isn't it it's its itself just ll m me more most my myself no nor not now of off on once
    only or other our ours ourselves out over own re s same she she's should so some such t than
    that that's the their theirs them themselves then there there's these they they'd they'll
    they're they've this those through to too under until up us ve very was wasn't we we'd we'll
    we're we've were weren't what what's when where where's which while who who's whom why will with
    won't would wouldn't you you'd you'll you're you've your yours yourself yourselves yeah yes ok
    okay oh hey hi""".split()
)
# Words that ask rather than name: they stand in questions, and would find whatever asks.
ASKING = frozenset(
    """tell know remember recall mention mentioned mentions say said says discuss discussed talk
    talked describe described explain according conversation conversations chat chats question
    answer information details give given list anything something someone please might may shall
    kind type kinds types way ways many much often long ever also recently during across based
    likely previously earlier think happen happened""".split()
)
# What the published baselines leave out: Lucene's short list, and words of one letter.
LUCENE = frozenset(
    """a an and are as at be but by for if in into is it no not of on or such that the their then
    there these they this to was will with""".split()
)
FIRST_PERSON = frozenset(
    "i me my mine myself i'm i've i'd i'll we us our ours ourselves we're we've we'd we'll".split()
)
# "did you recommend", "you suggested"; not "can you list", "could you tell me".
ASKS_YOU = re.compile(
    r"\b(?:did|had|have|were|was)\s+you\b|\byou\s+(?:\w+ed|said|told|gave|made|wrote|found|chose)\b"
)
WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
LONG_WORD = re.compile(r"\b\w\w+\b")
NAME = re.compile(r"[A-Z][\w'’-]*(?:\s+[A-Z][\w'’-]*)*")

_stemmer = Stemmer.Stemmer("english")


@cache
def stem(word: str) -> str:
    return str(_stemmer.stemWord(word))


def words_of(text: str) -> list[str]:
    return WORD.findall(text.lower().replace("’", "'"))


def terms_of(text: str, *, asks: bool = False) -> list[str]:
    """Return the stems of a text without function words; of a question, without asking ones."""
    left_out = STOP | ASKING if asks else STOP
    return [stem(word) for word in words_of(text) if word not in left_out]


def baseline_terms(text: str) -> list[str]:
    """Return the terms of a text as the published baselines have them."""
    return [stem(word) for word in LONG_WORD.findall(text.lower()) if word not in LUCENE]


def dated(unit: Unit) -> str:
    """Return what is indexed by words: the date in words, the speaker, the text."""
    if unit.iso is None:
        return unit.said
    return f"{datetime.fromisoformat(unit.iso):%d %B %Y} {unit.said}"


def mentions_of(text: str) -> Iterator[str]:
    """Yield names: the heading, when the first line is one, and runs of capitalised words."""
    head, _, rest = text.partition("\n")
    if rest and len(head) <= 80 and not head.endswith((".", "!", "?", ":")):
        yield head.strip().lower()
    for name in NAME.findall(rest or head):
        words = name.lower().strip(" .'’-").removesuffix("'s").removesuffix("’s").split()
        while words and words[0] in STOP:
            del words[0]
        if words:
            yield " ".join(words)
