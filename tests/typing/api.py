"""How callers may use the types; checked, never run."""

from __future__ import annotations

from typing import assert_type

from recall_echo_core import Belief, Beta, Entity, Memory, Recall, Relation, open_memory

with open_memory("folder", namespace="alice", single_valued={"LIVES_IN"}) as memory:
    assert_type(memory, Memory)
    assert_type(memory.remember("Alice", "WORKS_AT", "Acme", source="user"), Relation)
    assert_type(memory.contradict("Alice", "WORKS_AT", "Acme", weight=0.5), Relation)
    assert_type(memory.beliefs("Alice", "WORKS_AT"), list[Belief])
    assert_type(memory.recall("where?", kinds={"entity", "relation"}), Recall)
    assert_type(memory.get("Alice"), Entity)
    assert_type(memory.beliefs("Alice", "WORKS_AT")[0].relation.belief, Beta)
    assert_type(memory.as_of("2026-03-14").beliefs("Alice", "WORKS_AT"), list[Belief])
