"""Which memory does a name stand for, when an object that used it is loaded again?

An object that is saved names its memory, for a memory itself cannot be saved. Names hold in one
process; the path of a memory's folder holds everywhere.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from recall_echo_core import Memory, open_memory

__all__ = ["memory_named", "register_memory"]

_LOCK: Final = threading.Lock()
_NAMED: Final[WeakValueDictionary[str, Memory]] = WeakValueDictionary()
_OPENED: Final[dict[str, Memory]] = {}  # by path: ours, so nobody else keeps them


def register_memory(name: str, memory: Memory) -> None:
    """Let saved objects find this memory by a name; the last one registered counts.

    The name holds as long as the memory is in use somewhere.

    >>> import tempfile
    >>> from recall_echo_core import open_memory
    >>> with tempfile.TemporaryDirectory() as folder, open_memory(folder) as memory:
    ...     register_memory("main", memory)

    Args:
        name: What `RecallEchoMemory.from_defaults(reference=)` was given.
        memory: Any namespace of the store; saved objects know their own namespace.

    Raises:
        ValueError: the name is blank.
    """
    if not name.strip():
        raise ValueError("a memory cannot be registered under a blank name")
    with _LOCK:
        _NAMED[name] = memory


def memory_named(reference: str) -> Memory:
    """Return the memory of a name, or else of a folder, which is opened if need be.

    Raises:
        LookupError: neither a name that is registered nor a folder.
    """
    with _LOCK:
        found = _NAMED.get(reference)
        if found is not None:
            return found
        if not Path(reference).is_dir():
            raise LookupError(
                f"no memory is registered as {reference!r}, and no folder is called so; before"
                f" loading, call register_memory({reference!r}, memory)"
            )
        path = str(Path(reference).resolve())
        if path not in _OPENED:
            _OPENED[path] = open_memory(path)
        return _OPENED[path]
