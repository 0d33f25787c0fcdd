"""How do others learn that something was recalled, and for which task?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.base.event import BaseEvent
from llama_index_instrumentation.dispatcher import active_instrument_tags

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["RUN_TAG", "RecallEvent", "run_in", "tagged_run", "tell"]

RUN_TAG: Final = "run_id"  # of `instrument_tags`: what `Memory.feedback_for_run` is asked with


class RecallEvent(BaseEvent):
    """Something was recalled.

    Attributes:
        recall_id: The receipt.
        namespace: Where it is.
        ids: What was found.
    """

    recall_id: str
    namespace: str
    ids: list[str]

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex knows it."""
        return "RecallEchoRecallEvent"


def tell(recall_id: str | None, namespace: str, ids: list[str]) -> None:
    """Dispatch the event of a recall; doing it twice for one is fine."""
    if recall_id is not None:
        dispatcher = get_dispatcher(__name__)
        dispatcher.event(RecallEvent(recall_id=recall_id, namespace=namespace, ids=ids))


def run_in(tags: Mapping[str, Any] | None) -> str | None:
    """Return the run that tags name."""
    named = (tags or {}).get(RUN_TAG)
    return None if named is None else str(named)


def tagged_run() -> str | None:
    """Return the run that `instrument_tags` names around the call that is going on."""
    return run_in(active_instrument_tags.get())
