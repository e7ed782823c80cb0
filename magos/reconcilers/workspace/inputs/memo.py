"""Results of pure functions of immutable objects, kept for the next pass that looks at the very same objects.

Objects in a cache are replaced, never changed, so identity stands for value. There is one entry for each Workspace: it
holds its objects, so that no other object can have their identity while it is there, and it is replaced as soon as one
of them is another. So what is kept grows with the number of Workspaces and with nothing else.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

V = TypeVar("V")


class Memo(Generic[V]):
    """The latest result for each Workspace (namespace and name); at most ``most`` of them."""

    def __init__(self, most: int = 8192) -> None:
        self._most = most
        self._known: dict[tuple[str, str], tuple[tuple[object, ...], V]] = {}

    def of(self, workspace: tuple[str, str], objects: tuple[object, ...], compute: Callable[[], V]) -> V:
        """Return what ``compute`` returns for these immutable objects."""
        known = self._known.get(workspace)
        if known is not None and len(known[0]) == len(objects):
            if all(one is other for one, other in zip(known[0], objects, strict=True)):
                return known[1]
        elif known is None and len(self._known) >= self._most:
            self._known.clear()
        value = compute()
        self._known[workspace] = (objects, value)
        return value

    def forget(self, workspace: tuple[str, str]) -> None:
        """Let go of what is known of a Workspace that is gone."""
        self._known.pop(workspace, None)

    def __len__(self) -> int:
        """How many Workspaces something is known of."""
        return len(self._known)
