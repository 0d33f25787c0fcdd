"""The benchmark of recall measures what it says, on a few made-up units."""

import doctest
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from recall_echo_core import Memory, open_memory

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import state_and_precision
from recall_quality_parts import baselines, fuller, measures, sets, terms
from recall_quality_parts.recipe import Recipe, Store


def talk(*said: tuple[str, str, str]) -> sets.Corpus:
    units = [
        sets.Unit(str(number), session, text, speaker)
        for number, (session, speaker, text) in enumerate(said)
    ]
    return sets.Corpus("made up", "talk", units, [])


@pytest.fixture
def memory(tmp_path):
    def embed(texts):
        return np.random.default_rng(0).random((len(texts), 8)).astype(np.float32)

    now = datetime(2026, 2, 1, tzinfo=UTC)
    expansion = {"graph": {"expansion": {"seeds": 0}}}
    with open_memory(
        tmp_path, embedding=embed, single_valued={"is"}, settings=expansion, clock=lambda: now
    ) as memory:
        yield memory


CHAT = talk(
    ("1", "Ann", "Which lake did you swim in?"),
    ("1", "Bea", "The cold one, up in Telemark."),
    ("1", "Ann", "Lovely."),
    ("2", "Bea", "I bought a red bicycle."),
    ("2", "Ann", "Bicycles are quick."),
)


def store(corpus: sets.Corpus = CHAT, **changes: object) -> Store:
    vectors = np.eye(len(corpus.units), 8, dtype=np.float32)
    return Store(corpus, vectors, Recipe(**changes))


NOWHERE = np.zeros(8, dtype=np.float32)


@pytest.mark.parametrize("module", [measures, fuller], ids=lambda module: module.__name__)
def test_the_examples_in_the_parts_hold(module):
    failed, tried = doctest.testmod(module)
    assert tried and not failed


def test_gold_in_the_best_order_measures_one():
    assert measures.scores(["b", "a", "x"], {"a", "b"}) == (1.0, 1.0, 1.0)


def test_gold_below_the_tenth_place_is_not_found():
    assert measures.scores([*"0123456789", "a"], {"a"}) == (0.0, 0.0, 0.0)


def test_the_interval_holds_the_mean_and_is_the_same_every_time():
    each = [(float(number % 2),) * 3 for number in range(50)]
    found = measures.measured(each)
    assert found.means == (50.0, 50.0, 50.0)
    assert found.low[0] < 50.0 < found.high[0]
    assert found == measures.measured(each)


def test_bm25_is_the_textbook_formula():
    words = baselines.Words([["a", "a", "b"], ["b"]])
    idf = np.log1p((2 - 1 + 0.5) / (1 + 0.5))
    expected = idf * 2 / (2 + 1.5 * (1 - 0.75 + 0.75 * 3 / 2))
    assert words.bm25(["a", "a", "unknown"], 1.5, 0.75) == pytest.approx([expected, 0.0])


def test_texts_under_the_floor_are_not_told_apart_by_length():
    words = baselines.Words([["a", "b"], ["a", "b", "c", "d"]])
    first, second = words.bm25(["a"], 1.2, 0.75, floor=60.0)
    assert first == second


def test_a_neighbour_is_one_of_the_same_session():
    before, after = baselines.beside(CHAT, np.arange(1.0, 6.0))
    assert before.tolist() == [0, 1, 2, 0, 4]
    assert after.tolist() == [2, 3, 0, 5, 0]


def test_equal_scores_are_ranked_by_place():
    assert baselines.best(np.array([1.0, 2.0, 1.0, 2.0]), 3) == [1, 3, 0]


def test_every_baseline_has_a_ranker():
    made = baselines.rankers(CHAT, np.eye(5, 8, dtype=np.float32))
    assert tuple(made) == baselines.NAMES
    for ranker in made.values():
        assert baselines.best(ranker("a red bicycle", np.eye(8)[3]), 1) == [3]


def test_what_is_neither_in_the_words_nor_in_the_meaning_scores_nothing():
    corpus = talk(*(("1", "Ann", f"thing{number}") for number in range(8)))
    scores = store(corpus, pool=1, session=0.0, named=0.0).ask("thing5", np.eye(8)[5])
    assert np.flatnonzero(scores).tolist() == [5]


def test_an_answer_is_found_through_its_question():
    asked = "Where did Bea swim, which lake?"
    with_answer = store(neighbour=0.0).ask(asked, NOWHERE)
    without = store(neighbour=0.0, answer=0.0).ask(asked, NOWHERE)
    assert with_answer[1] > without[1]
    assert with_answer[4] == without[4]


def test_names_shared_with_the_best_lead_on():
    corpus = talk(
        ("1", "", "The lake of Ann lies in Telemark"),
        ("1", "", "Skien is the capital of Telemark"),
        *(("1", "", f"nothing here {number}") for number in range(6)),
    )
    scores = store(corpus).ask("What is the capital of the county of the lake of Ann?", NOWHERE)
    alone = store(corpus, spread=0.0).ask("lake of Ann", NOWHERE)
    assert scores[1] > alone[1]
    assert baselines.best(scores, 2) == [0, 1]


def test_a_role_of_the_host_replaces_the_measured_voice():
    corpus = talk(("1", "assistant", "I do as I like."), ("1", "user", "Bread."))
    measured = store(corpus, roles=False).ask("What do I like?", NOWHERE)
    by_role = store(corpus).ask("What do I like?", NOWHERE)
    assert by_role[0] < measured[0]
    assert by_role[1] > measured[1]


def test_a_date_is_found_by_its_month():
    unit = sets.Unit("1", "1", "We met.", "Ann", "2023-05-08T13:56:00Z")
    assert "may" in terms.terms_of(terms.dated(unit))


def test_passages_come_in_a_fixed_shuffled_order(tmp_path):
    import gzip
    import json

    docs = [{"id": str(number), "session": 0, "text": f"text {number}"} for number in range(20)]
    row = {"corpus": "c", "docs": docs, "queries": [
        {"id": "q", "text": "?", "category": "2hop", "gold": ["3"]},
        {"id": "none", "text": "?", "category": "2hop", "gold": []},
    ]}  # fmt: skip
    path = tmp_path / sets.FILES["MuSiQue"]
    path.parent.mkdir()
    with gzip.open(path, "wt") as file:
        file.write(json.dumps(row))
    (once,), (again,) = (sets.corpora(tmp_path, "MuSiQue") for _ in range(2))
    ids = [unit.id for unit in once.units]
    assert ids == [unit.id for unit in again.units] != sorted(ids, key=int)
    assert [question.id for question in once.questions] == ["q"]


def event(kind: str, id: str, predicate: str, object: str, **attributes: str) -> dict:
    return {
        "event_id": id,
        "event_type": kind,
        "subject": "departure city",
        "predicate": predicate,
        "object": object,
        "attributes": {"actor": "user"} | attributes,
        "timestamp": f"2026-01-0{id[-1]}T09:00:00Z",
        "source_turn_ids": ["s1:t1"],
    }


def told(memory: Memory, *events: dict) -> state_and_precision.Told:
    turn = {"turn_id": "s1:t1", "role": "user", "content": "Elsewhere it is Rome."}
    case = {"events": list(events), "sessions": [{"turns": [turn]}]}
    return state_and_precision.Told(memory, case)


def test_an_update_leaves_the_new_value_and_a_deletion_nothing(memory):
    case = told(
        memory,
        event("fact_introduction", "e1", "is", "Paris"),
        event("fact_reinforcement", "e2", "reinforces", "Paris"),
        event("fact_update", "e3", "updates_to", "Oslo", supersedes="e1"),
        event("near_miss_context", "e4", "is", "Rome"),
        event("sensitive_disclosure", "e5", "must_not_store", "a key"),
    )
    asked = {"text": "departure city", "record_access": False}
    assert [case.unit(hit) for hit in memory.recall(**asked, kinds=["relation"])] == ["m_e3"]
    assert [case.unit(hit) for hit in memory.recall(**asked, kinds=["episode"])] == ["m_e4"]
    case.forget(event("deletion_request", "e6", "delete", "Oslo"))
    assert not memory.recall(**asked, kinds=["relation"]).hits


def test_a_question_is_judged_by_gold_and_forbidden():
    query = {"gold_memory_ids": ["a", "b"], "forbidden_memory_ids": ["x"]}
    assert state_and_precision.judged([*"a1234", "b"], query) == (0.5, 0.0, 1.0)
    assert state_and_precision.judged([*"abx"], query) == (1.0, 1.0, 0.0)


def belief(id: str, name: str, content: str, **more: object) -> dict:
    return {
        "_id": id,
        "user_id": "test-user",
        "type": "preference",
        "canonical_name": name,
        "aliases": [],
        "content": content,
        "scope": ["domain:code"],
        "epistemic_status": "active",
        "pinned": False,
        "superseded_by": None,
        "resolved_at": None,
        "created_at": "2026-01-01T00:00:00Z",
        "last_reinforced_at": "2026-01-02T00:00:00Z",
    } | more


def test_a_case_fails_on_what_is_missing_and_on_what_is_too_much(memory):
    known = state_and_precision.Beliefs(
        memory,
        [
            belief("new", "biome", "Lints with Biome.", aliases=["linter"]),
            belief("old", "eslint", "Lints with ESLint.", superseded_by="new"),
            belief("pin", "database", "MongoDB.", pinned=True),
        ],
    )
    case = {"query": "which linter, eslint?", "scope": ["domain:code"]}
    exact = {
        "relevantBeliefs": {"shouldOnlyInclude": ["new"]},
        "pinnedFacts": {"mustInclude": ["pin"]},
    }
    assert state_and_precision.failures(case | {"expect": exact}, known) == []
    other = {"relevantBeliefs": {"shouldOnlyInclude": ["old"]}}
    assert sorted(state_and_precision.failures(case | {"expect": other}, known)) == [
        "relevantBeliefs has new",
        "relevantBeliefs lacks old",
    ]
