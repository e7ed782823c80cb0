"""The kind Rollout: ordered promotion inside one Project."""

from msgspec import Struct

from magos.api.meta import Kind, ObjectMeta
from magos.api.selectors import LabelSelector
from magos.api.status import GROUP, VERSION, CommonStatus


class RolloutStep(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """One step: Workspaces that run together."""

    name: str
    """Name of the step in messages. Several steps may have the same name."""

    selector: LabelSelector
    """Selects members of the Project by their labels; {} selects all. A member that several steps select belongs to
    the first of them."""


class RolloutStrategy(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """In which order members run."""

    steps: tuple[RolloutStep, ...]
    """Steps in their order, at most 64. A step starts when all earlier steps are done. If the list is empty, no member
    runs."""


class RolloutSpec(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Which Project, and in which order."""

    project_ref: str
    """Name of the Project. It must equal the Rollout's own name, so a Project has at most one Rollout."""

    strategy: RolloutStrategy
    """The order in which the members of the Project run."""


class RolloutStatus(CommonStatus, frozen=True, kw_only=True):
    """How far the promotion is."""

    current_step: int | None = None
    """Index of the active step, counted from 0. It equals the number of steps when all are done."""

    unselected_workspaces: int | None = None
    """Number of members that no step selects. They do not run."""


class Rollout(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A Rollout runs the Workspaces of a Project in steps: a commit reaches a step after all earlier steps have
    applied it."""

    metadata: ObjectMeta
    spec: RolloutSpec
    """The Project, and the order of its members. You write it."""

    status: RolloutStatus = RolloutStatus()
    """What the rollout controller reports. Do not edit it."""


ROLLOUTS = Kind(group=GROUP, version=VERSION, plural="rollouts", name="Rollout", type=Rollout)
