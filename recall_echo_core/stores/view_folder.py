"""Where a view of the log lives on disk, when it can be thrown away and made again.

```
path.lock   held by the one user of the folder
path/3/     the sub folder in use: the highest number counts
path/3/damaged   written when it can no longer be trusted; the next opening begins path/4
```

A sub folder that cannot be trusted is not repaired but replaced: some libraries keep files open,
or keep what was deleted inside them, so a fresh folder is the only clean start.
"""

from __future__ import annotations

import logging
import shutil
from contextlib import suppress
from pathlib import Path

import filelock

from recall_echo_core.errors import StoreBusy, StoreError

__all__ = ["ViewFolder"]

_LOG = logging.getLogger(__name__)
_MARK = "damaged"


class ViewFolder:
    """A folder used by one process, and by one object in it, at a time.

    Raises `StoreBusy` when another has it and `StoreError` when it cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            # Any thread may close what another one opened.
            self._lock = filelock.FileLock(f"{self.path}.lock", thread_local=False)
            self._lock.acquire(blocking=False)
        except filelock.Timeout as error:
            raise StoreBusy(
                str(self.path),
                "close the other memory first, or give each process a folder of its own.",
            ) from error
        except OSError as error:
            raise StoreError(f"{self.path} cannot be used: {error}") from error

    def newest(self) -> Path | None:
        """The sub folder that counts, or `None` when there is none yet."""
        numbered = self._numbered()
        return numbered[-1] if numbered else None

    def begin(self) -> Path:
        """Make an empty sub folder that counts from now on."""
        newest = self.newest()
        folder = self.path / str(int(newest.name) + 1 if newest else 1)
        try:
            folder.mkdir()
        except OSError as error:
            raise StoreError(f"{folder} cannot be made: {error}") from error
        return folder

    def leftovers(self) -> list[Path]:
        """Sub folders that no longer count; what they held can still be read from them."""
        return self._numbered()[:-1]

    def sweep(self) -> None:
        """Remove what no longer counts, as far as the system lets us."""
        for old in self.leftovers():
            shutil.rmtree(old, ignore_errors=True)
        if left := self.leftovers():
            _LOG.warning("%s could not be removed", ", ".join(map(str, left)))

    def distrust(self, reason: str) -> None:
        """Mark the sub folder that counts as damaged."""
        newest = self.newest()
        if newest:
            _LOG.warning("%s is damaged (%s); opening it again starts over", newest, reason)
            with suppress(OSError):  # opening it finds out by itself, in most cases
                (newest / _MARK).write_text(reason, encoding="utf-8")

    def distrusted(self) -> str | None:
        """Why the sub folder that counts was marked as damaged, or `None` when it was not."""
        newest = self.newest()
        mark = newest / _MARK if newest else None
        return mark.read_text(encoding="utf-8") if mark and mark.exists() else None

    def release(self) -> None:
        """Let others use the folder; releasing twice does nothing."""
        self._lock.release()

    def _numbered(self) -> list[Path]:
        if not self.path.exists():  # deleted under us
            return []
        found = [child for child in self.path.iterdir() if child.name.isdecimal()]
        return sorted(found, key=lambda child: int(child.name))
