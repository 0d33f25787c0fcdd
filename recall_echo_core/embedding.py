"""How do texts become vectors, when they are long, and when one of them cannot be read?

Long texts are cut, pieces go to the model a few at a time, and a text that the model refuses is
left without vectors: it must not keep the others from being found.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from recall_echo_core.chunks import chunked
from recall_echo_core.errors import EmbedderUnavailable
from recall_echo_core.same_model import SENTENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from recall_echo_core.ports import Embedder, Vectors
    from recall_echo_core.texts import TextKey

__all__ = ["Stopped", "embedded"]

log = logging.getLogger(__name__)
PIECES: Final = 32  # given to the model at a time; more are no quicker, and take longer to stop


class Stopped(Exception):
    """Embedding was asked to stop; nothing was lost."""


def embedded(
    embedder: Embedder, texts: Mapping[TextKey, str], stop: Callable[[], bool]
) -> list[tuple[TextKey, Vectors]]:
    """Return the vectors of each text, a row per chunk; a refused text is left out.

    Args:
        embedder: The model.
        texts: What to embed.
        stop: Asked between pieces whether to give up.

    Raises:
        Stopped: `stop` said so.
        EmbedderUnavailable: the model fails for any text.
    """
    cut = {
        text: chunked(content, embedder.max_tokens, embedder.count_tokens)
        for text, content in texts.items()
    }
    try:
        vectors = _in_turn(embedder, [piece for chunks in cut.values() for piece in chunks], stop)
    except EmbedderUnavailable:
        return _one_by_one(embedder, cut, stop)
    rows: list[tuple[TextKey, Vectors]] = []
    start = 0
    for text, chunks in cut.items():
        rows.append((text, vectors[start : start + len(chunks)]))
        start += len(chunks)
    return rows


def _in_turn(embedder: Embedder, pieces: Sequence[str], stop: Callable[[], bool]) -> Vectors:
    import numpy as np

    vectors = [embedder.embed([])]
    for start in range(0, len(pieces), PIECES):
        if stop():
            raise Stopped
        vectors.append(embedder.embed(pieces[start : start + PIECES]))
    return np.concatenate(vectors)


def _one_by_one(
    embedder: Embedder, cut: Mapping[TextKey, Sequence[str]], stop: Callable[[], bool]
) -> list[tuple[TextKey, Vectors]]:
    embedder.embed([SENTENCE])  # raises when it is the model that fails, not a text
    rows: list[tuple[TextKey, Vectors]] = []
    for text, chunks in cut.items():
        try:
            rows.append((text, _in_turn(embedder, chunks, stop)))
        except EmbedderUnavailable:
            log.exception(
                "the %s told at position %d cannot be embedded: it is kept, but not found by"
                " meaning until verify() can embed it",
                text.kind,
                text.position,
            )
    return rows
