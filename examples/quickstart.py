"""What recall-echo does, in two runs of one program.

    python quickstart.py [FOLDER]

Starts itself twice on one folder: the first run tells the memory things, the second, a new process
two months later, asks, contradicts, looks back and learns from an outcome. The clock is moved by
hand so that you need not wait; no network is used.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta

from rich.console import Console
from rich.table import Table

from recall_echo_core import Memory, open_memory

console = Console(width=100, highlight=False)


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self, *day: int) -> None:
        self.now = datetime(*day, 9, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def table(title: str, *columns: str) -> Table:
    return Table(*columns, title=title, title_justify="left", title_style="bold")


def show_beliefs(title: str, memory: Memory, subject: str, relation: str) -> None:
    rows = table(title, "value", "confidence", "95 % interval", "now, after fading", "probability")
    for belief in memory.beliefs(subject, relation):
        low, high = belief.interval
        chance = "–" if belief.probability is None else f"{belief.probability:.0%}"
        rows.add_row(
            belief.object,
            f"{belief.confidence:.1%}",
            f"{low:.0%} to {high:.0%}",
            f"{belief.effective:.1%}",
            chance,
        )
    console.print(rows)


def first_run(folder: str) -> None:
    clock = Clock(2026, 1, 5)
    with open_memory(folder, namespace="alice", single_valued={"LIVES_IN"}, clock=clock) as memory:
        memory.record(
            [
                {"role": "user", "name": "Alice", "content": "I just started at Acme in Oslo!"},
                {"role": "assistant", "content": "Congratulations! How is the new job?"},
                {"role": "user", "name": "Alice", "content": "Great, but I still live in Paris."},
            ],
            session_id="monday",
        )
        memory.add_entity("Acme", kind="organization", abstract="A tool maker in Oslo")
        memory.remember("Alice", "WORKS_AT", "Acme", source="user")
        memory.corroborate("Alice", "WORKS_AT", "Acme", source="tool:crm")
        memory.remember("Alice", "LIVES_IN", "Paris", source="user")
        show_beliefs("Where does Alice work?", memory, "Alice", "WORKS_AT")
        show_beliefs("Where does Alice live?", memory, "Alice", "LIVES_IN")


def second_run(folder: str) -> None:
    clock = Clock(2026, 3, 14)
    with open_memory(folder, namespace="alice", clock=clock) as memory:
        show_beliefs("Nobody has confirmed it since: belief fades", memory, "Alice", "WORKS_AT")

        memory.contradict("Alice", "WORKS_AT", "Acme", source="user")
        show_beliefs("Alice says she left: one statement does not erase two", memory, "Alice",
                     "WORKS_AT")  # fmt: skip
        memory.supersede("Alice", "LIVES_IN", "Paris", "Oslo", at="2026-02-01")
        show_beliefs("She moved on February 1: Paris is not wrong, it is over", memory, "Alice",
                     "LIVES_IN")  # fmt: skip

        found = memory.recall("Which company in Oslo does Alice work for?", k=4)
        console.print("[bold]What a model would be given[/bold]")
        console.print(found.as_text() + "\n", markup=False)

        acme = memory.get("Acme")
        cited = next(hit.alias for hit in found if hit.id == acme.id)
        usage = memory.mark_used(found.id, response=f"Last I heard she was at Acme [{cited}].")
        memory.feedback(found.id, "success")
        console.print(
            f"The answer cited [{cited}] (told by {usage.method}) and the turn went well:"
            f" utility of Acme {acme.utility:.2f} → {memory.get('Acme').utility:.2f}\n",
            markup=False,
        )
        show_why(memory)

        look_back = table("What did you believe about her home?", "asked about", "answer")
        for day in ("2026-01-31", "2026-03-14"):
            then = memory.as_of("2026-03-14", valid_at=day).beliefs("Alice", "LIVES_IN")
            look_back.add_row(f"{day}, as known on 2026-03-14", then[0].object)
        known = memory.as_of("2026-01-31").beliefs("Alice", "LIVES_IN")
        look_back.add_row("2026-01-31, as known then", known[0].object)
        console.print(look_back)
        clock.now += timedelta(days=365)
        show_beliefs("And a year later, if nobody says another word", memory, "Alice", "LIVES_IN")


def show_why(memory: Memory) -> None:
    why = memory.explain("Alice", "WORKS_AT", "Acme")
    steps = table("Why do you believe she works at Acme?", "observed", "source", "what", "belief")
    for move in why.moves:
        belief = f"Beta({move.alpha:g}, {move.beta:g}) = {move.confidence:.1%}"
        steps.add_row(f"{move.observed_at:%Y-%m-%d}", move.source, move.reason, belief)
    fading = f"{why.days:.0f} days at a half-life of {why.relation.half_life_days:.0f}"
    steps.add_row(f"{why.relation.read_at:%Y-%m-%d}", "", fading, f"{why.recomputed():.1%}")
    console.print(steps)


def main() -> None:
    runs = {"first": first_run, "second": second_run}
    if sys.argv[2:]:
        runs[sys.argv[2]](sys.argv[1])
        return
    with tempfile.TemporaryDirectory(prefix="recall-echo-") as scratch:
        folder = sys.argv[1] if sys.argv[1:] else scratch
        for name in runs:
            console.rule(f"The {name} run", align="left")
            subprocess.run([sys.executable, __file__, folder, name], check=True)


if __name__ == "__main__":
    main()
