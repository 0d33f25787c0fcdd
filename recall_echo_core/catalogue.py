"""What does this process know of the texts of a namespace, besides their vectors?

Their words, their neighbours and how alike they are: running sums over the texts in log order. It
is a view, kept between runs as a snapshot, and made anew from the log and the kept embeddings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from recall_echo_core.closeness import Closeness, ClosenessPicture
from recall_echo_core.conversation import Conversation, ConversationPicture
from recall_echo_core.lexical import Lexical, LexicalPicture
from recall_echo_core.terms import terms_of
from recall_echo_core.texts import KINDS, Kind, TextKey, parse_key
from recall_echo_core.times import to_datetime

if TYPE_CHECKING:
    from recall_echo_core.picture import EpisodeMark
    from recall_echo_core.ports import Vectors

__all__ = ["Catalogue", "CataloguePicture"]

MONTHS = (
    "January February March April May June July August September October November December"
).split()


class CataloguePicture(msgspec.Struct):
    """Everything a catalogue holds, as plain values; what a snapshot stores."""

    position: int
    lexical: dict[str, LexicalPicture]
    conversation: ConversationPicture
    closeness: ClosenessPicture


class Catalogue:
    """The words and the surroundings of all texts up to `position`. Its owner holds a lock.

    Args:
        dimension: Of the vectors.
    """

    def __init__(self, dimension: int) -> None:
        self.position = 0
        self.lexical: dict[Kind, Lexical] = {kind: Lexical() for kind in KINDS}
        self.conversation = Conversation()
        self.closeness = Closeness(dimension)

    def add(self, text: TextKey, content: str, mark: EpisodeMark | None) -> None:
        """Add the next text; `mark` is that of an episode, whose content is without its speaker."""
        if mark is None:
            self.lexical[text.kind].add(text, Counter(terms_of(content)))
            return
        terms = Counter(terms_of(f"{dated(mark)} {mark.name or mark.role} {content}"))
        self.lexical["episode"].add(text, terms)
        self.conversation.add(mark, content, sum(terms.values()))

    def measure(self, keys: Iterable[str], vectors: Vectors) -> None:
        """Add the vectors of the next episodes, of each the first one."""
        for key, vector in zip(keys, vectors, strict=True):
            if key.endswith(".0"):  # the first chunk
                item, _ = parse_key(key)
                number = self.lexical["episode"].numbers.get(item)
                if number is not None:
                    self.closeness.add(number, vector, self.conversation.sessions[number])

    def picture(self) -> CataloguePicture:
        """Return everything this holds."""
        return CataloguePicture(
            self.position,
            {kind: index.picture() for kind, index in self.lexical.items()},
            self.conversation.picture(),
            self.closeness.picture(),
        )

    @classmethod
    def of(cls, picture: CataloguePicture) -> Catalogue:
        """Return the catalogue a picture was taken of."""
        closeness = Closeness.of(picture.closeness)
        catalogue = cls(closeness.dimension)
        catalogue.position, catalogue.closeness = picture.position, closeness
        catalogue.conversation = Conversation.of(picture.conversation)
        catalogue.lexical = {kind: Lexical.of(picture.lexical[kind]) for kind in KINDS}
        return catalogue


def dated(mark: EpisodeMark) -> str:
    """Return the day of an episode in the words that a question would use."""
    day = to_datetime(mark.time)
    return f"{day.day} {MONTHS[day.month - 1]} {day.year} {day:%Y-%m-%d}"
