"""Keys whose pass met an object that cannot be read: they run again as soon as one can be read again or is gone.

That need not be a change that any source maps to these keys, so all of them are woken, whichever object it was.
"""

from collections.abc import Callable, Sequence
from typing import Any

from magos.runtime.cache.informer import Informer
from magos.runtime.controller.workqueue import Key


class Resting:
    """The keys that rest; ``wake`` is called with each of them once when an object leaves the quarantine of a cache."""

    def __init__(self, informers: Sequence[Informer[Any]], wake: Callable[[Key], None]) -> None:
        self._keys: dict[Key, None] = {}
        self._wake = wake
        for informer in informers:
            informer.on_progress(_Rise(informer, self._wake_all))

    def add(self, key: Key) -> None:
        """Let ``key`` rest until it is woken."""
        self._keys[key] = None

    def _wake_all(self) -> None:
        resting, self._keys = self._keys, {}
        for key in resting:
            self._wake(key)


class _Rise:
    """A progress callback that calls ``act`` where objects have left the quarantine of the informer's cache."""

    def __init__(self, informer: Informer[Any], act: Callable[[], None]) -> None:
        self._quarantine = informer.cache.quarantine
        self._act = act
        self._known = 0

    def __call__(self, _version: str) -> None:
        if self._known != self._quarantine.released:
            self._known = self._quarantine.released
            self._act()
