"""How is a graph kept between runs, so that opening need not read the whole log?

A snapshot is a file of MessagePack bytes with a checksum, written aside and renamed. It is only
ever a shortcut: one that is missing, damaged or foreign is passed over, and the log is read.
"""

from __future__ import annotations

import hashlib
import logging
import os
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from recall_echo_core.errors import StoreError

__all__ = ["Snapshots"]

log = logging.getLogger(__name__)
MAGIC: Final = b"recall-echo snapshot 2\n"
KEPT: Final = 2
_encoder: Final = msgspec.msgpack.Encoder()


class Pictured(Protocol):
    """What can be kept: plain values, and how far in the log they go."""

    @property
    def position(self) -> int:
        """The newest event that is in it."""
        ...


P = TypeVar("P", bound=Pictured)


class Snapshots(Generic[P]):
    """The snapshots of one view of one namespace.

    Args:
        shape: What is kept.
        folder: Where the files lie; made when the first is written.
        identity: Names the log and its generation; a snapshot of another one is never used.
        mark: Tells one event at a position from another; so a snapshot is not used either once
            an older state of the log was put back and has grown otherwise.
    """

    def __init__(
        self,
        shape: type[P],
        folder: Path,
        identity: str,
        mark: Callable[[int], str] = lambda _: "",
    ) -> None:
        self._folder, self._identity, self._mark = folder, identity, mark
        self._decoder = msgspec.msgpack.Decoder(shape)

    def write(self, picture: P) -> None:
        """Keep a picture durably, and drop all but the newest two."""
        body = zlib.compress(_encoder.encode(picture), level=1)
        target = self._folder / f"{picture.position:020}.snapshot"
        aside = target.with_suffix(f".{os.getpid()}.part")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with aside.open("wb") as file:
                file.write(MAGIC + self._digest(picture.position, body) + body)
                file.flush()
                os.fsync(file.fileno())
            aside.replace(target)
            for old in self._newest_first()[KEPT:]:
                old.unlink(missing_ok=True)
        except OSError as error:
            with suppress(OSError):
                aside.unlink(missing_ok=True)
            raise StoreError(f"writing the snapshot {target} failed: {error}") from error

    def newest(self, upto: int) -> P | None:
        """Return the newest readable picture at or before a position, if there is one."""
        for path in self._newest_first():
            picture = self._read(path)
            if picture is not None and picture.position <= upto:
                return picture
        return None

    def _read(self, path: Path) -> P | None:
        try:
            content = path.read_bytes()
            digest, body = content[len(MAGIC) :][:32], content[len(MAGIC) + 32 :]
            position = int(path.stem) if path.stem.isdecimal() else -1
            if not content.startswith(MAGIC) or digest != self._digest(position, body):
                log.warning("passing over the snapshot %s: damaged, or of another log", path)
                return None
            return self._decoder.decode(zlib.decompress(body))
        except (OSError, zlib.error, msgspec.MsgspecError) as error:
            log.warning("passing over the snapshot %s: %s", path, error)
            return None

    def _digest(self, position: int, body: bytes) -> bytes:
        made_from = f"{self._identity}:{position}:{self._mark(position)}"
        key = hashlib.blake2b(made_from.encode(), digest_size=32).digest()
        return hashlib.blake2b(body, key=key, digest_size=32).digest()

    def _newest_first(self) -> list[Path]:
        if not self._folder.is_dir():
            return []
        return sorted(self._folder.glob("*.snapshot"), reverse=True)
