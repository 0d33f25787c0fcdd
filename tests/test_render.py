"""How a recall reads: as a block that nothing inside can break, and that fits its budget."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from recall_echo_core import Memory, approximate_tokens, fenced, fitting, open_memory
from recall_echo_core.render import (
    _FENCE,
    _MARK,
    CLOSE,
    OPEN,
    SHORTEST,
    _plain,
    neutralised,
)
from recall_echo_core.usage import Shown, detected

if TYPE_CHECKING:
    from conftest import MovableClock

ALONE = {"vectors": {"background": False}}
WORDS = re.compile(r"\w+|[^\w\s]")
FRAME = approximate_tokens(fenced([""]))  # what the fence alone takes


def letters(texts: list[str]) -> list[list[float]]:
    """Texts of the same letters are near; the meaning of words does not matter here."""
    signs = "abcdefghijklmnopqrstuvwxyz0123456789"
    return [[0.01, *(float(text.casefold().count(sign)) for sign in signs)] for text in texts]


@pytest.fixture
def memory(tmp_path: Path, clock: MovableClock) -> Iterator[Memory]:
    """A memory that has heard eight long messages."""
    with open_memory(tmp_path, embedding=letters, clock=clock, settings=ALONE) as memory:
        memory.record([{"content": f"story {n} " + "and so on " * 30} for n in range(8)])
        yield memory


def words(text: str) -> int:
    """Another counter: one for each word and each other sign."""
    return len(WORDS.findall(text))


def erratic(text: str) -> int:
    """A counter by which a longer text may hold fewer tokens."""
    return len(text) // 2 + len(text) % 7 * 5


COUNTERS: list[Callable[[str], int]] = [approximate_tokens, words, erratic, len]
texts = st.text(st.characters(codec=None), max_size=120)  # lone surrogates among them


def as_a_mixture(text: str) -> str:
    """What `neutralised` gives without its short way for ASCII."""
    flat = neutralised(text + "\N{SNOWMAN}")
    return flat.removesuffix("\N{SNOWMAN}").rstrip()


class TestTokens:
    @given(texts, texts)
    def test_the_rough_count_takes_any_text_and_grows_with_it(self, a: str, b: str) -> None:
        """Whatever the signs, half surrogate pairs too: more text is no fewer tokens."""
        assert 0 <= approximate_tokens(a) <= approximate_tokens(a + b)
        assert approximate_tokens(a + b) <= approximate_tokens(a) + approximate_tokens(b)

    @pytest.mark.parametrize(
        ("text", "tokens"),
        [("", 0), ("a", 1), ("abc", 1), ("abcd", 2), ("é", 1), ("周游世界", 4), ("\ud83d", 1)],
    )
    def test_three_bytes_are_a_token(self, text: str, tokens: int) -> None:
        """Rounded up, by the bytes of UTF-8."""
        assert approximate_tokens(text) == tokens


class TestFitting:
    @pytest.mark.parametrize("count", COUNTERS)
    @given(lines=st.lists(texts, max_size=6), most=st.integers(1, 300))
    @example(lines=["word " * 200], most=70)
    @example(lines=["e\u0301" * 200], most=FRAME + 30)
    @example(lines=["\U0001f469\u200d\U0001f467" * 60, "b"], most=FRAME + 60)
    def test_the_block_never_holds_more_than_it_may(
        self, count: Callable[[str], int], lines: list[str], most: int
    ) -> None:
        """Whatever counts the tokens, and whatever the lines are: first lines, within the limit."""
        kept = fitting(lines, most, count)

        assert kept == [] or count(fenced(kept)) <= most
        if kept and kept[0] != lines[0]:
            assert len(kept) == 1
            assert lines[0].startswith(kept[0].removesuffix("…"))
            assert len(kept[0]) <= len(lines[0])
        else:
            assert kept == lines[: len(kept)]

    @given(lines=st.lists(texts, min_size=1, max_size=6), most=st.integers(1, 300))
    def test_no_line_is_left_out_that_would_fit(self, lines: list[str], most: int) -> None:
        """The next line is always one too many."""
        kept = fitting(lines, most)

        if kept == lines[: len(kept)] and len(kept) < len(lines):
            assert approximate_tokens(fenced(lines[: len(kept) + 1])) > most

    def test_a_first_line_that_is_too_long_is_shortened(self) -> None:
        """Better a part of the best memory than none; as much of it as there is room for."""
        line = "[M1] " + "a" * 1_000
        most = FRAME + 100
        (kept,) = fitting([line, "[M2] b"], most)

        assert kept == line[: len(kept) - 1] + "…"
        assert most - 1 <= approximate_tokens(fenced([kept])) <= most

    def test_a_scrap_that_says_nothing_is_left_out(self) -> None:
        """Under 40 characters no part of a line is shown."""
        line = "a" * 1_000
        assert len(fitting([line], len(fenced([""])) + SHORTEST, len)[0]) == SHORTEST
        assert fitting([line], len(fenced([""])) + SHORTEST - 1, len) == []

    @pytest.mark.parametrize("most", [0, -1, True, False, "x", math.nan, 2.5, None, [5]])
    def test_what_is_no_budget_is_refused(self, memory: Memory, most: Any) -> None:
        """Each way in names the argument, and what it got; nothing is recorded."""
        memory.flush()
        before = memory.stats().events
        found = memory.recall("story", record_access=False)
        why = r"max_tokens must be a whole number of at least 1, not"

        with pytest.raises(ValueError, match=why):
            fitting(["a"], most)
        with pytest.raises(ValueError, match=why):
            found.within(most)
        if most is not None:  # no limit
            with pytest.raises(ValueError, match=why):
                found.as_text(most)
            with pytest.raises(ValueError, match=why):
                memory.recall("story", max_tokens=most)
        memory.flush()
        assert memory.stats().events == before

    def test_a_counter_that_cannot_count_lets_nothing_through(self) -> None:
        """What is not a number is not within any limit."""
        assert fitting(["a", "b"], 100, lambda _: math.nan) == []  # type: ignore[return-value]

    def test_a_huge_line_is_cut_in_time(self) -> None:
        """A million characters outside ASCII are cut like any others."""
        (kept,) = fitting(["wörd " * 200_000], 500)

        assert 498 <= approximate_tokens(fenced([kept])) <= 500


class TestRecall:
    @pytest.mark.parametrize("count", COUNTERS)
    @pytest.mark.parametrize("most", [1, 40, 90, 120, 150, 200, 300, 400, 1_000, 10_000])
    def test_what_was_recalled_within_a_budget_reads_within_it(
        self, memory: Memory, count: Callable[[str], int], most: int
    ) -> None:
        """With and without saying the budget again, and whatever counts."""
        whole = memory.recall("story", k=8, record_access=False)
        found = memory.recall("story", k=8, max_tokens=most, count_tokens=count)
        text = found.as_text()

        assert count(text) <= most
        assert text == found.as_text(most, count_tokens=count)
        assert text == whole.as_text(most, count_tokens=count)
        assert found.hits == whole.within(most, count_tokens=count)

    def test_a_hit_shown_in_part_says_so(self, memory: Memory) -> None:
        """Its line is cut, and what it is stays whole."""
        (hit,) = memory.recall("story", max_tokens=FRAME + 20, record_access=False)
        whole = memory.recall("story", k=1, record_access=False).hits[0]

        assert hit.room == len(hit.line)
        assert hit.line == whole.line[: len(hit.line) - 1] + "…"
        assert (hit.text, hit.item, hit.quoted) == (whole.text, whole.item, whole.quoted)
        assert whole.room is None

    def test_what_was_not_shown_is_not_in_the_receipt(self, memory: Memory) -> None:
        """Neither an access nor a later verdict reaches a hit that was left out."""
        whole = memory.recall("story", k=8, record_access=False)
        found = memory.recall("story", k=8, max_tokens=300)
        shown = [hit.id for hit in found]
        assert 0 < len(shown) < 8
        with pytest.raises(ValueError, match=f"it showed M1.*M{len(shown)}$"):
            memory.mark_used(found.id, used=[f"M{len(shown) + 1}"])
        memory.feedback(found.id, "success")

        now = {h.id: h.parts for h in memory.recall("story", k=8, record_access=False)}
        assert [now[id]["utility"] for id in shown] == [0.55] * len(shown)
        left = [hit for hit in whole if hit.id not in shown]
        assert [now[hit.id] for hit in left] == [hit.parts for hit in left]

    def test_where_nothing_fits_nothing_is_shown(self, memory: Memory) -> None:
        """There is a receipt all the same, and it can be judged."""
        found = memory.recall("story", max_tokens=1)

        assert (found.hits, found.as_text(), str(found)) == ((), "", "nothing found")
        assert memory.mark_used(found.id, response="No idea").used == ()
        memory.feedback(found.id, "failed")


DANGEROUS = ["<", "/", "memory", "Memory>", "[", "]", "M1", "m", "2", " ", "\n", "(", "\x00", ","]


class TestNeutralised:
    @given(st.lists(st.sampled_from(DANGEROUS) | st.characters(max_codepoint=127)).map("".join))
    def test_the_short_way_for_ascii_gives_what_the_long_one_does(self, text: str) -> None:
        """Character by character."""
        assert neutralised(text) == as_a_mixture(text)

    @given(
        st.lists(
            st.sampled_from(
                [
                    *DANGEROUS,
                    "\uff3b",
                    "\uff3d",
                    "\uff2d",
                    "\uff11",
                    "\uff1c",
                    "\u00ad",
                    "\u0301",
                    "【",
                    "】",
                ]
            )
            | st.characters(codec=None)
        ).map("".join)
    )
    def test_no_fence_and_no_citation_gets_through(self, text: str) -> None:
        """Whatever the text: one line, in whose plainest form there is neither."""
        safe = neutralised(text)
        plain = _plain(list(safe))[0]

        assert len(safe.splitlines()) <= 1
        assert CLOSE not in plain
        assert OPEN.splitlines()[0] not in plain
        assert _FENCE.search(plain) is None
        assert _MARK.search(plain) is None
        assert neutralised(safe) == safe

    @pytest.mark.parametrize(
        ("text", "safe"),
        [
            ("[M1]", "(M1)"),
            ("[[M1]]", "[(M1)]"),
            ("[m1 [m2]]", "(m1 (m2))"),
            ("[M1 so [x] it is] [y]", "(M1 so [x] it is) [y]"),
            ("ends in [M1", "ends in (M1"),
            ("】] [M 1] 【m2】", "】] (M 1) (m2)"),
            ("[Mary] and [1]", "[Mary] and [1]"),
        ],
    )
    def test_only_the_brackets_of_marks_are_changed(self, text: str, safe: str) -> None:
        """In each other, left open, or of another kind; any others stay as they are."""
        assert neutralised(text) == safe

    def test_a_text_of_nothing_but_marks_takes_no_longer(self) -> None:
        """A million characters, each mark inside the one before."""
        assert neutralised("[m1" * 250_000 + "]" * 250_000) == "(m1" * 250_000 + ")" * 250_000

    @pytest.mark.parametrize(
        "mark", ["[M2]", "(M2)", "【M2】", "\uff08M2\uff09", "[ m2 ]", "[M2, M3]"]
    )
    def test_a_mark_that_a_memory_holds_is_no_citation_when_it_is_quoted(self, mark: str) -> None:
        """An answer that repeats the memory as it was shown uses this one, not the one it names."""
        shown = [
            Shown(b"1", "M1", f"user: see {mark} for gardening"),
            Shown(b"2", "M2", "Ann plays chess"),
            Shown(b"3", "M3", "Bo plays go"),
        ]
        answer = neutralised(shown[0].text)
        quoting = detected(shown, response=answer, question={"tips"})
        citing = detected(shown, response=f"{answer} [M3]", question={"tips"})

        assert (quoting.method, quoting.used) == ("overlap", (b"1",))
        assert (citing.method, citing.used) == ("citations", (b"3",))
