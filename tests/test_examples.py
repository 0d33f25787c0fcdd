"""The examples run as a person runs them: another process, another folder, no network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

MODEL_KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")  # with one of them, a real model answers
EXAMPLES = Path(__file__).parents[1] / "examples"

# Runs at the start of every Python process that has this folder on its path: whoever tries to
# leave the machine is written down and refused.
SITE = """
import os, sys

def watch(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname"):
        address = arguments[1] if event == "socket.connect" else arguments[0]
        if isinstance(address, (tuple, str, bytes)) and not str(address).startswith("/"):
            with open(os.environ["ATTEMPTS"], "a") as file:
                file.write(f"{event} {address}\\n")
            raise OSError(f"the network is off: {event} {address}")

sys.addaudithook(watch)
"""


def run(tmp_path: Path, example: str, *arguments: str) -> str:
    """Run an example with an empty home and the network off; return what it printed."""
    site, home, attempts = tmp_path / "site", tmp_path / "home", tmp_path / "attempts"
    site.mkdir()
    home.mkdir()
    (site / "sitecustomize.py").write_text(SITE)
    environment = {
        **{key: value for key, value in os.environ.items() if key not in MODEL_KEYS},
        "PYTHONPATH": os.pathsep.join([str(site), str(EXAMPLES.parent)]),
        "PYTHONWARNINGS": "error",
        "HOME": str(home),
        "ATTEMPTS": str(attempts),
    }
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / example), *arguments],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert not attempts.exists(), attempts.read_text()
    return done.stdout


def test_the_watch_would_notice(tmp_path: Path) -> None:
    """The guard of these tests catches an attempt to leave the machine."""
    script = tmp_path / "leave.py"
    script.write_text("import socket\nsocket.create_connection(('192.0.2.1', 9))\n")

    with pytest.raises(AssertionError, match="the network is off"):
        run(tmp_path, str(script))


def test_quickstart_tells_its_story(tmp_path: Path) -> None:
    """Two runs: belief fades, is contradicted, changes with its history kept, and is explained."""
    printed = run(tmp_path, "quickstart.py")

    for line in (
        r"Acme +│ 90\.9% +│ 69% to 100% +│ 53\.8%",
        r"Acme +│ 83\.3% +│ 59% to 98% +│ 49\.4%",
        r"Oslo +│ 90\.0%",
        r"2026-01-31, as known on 2026-03-14 │ Paris",
        r"2026-03-14, as known on 2026-03-14 │ Oslo",
        r"opposes +│ Beta\(10, 2\) = 83\.3%",
        r"utility of Acme 0\.50 → 0\.55",
        r"</memory>",
    ):
        assert re.search(line, printed), f"{line!r} is not in\n{printed}"


def test_quickstart_keeps_its_folder_when_given_one(tmp_path: Path) -> None:
    """A folder of one's own is filled, and a second telling adds to it."""
    folder = tmp_path / "mine"
    run(tmp_path, "quickstart.py", str(folder))

    assert (folder / "log.sqlite3").stat().st_size > 0


@pytest.mark.slow
def test_a_long_dialogue_answers_at_least_as_well_as_dense_vectors(
    tmp_path: Path, data: Path
) -> None:
    """One whole LoCoMo dialogue: evidence recall@10 is at or above dense vectors alone."""
    file = data / "retrieval" / "locomo10_dev.jsonl.gz"
    if not file.is_file():
        pytest.skip(f"{file} is missing; benchmarks/README.md says where to get it")
    printed = run(tmp_path, "conversation.py", str(file), "--limit", "1", "--show", "1")

    rows = re.findall(r"│ ([\w-]+) +│ +(\d+) +│ +([\d.]+)% +│ +([\d.]+)% +│", printed)
    shares = {category: (float(ours), float(dense)) for category, _, ours, dense in rows}
    assert "419 turns recorded" in printed
    assert shares["all"][0] >= shares["all"][1] > 40


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    """A wrong path is an error of one line, not a trace."""
    with pytest.raises(AssertionError, match="is not there; see benchmarks/README"):
        run(tmp_path, "conversation.py", "nowhere.jsonl.gz")


@pytest.mark.slow
def test_the_langchain_agent_tells_its_story(tmp_path: Path) -> None:
    """Three conversations: told, used and rated, contradicted and explained."""
    printed = run(tmp_path, "langchain_agent.py")

    for line in (
        r"friday  Ada: Where do I live\?\n +agent: You live in Paris",
        r"Ada lives in Paris: 90% sure, utility 0\.55",
        r"Ada lives in Paris: 82% sure, utility 0\.55",
        r"Ada lives in Oslo: 90% sure, utility 0\.50",
        r"opposes +Beta\(9, 2\) = 81\.8%",
        r"another user's memory holds: \[\]",
    ):
        assert re.search(line, printed), printed


@pytest.mark.slow
def test_the_classic_chain_tells_its_story(tmp_path: Path) -> None:
    """What one chain was told, another is asked; a rating moves what the answer used."""
    printed = run(tmp_path, "langchain_classic_chain.py")

    for line in (
        r"Ada lives in Paris \[M\d\]\.",
        r"90% sure, utility 0\.55 after a thumbs-up",
    ):
        assert re.search(line, printed), printed
