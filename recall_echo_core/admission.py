"""Is what a model says it gathered from a turn evidence, or has it read it in its own memory?

What the memory itself put into a prompt is not new evidence when it comes back. Somebody else
has to have said it in this turn; or an episode that was recalled says it, which counts once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from recall_echo_core.model import Entity, Statement
from recall_echo_core.words import mentions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recall_echo_core.usage import Shown

__all__ = ["grounded"]


def grounded(
    said: Statement, heard: str, recalled: Sequence[Shown], episodes: Sequence[Shown]
) -> Statement | None:
    """Return a statement as it may be recorded; `None` if it only repeats what was recalled.

    A contradiction repeats nothing. Of a supporting one its object decides: whether the turn, a
    recalled episode or another recalled memory names it.

    Args:
        said: What the model states.
        heard: What others said in this turn: the user, tools.
        recalled: What was recalled in this turn.
        episodes: Those of them that are episodes.
    """
    if not said.supports:
        return said
    names = [said.object.name if isinstance(said.object, Entity) else said.object]
    if mentions(heard, names):
        return said
    for episode in episodes:
        if mentions(episode.text, names):
            return msgspec.structs.replace(said, episode_id=episode.id.hex(), statement_id=None)
    if any(mentions(hit.text, names) for hit in recalled):
        return None
    return said
