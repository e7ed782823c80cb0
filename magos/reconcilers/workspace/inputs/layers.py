"""The VariableSets a Workspace refers to, and why they cannot be used yet (spec §6.2.6, check 4)."""

from msgspec import Struct

from magos.api.variableset import VariableSet

_LONGEST_LIST = 720
"""Characters of a message that a list of problems may take; the rest says what to do about them."""


class Layer(Struct, frozen=True, kw_only=True):
    """A set by the name it is referred to, None if there is no such set."""

    name: str
    found: VariableSet | None = None


class Problem(Struct, frozen=True, kw_only=True):
    """Why a set cannot be used: an unresolved reference, or (without ``kind``) whatever ``reason`` says in words."""

    set: str
    kind: str = ""
    name: str = ""
    key: str = ""
    reason: str

    def __str__(self) -> str:
        """``VariableSet s: Secret/n k: KeyNotFound``, the form of every message."""
        source = " ".join(part for part in (f"{self.kind}/{self.name}" if self.kind else "", self.key) if part)
        owner = f"VariableSet {self.set}: " if self.set else ""
        return f"{owner}{source}: {self.reason}" if source else f"{owner}{self.reason}"


class Unresolved(Struct, frozen=True, kw_only=True):
    """The inputs are not complete: Failed/UnresolvedVariables until that heals."""

    problems: tuple[Problem, ...]

    @property
    def message(self) -> str:
        """List set, kind, name, key and reason, and say what to do."""
        shown: list[str] = []
        for problem in map(str, self.problems):
            if shown and sum(map(len, shown)) + len(problem) > _LONGEST_LIST:
                break
            shown.append(problem)
        rest = len(self.problems) - len(shown)
        more = f"; and {rest} more" if rest else ""
        return f"{'; '.join(shown)}{more}. Create what is missing or mark the reference optional: it heals by itself."


class Awaiting(Struct, frozen=True, kw_only=True):
    """Sets that are not validated yet in their present form: Pending/AwaitingVariables."""

    sets: tuple[str, ...]

    @property
    def message(self) -> str:
        """Name the sets and who has to act."""
        return f"VariableSet {', '.join(self.sets)} is not validated yet: is the variableset controller running?"
