"""Work behind the turn is done once a key, in order, and ends when told."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

import pytest

from recall_echo_core.background import Background

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS = 20  # until a test that waits in vain fails


@pytest.fixture
def background() -> Iterator[Background]:
    background = Background()
    yield background
    background.stop()


class Gate:
    """A job that says when it has begun, and ends when it may."""

    def __init__(self) -> None:
        self.begun, self.open = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.begun.set()
        assert self.open.wait(SECONDS)


def test_jobs_are_done_in_order_and_one_a_key(background: Background) -> None:
    """The first of a key that waits is kept; a later one is not needed."""
    gate, done, end = Gate(), [], threading.Event()
    background.submit("gate", gate)
    assert gate.begun.wait(SECONDS)
    for key, number in [("a", 1), ("b", 2), ("a", 3), ("c", 4)]:
        background.submit(key, lambda number=number: done.append(number))
    background.submit("end", end.set)
    gate.open.set()

    assert end.wait(SECONDS)
    assert done == [1, 2, 4]


def test_a_key_may_come_again_while_its_job_is_done(background: Background) -> None:
    """What was written since it began is not missed."""
    gate, again = Gate(), threading.Event()
    background.submit("a", gate)
    assert gate.begun.wait(SECONDS)
    background.submit("a", again.set)
    gate.open.set()

    assert again.wait(SECONDS)


def test_a_job_that_fails_is_logged_and_the_next_is_done(background, caplog) -> None:
    """Nobody waits for it, so nobody could be told otherwise."""

    def fail() -> None:
        raise KeyError("broken")

    end = threading.Event()
    with caplog.at_level(logging.ERROR):
        background.submit("a", fail)
        background.submit("b", end.set)
        assert end.wait(SECONDS)

    assert "work behind the turn failed" in caplog.text
    assert "broken" in caplog.text


def test_stopping_waits_for_the_job_in_hand_and_drops_the_others(background) -> None:
    """The job can see that it should end; nothing is taken any more."""
    gate, seen, dropped = Gate(), [], []

    def job() -> None:
        gate()
        seen.append(background.stopping)

    background.submit("a", job)
    assert gate.begun.wait(SECONDS)
    background.submit("b", lambda: dropped.append(1))
    stopper = threading.Thread(target=background.stop)
    stopper.start()
    while not background.stopping:
        stopper.join(0.001)
    gate.open.set()
    stopper.join(SECONDS)
    background.submit("c", lambda: dropped.append(2))
    background.stop()

    assert (seen, dropped, stopper.is_alive()) == ([True], [], False)


def test_a_job_may_stop_it_itself(background: Background) -> None:
    """A memory that is closed from the thread behind it does not wait for itself."""
    done = threading.Event()
    background.submit("a", lambda: (background.stop(), done.set()))

    assert done.wait(SECONDS)


def test_one_that_is_not_active_does_nothing() -> None:
    """No thread is started, now or later."""
    before = threading.active_count()
    background = Background(active=False)
    background.submit("a", lambda: 1 / 0)
    background.stop()

    assert threading.active_count() == before
