"""How is a list read in pages that stay right while others write?

A page begins after the last item seen, wherever that stands by now; lists only grow at their end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import dropwhile, islice

from recall_echo_core.arguments import checked_count, id_of

__all__ = ["page"]


def page(
    items: Mapping[bytes, object],
    after: str | None,
    limit: int,
    wanted: Callable[[bytes], bool],
    gone: Callable[[bytes], Callable[[bytes], bool] | None] = lambda _: None,
) -> list[bytes]:
    """Return the next ids of an ordered mapping.

    Args:
        items: What is listed, in order.
        after: Id of the last item seen; the first page if `None`.
        limit: Most ids; raising it makes fewer, longer pages.
        wanted: Which ids count.
        gone: Of an id that is no longer listed, tells which ids came before it.

    Raises:
        ValueError: `after` is not an id of this list, or `limit` is below 1.
    """
    most = checked_count(limit, "limit")
    ids = iter(items)
    if after is not None:
        last = id_of(after, "after")
        before = gone(last)
        if last in items:
            ids = islice(dropwhile(lambda id: id != last, ids), 1, None)
        elif before is not None:
            ids = dropwhile(before, ids)
        else:
            raise ValueError(f"after {after!r} is not in this list; start again without it")
    return list(islice((id for id in ids if wanted(id)), min(most, len(items))))
