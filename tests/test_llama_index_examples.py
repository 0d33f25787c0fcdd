"""The LlamaIndex example tells its story offline; tests/test_notebooks.py runs the notebook."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from test_examples import run

pytestmark = pytest.mark.slow


def test_the_llama_index_chat_tells_its_story(tmp_path: Path) -> None:
    """Told on Monday, recalled and rated on Friday, and nothing of it for another user."""
    printed = run(tmp_path, "llama_index_chat.py")

    for line in (
        r"friday  Ada: Where do I live\?\n +model: You live in Paris, near the canal \[M1\]",
        r"After a thumbs-up for 1 recall",
        r"utility 0\.55: user: Hello! I am Ada",
        r"sunday  Bob: Where does Ada live\?\n +model: That I do not know",
    ):
        assert re.search(line, printed), printed
    # What was remembered and said again is not kept.
    assert "ada, friday: assistant" not in printed
