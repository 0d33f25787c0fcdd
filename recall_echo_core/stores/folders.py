"""Which files belong to which namespace?"""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path

__all__ = ["Folders"]


class Folders:
    """The files beside the database: views of namespaces, by their number.

    Args:
        root: The memory's folder.
    """

    def __init__(self, root: Path) -> None:
        self._snapshots, self._vectors = root / "snapshots", root / "vectors"

    def snapshots(self, namespace: int) -> Path:
        """Where the snapshots of a namespace lie."""
        return self._snapshots / str(namespace)

    def vectors(self, namespace: int) -> Path:
        """Where the index on disk of a namespace lies."""
        return self._vectors / str(namespace)

    def drop_snapshots(self) -> bool:
        """Remove the snapshots of all namespaces; return whether all are gone."""
        shutil.rmtree(self._snapshots, ignore_errors=True)
        return not self._snapshots.exists()

    def drop_strangers(self, known: Collection[int]) -> bool:
        """Remove the indexes of namespaces that are no more; return whether all are gone."""
        if not self._vectors.is_dir():
            return True
        names = {str(number) for number in known}
        strangers = [
            path
            for path in self._vectors.iterdir()
            if path.name.split(".")[0] not in names  # a folder, or the lock beside it
        ]
        for path in strangers:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        return not any(path.exists() for path in strangers)
