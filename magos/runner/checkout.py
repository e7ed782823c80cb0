"""The module's folder in the checkout: separates what a tool leaves there from what the repository brought.

The folder is held from before any code of the configuration runs. A name that we look for after a tool has run is freed
before it runs: only what that very tool has made counts, whatever the repository holds under the name.
"""

import io
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from magos.folder import Folder
from magos.runner.journal import Journal
from magos.runner.paths import Paths
from magos.runner.varfiles import read_by_itself

_LARGEST_LOCK_FILE: Final = 16 * 1024**2
_LARGEST_VARIABLES: Final = 4 * 1024**2

ERRORED_STATE: Final = "errored.tfstate"
"""What the tools leave in their working directory if the backend does not take the state."""

LOCK_FILE: Final = ".terraform.lock.hcl"


class Checkout:
    """The folder ``module`` of the exported tree; ``module`` has its links resolved. A context manager."""

    def __init__(self, paths: Paths, module: Path) -> None:
        self._tree = paths.source.resolve()
        self._relative = module.relative_to(self._tree)
        self._source = Folder.at(self._tree)
        self.folder = self._source if not self._relative.parts else self._source.folder(str(self._relative))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()
        if self.folder is not self._source:
            self.folder.close()

    def overriding_files(self, tfvars: str | None) -> Iterator[tuple[str, bytes]]:
        """Yield name and content of the files of variables that the tool reads, each overriding the ones before.

        ``tfvars`` is the one that is named to it, relative to the repository. What leads out of the repository or
        cannot be read is left out: nothing is decided by it.
        """
        names = [str(self._relative / name) for name in read_by_itself(self.folder.names())]
        for name in [*names, *([tfvars] if tfvars else [])]:
            place = Path(os.path.realpath(self._tree / name))
            with suppress(OSError, ValueError):
                yield name, self._source.read(str(place.relative_to(self._tree)), _LARGEST_VARIABLES)

    def free_errored_state(self, journal: Journal) -> None:
        """Remove what has the name of a state that an apply could not save, and say so; ``OSError`` if it stays."""
        if self.folder.remove(ERRORED_STATE):
            journal.say(
                f"warning: {self._shown(ERRORED_STATE)} was there before the apply; it is not a state of this run and"
                " was removed from the pod's copy of the repository; if it is the state of an earlier apply that is"
                " still missing in the backend, hand it over by hand (state push), then delete it from the repository"
            )

    def save_lock_file(self, own: Folder, journal: Journal) -> None:
        """Copy the lock file that ``init`` used or made to the run's folder ``own``."""
        # A repository may share one lock file by links that stay inside of it.
        place = Path(os.path.realpath(self._tree / self._relative / LOCK_FILE))
        if not place.is_relative_to(self._tree):
            journal.say(f"warning: {self._shown(LOCK_FILE)} leads out of the repository and is not kept for the apply")
            return
        own.remove(LOCK_FILE)
        try:
            with self._source.opened(str(place.relative_to(self._tree))) as given, own.created(LOCK_FILE) as kept:
                shutil.copyfileobj(given, kept, 1 << 20)
        except FileNotFoundError:
            return

    def restore_lock_file(self, own: Folder) -> None:
        """Put the lock file that the plan was made with in place of the repository's, if one was kept."""
        try:
            content = own.read(LOCK_FILE, _LARGEST_LOCK_FILE)
        except FileNotFoundError:
            return
        self.folder.replace(LOCK_FILE, io.BytesIO(content))

    def _shown(self, name: str) -> str:
        return str(self._relative / name)
