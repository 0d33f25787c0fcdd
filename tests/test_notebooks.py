"""The notebooks run from top to bottom in a kernel of their own, offline."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
import pytest
from nbclient import NotebookClient
from test_examples import MODEL_KEYS, SITE

if TYPE_CHECKING:
    from nbformat import NotebookNode

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))

pytestmark = [
    pytest.mark.slow,
    # The client of Jupyter warns of its own ways with event loops and sockets.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment for kernels in which nobody leaves the machine unseen; where that is told."""
    site, attempts = tmp_path / "site", tmp_path / "attempts"
    site.mkdir()
    (site / "sitecustomize.py").write_text(SITE)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), str(ROOT)]))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.setenv("ATTEMPTS", str(attempts))
    for key in MODEL_KEYS:
        monkeypatch.delenv(key, raising=False)
    return attempts


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_offline(path: Path, offline: Path, tmp_path: Path) -> None:
    """To its last cell, which asserts what must hold."""
    notebook = nbformat.read(path, as_version=4)

    client = NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},
    )
    client.execute()
    assert not offline.exists(), offline.read_text()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs_and_ends_with_asserts(path: Path) -> None:
    """Outputs are nobody's to read in a diff."""
    cells: list[NotebookNode] = nbformat.read(path, as_version=4).cells

    code = [cell for cell in cells if cell.cell_type == "code"]
    assert [cell.outputs for cell in code] == [[]] * len(code)
    assert "assert " in code[-1].source


def test_there_are_notebooks_and_this_python_runs_them() -> None:
    assert NOTEBOOKS
    assert (Path(sys.prefix) / "share" / "jupyter" / "kernels" / "python3").is_dir()
