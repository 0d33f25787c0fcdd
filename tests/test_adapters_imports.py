"""What the adapters need, and what they say when it is not there."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# The names of each adapter, and what a missing framework makes them ask for.
LANGCHAIN = {
    "RecallEchoCallbackHandler": ("langchain_core", "langchain"),
    "RecallEchoRetriever": ("langchain_core", "langchain"),
    "RecallEchoTool": ("langchain_core", "langchain"),
    "RecallEchoToolkit": ("langchain_core", "langchain"),
    "as_text": ("langchain_core", "langchain"),
    "RecallEchoMiddleware": ("langchain", "langchain"),
    "RecallEchoMemory": ("langchain_classic", "langchain-classic"),
}


def run_without(missing: str, code: str) -> subprocess.CompletedProcess[str]:
    """Run code in an interpreter that cannot find one top-level package."""
    hide = f"""
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hidden())
"""
    return subprocess.run(
        [sys.executable, "-c", hide + code], cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("package", ["langchain", "llama_index"])
def test_a_package_can_be_imported_without_any_framework(package: str) -> None:
    """Neither the core nor an adapter's face loads what need not be there."""
    code = f"""
import sys
import recall_echo_core, recall_echo_adapters, recall_echo_adapters.{package} as adapter
assert adapter.__all__ == sorted(adapter.__all__), adapter.__all__
loaded = {{name.partition(".")[0] for name in sys.modules}}
print(sorted(loaded & {{"langchain", "langchain_core", "langchain_classic", "langgraph",
    "llama_index", "pydantic"}}))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


@pytest.mark.parametrize("name", LANGCHAIN)
def test_a_missing_framework_is_named_with_its_extra(name: str) -> None:
    missing, extra = LANGCHAIN[name]
    code = f"""
from recall_echo_adapters import langchain as adapter
try:
    adapter.{name}
except ImportError as error:
    print(error.name, "|", error)
"""
    done = run_without(missing, code)
    assert done.stdout.strip() == (
        f"{missing} | {name} needs {missing}: pip install 'recall-echo-adapters[{extra}]'"
    ), done.stderr


@pytest.mark.parametrize("missing", ["langchain", "langchain_classic", "langgraph"])
def test_retriever_tools_and_callbacks_need_langchain_core_only(missing: str) -> None:
    code = """
from recall_echo_adapters.langchain import (
    RecallEchoCallbackHandler, RecallEchoRetriever, RecallEchoToolkit
)
print("fine")
"""
    done = run_without(missing, code)
    assert done.stdout.strip() == "fine", done.stderr


def test_importing_everything_asks_only_for_what_the_extra_brings() -> None:
    code = "from recall_echo_adapters.langchain import *\nprint(RecallEchoMiddleware.__name__)"
    done = run_without("langchain_classic", code)
    assert done.stdout.strip() == "RecallEchoMiddleware", done.stderr


def test_every_promised_name_is_there_and_says_what_it_is() -> None:
    adapter = importlib.import_module("recall_echo_adapters.langchain")

    for name in adapter.__all__:
        assert getattr(adapter, name).__doc__
        assert name in dir(adapter)
    with pytest.raises(AttributeError, match="no attribute 'RecallEchoStore'"):
        _ = adapter.RecallEchoStore
