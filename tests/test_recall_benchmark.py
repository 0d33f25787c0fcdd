"""The benchmark of recall measures what it says, on a few made-up units."""

import doctest
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from recall_quality_parts import baselines, fuller, measures, sets, terms
from recall_quality_parts.recipe import Recipe, Store


def talk(*said: tuple[str, str, str]) -> sets.Corpus:
    units = [
        sets.Unit(str(number), session, text, speaker)
        for number, (session, speaker, text) in enumerate(said)
    ]
    return sets.Corpus("made up", "talk", units, [])


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
