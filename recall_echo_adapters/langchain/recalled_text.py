"""How does a recall's receipt travel inside a prompt's variable?

As a `str` that knows it. A variable of the context would be lost where LangChain changes threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from langchain_core.messages import BaseMessage

from recall_echo_adapters.verdicts import Recalled

__all__ = ["RECEIPT", "RecalledText", "receipt_in", "receipts_in"]

RECEIPT: Final = "recall_echo"  # the one key of ours in what a message carries along


class RecalledText(str):
    """Recalled memories as text for a prompt, with the receipt of the recall.

    Everywhere a `str`: `json`, templates and comparison see the text only.

    Attributes:
        receipt: Where the recall's receipt is; `None` when nothing was asked.
    """

    receipt: Recalled | None

    __slots__ = ("receipt",)

    def __new__(cls, text: str = "", receipt: Recalled | None = None) -> RecalledText:
        """Return a text that carries a receipt."""
        self = super().__new__(cls, text)
        self.receipt = receipt
        return self

    def __getnewargs__(self) -> tuple[str, Recalled | None]:  # type: ignore[override]
        return str(self), self.receipt


def receipt_in(value: object) -> Recalled | None:
    """Return the receipt that a text, a message, or a list that starts with one, carries."""
    if isinstance(value, RecalledText):
        return value.receipt
    if isinstance(value, BaseMessage):
        carried = value.additional_kwargs.get(RECEIPT)
        return None if carried is None else Recalled(carried["namespace"], carried["recall_id"])
    if isinstance(value, list) and value and isinstance(value[0], BaseMessage):
        return receipt_in(value[0])
    return None


def receipts_in(values: Mapping[str, Any] | object) -> Iterator[Recalled]:
    """Yield the receipts in the inputs of a chain."""
    for value in values.values() if isinstance(values, Mapping) else (values,):
        found = receipt_in(value)
        if found is not None:
            yield found
