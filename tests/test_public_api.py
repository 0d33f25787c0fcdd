"""The front door: what stands in it, and what opening it costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import recall_echo_core

ROOT = Path(__file__).parents[1]
NAMES = """
Belief
Beta
Entity
Episode
Explanation
Hit
Memory
NotAllowed
NotFound
PastView
Path
Reach
Recall
RecallEchoError
Relation
Statement
UnknownRecall
UsageReceipt
approximate_tokens
fenced
fitting
neutralised
open_memory
"""
HEAVY = [
    "chromadb",
    "fastembed",
    "onnxruntime",
    "numpy",
    "scipy",
    "sqlalchemy",
    "tokenizers",
    "rich",
]
FRAMEWORKS = ["langchain", "langchain_core", "langgraph", "llama_index", "pydantic"]


def loaded_by(code: str) -> set[str]:
    """Return the top-level modules that a fresh interpreter has after running some code."""
    code += "\nimport sys; print(*{name.partition('.')[0] for name in sys.modules})"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return set(done.stdout.split())


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    return loaded_by("import recall_echo_core")


def test_the_names_that_are_promised() -> None:
    """Exactly these; each is there and says what it is."""
    assert "\n".join(["", *recall_echo_core.__all__, ""]) == NAMES
    for name in recall_echo_core.__all__:
        assert getattr(recall_echo_core, name).__doc__


def test_nothing_else_is_handed_out() -> None:
    """A star import brings the promised names alone."""
    given: dict[str, object] = {}
    exec("from recall_echo_core import *", given)

    assert sorted(given.keys() - {"__builtins__"}) == sorted(NAMES.split())


@pytest.mark.parametrize("module", HEAVY)
def test_importing_loads_nothing_heavy(loaded: set[str], module: str) -> None:
    """What takes long to import is imported when it is needed."""
    assert module not in loaded


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_importing_loads_no_framework(loaded: set[str], framework: str) -> None:
    """The core does not know who uses it."""
    assert framework not in loaded


def test_the_root_is_typed() -> None:
    """Type checkers are told so."""
    assert (ROOT / "recall_echo_core" / "py.typed").is_file()
