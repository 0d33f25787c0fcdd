"""How is something forgotten, so that nothing of it is left anywhere?

In this order: receipts are written, the log is blanked and the generation moves on in one
transaction, this process takes the new graph, views on disk are thrown away, and the database file
is rebuilt. Whatever step could not be done is finished when the folder is next opened.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Literal

import msgspec

from recall_echo_core.errors import StoreError
from recall_echo_core.forgetting import Plan, Selection, planned

if TYPE_CHECKING:
    from recall_echo_core.engine import Engine, Room

__all__ = ["Erasure", "finish", "forget", "forget_namespace"]

log = logging.getLogger(__name__)


class Erasure(msgspec.Struct, frozen=True):
    """The receipt of an erasure.

    Attributes:
        events: Events whose content is gone.
        entities: Descriptions of entities among them.
        evidence: Pieces of evidence among them.
        episodes: Episodes among them.
        mentions: Texts that stay and still name the forgotten entity, such as another entity's
            abstract.
        status: `incomplete` while another process still reads an older state, or when the files
            could not be rebuilt; the next call of `forget`, or the next opening of the folder,
            finishes.
    """

    events: int
    entities: int
    evidence: int
    episodes: int
    mentions: int
    status: Literal["complete", "incomplete"]


def forget(engine: Engine, room: Room, selection: Selection) -> Erasure:
    """Erase what a selection names from one namespace."""
    from recall_echo_core.stores.erasing import blank  # SQLAlchemy takes long to import

    engine.save_receipts(room)
    namespace = room.namespace
    with room.indexing.resting():
        with namespace.log.writing(namespace.key) as writer:
            events = writer.everything()
            plan = planned(events, namespace.key.salt, selection)
            if plan.blanked:
                places = {stored.position: stored for stored in events}
                rewritten = [
                    msgspec.structs.replace(places[position], event=event)
                    for position, event in plan.rewritten.items()
                ]
                without = plan.gone | plan.respelt
                generation = blank(
                    writer, namespace.key, plan.blanked, rewritten, without, plan.embed_after
                )
        if plan.blanked:
            namespace.replace(plan.graph, generation)
    return _receipt(plan, complete=finish(engine))


def forget_namespace(engine: Engine, room: Room) -> Erasure:
    """Erase a namespace whole, its name included."""
    from recall_echo_core.stores.erasing import drop_namespace

    namespace = room.namespace
    with namespace.log.writing(namespace.key) as writer:
        gone = drop_namespace(writer, namespace.key)
    engine.evict(namespace.key.name)
    return Erasure(
        events=sum(gone.values()),
        entities=gone.get("entity", 0),
        evidence=gone.get("evidence", 0) + gone.get("ended", 0),
        episodes=gone.get("episode", 0),
        mentions=0,
        status="complete" if finish(engine) else "incomplete",
    )


def finish(engine: Engine) -> bool:
    """Finish erasures that were begun, by whichever process; return whether nothing is left."""
    from recall_echo_core.stores.erasing import finished, namespaces_of, scrub, unfinished

    last = unfinished(engine.log)
    if last is None:
        return True
    try:
        clean = engine.clean_views(namespaces_of(last))
        if not (scrub(engine.log) and clean):
            return False
        finished(engine.log, last)
    except StoreError:  # such as a full disk; what was forgotten is, but its traces are not gone
        log.exception("finishing an erasure failed; the next opening tries again")
        return False
    return True


def _receipt(plan: Plan, *, complete: bool) -> Erasure:
    return Erasure(
        events=len(plan.blanked),
        entities=plan.counts["entities"],
        evidence=plan.counts["evidence"],
        episodes=plan.counts["episodes"],
        mentions=plan.mentions,
        status="complete" if complete else "incomplete",
    )
