"""Is what a model says it gathered from a turn evidence, or has it read it in its own memory?

What the memory itself put into a prompt is not new evidence when it comes back. Somebody else
has to have said it in this turn; or an episode that was recalled says it, which counts once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from recall_echo_core.model import MODEL_ROLES, Entity, Statement
from recall_echo_core.names import normalised
from recall_echo_core.times import to_datetime
from recall_echo_core.usage import cites
from recall_echo_core.words import content_words, mentions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recall_echo_core.usage import Shown

__all__ = ["Source", "grounded"]


class Source(msgspec.Struct, frozen=True):
    """A recalled episode as a ground for evidence: who said it, and when."""

    id: bytes
    role: str
    time: int


def grounded(
    said: Statement,
    heard: str,
    recalled: Sequence[Shown],
    episodes: Sequence[Source],
    found: Sequence[tuple[str, str]] = (),
) -> Statement | None:
    """Return a statement as it may be recorded; `None` if it only repeats what was recalled.

    A contradiction repeats nothing. Of a supporting one its object decides: whether the turn, a
    recalled episode or another recalled memory names it. An episode gives evidence of its own
    time; one that the model itself spoke gives none.

    Args:
        said: What the model states.
        heard: What the user said in this turn.
        recalled: What was recalled in this turn.
        episodes: Which of them are episodes.
        found: What tools were asked, and what they answered. What the model put into the
            question is no answer, and neither is one that quotes the memory.
    """
    if not said.supports:
        return said
    names = [said.object.name if isinstance(said.object, Entity) else said.object]
    if mentions(heard, names):
        return said
    for asked, answer in found:
        if mentions(answer, names) and not mentions(asked, names) and not _quoted(answer, recalled):
            return said
    naming = {hit.id for hit in recalled if mentions(hit.text, names)}
    for episode in episodes:
        if episode.id in naming and normalised(episode.role) not in MODEL_ROLES:
            at = to_datetime(episode.time) if said.observed_at is None else said.observed_at
            return msgspec.structs.replace(
                said, observed_at=at, episode_id=episode.id.hex(), statement_id=None
            )
    return None if naming else said


def _quoted(answer: str, recalled: Sequence[Shown]) -> bool:
    """Whether a tool's answer comes from the memory: another way to ask it, or another agent."""
    plain = normalised(answer)
    texts = (normalised(hit.text) for hit in recalled if len(content_words(hit.text)) > 1)
    return cites(answer) or any(text in plain for text in texts)
