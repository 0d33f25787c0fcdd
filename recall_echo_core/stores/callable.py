"""Any function from texts to vectors, as an embedder."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from recall_echo_core.ports import Embedder

if TYPE_CHECKING:
    from recall_echo_core.ports import Vectors

__all__ = ["CallableEmbedder", "estimate_tokens"]

_CJK = re.compile(
    "[\u1100-\u11ff\u3040-\u30ff\u3100-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
    "\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]"
)
_TOKENS_PER_WORD = 1.5


def estimate_tokens(text: str) -> int:
    """Guess the tokens of a text without a tokenizer: 1.5 a word, 1 a Chinese or Japanese sign.

    >>> estimate_tokens("a small tool maker"), estimate_tokens("東京に住む"), estimate_tokens("")
    (6, 5, 0)
    """
    words, signs = len(_CJK.sub(" ", text).split()), len(_CJK.findall(text))
    return max(ceil(_TOKENS_PER_WORD * words) + signs, 1 if text else 0)


class CallableEmbedder(Embedder):
    """Wraps a function that takes a list of texts and gives one vector for each.

    The function must be safe to call from several threads. It is called once here, to learn the
    dimension. Give a `model_id` that changes when the vectors do: a store refuses to mix two.
    Raising `max_tokens` makes the pieces longer that a long text is cut into.

    >>> lengths = CallableEmbedder(lambda texts: [[len(t), 1.0] for t in texts], model_id="len")
    >>> lengths.dimension, lengths.embed(["ab"]).tolist()
    (2, [[2.0, 1.0]])
    """

    def __init__(
        self,
        function: Callable[[list[str]], Any],
        *,
        model_id: str | None = None,
        max_tokens: int = 256,
    ) -> None:
        if max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, not {max_tokens}")
        self._function, self._max_tokens = function, max_tokens
        self._model_id = model_id or _name_of(function)
        probe = self._call(["The dimension of this text's vector is measured."])
        self._dimension = int(probe.shape[1])

    @property
    def model_id(self) -> str:
        """The name given, else `callable:` and where the function was defined."""
        return self._model_id

    @property
    def dimension(self) -> int:
        """Length of the vectors that the function gives."""
        return self._dimension

    @property
    def max_tokens(self) -> int:
        """Longest text, in estimated tokens, that is given to the function whole."""
        return self._max_tokens

    def count_tokens(self, text: str) -> int:
        """An estimate, as the function's own tokenizer is not known."""
        return estimate_tokens(text)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Call the function; `ValueError` when what comes back is not one good row per text."""
        if not texts:
            return np.zeros((0, self._dimension), dtype=np.float32)
        rows = self._call(list(texts))
        if rows.shape[1] != self._dimension:
            raise ValueError(
                f"{self._model_id} gave vectors of {rows.shape[1]} numbers,"
                f" but of {self._dimension} at first"
            )
        return rows

    def _call(self, texts: list[str]) -> Vectors:
        given = self._function(texts)
        try:
            rows = np.asarray(given if hasattr(given, "__len__") else list(given), np.float32)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{self._model_id} gave {type(given).__name__} that is not one row of numbers"
                f" per text: {error}"
            ) from error
        if rows.ndim != 2 or len(rows) != len(texts) or not rows.shape[1]:
            raise ValueError(
                f"{self._model_id} gave shape {rows.shape} for {len(texts)} texts;"
                f" expected ({len(texts)}, dimension)"
            )
        if not np.isfinite(rows).all():
            raise ValueError(f"{self._model_id} gave a vector with NaN or an infinity")
        return rows


def _name_of(function: Any) -> str:
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"callable:{named.__module__}.{named.__qualname__}"
