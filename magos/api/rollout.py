"""The kind Rollout: ordered promotion inside one Project."""

from msgspec import Struct

from magos.api.meta import Kind, ObjectMeta
from magos.api.selectors import LabelSelector
from magos.api.status import GROUP, VERSION, CommonStatus

__all__ = ["ROLLOUTS", "Rollout", "RolloutSpec", "RolloutStatus", "RolloutStep", "RolloutStrategy"]


class RolloutStep(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """One step: Workspaces that run together."""

    name: str
    """Name of the step in messages; it need not be unique."""

    selector: LabelSelector
    """Selects members of the Project by their labels."""


class RolloutStrategy(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """In which order members run."""

    steps: tuple[RolloutStep, ...]
    """The steps in order; a step starts when all earlier ones are done. An empty list runs nothing."""


class RolloutSpec(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Which Project, and in which order."""

    project_ref: str
    """Name of the Project; must equal the Rollout's own name."""

    strategy: RolloutStrategy
    """In which order members run."""


class RolloutStatus(CommonStatus, frozen=True, kw_only=True):
    """How far the promotion is."""

    current_step: int | None = None
    """Index of the active step; the number of steps when all are done."""

    unselected_workspaces: int | None = None
    """How many members are selected by no step and never run."""


class Rollout(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Ordered promotion of a Project's Workspaces."""

    metadata: ObjectMeta
    spec: RolloutSpec
    """What is wanted."""

    status: RolloutStatus = RolloutStatus()
    """What is."""


ROLLOUTS = Kind(group=GROUP, version=VERSION, plural="rollouts", name="Rollout", type=Rollout)
