"""A log moves to another folder, machine or namespace whole, once, or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from recall_echo_core import Memory, Statement, open_memory
from recall_echo_core.errors import (
    BadExport,
    CorruptLog,
    StoreClosed,
    StoreError,
    UnknownEntity,
    UnsupportedShape,
)
from recall_echo_core.moving import BATCH
from recall_echo_core.stores.callable import CallableEmbedder

TESTS = Path(__file__).parent
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SIGNS = "abcdefghijklmnopqrstuvwxyz0123456789äßй東"


class Ticking:
    """A clock that moves on by a second each time it is asked."""

    def __init__(self, now: datetime = NOON) -> None:
        self.now = now

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


def letters(texts: list[str]) -> list[list[float]]:
    """Texts of the same letters are near; the meaning of words does not matter here."""
    return [[0.01, *(float(text.casefold().count(sign)) for sign in SIGNS)] for text in texts]


def model() -> CallableEmbedder:
    return CallableEmbedder(letters, model_id="letters")


def opened(folder: Path, namespace: str = "default", **more: Any) -> Memory:
    given: dict[str, Any] = {"settings": {"vectors": {"background": False}}, "clock": Ticking()}
    return open_memory(folder, namespace=namespace, embedding=model(), **(given | more))


def tell(memory: Memory) -> None:
    """Something of every verb, with names and values that are easily lost on the way."""
    memory.add_entity("Zoë 東京", kind="person", abstract="a\npainter\u2028", content="“all”\x00")
    memory.add_entity("Ann", key="1", abstract="the painter")
    memory.add_entity("Ann", key="2", abstract="the singer", metadata={"n": -0.0, "big": 2**63 - 1})
    episodes = memory.record(
        [
            {
                "content": "👩‍👩‍👧 left for Москва \ud7ff",
                "time": "2026-01-05",
                "metadata": {"when": NOON, "day": date(2026, 1, 5), "none": None, "in": [{"a": 1}]},
            },
            {"content": "noted", "role": "assistant", "name": "Zoë 東京", "id": 7},
        ],
        session_id="поездка",
    )  # fmt: skip
    first, second = memory.get("Ann", key="1"), memory.get("Ann", key="2")
    memory.remember("Zoë 東京", "LIVES_IN", "Oslo", valid_from="2025-01-01", weight=0.1)
    memory.supersede("Zoe\u0308 東京", "lives_in", "Oslo", "Rome", at="2026-02-01")
    memory.remember("Zoë 東京", "LIVES_IN", "Bonn", episode_id=episodes[0], context="inferred")
    memory.remember(first, "LIKES", second, statement_id="s1", metadata={"at": NOON})
    memory.corroborate(first, "LIKES", second, source="tool:x", weight=1 / 3)
    memory.contradict(second, "LIKES", first, observed_at="2026-01-01T00:00:00.000001Z")
    taken = memory.remember(first, "OWNS", "a boat")
    memory.retract(str(taken.evidence_id))
    memory.observe(Statement(subject="Zoë 東京", type="SAW", object=f"thing {n}") for n in range(4))
    for number in range(3):
        found = memory.recall(f"what did Ann see {number}", k=8, run_id="run")
        memory.mark_used(found.id, used=["M1", "M3"])
        memory.feedback(found.id, "success" if number else "failed")
    memory.feedback(found.id, 0.25)
    memory.feedback_for_run("run", 0.75, key="judge")
    memory.forget(relation=("Zoë 東京", "SAW", "thing 2"))
    memory.recall("a last one, whose receipt waits")


NAMES = [("Zoë 東京", None), ("Ann", "1"), ("Ann", "2"), ("Oslo", None)]


def answers(memory: Memory, at: datetime | None = None) -> dict[str, Any]:
    """All that can be asked, by name; ids are those of this salt."""
    now = at or NOON + timedelta(days=30)
    past = memory.as_of(now)
    early = memory.as_of(NOON + timedelta(seconds=20))
    everything: dict[str, Any] = {}
    for label, view in (("now", memory), ("past", past), ("early", early)):
        relations = view.relations(limit=1_000)
        everything[label] = {
            "relations": [_of(relation) for relation in relations],
            "entities": [
                (e.name, e.key, e.kind, e.abstract, e.content, e.metadata, e.utility, e.accesses)
                for e in view.entities(limit=1_000)
            ],
            "episodes": [
                (e.id, e.content, e.role, e.name, e.session_id, e.time, e.metadata)
                for e in view.episodes(limit=1_000)
            ],
        }
    for label, view in (("past", past), ("early", early)):
        everything[label]["hits"] = [
            (hit.text, pytest.approx(hit.score, abs=1e-6), hit.alias)
            for hit in view.recall("Ann", 50)
        ]
        everything[label]["why"] = [_why(view, entity) for entity in view.entities(limit=1_000)]
    return everything


def _of(relation: Any) -> tuple[Any, ...]:
    return (
        relation.text, relation.type, relation.alpha, relation.beta, relation.context,
        relation.source, relation.supports, relation.opposes, relation.valid_from,
        relation.valid_until, relation.established_at, relation.reinforced_at,
    )  # fmt: skip


def _why(view: Any, entity: Any) -> list[Any]:
    found = []
    for relation in view.relations(entity, limit=1_000):
        value = next(e for e in view.entities(limit=1_000) if e.id == relation.object_id)
        why = view.explain(entity, relation.type, value)
        found.append(
            [(m.reason, m.evidence_id, m.recorded_at, m.metadata, m.alpha) for m in why.moves]
        )
        beliefs = view.beliefs(entity, relation.type)
        found.append([(b.object, b.probability, b.confidence, b.effective) for b in beliefs])
    return found


def rows(folder: Path) -> int:
    """How many events lie in a folder, read past this package."""
    with closing(sqlite3.connect(folder / "log.sqlite3")) as log:
        return int(log.execute("select count(*) from events").fetchone()[0])


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Memory]:
    """A memory in which everything was told."""
    with opened(tmp_path / "source", single_valued={"LIVES_IN", "BORN_IN", "WORKS_AT"}) as memory:
        tell(memory)
        yield memory


@pytest.fixture
def file(source: Memory, tmp_path: Path) -> Path:
    """What it exports."""
    source.export(tmp_path / "a.jsonl")
    return tmp_path / "a.jsonl"


class TestThereAndBack:
    def test_a_log_comes_exactly_as_it_was(
        self, source: Memory, file: Path, tmp_path: Path
    ) -> None:
        """In another folder it answers all questions alike, and exports the same bytes."""
        with opened(tmp_path / "target") as target:
            assert target.import_(file) == source.stats().events
            assert answers(target) == answers(source)
            target.export(tmp_path / "b.jsonl")

            assert (tmp_path / "b.jsonl").read_bytes() == file.read_bytes()
            assert target.verify().ok

    def test_it_goes_on_there_as_it_would_have_here(
        self, source: Memory, file: Path, tmp_path: Path
    ) -> None:
        """Statements told again count once, receipts take verdicts, settings are in force."""
        with opened(tmp_path / "target") as target:
            target.import_(file)
            for memory in (source, target):
                first, second = memory.get("Ann", key="1"), memory.get("Ann", key="2")
                again = memory.remember(first, "LIKES", second, statement_id="s1")
                assert again.supports == 2
                memory.feedback_for_run("run", 0.0, key="another judge")
                memory.remember("Zoë 東京", "LIVES_IN", "Prague", observed_at=NOON)
                memory.record({"content": "again", "id": 7}, session_id="поездка")

            ours, theirs = (
                {
                    "relations": [(r.text, r.alpha, r.beta, r.valid_from) for r in m.relations()],
                    "entities": [(e.name, e.utility, e.accesses) for e in m.entities()],
                    "episodes": [(e.id, e.content) for e in m.episodes()],
                }
                for m in (source, target)
            )
            assert theirs == ours
            assert len(ours["episodes"]) == 2

    def test_it_is_the_same_file_each_time(self, file: Path, tmp_path: Path) -> None:
        """Whatever order a process keeps sets in, the bytes are the same."""
        code = (
            f"import sys; sys.path.insert(0, {str(TESTS)!r})\n"
            "from pathlib import Path\n"
            "from test_moving import opened\n"
            "with opened(Path(sys.argv[1])) as memory: memory.export(sys.argv[2])\n"
        )
        exported = set()
        for seed in ("1", "2", "3"):
            with opened(tmp_path / f"target {seed}") as target:
                target.import_(file)
            path = tmp_path / f"{seed}.jsonl"
            env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(TESTS.parent)}
            arguments = [sys.executable, "-c", code, str(tmp_path / f"target {seed}"), str(path)]
            subprocess.run(arguments, env=env, check=True, timeout=60)
            exported.add(path.read_bytes())

        assert exported == {file.read_bytes()}

    def test_the_default_model_finds_the_same_there(
        self, tmp_path: Path, no_network: list[str]
    ) -> None:
        """Embeddings are made again: the same hits with the same scores, in the same order."""
        with (
            open_memory(tmp_path / "source", clock=Ticking()) as source,
            open_memory(tmp_path / "target", clock=Ticking()) as target,
        ):
            source.remember("Alice", "WORKS_AT", "Acme")
            source.remember("Bob", "MOVED_TO", "Oslo")
            source.record({"content": "The quarterly report is due on Friday"})
            source.export(tmp_path / "a.jsonl")
            target.import_(tmp_path / "a.jsonl")
            at = NOON + timedelta(days=1)

            for question in ("who is employed where?", "which deadline is close?"):
                ours, theirs = (m.recall(question, now=at, k=10) for m in (source, target))
                assert [(h.text, h.score) for h in theirs] == [
                    (h.text, pytest.approx(h.score, abs=1e-4)) for h in ours
                ]

    @pytest.mark.parametrize("name", ["two  words", "東京/..", "a" * 200, "línea 1"])
    def test_a_namespace_of_any_name_moves_to_any_other(self, tmp_path: Path, name: str) -> None:
        """The name in the file says where it came from and binds nobody."""
        with opened(tmp_path / "source", name) as source, opened(tmp_path / "target") as target:
            source.remember("Ann", "LIKES", "tea")
            source.export(tmp_path / "a.jsonl")

            assert target.import_(tmp_path / "a.jsonl") == 1
            assert [_of(r) for r in target.relations()] == [_of(r) for r in source.relations()]
            assert target.namespaces() == ["default"]

    def test_an_empty_log_moves_too(self, tmp_path: Path) -> None:
        """No event is a whole export of no event."""
        with opened(tmp_path / "source") as source, opened(tmp_path / "target") as target:
            assert source.export(tmp_path / "a.jsonl") == 0
            assert target.import_(tmp_path / "a.jsonl") == 0
            target.export(tmp_path / "b.jsonl")

        assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()

    def test_what_was_forgotten_stays_so(self, source: Memory, file: Path, tmp_path: Path) -> None:
        """Its place moves, and nothing of it; positions stay as they were."""
        erased = [line for line in _lines(file) if line.get("shape", 0) == 0 and "kind" in line]

        assert [line["kind"] for line in erased] == ["evidence"]
        assert b"thing 2" not in file.read_bytes()
        with opened(tmp_path / "target") as target:
            target.import_(file)
            with pytest.raises(UnknownEntity):
                target.get("thing 2")
            assert target.stats().events == source.stats().events


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_bytes().splitlines()]


class TestIntoWhatIsThere:
    def told(self, memory: Memory) -> None:
        memory.remember("Zoë 東京", "LIKES", "tea", observed_at=NOON)
        memory.remember("Otto", "LIVES_IN", "Oslo", observed_at=NOON)
        memory.record({"content": "something of its own", "time": NOON})

    def test_ids_are_made_anew_and_nothing_else_changes(self, tmp_path: Path) -> None:
        """Under another salt posteriors, texts, receipts and utility are those of the source."""
        settings = {"single_valued": {"LIVES_IN", "BORN_IN", "WORKS_AT"}}
        with (
            opened(tmp_path / "source", **settings) as source,
            opened(tmp_path / "target", **settings) as target,
        ):
            tell(source)
            self.told(target)
            source.export(tmp_path / "a.jsonl")
            target.import_(tmp_path / "a.jsonl")
            self.told(source)
            ours, theirs = answers(source)["now"], answers(target)["now"]

            # What "Otto" and the episode say stands first here and last there.
            for what in ("relations", "entities", "episodes"):
                assert sorted(map(repr, _without_ids(theirs[what]))) == sorted(
                    map(repr, _without_ids(ours[what]))
                )
            ids = ({e.id for e in m.entities(limit=100)} for m in (source, target))
            assert not set.intersection(*ids)
            assert target.verify().ok

    def test_feedback_on_a_recall_from_there_credits_the_right_items(
        self, source: Memory, file: Path, tmp_path: Path
    ) -> None:
        """A receipt that came along names the items of here."""
        found = source.recall("Ann", k=5)
        source.export(file)
        with opened(tmp_path / "target") as target:
            self.told(target)
            target.import_(file)
            before = {(e.name, e.key): e.utility for e in target.entities()}
            usage = target.mark_used(found.id, used=["M1", "M2"])
            target.feedback(found.id, "success")
            shown = {h.text: i < 2 for i, h in enumerate(found) if h.kind == "entity"}
            now = {e.text: (e.utility, (e.name, e.key)) for e in target.entities()}

            assert len(usage.used) == 2
            assert shown
            for text, used in shown.items():
                utility, which = now[text]
                assert (utility > before[which]) == used
            assert set(usage.used) <= {h.id for h in target.recall("Ann", k=100)}

    def test_an_entity_is_one_whoever_named_it(self, file: Path, tmp_path: Path) -> None:
        """What both know grows together: evidence of here and of there about one thing."""
        with opened(tmp_path / "target") as target:
            target.remember("zoë 東京", "saw", "Thing 1")
            target.import_(file)
            (relation,) = [r for r in target.relations("Zoë 東京", "SAW") if "1" in r.object]

            assert (relation.supports, relation.object) == (2, "Thing 1")

    def test_the_settings_of_here_stay(self, file: Path, tmp_path: Path) -> None:
        """What is single-valued here is decided here, though the other log said otherwise."""
        with opened(tmp_path / "target", single_valued={"OWNS"}) as target:
            target.import_(file)

            assert target.beliefs("Zoë 東京", "LIVES_IN")[0].probability is None
        with opened(tmp_path / "target") as target:
            target.remember("Ann", "OWNS", "a boat")
            assert target.beliefs("Ann", "OWNS")[0].probability is not None
            assert target.beliefs("Zoë 東京", "LIVES_IN")[0].probability is None

    def test_two_of_one_name_stay_apart(self, file: Path, tmp_path: Path) -> None:
        """Two of one name, told apart by a key, are two there, too."""
        with opened(tmp_path / "target") as target:
            target.remember("Ann", "LIKES", "tea")  # a third
            target.import_(file)

            assert target.get("Ann", key="1").abstract == "the painter"
            assert target.get("Ann", key="2").abstract == "the singer"
            assert target.get("Ann").abstract is None
            assert [r.object for r in target.relations("Ann")] == ["tea"]

    def test_of_a_damaged_log_those_with_a_lost_key_stay_apart(
        self, source: Memory, tmp_path: Path
    ) -> None:
        """Where the description with the key is lost, evidence is not added to somebody else's."""
        file, folder = tmp_path / "b.jsonl", tmp_path / "source"
        _damage(folder, "kind = 'entity' and position < 5")
        source.export(file, skip_damaged=True)
        with opened(tmp_path / "target") as target:
            target.remember("Ann", "LIKES", "tea")
            target.import_(file)

            assert [r.object for r in target.relations("Ann")] == ["tea"]


def _without_ids(items: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Of episodes the first field is an id, and a name makes another one of it here."""
    return [item[1:] if len(str(item[0])) == 32 else item for item in items]


def _damage(folder: Path, where: str) -> list[int]:
    with closing(sqlite3.connect(folder / "log.sqlite3")) as log:
        found = [row[0] for row in log.execute(f"select position from events where {where}")]
        log.execute(
            "update events set payload = cast(substr(payload, 1, 9) || x'00' ||"
            f" substr(payload, 11) as blob) where {where}"
        )
        log.commit()
    return found


class TestOnce:
    @pytest.mark.parametrize("own", [False, True], ids=["empty", "with its own"])
    def test_twice_adds_nothing(
        self, source: Memory, file: Path, tmp_path: Path, own: bool
    ) -> None:
        """Into an empty namespace or not, at once, reopened, and after a reindex."""
        with opened(tmp_path / "target") as target:
            if own:
                TestIntoWhatIsThere().told(target)
            target.import_(file)
            before, events = answers(target), target.stats().events
            assert target.import_(file) == 0
            target.reindex()
            assert target.import_(file) == 0
        with opened(tmp_path / "target") as target:
            assert target.import_(file) == 0
            assert (answers(target), target.stats().events) == (before, events)

    def test_a_longer_export_adds_the_rest(
        self, source: Memory, file: Path, tmp_path: Path
    ) -> None:
        """All of what was told since, settings and forgetting among it, exactly as it was."""
        with opened(tmp_path / "target") as target:
            target.import_(file)
        events = source.stats().events
        source.remember("Zoë 東京", "WORKS_AT", "Acme")
        source.close()
        with opened(tmp_path / "source", single_valued={"WORKS_AT"}) as source:
            source.remember("Zoë 東京", "WORKS_AT", "Initech")
            source.record({"content": "secret"}, session_id="gone")
            source.forget(session="gone")
            more = source.export(file) - events
            with opened(tmp_path / "target") as target:
                assert more >= 4
                assert target.import_(file) == more
                assert answers(target) == answers(source)
                target.export(tmp_path / "b.jsonl")
        assert (tmp_path / "b.jsonl").read_bytes() == file.read_bytes()

    def test_a_longer_export_after_something_of_its_own(
        self, source: Memory, file: Path, tmp_path: Path
    ) -> None:
        """What was told here meanwhile stays, and only the rest of there is added."""
        with opened(tmp_path / "target") as target:
            target.import_(file)
            target.remember("Otto", "LIKES", "tea")
            source.remember("Zoë 東京", "SAW", "thing 9")
            source.export(file)

            assert target.import_(file) == 1
            assert target.relations("Otto")[0].supports == 1
            assert target.get("thing 9").name == "thing 9"

    def test_an_export_of_its_own_adds_nothing(self, source: Memory, file: Path) -> None:
        """A log holds everything it ever exported; what it has forgotten since stays forgotten."""
        before = answers(source)
        assert source.import_(file) == 0
        assert answers(source) == before

        source.forget(session="поездка")
        before = answers(source)
        assert source.import_(file) == 0
        assert answers(source) == before

    def test_what_was_forgotten_here_does_not_come_back(self, file: Path, tmp_path: Path) -> None:
        """Importing the same file again, or exactly forgetting a namespace, are two things."""
        with opened(tmp_path / "target") as target:
            events = target.import_(file)
            target.forget(entity="Zoë 東京")
            assert target.import_(file) == 0
            with pytest.raises(UnknownEntity):
                target.get("Zoë 東京")

            target.forget(everything=True)
            assert target.import_(file) == events
            assert target.get("Zoë 東京").kind == "person"

    def test_a_copy_that_grew_comes_home(self, source: Memory, file: Path, tmp_path: Path) -> None:
        """Of a copy's export the log it came from takes what the copy was told, and no more."""
        with opened(tmp_path / "copy", clock=Ticking(NOON + timedelta(days=1))) as copy:
            copy.import_(file)
            found = copy.recall("Ann", k=3)
            copy.feedback(found.id, "success")
            copy.remember("Otto", "LIKES", "tea")
            source.remember("Eve", "LIKES", "tea")
            copy.export(tmp_path / "b.jsonl")
            accesses = {(e.name, e.key): e.accesses for e in source.entities()}

            assert source.import_(tmp_path / "b.jsonl") == 3
            assert source.import_(tmp_path / "b.jsonl") == 0
            assert [r.supports for n in ("Otto", "Eve") for r in source.relations(n)] == [1, 1]
            hit = {h.item.id for h in found if h.kind == "entity"}
            for entity in source.entities():
                more = entity.accesses - accesses.get((entity.name, entity.key), 0)
                assert more == (entity.id in hit)

    def test_the_same_by_two_ways_is_the_same(self, file: Path, tmp_path: Path) -> None:
        """Straight from there and by way of a third namespace, it is counted once."""
        with (
            opened(tmp_path / "third") as third,
            opened(tmp_path / "target") as target,
        ):
            TestIntoWhatIsThere().told(third)
            third.import_(file)
            third.export(tmp_path / "b.jsonl")
            TestIntoWhatIsThere().told(target)
            target.import_(file)
            before = {(e.name, e.key): (e.accesses, e.utility) for e in target.entities()}
            added = target.import_(tmp_path / "b.jsonl")

            assert added == 3
            now = {(e.name, e.key): (e.accesses, e.utility) for e in target.entities()}
            assert now == before


# What is refused


def _truncations(text: bytes) -> Iterator[tuple[str, bytes]]:
    lines = text.splitlines(keepends=True)
    yield "empty", b""
    yield "first byte", text[:1]
    yield "half a header", lines[0][: len(lines[0]) // 2]
    yield "header only", lines[0]
    yield "header and first", b"".join(lines[:2])
    yield "half an event", b"".join(lines[:5]) + lines[5][:20]
    yield "no end", b"".join(lines[:-1])
    yield "no last event", b"".join([*lines[:-2], lines[-1]])
    yield "no first event", b"".join([lines[0], *lines[2:]])
    yield "no header", b"".join(lines[1:])
    yield "half an end", text[:-20]
    yield "last byte but one", text[:-2]
    yield "twice", text + text
    yield "trailing text", text + b"{}\n"
    yield "two lines exchanged", b"".join([lines[0], lines[2], lines[1], *lines[3:]])
    yield "one line twice", b"".join([*lines[:2], *lines[1:]])
    yield "not JSON", b"hello\n" + b"".join(lines[1:])
    yield "other JSON", b'{"some": "other"}\n'
    yield "a list", b"[1, 2]\n"
    yield "not UTF-8", b"\xff\xfe" + text
    yield "UTF-16", text.decode().encode("utf-16")
    yield "zeros", bytes(len(text))
    yield "a database", b"SQLite format 3\x00" + bytes(200)


@pytest.fixture
def nothing(tmp_path: Path) -> Iterator[Callable[[], None]]:
    """Says whether a memory in which nothing was told is still that, down to its salt."""
    with opened(tmp_path / "nothing") as memory:
        (key,) = memory._engine.log.keys()

        def check() -> None:
            assert memory._engine.log.keys() == [key]
            assert memory.stats().events == 0

        check.memory = memory  # type: ignore[attr-defined]
        yield check


def test_a_file_that_is_not_whole_is_refused(file: Path, nothing: Any) -> None:
    """Cut off anywhere, added to, reordered or something else: `BadExport`, nothing written."""
    whole = file.read_bytes()
    for what, text in _truncations(whole):
        file.write_bytes(text)
        with pytest.raises(BadExport) as refused:
            nothing.memory.import_(file)
        assert str(file) in str(refused.value), what
        nothing()

    file.write_bytes(whole)
    assert nothing.memory.import_(file) > 0


def test_a_file_cut_off_anywhere_is_refused(file: Path, nothing: Any) -> None:
    """At each of a thousand places, and at every one of the last hundred but the newline."""
    whole = file.read_bytes()
    places = [
        *range(0, len(whole) - 1, len(whole) // 1_000),
        *range(len(whole) - 100, len(whole) - 1),
    ]
    for place in places:
        file.write_bytes(whole[:place])
        with pytest.raises(BadExport):
            nothing.memory.import_(file)
    nothing()


def test_a_changed_byte_is_noticed_wherever_it_is(file: Path, nothing: Any) -> None:
    """A flipped bit of any of a thousand bytes: refused, as damaged or as of a newer version."""
    whole = file.read_bytes()
    rng = random.Random(1)
    for place in sorted(rng.sample(range(len(whole) - 1), 1_000)):
        changed = bytearray(whole)
        changed[place] ^= 1 << rng.randrange(8)
        file.write_bytes(changed)
        with pytest.raises((BadExport, UnsupportedShape)):
            nothing.memory.import_(file)
    nothing()


def _sealed(header: dict[str, Any], lines: list[dict[str, Any]], **end: Any) -> bytes:
    """A file as `export` would seal it."""
    text = b"".join(json.dumps(line).encode() + b"\n" for line in [header, *lines])
    digest = hashlib.blake2b(text, digest_size=16).hexdigest()
    sealed = {"end": len(lines), "digest": digest} | end
    return text + json.dumps(sealed, separators=(",", ":")).encode() + b"\n"


HEADER = {"recall_echo": 1, "namespace": "n", "salt": "00" * 16, "events": 1}
EPISODE = {
    "position": 1, "kind": "episode", "shape": 1, "recorded_at": 5,
    "event": {"id": "A" * 21 + "A==", "content": "hi", "time": 5},
}  # fmt: skip


@pytest.mark.parametrize(
    ("header", "lines"),
    [
        ({}, [EPISODE | {"position": 2}]),
        ({}, [EPISODE | {"position": 0}]),
        ({}, [EPISODE, EPISODE]),
        ({"events": 2}, [EPISODE]),
        ({"events": 0}, [EPISODE]),
        ({"salt": "xyz"}, [EPISODE]),
        ({"salt": ""}, [EPISODE]),
        ({"salt": "00" * 65}, [EPISODE]),
        ({"events": "many"}, [EPISODE]),
        ({}, [EPISODE | {"shape": -1}]),
        ({}, [EPISODE | {"event": {"id": "A" * 21 + "A=="}}]),
        ({}, [EPISODE | {"event": {"id": "?", "content": "hi", "time": 5}}]),
        ({}, [EPISODE | {"event": None}]),
        ({}, [EPISODE | {"recorded_at": "noon"}]),
    ],
    ids=str,
)
def test_a_sealed_file_of_nonsense_is_refused(
    tmp_path: Path, nothing: Any, header: dict[str, Any], lines: list[dict[str, Any]]
) -> None:
    """Whoever made it, though its digest is right: nothing of it is written."""
    (tmp_path / "a.jsonl").write_bytes(_sealed(HEADER | header, lines))
    with pytest.raises(BadExport):
        nothing.memory.import_(tmp_path / "a.jsonl")
    nothing()

    (tmp_path / "a.jsonl").write_bytes(_sealed(HEADER, [EPISODE]))
    assert nothing.memory.import_(tmp_path / "a.jsonl") == 1


@pytest.mark.parametrize(
    ("header", "line"),
    [({"recall_echo": 2, "more": 1}, {}), ({}, {"shape": 2}), ({}, {"kind": "dream"})],
    ids=["format", "shape", "kind"],
)
def test_what_a_newer_version_wrote_is_refused(
    tmp_path: Path, nothing: Any, header: dict[str, Any], line: dict[str, Any]
) -> None:
    """`UnsupportedShape` says to upgrade; nothing is written."""
    (tmp_path / "a.jsonl").write_bytes(_sealed(HEADER | header, [EPISODE | line]))
    with pytest.raises(UnsupportedShape, match="upgrade"):
        nothing.memory.import_(tmp_path / "a.jsonl")
    nothing()


@pytest.mark.parametrize("name", ["missing", "folder", "below/a/file"])
def test_a_file_that_cannot_be_read_is_an_error_of_ours(
    tmp_path: Path, nothing: Any, name: str
) -> None:
    """`StoreError` names it."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "below").write_text("a file")
    with pytest.raises(StoreError, match=name):
        nothing.memory.import_(tmp_path / name)
    nothing()


@pytest.mark.parametrize("name", ["missing/a.jsonl", "folder", "below/a.jsonl", "a" * 250])
def test_a_file_that_cannot_be_written_is_an_error_of_ours(
    source: Memory, tmp_path: Path, name: str
) -> None:
    """`StoreError` names it, and nothing is left beside it."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "below").write_text("a file")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(StoreError, match=name):
        source.export(tmp_path / name)

    assert sorted(tmp_path.rglob("*")) == before


def test_a_full_disk_leaves_the_older_file(source: Memory, file: Path) -> None:
    """An export that fails half-way takes nothing away."""
    before = file.read_bytes()

    def full(done: int, total: int) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(StoreError, match="No space left"):
        source.export(file, progress=full)

    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir() if "part" in path.name] == []


def test_neither_works_once_closed(source: Memory, file: Path) -> None:
    """A closed memory says so."""
    source.close()
    for verb in (source.export, source.import_):
        with pytest.raises(StoreClosed):
            verb(file)


# Damage


class TestDamage:
    def test_a_damaged_event_stops_an_export(
        self, source: Memory, file: Path, tmp_path: Path
    ) -> None:
        """By default, naming the position; the older file stays."""
        before = file.read_bytes()
        (position,) = _damage(tmp_path / "source", "position = 9")
        with pytest.raises(CorruptLog) as damaged:
            source.export(file)

        assert damaged.value.position == position
        assert file.read_bytes() == before

    def test_the_rest_can_be_exported_and_imported(
        self, source: Memory, file: Path, tmp_path: Path
    ) -> None:
        """`skip_damaged` leaves out what cannot be read, counts the rest, and says where."""
        places = _damage(tmp_path / "source", "position in (9, 12)")
        events = source.stats().events
        assert source.export(file, skip_damaged=True) == events - 2
        noted = [line["position"] for line in _lines(file)[1:-1] if line.get("damaged")]

        assert noted == places
        with opened(tmp_path / "target") as target:
            assert target.import_(file) == events - 2
            assert target.import_(file) == 0
            assert target.verify().ok
            assert target.stats().events == events - 2

    def test_a_missing_event_is_damage_too(
        self, source: Memory, file: Path, tmp_path: Path
    ) -> None:
        """In the middle or at the end; the file can be imported all the same."""
        events = source.stats().events
        with closing(sqlite3.connect(tmp_path / "source" / "log.sqlite3")) as log:
            log.execute("delete from events where position in (5, ?)", [events])
            log.commit()
        with pytest.raises(CorruptLog) as damaged:
            source.export(file)
        assert damaged.value.position == 5

        assert source.export(file, skip_damaged=True) == events - 2
        assert [line["position"] for line in _lines(file)[1:-1]] == list(range(1, events + 1))
        with opened(tmp_path / "target") as target:
            assert target.import_(file) == events - 2
            assert target.verify().ok

    def test_a_log_with_holes_goes_on_being_taken_exactly(
        self, source: Memory, file: Path, tmp_path: Path
    ) -> None:
        """Settings that come after the hole, in a later export, are in force, too."""
        _damage(tmp_path / "source", "position = 9")
        source.export(file, skip_damaged=True)
        source._engine.log.close()
        with opened(tmp_path / "target") as target:
            target.import_(file)
            lines = _lines(file)
            folding = {"single_valued": ["saw"], "half_life_days": 9.0}
            last = {
                "position": len(lines) - 1, "kind": "settings", "shape": 1, "recorded_at": 9,
                "event": {"folding": folding},
            }  # fmt: skip
            header = lines[0] | {"events": len(lines) - 1}
            file.write_bytes(_sealed(header, [*lines[1:-1], last]))

            assert target.import_(file) == 1
            assert target.beliefs("Zoë 東京", "SAW")[0].probability is not None


# Half-way


def many(folder: Path, count: int, file: Path) -> int:
    """Export settings, statements, a receipt and something forgotten; return how many events."""
    with opened(folder, single_valued={"LIVES_IN"}) as memory:
        memory.observe(
            Statement(subject=f"P{n % 97}", type="SAW", object=f"thing {n}") for n in range(count)
        )
        memory.record({"content": "secret"}, session_id="gone")
        if count < 5 * BATCH:  # it makes vectors of all
            found = memory.recall("P1", k=3)
            memory.feedback(found.id, "success")
        memory.forget(session="gone")
    with opened(folder, single_valued={"LIVES_IN", "SAW"}) as memory:
        return memory.export(file)


class Stop(Exception):
    """Raised out of a callback."""


@pytest.mark.parametrize("own", [False, True], ids=["empty", "with its own"])
def test_an_import_that_was_stopped_goes_on(tmp_path: Path, own: bool) -> None:
    """From where it was, to the very log it would have been, and nothing is doubled."""
    file = tmp_path / "a.jsonl"
    events = many(tmp_path / "source", 2 * BATCH + 200, file)
    seen: list[tuple[int, int]] = []

    def stop(done: int, total: int) -> None:
        seen.append((done, total))
        if len(seen) == 2:
            raise Stop

    with opened(tmp_path / "whole") as whole, opened(tmp_path / "target") as target:
        for memory in (whole, target) if own else ():
            memory.remember("Otto", "SAW", "thing 1")
        with pytest.raises(Stop):
            target.import_(file, progress=stop)
        assert seen == [(BATCH, events), (2 * BATCH, events)]
        first = target.stats().events
        rest = target.import_(file)

        assert whole.import_(file) == first + rest - own
        assert rest < BATCH
        whole.export(tmp_path / "b.jsonl")
        target.export(tmp_path / "c.jsonl")
        ours, theirs = _lines(tmp_path / "b.jsonl"), _lines(tmp_path / "c.jsonl")
        assert [_kinds(line) for line in ours] == [_kinds(line) for line in theirs]
        assert target.beliefs("P1", "SAW") == [] or own == (
            target.beliefs("P1", "SAW")[0].probability is None
        )
        if not own:
            assert (tmp_path / "c.jsonl").read_bytes() == file.read_bytes()


def _kinds(line: dict[str, Any]) -> tuple[Any, ...]:
    return line.get("position"), line.get("kind"), line.get("shape")


IMPORTING = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
from pathlib import Path
from test_moving import opened

def progress(done, total):
    print(done, flush=True)
    sys.stdin.readline()

memory = opened(Path(sys.argv[1]))
memory.import_(sys.argv[2], progress=progress)
"""


@pytest.mark.parametrize("batches", [1, 2])
def test_an_import_that_was_killed_goes_on(tmp_path: Path, batches: int) -> None:
    """`kill -9` between two batches: the next import makes it the very log it comes from."""
    file = tmp_path / "a.jsonl"
    events = many(tmp_path / "source", 2 * BATCH + 200, file)
    process = subprocess.Popen(
        [sys.executable, "-c", IMPORTING, str(tmp_path / "target"), str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(TESTS.parent)},
    )
    assert process.stdout is not None
    assert process.stdin is not None
    for number in range(1, batches + 1):
        assert process.stdout.readline().strip() == f"{number * BATCH}"
        if number < batches:
            process.stdin.write("\n")
            process.stdin.flush()
    process.send_signal(signal.SIGKILL)
    process.communicate()

    assert rows(tmp_path / "target") == batches * BATCH
    with opened(tmp_path / "target") as target:
        assert target.import_(file) == events - batches * BATCH
        target.export(tmp_path / "b.jsonl")
        assert target.verify().ok
    assert (tmp_path / "b.jsonl").read_bytes() == file.read_bytes()


def test_a_long_log_streams(tmp_path: Path) -> None:
    """20,000 events go a batch at a time, with progress, and memory holds none but a batch."""
    file = tmp_path / "a.jsonl"
    events = many(tmp_path / "source", 20_000, file)
    code = IMPORTING.replace("print(done, flush=True)", "pass").replace(
        "sys.stdin.readline()", "pass"
    )
    code += (
        "import tracemalloc\n"
        "tracemalloc.start()\n"
        "seen = []\n"
        "memory.export(sys.argv[3], progress=lambda *where: seen.append(where))\n"
        "print(tracemalloc.get_traced_memory()[1])\n"
        "end = seen[-1][1]\n"
        "print(seen == [(n, end) for n in (*range(1000, end, 1000), end)])\n"
    )
    again = tmp_path / "b.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "target"), str(file), str(again)],
        env={**os.environ, "PYTHONPATH": str(TESTS.parent)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    most, regular = done.stdout.split()

    assert again.read_bytes() == file.read_bytes()
    assert len(again.read_bytes().splitlines()) == events + 2
    assert int(most) < 16_000_000 < 5 * file.stat().st_size
    assert regular == "True"


def test_copies_of_one_log_that_went_on_differently_come_together(tmp_path: Path) -> None:
    """They share a salt, and what each was told since is added all the same."""
    files = {name: tmp_path / f"{name}.jsonl" for name in "abc"}

    def grown(name: str, fact: str) -> None:
        with open_memory(tmp_path / name, embedding=lambda texts: [[1.0]] * len(texts)) as memory:
            if name != "a":
                memory.import_(files["a"])
            memory.remember("Al", "KNOWS", fact)
            memory.export(files[name])

    for name, fact in (("a", "Ann"), ("b", "Bo"), ("c", "Cy")):
        grown(name, fact)
    for order in ("abc", "bca", "cab"):
        with open_memory(tmp_path / order, embedding=lambda texts: [[1.0]] * len(texts)) as memory:
            for name in order * 2:
                memory.import_(files[name])

            known = sorted(belief.object for belief in memory.beliefs("Al", "KNOWS"))
            assert (known, memory.verify().ok) == (["Ann", "Bo", "Cy"], True)
            assert {b.relation.alpha for b in memory.beliefs("Al", "KNOWS")} == {9.0}
