"""What can be done to a memory as a whole?"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn, Self

from recall_echo_core.arguments import checked_name, id_of
from recall_echo_core.erasure import Erasure, forget, forget_namespace
from recall_echo_core.events import type_key
from recall_echo_core.forgetting import Selection
from recall_echo_core.moving import export_log, import_log
from recall_echo_core.telling import Telling
from recall_echo_core.upkeep import Stats, Verification, stats_of, verified

if TYPE_CHECKING:
    from recall_echo_core.model import EntityLike
    from recall_echo_core.ports import Progress
    from recall_echo_core.statements import Speaker

__all__ = ["Keeping"]


class Keeping(Telling):
    """A view of now that can be told things, looked after, and made to forget."""

    def forget(
        self,
        *,
        entity: EntityLike | None = None,
        relation: tuple[EntityLike, str, EntityLike] | None = None,
        session: str | None = None,
        source: str | None = None,
        episode: str | None = None,
        everything: bool = False,
        episodes: Literal["erase", "keep"] = "erase",
    ) -> Erasure:
        """Erase something everywhere: log, vectors, snapshots, free pages of the files.

        Give exactly one selector. Afterwards every number equals that of a log which never held
        what was erased. Forgetting what is not there erases nothing, and says so.

        Args:
            entity: Its relations, evidence, texts, and the episodes that name it.
            relation: (subject, type, object): the relation and its evidence.
            session: Its episodes, the evidence they gave, and what rests on nothing else.
            source: The episodes, evidence and verdicts of a role, a speaker or a source, and what
                rests on nothing else.
            episode: Id of an episode: it, the evidence it gave, and what rests on nothing else.
            everything: The namespace, its name included.
            episodes: With `entity`, "keep" spares the episodes that name it.

        Raises:
            ValueError: none or several selectors were given.
        """
        speaker = self._telling()
        if not isinstance(everything, bool):
            raise TypeError(f"everything must be True or False, not {everything!r}")
        _only_one(
            entity=entity,
            relation=relation,
            session=session,
            source=source,
            episode=episode,
            everything=everything or None,
        )
        if episodes not in ("erase", "keep"):
            raise ValueError(f"episodes must be 'erase' or 'keep', not {episodes!r}")
        if everything:
            return forget_namespace(self._engine, self._room)
        if entity is not None:
            id, name = speaker.entity(entity, "entity")
            selection = Selection(entity=id, names=(name,), keep_episodes=episodes == "keep")
        elif relation is not None:
            selection = Selection(relation=_triple(speaker, relation))
        else:
            selection = Selection(
                session=None if session is None else checked_name(session, "session"),
                source=None if source is None else checked_name(source, "source"),
                episode=None if episode is None else id_of(episode, "episode"),
            )
        return forget(self._engine, self._room, selection)

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        skip_damaged: bool = False,
        progress: Progress | None = None,
    ) -> int:
        """Write the log of this namespace to a file of JSON lines; return how many events.

        Args:
            path: The file; it appears whole or not at all, and replaces one that is there.
            skip_damaged: Leave out events that cannot be read instead of stopping at the first.
            progress: Called now and then with how many events are done, and how many there are.

        Raises:
            CorruptLog: an event is damaged.
            StoreError: the file cannot be written.
        """
        self._check_open()
        self._engine.save_receipts(self._room)
        return export_log(self._room, Path(path), skip_damaged=skip_damaged, progress=progress)

    def import_(self, path: str | os.PathLike[str], *, progress: Progress | None = None) -> int:
        """Add the events of an exported file that are not here yet; return how many.

        Into a namespace that holds nothing the log comes exactly as it was; otherwise it is
        added to what is there, and the settings here stay. Stopped half-way, the next call goes
        on; done twice, the second adds nothing.

        Args:
            path: A file that `export` wrote.
            progress: Called now and then with how many events are done, and how many there are.

        Raises:
            BadExport: the file is cut off, changed, or no export; nothing was written.
            UnsupportedShape: it comes from a newer version; nothing was written.
        """
        self._check_open()
        added = import_log(self._engine, self._name, Path(path), progress=progress)
        self._engine.written(self._room)
        return added

    def stats(self) -> Stats:
        """Return how much there is of what, and which model reads it."""
        self._check_open()
        return stats_of(self._engine, self._room)

    def verify(self, *, progress: Progress | None = None) -> Verification:
        """Check the log event by event, fold it again, and compare what is built from it.

        Views that differ (graph, snapshots, vectors) are made again from the log; a damaged log
        is reported and left as it is.

        Args:
            progress: Called now and then with how many events are done, and how many there are.
        """
        self._check_open()
        return verified(self._engine, self._room, progress)

    def reindex(self, *, progress: Progress | None = None) -> None:
        """Embed every text of this namespace again and rebuild its index on disk.

        Args:
            progress: Called now and then with how many texts are done, and how many there are.
        """
        self._check_open()
        indexing = self._room.indexing
        with indexing.resting():  # nobody searches an index that is half there
            indexing.restart()
            indexing.catch_up(progress=progress)
            indexing.flush()

    def flush(self) -> None:
        """Make receipts durable, embed every text, and bring all vectors to the index on disk."""
        self._check_open()
        self._engine.save_receipts(self._room)
        self._room.indexing.flush()

    # One for each folder, in one process

    def __copy__(self) -> Self:
        """Return this memory: there is one for each folder."""
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Return this memory: there is one for each folder."""
        return self

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled.

        Raises:
            TypeError: always.
        """
        raise TypeError(
            "an open memory cannot be pickled; call open_memory(...) where it is needed"
        )


def _only_one(**selectors: object) -> None:
    count = sum(value is not None for value in selectors.values())
    if count != 1:
        raise ValueError(f"forget() takes exactly one of {', '.join(selectors)}, not {count}")


def _triple(speaker: Speaker, relation: Sequence[EntityLike]) -> tuple[bytes, str, bytes]:
    try:
        if isinstance(relation, str):  # three letters would pass for three names
            raise TypeError
        subject, type, object = relation
    except (TypeError, ValueError) as error:
        raise ValueError(f"relation must be (subject, type, object), not {relation!r}") from error
    return (
        speaker.entity(subject, "subject")[0],
        type_key(checked_name(type, "relation type")),
        speaker.entity(object, "object")[0],
    )
