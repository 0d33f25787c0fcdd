"""By which terms is a text found?

By the words that carry its content, in their plainest form: normalised, without function words,
stemmed by script, names of variables also in parts, Chinese and Japanese in pairs of characters.
A question and a text go the same way, so no language has to be guessed.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from recall_echo_core.names import normalised
from recall_echo_core.words import STOP_WORDS

if TYPE_CHECKING:
    from regex import Pattern
    from Stemmer import Stemmer

__all__ = ["TERMS", "mentions_in", "sentences_in", "terms_of"]

TERMS: Final = 2  # the version of the rules below: what was kept under another is made again
HEADING: Final = 80  # characters; a first line that is no longer, and no sentence, is a name
LONGEST: Final = 64  # characters of a term; what is longer is found by its beginning
# Scripts whose words a Snowball stemmer knows; English for all Latin ones, since a question is too
# short to tell its language, and both sides have to be cut alike.
STEMMERS: Final = {"latin": "english", "cyrillic": "russian"}


@lru_cache(maxsize=1)
def _patterns() -> dict[str, Pattern[str]]:
    import regex  # 30 ms that opening a memory should not pay

    return {
        "token": regex.compile(
            r"[\p{Han}\p{Hiragana}\p{Katakana}]+|\p{Extended_Pictographic}|\b\w.*?\b",
            flags=regex.WORD,
        ),
        "cjk": regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}]"),
        "emoji": regex.compile(r"\p{Extended_Pictographic}"),
        "part": regex.compile(r"\p{Lu}+(?!\p{Ll})|\p{Lu}?\p{Ll}+|\p{Nd}+"),
        "latin": regex.compile(r"^[\p{Latin}\p{Nd}'’._-]+$"),
        "cyrillic": regex.compile(r"^[\p{Cyrillic}]+$"),
        "sentence": regex.compile(r"(?<=[.!?؟।])\s+|(?<=[。！？])|\n+"),
        "mention": regex.compile(r"\p{Lu}[\w'’-]*(?:\s+\p{Lu}[\w'’-]*)*"),
    }


@lru_cache(maxsize=4)
def _stemmer(language: str) -> Stemmer:
    import Stemmer

    return Stemmer.Stemmer(language)


def terms_of(text: str) -> list[str]:
    """Return the terms of a text, in order, as often as they stand in it.

    >>> terms_of("Ann's walking to the user_id 周游世界 🙂")
    ['ann', 'walk', 'user_id', 'user', 'id', '周游', '游世', '世界', '🙂']
    """
    patterns = _patterns()
    found: list[str] = []
    for token in patterns["token"].findall(unicodedata.normalize("NFC", text)):
        if patterns["cjk"].match(token):
            plain = normalised(token)
            found += [plain[i : i + 2] for i in range(max(1, len(plain) - 1))]
        else:
            found += _forms(token)
    spelt = (term.replace("’", "'") for term in found)
    return [_stemmed(term[:LONGEST]) for term in spelt if term and term not in STOP_WORDS]


def mentions_in(text: str) -> Iterator[str]:
    """Yield what a text calls by a name: its heading, and runs of words that begin with a capital.

    >>> list(mentions_in("Then Marie Curie met Ann in Paris."))
    ['marie curie', 'ann', 'paris']
    """
    text = unicodedata.normalize("NFC", text.strip())
    heading, _, rest = text.partition("\n")
    if rest and len(heading) <= HEADING and not heading.endswith((".", "!", "?", ":")):
        yield normalised(heading)
    for sentence in sentences_in(text):
        for span in _patterns()["mention"].findall(sentence):
            plain = normalised(span).strip(".'’-").removesuffix("'s").removesuffix("’s")
            words = plain.split()
            while words and words[0] in STOP_WORDS:
                del words[0]
            if words:
                yield " ".join(words)


def sentences_in(text: str) -> list[str]:
    r"""Return the sentences of a text, its heading among them.

    >>> sentences_in("Marie Curie\nShe moved to Paris at 3.30. Why?")
    ['Marie Curie', 'She moved to Paris at 3.30.', 'Why?']
    """
    return [one for one in _patterns()["sentence"].split(text.strip()) if one.strip()]


def _forms(token: str) -> list[str]:
    """Return a word, and the parts of a name such as `user_id` or `getUser`."""
    plain = _unaccented(normalised(token))
    if plain.isalpha() and (token.islower() or token[1:].islower() or token.isupper()):
        return [plain]
    if not any(sign.isdigit() or sign == "_" or sign.isupper() for sign in token[1:]):
        return [plain]
    parts = [_unaccented(normalised(part)) for part in _patterns()["part"].findall(token)]
    return [plain, *parts] if len(parts) > 1 else [plain]


def _unaccented(word: str) -> str:
    """Return a Latin word without accents, as it is often typed."""
    if word.isascii() or not _patterns()["latin"].match(word):
        return word
    apart = unicodedata.normalize("NFKD", word)
    return "".join(sign for sign in apart if not unicodedata.combining(sign))


@lru_cache(maxsize=100_000)
def _stemmed(term: str) -> str:
    for script, language in STEMMERS.items():
        if _patterns()[script].match(term):
            stem: str = _stemmer(language).stemWord(term)
            return stem
    return term
