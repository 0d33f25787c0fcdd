"""Which episodes stand beside which, who speaks how, and what do they call by name?

What ranking knows of episodes besides their words and their meaning: running sums over all of
them, and the neighbours of each.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from recall_echo_core.model import MODEL_ROLES
from recall_echo_core.names import normalised
from recall_echo_core.terms import mentions_in

if TYPE_CHECKING:
    from recall_echo_core.picture import EpisodeMark

__all__ = ["Conversation", "ConversationPicture"]

Numbers: TypeAlias = NDArray[np.int64]

SHORT: Final = 30  # terms; half the floor under lengths
SMOOTHING: Final = 50  # words a speaker is taken to have said besides, none in the first person
FIRST_PERSON: Final = frozenset(
    "i me my mine myself i'm i've i'd i'll we us our ours we're we've we'd we'll".split()
)
NO_USERS: Final = MODEL_ROLES | {"function", "system", "tool"}
NONE: Final = -1


class ConversationPicture(msgspec.Struct, array_like=True):
    """Everything a conversation holds, as plain values."""

    sessions: list[str | None]
    speakers: list[str]
    asking: bytes
    own: bytes
    short: int
    words: dict[str, tuple[int, int]]
    mentions: dict[str, list[int]]


class Conversation:
    """The episodes of one namespace, numbered as `Lexical` numbers them."""

    def __init__(self) -> None:
        self.sessions: list[str | None] = []
        self.speakers: list[str] = []
        self.asking = bytearray()
        self._own = bytearray()  # whether the host says that no model spoke
        self.before = array("i")
        self.after = array("i")
        self._newest: dict[str, int] = {}
        self._sessions = array("i")  # which session, by number; NONE for those without
        self._session_numbers: dict[str, int] = {}
        self._short = 0
        self._words: dict[str, tuple[int, int]] = {}  # speaker -> words, first-person words
        self._mentions: dict[str, list[int]] = {}

    def __len__(self) -> int:
        return len(self.speakers)

    def add(self, mark: EpisodeMark, content: str, length: int) -> None:
        """Add the next episode; `length` is how many terms it has."""
        number = len(self.speakers)
        speaker = normalised(mark.name or mark.role)
        self._place(mark.session, number)
        self.speakers.append(speaker)
        self.asking.append(content.rstrip().endswith(("?", "？", "؟")))
        self._own.append(mark.role.casefold() not in NO_USERS)
        self._short += length < SHORT
        words = content.casefold().replace("’", "'").split()
        said, own = self._words.get(speaker, (0, 0))
        mine = sum(word.strip('.,;:!?"()') in FIRST_PERSON for word in words)
        self._words[speaker] = (said + len(words), own + mine)
        for name in set(mentions_in(content)):
            self._mentions.setdefault(name, []).append(number)

    def _place(self, session: str | None, number: int) -> None:
        """Note which episode stood before; one without a session stands alone."""
        before = NONE if session is None else self._newest.get(session, NONE)
        self.sessions.append(session)
        known = self._session_numbers
        self._sessions.append(NONE if session is None else known.setdefault(session, len(known)))
        self.before.append(before)
        self.after.append(NONE)
        if before != NONE:
            self.after[before] = number
        if session is not None:
            self._newest[session] = number

    @property
    def short(self) -> float:
        """Share of episodes that are short; 0 when there is none."""
        return self._short / len(self.speakers) if self.speakers else 0.0

    @property
    def many_sessions(self) -> bool:
        """Whether there is more than one session."""
        return len(self._newest) > 1

    def beside(self, numbers: Numbers) -> tuple[Numbers, Numbers]:
        """Return which episodes stand before and after some; `NONE` where there is none."""
        return _at(self.before, numbers), _at(self.after, numbers)

    def session_numbers(self, numbers: Numbers) -> Numbers:
        """Return the sessions of some episodes, numbered; `NONE` for those without."""
        return _at(self._sessions, numbers)

    def asks(self, numbers: Numbers) -> NDArray[np.bool_]:
        """Return which of some episodes, `NONE` among them, ask something."""
        asking = np.frombuffer(bytes(self.asking) + b"\0", dtype=np.uint8)
        return asking[numbers] > 0  # NONE is the last

    def voices(self, numbers: Numbers) -> NDArray[np.float64]:
        """Return how far episodes are told by whoever asks: 1 for a user, 0 for a model.

        Where the host tells no roles apart, by how much the speaker speaks of themselves, beside
        who does so most.
        """
        if 0 in self._own:
            return np.frombuffer(bytes(self._own), dtype=np.uint8)[numbers].astype(np.float64)
        rates = {who: own / (said + SMOOTHING) for who, (said, own) in self._words.items()}
        most = max(rates.values(), default=0.0) or 1.0
        return np.array([rates[self.speakers[number]] / most for number in numbers.tolist()])

    def spoken_by_named(self, numbers: Numbers, text: str) -> NDArray[np.bool_]:
        """Return which of some episodes are spoken by somebody whom a text names."""
        named = self.named(text)
        if not named:
            return np.zeros(len(numbers), dtype=np.bool_)
        return np.array([self.speakers[number] in named for number in numbers.tolist()])

    def named(self, text: str) -> frozenset[str]:
        """Return the speakers whose first name a text has."""
        words = set(normalised(text).replace("'s", " ").replace("’s", " ").split())
        words |= {word.strip(".,;:!?") for word in words}
        return frozenset(who for who in self._words if who.split()[0] in words)

    def sharing(self, content: str, question: str) -> Iterator[tuple[str, float, Sequence[int]]]:
        """Yield the mentions of a text, how rare each is, and the episodes that share it.

        Mentions in the question, in one text only, or in too many, are passed over.
        """
        count = len(self.speakers)
        most = max(5.0, 0.02 * count)
        asked = normalised(question)
        for name in sorted(set(mentions_in(content))):
            having = self._mentions.get(name, ())
            if 2 <= len(having) <= most and name not in asked:
                yield name, math.log(count / len(having)) / math.log(count), having

    def picture(self) -> ConversationPicture:
        """Return everything this holds."""
        return ConversationPicture(
            self.sessions,
            self.speakers,
            bytes(self.asking),
            bytes(self._own),
            self._short,
            self._words,
            self._mentions,
        )

    @classmethod
    def of(cls, picture: ConversationPicture) -> Conversation:
        """Return the conversation a picture was taken of."""
        conversation = cls()
        for number, session in enumerate(picture.sessions):
            conversation._place(session, number)
        conversation.speakers = picture.speakers
        conversation.asking = bytearray(picture.asking)
        conversation._own = bytearray(picture.own)
        conversation._short = picture.short
        conversation._words = picture.words
        conversation._mentions = picture.mentions
        return conversation


def _at(kept: array[int], numbers: Numbers) -> Numbers:
    return np.array(kept, dtype=np.int64)[numbers]
