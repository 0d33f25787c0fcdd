"""What many tests need: a clock that moves when told, the shared data, a network that is off."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]

collect_ignore = ["typing"]  # type-checked, never run

hypothesis.settings.register_profile("dev", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev")
)


class MovableClock:
    """Time for a test: calling it says what time it is, and it stands still until moved.

    >>> clock = MovableClock()
    >>> clock.advance(days=1, hours=0.5)
    datetime.datetime(2026, 3, 2, 12, 30, tzinfo=datetime.timezone.utc)
    >>> clock.set("2025-01-01T01:00+01:00") == clock()
    True
    >>> clock().isoformat()
    '2025-01-01T00:00:00+00:00'
    """

    def __init__(self, now: datetime = datetime(2026, 3, 1, 12, tzinfo=UTC)) -> None:
        self.set(now)

    def __call__(self) -> datetime:
        return self._now

    def set(self, now: datetime | str) -> datetime:
        """Jump to `now`, forwards or backwards; a time without a zone is UTC."""
        moment = datetime.fromisoformat(now) if isinstance(now, str) else now
        self._now = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
        return self._now

    def advance(self, **span: float) -> datetime:
        """Move on by the arguments of `timedelta`: `clock.advance(days=90)`."""
        return self.set(self._now + timedelta(**span))


@pytest.fixture
def clock() -> MovableClock:
    """A clock at noon UTC on 2026-03-01."""
    return MovableClock()


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of the benchmark data, which is not part of this repository."""
    folder = Path(os.environ.get("RECALL_ECHO_DATA") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"the benchmark data is missing: no folder {folder} (set RECALL_ECHO_DATA)")
    return folder


class NetworkOff(OSError):
    """Raised at whoever tries to leave this machine while `no_network` is on."""


_watchers: list[list[str]] = []  # one list of attempts per `no_network` in force


def _is_local(host: object) -> bool:
    if host is None or host in ("", "localhost", b"localhost"):
        return True
    try:
        return ip_address(host.decode() if isinstance(host, bytes) else str(host)).is_loopback
    except ValueError:  # a name, so somebody would have to be asked
        return False


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watchers or not event.startswith("socket."):
        return
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        address = arguments[1]
        if not isinstance(address, tuple):  # a Unix socket, or one connected before
            return
        host = address[0]
    elif event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"):
        host = arguments[0]
    elif event == "socket.getnameinfo":
        host = arguments[0][0]
    else:
        return
    if not _is_local(host):
        attempt = f"{event}({host!r})"
        for watcher in _watchers:
            watcher.append(attempt)
        raise NetworkOff(f"the network is off in this test: {attempt}")


@pytest.fixture(scope="session")
def _audited() -> None:
    sys.addaudithook(_audit)  # cannot be taken away again, so it is idle without watchers


@pytest.fixture
def no_network(_audited: None) -> Iterator[list[str]]:
    """Block every connection and name look-up that leaves this machine, and allow none.

    The test fails at its end if there was an attempt, also one that somebody swallowed. Python's
    own sockets are seen, whoever uses them; sockets of native code are not. The value is the list
    of attempts: a test that provokes one on purpose looks at it, then clears it.
    """
    attempts: list[str] = []
    _watchers.append(attempts)
    try:
        yield attempts
    finally:
        _watchers.remove(attempts)
    assert attempts == [], f"the network was tried: {attempts}"
