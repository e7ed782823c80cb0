"""An environment that tells what was asked of it."""

from collections.abc import Iterator, Mapping


class Asked(Mapping[str, str]):
    """An environment that remembers what it was asked for, in ``names``."""

    def __init__(self, known: Mapping[str, str]) -> None:
        self._known = known
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> str:
        """Return the value, and remember the name."""
        self.names.add(name)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._known)

    def __len__(self) -> int:
        """Return the number of variables."""
        return len(self._known)
