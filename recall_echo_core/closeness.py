"""How alike are the texts of a store, how much more alike are neighbours, and how alike each two?

Running sums over the vectors of episodes, in log order.
"""

from __future__ import annotations

import math
from array import array
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from recall_echo_core.ports import Vectors

__all__ = ["Closeness", "ClosenessPicture"]

Numbers: TypeAlias = NDArray[np.int64]
Values: TypeAlias = NDArray[np.float64]

BEFORE: Final = 0.5  # of the vector before; raising it lets that one speak louder
SESSIONS: Final = 64  # whose newest vector is kept, to compare the next one with


class ClosenessPicture(msgspec.Struct, array_like=True):
    """Everything a closeness holds, as plain values."""

    position: int
    count: int
    total: bytes
    pairs: int
    near: float
    newest: list[tuple[str, bytes]]
    beside: bytes


class Closeness:
    """What the vectors of episodes add up to.

    Args:
        dimension: Of the vectors.
    """

    def __init__(self, dimension: int) -> None:
        self.dimension, self.position = dimension, 0
        self._count = 0
        self._total = np.zeros(dimension)
        self._pairs, self._near = 0, 0.0
        self._newest: OrderedDict[str, Vectors] = OrderedDict()
        self._beside = array("f")  # cosine of each episode and the one before it; NaN: not known

    def add(self, number: int, vector: Vectors, session: str | None) -> None:
        """Add the vector of the next episode, numbered as `Lexical` numbers it."""
        self._beside.extend([math.nan] * (number + 1 - len(self._beside)))
        length = float(np.linalg.norm(vector))
        if not length:
            return
        unit = np.asarray(vector / length, dtype=np.float32)
        self._count += 1
        self._total += unit
        if session is None:
            return
        before = self._newest.pop(session, None)
        if before is not None:
            self._pairs += 1
            self._beside[number] = alike = float(unit @ before)
            self._near += alike
        self._newest[session] = unit
        if len(self._newest) > SESSIONS:
            self._newest.popitem(last=False)

    @property
    def sameness(self) -> float:
        """Mean cosine similarity of two episodes, in [0, 1]: high where all are about one thing."""
        if not self._count:
            return 0.0
        return float(self._total @ self._total) / self._count**2

    @property
    def lift(self) -> float:
        """How much more alike neighbours in a session are than any two episodes, in [0, 1]."""
        if not self._pairs or self.sameness >= 1.0:
            return 0.0
        return max(0.0, (self._near / self._pairs - self.sameness) / (1.0 - self.sameness))

    def together(self, numbers: Numbers, similar: Values, earlier: Values) -> Values:
        """Return the cosine similarity of a question to episodes together with those before them.

        That is to the sum of an episode's vector and half of the one before, which need not be
        read: it follows from the cosines of each two of the three.

        Args:
            numbers: Of the episodes.
            similar: How similar they are to the question.
            earlier: How similar those before them are; NaN where it is not known.
        """
        known = np.append(np.array(self._beside, dtype=np.float64), math.nan)
        alike = known[np.minimum(numbers, len(known) - 1)]
        return (similar + BEFORE * earlier) / np.sqrt(1.0 + BEFORE**2 + 2.0 * BEFORE * alike)

    def picture(self) -> ClosenessPicture:
        """Return everything this holds."""
        newest = [(session, vector.tobytes()) for session, vector in self._newest.items()]
        total = self._total.tobytes()
        beside = self._beside.tobytes()
        return ClosenessPicture(
            self.position, self._count, total, self._pairs, self._near, newest, beside
        )

    @classmethod
    def of(cls, picture: ClosenessPicture) -> Closeness:
        """Return the closeness a picture was taken of."""
        total = np.frombuffer(picture.total).copy()
        closeness = cls(len(total))
        closeness.position, closeness._count = picture.position, picture.count
        closeness._total = total
        closeness._pairs, closeness._near = picture.pairs, picture.near
        closeness._beside.frombytes(picture.beside)
        for session, vector in picture.newest:
            closeness._newest[session] = np.frombuffer(vector, dtype=np.float32)
        return closeness
