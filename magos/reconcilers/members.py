"""The members of a Project, and the permission that their orchestrator gives them or takes from them.

An orchestrator, the Project or the Rollout of its name, writes permission only, and only on the version of the member
that it judged.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from magos.api.annotations import PERMISSION
from magos.api.phases import GRANTABLE
from magos.api.workspace import WORKSPACES, Workspace
from magos.reconcilers.events import EventBuilder
from magos.reconcilers.permission import awaits_amendment, grant_of, permitted
from magos.runtime.decision import Effect, PatchAnnotations, Unchanged

GRANTS_PER_JUDGEMENT = 20
"""Grants are written one after the other: a change among the members must be seen before many of them are written."""

BY_PROJECT = "project"
"""Index of Workspaces that the app must provide, made by ``by_project``."""

PERMISSION_EVENTS = EventBuilder(WORKSPACES, "Permit")
"""Builds the Events ``Granted`` and ``Revoked`` about members."""

T = TypeVar("T")


def project_index(namespace: str, project: str) -> str:
    """Return the index value under which the members of a Project are filed."""
    return f"{namespace}/{project}"


def by_project(workspace: Workspace) -> Iterable[str]:
    """File a Workspace under its Project."""
    yield project_index(workspace.metadata.namespace, workspace.spec.project_ref.name)


def members_of(project: str, workspaces: Iterable[Workspace]) -> tuple[Workspace, ...]:
    """Return those of a namespace's Workspaces that are members of the Project, by name; terminating ones are not."""
    found = (
        each
        for each in workspaces
        if each.spec.project_ref.name == project and each.metadata.deletion_timestamp is None
    )
    return tuple(sorted(found, key=lambda each: each.metadata.name))


def wants_grant(member: Workspace) -> bool:
    """Tell whether the member waits for a permission that it does not have."""
    return member.status.phase in GRANTABLE and not permitted(member)


def can_be_granted(member: Workspace) -> bool:
    """Tell whether permission that is given to this version of the member names what it will start with."""
    return wants_grant(member) and not awaits_amendment(member)


def carries_permission(member: Workspace) -> bool:
    """Tell whether there is anything to take back: the annotations, whatever their values."""
    return any(key in member.metadata.annotations for key in PERMISSION)


def grant(member: Workspace, judged_by: tuple[Unchanged, ...]) -> Effect:
    """Return the write that gives permission to exactly the judged version, while ``judged_by`` still holds."""
    return _set_permission(member, grant_of(member), judged_by)


def revoke(member: Workspace) -> Effect:
    """Return the write that takes permission from exactly the judged version; it never touches a Job."""
    return _set_permission(member, dict.fromkeys(PERMISSION), ())


def round_robin(items: Sequence[T], now: datetime) -> tuple[T, ...]:
    """Begin with another item each second: one whose write is rejected must not keep the others waiting."""
    start = int(now.timestamp()) % len(items) if items else 0
    return (*items[start:], *items[:start])


def _set_permission(
    member: Workspace, annotations: Mapping[str, str | None], judged_by: tuple[Unchanged, ...]
) -> Effect:
    meta = member.metadata
    return PatchAnnotations(
        kind=WORKSPACES,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        annotations=annotations,
        resource_version=meta.resource_version,
        unchanged=judged_by,
    )
