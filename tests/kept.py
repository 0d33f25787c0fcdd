"""What a memory has kept, as tests ask it."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recall_echo_core import Memory


def said(memory: Memory) -> list[str]:
    return [f"{episode.role}: {episode.content}" for episode in memory.episodes()]


def events(memory: Memory, kind: str) -> int:
    """How many events of a kind the log holds."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log.jsonl")
        memory.export(log)
        lines = log.read_text(encoding="utf-8").splitlines()
        return sum(json.loads(line).get("kind") == kind for line in lines)
