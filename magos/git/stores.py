"""Where fetched objects live: one private directory of packs, removed when the checkout ends.

The module imports the Git library and is itself imported lazily.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Self

from dulwich.object_store import DiskObjectStore


class Stores:
    """Creates object stores below ``parent`` (``None``: where the system keeps temporary files).

    Leaving the block closes them and removes their files.
    """

    def __init__(self, parent: Path | None) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="objects-", dir=parent))
        self._open: list[DiskObjectStore] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for store in self._open:
            store.close()
        shutil.rmtree(self._directory)

    def create(self) -> DiskObjectStore:
        """Return a new, empty store: repositories never share objects."""
        store = DiskObjectStore.init(str(self._directory / str(len(self._open))))
        self._open.append(store)
        return store

    def __len__(self) -> int:
        """Return how many stores were created."""
        return len(self._open)
