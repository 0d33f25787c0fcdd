"""What is printed in README and docs has been run."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

from recall_echo_core import Memory
from recall_echo_core.settings import KEYS, load_settings

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
VERBS = re.compile(r"memory\.(\w+)\(")


def blocks(page: Path, language: str) -> list[str]:
    return [code for kind, code in FENCE.findall(page.read_text("utf-8")) if kind == language]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run_in_order(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_network: list[str]
) -> None:
    """Every Python block of a page runs, one after the other, offline."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for code in blocks(page, "python"):
        exec(compile(code, str(page), "exec"), names)

    assert all(isinstance(ast.parse(code), ast.Module) for code in blocks(page, "python"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link of a page names a file that is there."""
    targets = LINK.findall(page.read_text("utf-8"))

    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_commands_of_the_readme_are_those_of_ci() -> None:
    """`make demo` and `make test` stand in README and Makefile, and CI calls the latter."""
    readme, makefile, ci = (
        (ROOT / name).read_text("utf-8") for name in ("README.md", "Makefile", ".ci/run")
    )
    for command in ("demo", "test"):
        assert f"$ make {command}" in readme
        assert f"\n{command}: " in makefile
    assert "\nmake test" in ci


def test_the_readme_is_short() -> None:
    """README stays under 150 lines."""
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) < 150


def test_every_verb_of_the_readme_exists() -> None:
    """README calls no verb that a memory does not have."""
    verbs = {verb for code in blocks(ROOT / "README.md", "python") for verb in VERBS.findall(code)}

    assert verbs
    assert [verb for verb in sorted(verbs) if not hasattr(Memory, verb)] == []


def test_every_setting_is_documented(tmp_path: Path) -> None:
    """The page lists each key once, and its example loads."""
    page = ROOT / "docs" / "configuration.md"
    listed = re.findall(r"^\| `([\w.]+)` \|", page.read_text("utf-8"), re.M)
    (example,) = blocks(page, "toml")

    assert sorted(listed) == sorted(KEYS)
    settings = load_settings(tmp_path, tomllib.loads(example))
    assert settings.weights.semantic == 0.6
    assert settings.declared["half_lives"] == {"lives_in": 400}
