"""Which of the recalled memories did an answer use?

Decided in this order, and the decision says by which: ids the caller names, citations such as
`[M1]` in the answer, content words the answer shares with a memory but not with the question;
otherwise it is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from recall_echo_core.words import content_words

__all__ = ["OVERLAP_SHARE", "Shown", "Usage", "UsageMethod", "cites", "detected", "echoed"]

UsageMethod: TypeAlias = Literal["ids", "citations", "overlap", "unknown"]

# Share of a memory's own content words that must return in the answer. Raising it calls fewer
# memories used. One word of five is what a short relation keeps when only its object is repeated.
OVERLAP_SHARE: Final = 0.2
# Share of an answer's own content words that must be new for it not to be an echo. Raising it
# calls more answers echoes. Chosen, not measured: half of what is said should be news.
NEWS_SHARE: Final = 0.5
# [M1], (M1), [M1, M3], [M1 and M2], 【M2】
_CITATION: Final = re.compile(
    r"[\[(［（【]\s*(M\d+(?:\s*(?:[,;&、，]|and)?\s*M?\d+)*)\s*[\])］）】]",  # noqa: RUF001 models write these
    re.IGNORECASE,
)
_AN_ID: Final = re.compile(r"[0-9a-f]{32}")
# A line of a block of memories, as `render` writes them: the fence, its heading, a marked line.
_OWN_LINE: Final = re.compile(r"\s*(?:</?memory>|What follows up to the closing mark|\[M\d+\] )")


class Shown(msgspec.Struct, frozen=True):
    """A memory as it was shown: its id, its alias in the receipt, its text.

    One forgotten meanwhile has no id and no text, and counts neither as used nor as unused.
    """

    id: bytes
    alias: str
    text: str


class Usage(msgspec.Struct, frozen=True):
    """The ids of the memories used, in the order shown, and how that was decided."""

    used: tuple[bytes, ...]
    method: UsageMethod


def detected(
    shown: Sequence[Shown],
    *,
    used: Iterable[str] | None = None,
    response: str | None = None,
    question: Collection[str] | None = None,
) -> Usage:
    """Return which memories an answer used.

    Args:
        shown: The memories of the receipt.
        used: Ids or aliases the caller names; an empty list says that none was used.
        response: The answer.
        question: Content words of the question; without them overlap cannot be told from
            repeating the question, and is not tried.

    Raises:
        ValueError: `used` names a memory that was not shown.
    """
    if used is not None:
        return Usage(_named(shown, used), "ids")
    if response is not None:
        cited = _cited(shown, response)
        if cited:
            return Usage(cited, "citations")
        if question is not None:
            words = content_words(response, without=question)
            overlapping = _overlapping(shown, words, question)
            if overlapping:
                return Usage(overlapping, "overlap")
    return Usage((), "unknown")


def cites(text: str) -> bool:
    """Return whether a text cites memories, or is a block of them.

    >>> cites("In Paris [M1]."), cites("M1 motorway")
    (True, False)
    """
    return _CITATION.search(text) is not None or any(
        _OWN_LINE.match(line) for line in text.splitlines()
    )


def echoed(shown: Sequence[Shown], response: str, question: Collection[str]) -> bool:
    """Return whether an answer says little that the question and the memories do not.

    >>> shown = [Shown(b"1", "M1", "Ann works at Acme")]
    >>> echoed(shown, "She works at Acme [M1].", {"where", "ann", "work"})
    True
    >>> echoed(shown, "Acme closes at five today, so call before lunch.", {"acme"})
    False
    """
    if not shown:
        return False
    said = content_words(_CITATION.sub(" ", response), without=question)
    lines = (line for line in response.splitlines() if _OWN_LINE.match(line))
    known = content_words(" ".join(lines)).union(*(content_words(hit.text) for hit in shown))
    return len(said - known) < NEWS_SHARE * max(1, len(said))


def _named(shown: Sequence[Shown], used: Iterable[str]) -> tuple[bytes, ...]:
    if isinstance(used, str):
        raise ValueError(f"used must be a list of ids, not one text; write used=[{used!r}]")
    by_name = {hit.id.hex(): hit.id for hit in shown} | {hit.alias: hit.id for hit in shown}
    wanted = list(used)
    forgotten = any(not hit.id for hit in shown)
    for name in wanted:
        if name not in by_name and not (forgotten and _AN_ID.fullmatch(str(name))):
            aliases = ", ".join(hit.alias for hit in shown) or "none"
            raise ValueError(f"{name!r} is not in this recall; it showed {aliases}")
    named = {by_name.get(name, b"") for name in wanted}
    return tuple(hit.id for hit in shown if hit.id and hit.id in named)


def _cited(shown: Sequence[Shown], response: str) -> tuple[bytes, ...]:
    """Return what an answer cites; a mark that a memory itself holds is a quotation, not a mark.

    Memories are shown with round brackets in place of square ones, so those are never quoted.
    """
    quoted = {_numbers(mark) for hit in shown for mark in _CITATION.findall(hit.text)}
    numbers = {
        number
        for mark in _CITATION.finditer(response)
        if mark[0].startswith("[") or _numbers(mark[1]) not in quoted
        for number in _numbers(mark[1])
    }
    return tuple(hit.id for hit in shown if hit.id and int(hit.alias[1:]) in numbers)


def _numbers(mark: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", mark) if len(number) < 10)


def _overlapping(
    shown: Sequence[Shown], words: Collection[str], question: Collection[str]
) -> tuple[bytes, ...]:
    used: list[bytes] = []
    for hit in shown:
        own = content_words(hit.text, without=question)
        if own and len(own & frozenset(words)) >= OVERLAP_SHARE * len(own):
            used.append(hit.id)
    return tuple(used)
