"""Constants come from the file and from arguments, and those of evidence from the log."""

from __future__ import annotations

import math
import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from recall_echo_core import Memory, open_memory
from recall_echo_core.confidence import PRIOR_MEANS
from recall_echo_core.errors import StoreError
from recall_echo_core.events import SettingsChanged
from recall_echo_core.scoring import Weights
from recall_echo_core.settings import FILE_NAME, KEYS, Folding, Settings, load_settings

if TYPE_CHECKING:
    from conftest import MovableClock

EVERYTHING = """
[graph]
single_valued = ["LIVES_IN", " works_at "]
[graph.scoring]
weight_semantic = 0.5
weight_hotness = 0.5
weight_utility = 0
[graph.confidence]
concentration = 20
max_concentration = 14
half_life_days = 30.5
decay_floor = 0.1
[graph.confidence.priors]
inferred = 0.5
[graph.confidence.half_lives]
"LIVES_IN" = 365
[graph.expansion]
seeds = 1
depth = 2
min_confidence = 0.2
[recall]
receipt_days = 7
[vectors]
index_batch = 1
background = false
"""


def letters(texts: list[str]) -> list[list[float]]:
    return [[text.count(letter) + 0.01 for letter in "abcdefgh"] for text in texts]


def opened(folder: Path, clock: MovableClock, confidence: Any = None, **more: Any) -> Memory:
    settings = {"vectors": {"background": False}}
    if confidence is not None:
        settings["graph"] = {"confidence": confidence}
    return open_memory(folder, embedding=letters, clock=clock, settings=settings, **more)


def write(folder: Path, content: str) -> Path:
    (folder / FILE_NAME).write_text(content, encoding="utf-8")
    return folder


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    """The constants of the model; nothing is declared."""
    settings = load_settings(tmp_path)
    folding = settings.folding(Folding())

    assert settings == load_settings(write(tmp_path, "")) == Settings()
    assert (folding.priors, folding.concentration, folding.max_concentration) == (
        PRIOR_MEANS,
        10.0,
        None,
    )
    assert (folding.half_life("any"), folding.decay_floor) == (90.0, 0.05)
    assert (settings.seeds, settings.depth, settings.min_confidence) == (3, 1, 0.1)
    assert settings.weights == Weights(0.45, 0.30, 0.25)


def test_the_file_can_set_everything(tmp_path: Path) -> None:
    """Each key of the table, names of types in normal form."""
    settings = load_settings(write(tmp_path, EVERYTHING))
    folding = settings.folding(Folding())

    assert settings.weights == Weights(0.5, 0.5, 0.0)
    assert (settings.seeds, settings.depth, settings.min_confidence) == (1, 2, 0.2)
    assert (settings.receipt_days, settings.index_batch, settings.background) == (7, 1, False)
    assert folding == Folding(
        priors={**PRIOR_MEANS, "inferred": 0.5},
        concentration=20.0,
        max_concentration=14.0,
        half_life_days=30.5,
        half_lives={"lives_in": 365.0},
        decay_floor=0.1,
        single_valued=frozenset({"lives_in", "works_at"}),
    )
    assert set(settings.declared) == {
        attribute for group, attribute in KEYS.values() if group == "folding"
    }


def test_arguments_override_the_file(tmp_path: Path) -> None:
    """Key by key; nested and dotted keys are the same."""
    write(tmp_path, EVERYTHING)
    nested = load_settings(tmp_path, {"graph": {"expansion": {"depth": 5}}})
    dotted = load_settings(tmp_path, {"graph.expansion.depth": 5})

    assert (nested.depth, nested.seeds) == (5, 1)
    assert nested == dotted


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[graph.scoring]\nweight_semantics = 1", "did you mean 'graph.scoring.weight_semantic'"),
        ("[graph]\nsingle_value = []", "did you mean 'graph.single_valued'"),
        ("[confidence]\nhalf_life_days = 3", "did you mean 'graph.confidence"),
        ("zzz = 1", "known: graph.single_valued, graph.scoring"),
        ("graph = 1", "'graph', which is not a setting"),
        ("[graph.scoring.weight_semantic]\nx = 1", "wrong value"),
        ("a = ", "not valid TOML"),
        ("[graph\n", "not valid TOML"),
        ("[graph]\n[graph]", "not valid TOML"),
        ("[graph.expansion]\ndepth = 1.5", "wrong value"),
        ("[graph.expansion]\ndepth = '2'", "wrong value"),
        ("[graph.expansion]\ndepth = -1", "seeds and depth must be at least 0"),
        ("[graph.expansion]\nseeds = -1", "seeds and depth must be at least 0"),
        ("[graph.expansion]\nmin_confidence = 0.0", "min_confidence must lie in"),
        ("[graph.expansion]\nmin_confidence = nan", "min_confidence must lie in"),
        ("[vectors]\nindex_batch = 0", "index_batch at least 1"),
        ("[vectors]\nbackground = 1", "wrong value"),
        ("[recall]\nunsure_below = 1.1", "unsure_below must lie in"),
        ("[recall]\nunsure_below = nan", "unsure_below must lie in"),
        ("[recall]\nreceipt_days = 0", "receipt_days must be above 0"),
        ("[recall]\nreceipt_days = nan", "receipt_days must be above 0"),
        ("[graph.scoring]\nweight_utility = -1", "weights must be finite"),
        ("[graph.scoring]\nweight_utility = inf", "weights must be finite"),
        ("[graph.confidence]\nhalf_life_days = 0", "half-life must be a finite"),
        ("[graph.confidence]\nhalf_life_days = inf", "half-life must be a finite"),
        ("[graph.confidence]\nhalf_lives = {a = -1}", "half-life must be a finite"),
        ("[graph.confidence]\nhalf_lives = [3]", "wrong value"),
        ("[graph.confidence]\nmax_concentration = 0", "max_concentration must be above 0"),
        ("[graph.confidence]\nmax_concentration = nan", "max_concentration must be above 0"),
        ("[graph.confidence]\nconcentration = 0", "concentration must be finite and above 0"),
        ("[graph.confidence]\ndecay_floor = 1.1", "decay_floor must lie in"),
        ("[graph.confidence]\npriors = {sure = 0.5}", "unknown context 'sure'"),
        ("[graph.confidence]\npriors = {inferred = 1.5}", "mean must lie in"),
        ("[graph.confidence]\npriors = 0.5", "wrong value"),
        ("[graph]\nsingle_valued = 'LIVES_IN'", "wrong value"),
        ("[graph]\nsingle_valued = 5", "wrong value"),
        ("[graph]\nsingle_valued = [5]", "wrong value"),
        ("[graph]\nsingle_valued = {a = 1}", "wrong value"),
    ],
)
def test_a_wrong_setting_is_a_value_error_that_says_which(tmp_path, content, said) -> None:
    """A mistyped key brings the closest one to mind."""
    with pytest.raises(ValueError, match=said) as caught:
        load_settings(write(tmp_path, content))
    assert type(caught.value) is ValueError


def test_the_file_is_utf_8(tmp_path: Path) -> None:
    """With or without a mark in front; other encodings are refused by the file's name."""
    path = tmp_path / FILE_NAME
    path.write_bytes('[graph]\nsingle_valued = ["Ä"]'.encode("utf-8-sig"))
    assert load_settings(tmp_path).declared == {"single_valued": frozenset({"ä"})}

    path.write_bytes('[graph]\nsingle_valued = ["Ä"]'.encode("latin-1"))
    with pytest.raises(ValueError, match=r"recall-echo\.toml is not valid TOML"):
        load_settings(tmp_path)


@pytest.mark.skipif(os.name == "nt", reason="files have no such permission")
def test_a_file_that_cannot_be_read_is_not_passed_over(tmp_path: Path) -> None:
    """It may hold what the memory was made with."""
    write(tmp_path, EVERYTHING)
    with ExitStack() as stack:
        (tmp_path / FILE_NAME).chmod(0)
        if os.geteuid() == 0:  # whom permissions do not stop
            os.seteuid(65534)
            stack.callback(os.seteuid, 0)
        with pytest.raises(StoreError, match="cannot be read"):
            load_settings(tmp_path)


@pytest.mark.parametrize(
    "wrong",
    [
        {"concentration": 0.0, "priors": {}},
        {"priors": {"inferred": math.nan}},
        {"priors": {"sure": 0.5}},
        {"half_lives": {"a": math.nan}},
        {"decay_floor": math.nan},
        {"max_concentration": -1.0},
    ],
)
def test_constants_that_make_no_sense_cannot_exist(wrong: dict[str, Any]) -> None:
    """However they are made."""
    with pytest.raises(ValueError, match=r"must|unknown"):
        Folding(**wrong)


def test_what_changes_evidence_is_told_to_the_log(tmp_path, clock) -> None:
    """Once, and kept when it is not said again; other settings are not of the log."""
    with opened(tmp_path, clock, single_valued={"LIVES_IN"}) as memory:
        memory.remember("Ann", "LIVES_IN", "Oslo")
        assert memory.stats().events == 2
    for _ in range(2):
        with opened(tmp_path, clock) as memory:
            assert memory.beliefs("Ann", "LIVES_IN")[0].probability == 0.9
            assert memory.stats().events == 2

    with opened(tmp_path, clock, {"half_life_days": 30}) as memory:
        assert memory.beliefs("Ann", "lives_in")[0].probability == 0.9
        assert memory.stats().events == 3
        log, key = memory._room.namespace.log, memory._room.namespace.key
        told = [item.event for item in log.read(key, kinds=("settings",))]
    with opened(tmp_path, clock, single_valued=()) as memory:
        assert memory.beliefs("Ann", "LIVES_IN")[0].probability is None

    single = frozenset({"lives_in"})
    assert told == [
        SettingsChanged(Folding(single_valued=single)),
        SettingsChanged(Folding(single_valued=single, half_life_days=30.0)),
    ]


def test_a_half_life_can_differ_by_type(tmp_path, clock) -> None:
    """In whatever spelling it was declared."""
    half_lives = {"half_life_days": 30, "half_lives": {" Born_In ": 36_500}}
    with opened(tmp_path, clock, half_lives) as memory:
        memory.remember("Ann", "BORN_IN", "Oslo")
        memory.remember("Ann", "LIKES", "Oslo")
        clock.advance(days=30)

        born, likes = memory.relations()
        assert (likes.effective(), born.half_life_days) == (0.45, 36_500)
        assert born.effective() > 0.899
        assert born.effective(half_life=30) == 0.45


def test_the_past_is_read_with_the_settings_of_then(tmp_path, clock) -> None:
    """New constants refold today's beliefs, not yesterday's."""
    with opened(tmp_path, clock) as memory:
        memory.remember("Ann", "LIVES_IN", "Oslo", observed_at="2026-02-01T12:00")
        memory.remember("Ann", "LIVES_IN", "Rome", observed_at="2026-02-01T12:00")
        then, seen = clock(), memory.beliefs("Ann", "LIVES_IN")
    clock.advance(days=1)
    changed = {"half_life_days": 7, "priors": {"explicit": 0.5}}
    with opened(tmp_path, clock, changed, single_valued=["lives_in"]) as memory:
        now = memory.beliefs("Ann", "LIVES_IN")

        assert memory.as_of(then).beliefs("Ann", "LIVES_IN") == seen
        assert [belief.probability for belief in seen] == [None, None]
        assert [belief.confidence for belief in now] == [0.5, 5 / 11]
        assert now[0].effective == pytest.approx(0.05)
