"""The kind Project: a group of Workspaces with shared inputs and policy."""

from msgspec import Struct

from magos.api.meta import Kind, ObjectMeta
from magos.api.selectors import LabelSelector
from magos.api.status import GROUP, VERSION, CommonStatus, NameReference

__all__ = ["PROJECTS", "Project", "ProjectSpec", "ProjectStatus", "ProjectValidation"]


class ProjectValidation(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Which policies the members' plans must pass."""

    policy_selector: LabelSelector | None = None
    """Selects Kyverno ValidatingPolicies by label, for members without validation of their own."""


class ProjectSpec(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """What the members share."""

    description: str = ""
    """Text for people, shown in the UI."""

    variable_set_ref: tuple[NameReference, ...] = ()
    """VariableSets that every member inherits, in this order."""

    validation: ProjectValidation | None = None
    """Which policies the members' plans must pass."""


class ProjectStatus(CommonStatus, frozen=True, kw_only=True):
    """How the members are orchestrated."""

    members: int | None = None
    """How many Workspaces name this Project."""


class Project(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A group of Workspaces with shared inputs and policy."""

    metadata: ObjectMeta
    spec: ProjectSpec = ProjectSpec()
    """What is wanted."""

    status: ProjectStatus = ProjectStatus()
    """What is."""


PROJECTS = Kind(group=GROUP, version=VERSION, plural="projects", name="Project", type=Project)
