"""Is what holds recalled, and nothing that does not? AutoMemoryBench and PrecisionMemBench.

    python benchmarks/state_and_precision.py [--data DIR] [--failures]

Both through the public API only. AutoMemoryBench hands over structured events; how each kind is
told is `TOLD` below, by its type alone: what the answers are, or what must not be stored, is never
looked at. An update supersedes what it names, a deletion forgets, what confirms corroborates, what
is said of other work is an episode. Of every question that needs memory: share of gold within 5;
whether anything forbidden stands within 5; whether all gold and nothing forbidden stands within 10.
The row BM25 ranks the texts of all memories, as published (all 8 domains: 23.9, 48.4, 0.7).

PrecisionMemBench: a belief is a relation of an entity that carries its name and, as abstract, its
other names, in one namespace a user and scope; what was replaced or resolved ended then. Pinned
facts and open questions are listed. Relevant are beliefs held now about entities that are recalled
and share a word with the question by one of their names, without expansion through the graph. A
case passes as its authors define it: the relevant beliefs are exactly those expected, and every
other list holds what it must and nothing that it must not.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from recall_quality_parts.baselines import Words, best
from recall_quality_parts.measures import DEPTH
from recall_quality_parts.terms import baseline_terms
from rich.console import Console
from rich.table import Table

from recall_echo_core import Hit, Memory, open_memory

DOMAINS = "coding_agent customer_support personal_assistant research_assistant".split()
BELIEFS = 8  # of PrecisionMemBench's budget, where a case names none

Event = dict[str, Any]
Belief = dict[str, Any]
console = Console(width=120, highlight=False)


class Told:
    """One case of AutoMemoryBench, told to a memory: which unit does each hit stand for?"""

    def __init__(self, memory: Memory, case: dict[str, Any]) -> None:
        self.memory = memory
        self._events = {event["event_id"]: event for event in case["events"]}
        self._turns = {turn["turn_id"]: turn for one in case["sessions"] for turn in one["turns"]}
        self._units: dict[tuple[str, ...], str] = {}
        self._newest: dict[tuple[str, ...], tuple[str, str, str]] = {}
        for event in case["events"]:
            TOLD[event["event_type"]](self, event)
        memory.flush()

    def unit(self, hit: Hit) -> str:
        """Return the id of the memory unit that a hit stands for."""
        item: Any = hit.item
        if hit.kind == "episode":
            return self._units[(item.id,)]
        return self._units[item.subject, item.type, item.object]

    def fact(self, event: Event, type: str | None = None, **details: Any) -> None:
        """A new relation, which the event's memory unit is."""
        triple = event["subject"], type or event["predicate"], event["object"]
        self._units.setdefault(triple, f"m_{event['event_id']}")
        self._newest[event["event_type"], event["subject"]] = triple
        self._newest[(event["event_type"],)] = triple
        self.memory.remember(*triple, **self._who(event), **details)

    def confirms(self, event: Event, *what: str) -> None:
        """More evidence for the newest relation told by such an event, of this subject if any."""
        triple = self._newest.get((what[0], event["subject"])) or self._newest[(what[0],)]
        self.memory.corroborate(*triple, **self._who(event))

    def update(self, event: Event) -> None:
        """The event names which earlier one it replaces."""
        old = self._events[event["attributes"]["supersedes"]]
        triple = event["subject"], "is", event["object"]
        self._units[triple] = f"m_{event['event_id']}"
        who = self._who(event)
        at = who.pop("observed_at")
        self.memory.supersede(old["subject"], "is", old["object"], event["object"], at=at, **who)

    def expires(self, event: Event) -> None:
        """What ends is true until it does."""
        self.fact(event, valid_until=event["timestamp"])

    def forget(self, event: Event) -> None:
        """Erased, and that it was asked for is not kept either."""
        self.memory.forget(relation=(event["subject"], "is", event["object"]))

    def said(self, event: Event) -> None:
        """Not a fact about this work: what was said is kept as it was said."""
        for id in event["source_turn_ids"]:
            turn = self._turns[id]
            message = {key: turn[key] for key in ("role", "content")}
            (episode,) = self.memory.record(
                message | {"time": event["timestamp"]}, session_id=id.rpartition(":")[0]
            )
            self._units[(episode,)] = f"m_{event['event_id']}"

    @staticmethod
    def _who(event: Event) -> dict[str, Any]:
        return {"source": event["attributes"]["actor"], "observed_at": event["timestamp"]}


TOLD: dict[str, Callable[[Told, Event], None]] = {
    "fact_introduction": lambda told, event: told.fact(event),
    "fact_reinforcement": lambda told, event: told.confirms(event, "fact_introduction"),
    "retention_confirmation": lambda told, event: told.confirms(event, "fact_introduction"),
    "fact_update": Told.update,
    "conflict_event": lambda told, event: told.fact(event, "is", context="speculative"),
    "expiry_event": Told.expires,
    "deletion_request": Told.forget,
    "sensitive_disclosure": lambda told, event: None,  # said with "do not save": it is not
    "authorized_sensitive_memory": lambda told, event: told.fact(event),
    "authorization_event": lambda told, event: told.fact(event),
    "tool_result": lambda told, event: told.fact(event),
    "tool_outcome_event": lambda told, event: told.confirms(event, "tool_result"),
    "planning_constraint": lambda told, event: told.fact(event),
    "document_note": lambda told, event: told.confirms(event, "planning_constraint"),
    "procedural_event": lambda told, event: told.fact(event),
    "feedback_event": lambda told, event: told.fact(event),
    "reflective_event": lambda told, event: told.fact(event),
    "task_result_event": lambda told, event: told.fact(event),
    "platform_message": lambda told, event: told.confirms(event, "task_result_event"),
    "governance_rule": lambda told, event: told.fact(event),
    "near_miss_context": Told.said,
    "distractor": Told.said,
}


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def judged(found: Sequence[str], query: dict[str, Any]) -> tuple[float, float, float]:
    """Return share of gold within 5, whether forbidden within 5, whether all and none within 10."""
    gold, forbidden = set(query["gold_memory_ids"]), set(query["forbidden_memory_ids"])
    first, whole = set(found[:5]), set(found[:DEPTH])
    return (
        len(gold & first) / len(gold),
        float(bool(forbidden & first)),
        float(gold <= whole and not forbidden & whole),
    )


def automemorybench(folder: Path) -> Table:
    rows: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for path in (folder / f"{domain}.json.gz" for domain in DOMAINS):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            cases = json.load(file)["cases"]
        for case in cases:
            asked = [query for query in case["queries"] if query["requires_memory"]]
            units = case["gold_memory_units"]
            words = Words([baseline_terms(unit["content"]) for unit in units])
            now = moment(max(query["timestamp"] for query in case["queries"]))
            with (
                tempfile.TemporaryDirectory() as place,
                open_memory(place, single_valued={"is"}, clock=lambda: now) as memory,  # noqa: B023 used only here
            ):
                told = Told(memory, case)
                for query in asked:
                    scores = words.bm25(baseline_terms(query["prompt"]), 1.5, 0.75)
                    plain = [units[place]["memory_id"] for place in best(scores, DEPTH)]
                    rows["BM25 over all memories"].append(judged(plain, query))
                    for kinds in (["relation"], ["relation", "episode"]):
                        hits = memory.recall(
                            query["prompt"], k=DEPTH, kinds=kinds, record_access=False
                        )
                        found = [told.unit(hit) for hit in hits]
                        name = f"recall-echo, {' and '.join(kinds)}s"
                        rows[name].append(judged(found, query))
    made = Table(
        f"AutoMemoryBench, n {len(next(iter(rows.values())))}",
        "gold within 5",
        "forbidden within 5",
        "all gold, none forbidden, within 10",
    )
    for name, each in rows.items():
        means = [100 * sum(column) / len(each) for column in zip(*each, strict=True)]
        made.add_row(name, *(f"{mean:.1f} %" for mean in means))
    return made


class Beliefs:
    """The beliefs of PrecisionMemBench, told to a memory by user and scope."""

    def __init__(self, memory: Memory, beliefs: list[Belief]) -> None:
        self._memory = memory
        self._known = {belief["_id"]: belief for belief in beliefs}
        self._named = {self._name(belief): belief for belief in beliefs}
        for belief in beliefs:
            for scope in belief["scope"]:
                self._tell(memory.namespace(f"{belief['user_id']} {scope}"), belief)
        memory.flush()

    def _tell(self, memory: Memory, belief: Belief) -> None:
        name = self._name(belief)
        memory.add_entity(name, kind=belief["type"], abstract=", ".join(belief["aliases"]) or None)
        memory.remember(
            name,
            "is",
            belief["content"],
            context="inferred" if belief["epistemic_status"] == "inferred" else "explicit",
            observed_at=belief["last_reinforced_at"],
            valid_until=self._ended(belief),
        )
        for other in belief.get("participants", ()):
            memory.remember(name, "involves", self._name(self._known[other]))

    @staticmethod
    def _name(belief: Belief) -> str:
        name: str = belief["canonical_name"]
        return name.replace("_", " ")

    def _ended(self, belief: Belief) -> str | None:
        if belief["superseded_by"]:
            ended: str = self._known[belief["superseded_by"]]["created_at"]
            return max(ended, belief["last_reinforced_at"])
        return belief["resolved_at"]

    def listed(self, user: str, scope: str) -> list[Belief]:
        """What is pinned and believed now, as a host lists it."""
        memory = self._memory.namespace(f"{user} {scope}")
        return [
            belief
            for name, belief in self._named.items()
            if belief["pinned"]
            and belief["user_id"] == user
            and scope in belief["scope"]
            and memory.beliefs(name, "is")
        ]

    def recalled(self, user: str, scope: str, text: str, most: int) -> list[str]:
        """What the question calls by a word of its names and is believed now, with who takes part.

        Pinned beliefs are listed already.
        """
        if not text.strip():
            return []
        memory = self._memory.namespace(f"{user} {scope}")
        found: list[str] = []
        hits = memory.recall(text, k=4 * DEPTH, kinds=["entity"], record_access=False)
        for hit in hits:
            item: Any = hit.item
            belief = self._named.get(item.name)
            called = hit.parts.get("words", 0.0) > 0.0
            if belief is not None and called and memory.beliefs(item.name, "is"):
                part = [self._known[id] for id in belief.get("participants", ())]
                found += [one["_id"] for one in (belief, *part) if not one["pinned"]]
        return list(dict.fromkeys(found))[:most]


def failures(case: dict[str, Any], known: Beliefs) -> list[str]:
    """Return what is wrong with the context assembled for a case."""
    user, text = case.get("userId", "test-user"), case["query"]
    most = case.get("budget", {}).get("maxBeliefs", BELIEFS)
    pinned = [belief for scope in case["scope"] for belief in known.listed(user, scope)]
    facts = [belief["_id"] for belief in pinned if belief["type"] != "open_question"][:most]
    relevant = [
        id for scope in case["scope"] for id in known.recalled(user, scope, text, most - len(facts))
    ]
    prelude = [belief["content"].casefold() for belief in known.listed(user, "user:universal")]
    lists = {
        "pinnedFacts": facts,
        "relevantBeliefs": relevant,
        "openQuestions": [b["_id"] for b in pinned if b["type"] == "open_question"],
    }
    wrong = []
    for name, wanted in case["expect"].items():
        if name == "personaPrelude":
            if wanted.get("nonEmpty") and not prelude:
                wrong.append("no prelude")
            wrong += [f"prelude lacks {word}" for word in wanted.get("contains", ())
                      if word not in " ".join(prelude)]  # fmt: skip
            continue
        found = set(lists[name])
        wrong += [f"{name} lacks {id}" for id in set(wanted.get("mustInclude", ())) - found]
        wrong += [f"{name} has {id}" for id in set(wanted.get("mustExclude", ())) & found]
        if "shouldOnlyInclude" in wanted:
            exact = set(wanted["shouldOnlyInclude"])
            wrong += [f"{name} lacks {id}" for id in exact - found]
            wrong += [f"{name} has {id}" for id in found - exact]
    return wrong


def precisionmembench(folder: Path, *, show: bool) -> Table:
    cases = json.loads((folder / "retrieval.cases.dev.json").read_text("utf-8"))
    seeds = json.loads((folder / "beliefs.seed.json").read_text("utf-8"))
    now = moment(max(belief["last_reinforced_at"] for belief in seeds))
    passed: dict[str, list[bool]] = defaultdict(list)
    with (
        tempfile.TemporaryDirectory() as place,
        open_memory(
            place, clock=lambda: now, settings={"graph": {"expansion": {"seeds": 0}}}
        ) as memory,
    ):
        known = Beliefs(memory, seeds)
        for case in cases:
            wrong = failures(case, known)
            passed[case["category"]].append(not wrong)
            if show and wrong:
                console.print(f"{case['caseId']}: {'; '.join(sorted(wrong))}")
    made = Table("PrecisionMemBench", "cases", "passed")
    for category, each in sorted(passed.items()):
        made.add_row(category, str(len(each)), str(sum(each)))
    every = [one for each in passed.values() for one in each]
    made.add_row("all", str(len(every)), str(sum(every)))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = Path(__file__).parents[1].parent / "shared" / "data"
    parser.add_argument("--data", type=Path, default=default, help="folder of the data sets")
    parser.add_argument("--failures", action="store_true", help="say what is wrong in each case")
    options = parser.parse_args()
    fixtures = options.data / "fixtures"
    if not fixtures.is_dir():
        sys.exit(f"skipped: {fixtures} is missing; benchmarks/README.md says where to get it")
    console.print(automemorybench(fixtures / "automemorybench"))
    console.print(precisionmembench(fixtures / "precisionmembench", show=options.failures))


if __name__ == "__main__":
    main()
