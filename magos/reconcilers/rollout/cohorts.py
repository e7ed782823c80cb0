"""Which member belongs to which step (spec §6.4, rules 2 to 4).

A member belongs to the earliest step that selects it, so a step may own fewer than it matches, or none.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from magos.api.rollout import RolloutStep
from magos.api.selectors import compile_selector
from magos.api.workspace import Workspace


class UnparsableSelector(ValueError):
    """A step's selector cannot be parsed; the text names step and fault."""


class Step(Struct, frozen=True, kw_only=True):
    """A step with the names of all it matches and the members it owns, by name."""

    name: str
    matches: frozenset[str]
    cohort: tuple[Workspace, ...]


class Cohorts(Struct, frozen=True, kw_only=True):
    """All steps in order, and the members that are in none of them."""

    steps: tuple[Step, ...]
    unselected: tuple[Workspace, ...]

    @property
    def empty(self) -> tuple[int, ...]:
        """The steps that match no member at all."""
        return tuple(index for index, step in enumerate(self.steps) if not step.matches)

    def before(self, index: int) -> tuple[Workspace, ...]:
        """The members of all earlier steps."""
        return tuple(member for step in self.steps[:index] for member in step.cohort)

    def outside(self, index: int) -> tuple[Workspace, ...]:
        """All members that are not of this step, the unselected ones included."""
        others = (member for at, step in enumerate(self.steps) if at != index for member in step.cohort)
        return tuple(sorted((*others, *self.unselected), key=lambda member: member.metadata.name))

    def label(self, index: int) -> str:
        """Return the step's name in brackets, with the names of the steps that match exactly the same members."""
        matches = self.steps[index].matches
        return label_of(step.name for step in self.steps if step.matches == matches)


def label_of(names: Iterable[str]) -> str:
    """Return ``[dev, dev-eu]``."""
    return f"[{', '.join(names)}]"


def divide(steps: Sequence[RolloutStep], members: Iterable[Workspace]) -> Cohorts:
    """Give each member to the earliest step that selects it; raise ``UnparsableSelector``."""
    rest = sorted(members, key=lambda member: member.metadata.name)
    everyone = tuple(rest)
    divided: list[Step] = []
    for step in steps:
        try:
            selector = compile_selector(step.selector)
        except ValueError as error:
            raise UnparsableSelector(f"step {label_of([step.name])} is invalid: {error}") from error
        matches = frozenset(each.metadata.name for each in everyone if selector.matches(each.metadata.labels))
        cohort = tuple(each for each in rest if each.metadata.name in matches)
        rest = [each for each in rest if each.metadata.name not in matches]
        divided.append(Step(name=step.name, matches=matches, cohort=cohort))
    return Cohorts(steps=tuple(divided), unselected=tuple(rest))
