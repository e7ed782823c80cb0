"""The kind Project: a group of Workspaces with shared inputs and policy."""

from msgspec import Struct

from magos.api.meta import Kind, ObjectMeta
from magos.api.selectors import LabelSelector
from magos.api.status import GROUP, VERSION, CommonStatus, NameReference


class ProjectValidation(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Which policies the members' plans must pass."""

    policy_selector: LabelSelector | None = None
    """Selects Kyverno ValidatingPolicies by label. {} selects all of them; if absent, Magos evaluates none."""


class ProjectSpec(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """What the members share."""

    description: str = ""
    """Text for people, at most 4096 characters. It has no effect."""

    variable_set_ref: tuple[NameReference, ...] = ()
    """VariableSets that every member gets, at most 64. A later set overrides an earlier one, and the sets of a member
    override all of these. Default: none."""

    validation: ProjectValidation | None = None
    """Policies that the plans of all members must pass which set no validation of their own. Default: none."""


class ProjectStatus(CommonStatus, frozen=True, kw_only=True):
    """How the members are orchestrated."""

    members: int | None = None
    """Number of Workspaces that name this Project and are not being deleted."""

    parallel_from: str | None = None
    """Time (UTC) from which on members may run in parallel: a moment after the Project has found no Rollout of its
    name. Absent while there is one."""


class Project(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A Project groups Workspaces of its namespace and gives them the same variables and policies."""

    metadata: ObjectMeta
    spec: ProjectSpec = ProjectSpec()
    """What the members have in common. You write it."""

    status: ProjectStatus = ProjectStatus()
    """What the project controller reports. Do not edit it."""


PROJECTS = Kind(group=GROUP, version=VERSION, plural="projects", name="Project", type=Project)
