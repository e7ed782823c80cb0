"""Projects: the list, and one Project with its lineage and members."""

from collections.abc import Sequence
from datetime import datetime

from markupsafe import Markup
from msgspec import Struct

from magos.api.meta import Condition
from magos.api.project import Project
from magos.api.rollout import Rollout
from magos.api.workspace import Workspace
from magos.ui import links
from magos.ui.badges import Badge, phase_badge, workspace_badge
from magos.ui.rows import Row, row
from magos.ui.svg import Node, grouped, lineage
from magos.ui.times import Moment, moment
from magos.ui.workspaces import Count, Explained, Query, sentence

SHOWN = 100
"""Members that the page of a Project lists; the list of Workspaces has all of them."""


class ProjectRow(Struct, frozen=True, kw_only=True):
    """A Project in the list."""

    namespace: str
    name: str
    path: str
    badge: Badge
    description: str
    members: int
    sets: int
    orchestration: str
    counts: tuple[Count, ...]


class ProjectView(Struct, frozen=True, kw_only=True):
    """The page of a Project."""

    row: ProjectRow
    message: str
    rollout_path: str
    lineage: Markup
    members: tuple[Row, ...]
    all_path: str
    sets: tuple[tuple[str, str], ...]
    conditions: tuple[Condition, ...]
    changed: Moment | None


def project_row(project: Project, members: Sequence[Workspace]) -> ProjectRow:
    """Return a Project as the list shows it; ``members`` are those that the caller may see."""
    meta = project.metadata
    orchestrations = {"ManagedByRollout": "in steps of a Rollout", "DefaultParallel": "in parallel"}
    return ProjectRow(
        namespace=meta.namespace,
        name=meta.name,
        path=links.page("projects", meta.namespace, meta.name),
        badge=phase_badge(project.status.phase),
        description=project.spec.description,
        members=len(members),
        sets=len(project.spec.variable_set_ref),
        orchestration=orchestrations.get(project.status.reason, ""),
        counts=sentence(members, Query(project=meta.name, namespace=meta.namespace)),
    )


class Surroundings(Struct, frozen=True, kw_only=True):
    """What the page of a Project needs besides it."""

    members: Sequence[Workspace]
    rollout: Rollout | None
    explained: Explained
    now: datetime
    root: str = ""


def view(project: Project, around: Surroundings) -> ProjectView:
    """Return the page of a Project."""
    meta = project.metadata
    whole = Query(project=meta.name, namespace=meta.namespace).path()
    sets = tuple(
        (each.name, links.page("variable-sets", meta.namespace, each.name)) for each in project.spec.variable_set_ref
    )
    badges = [workspace_badge(each) for each in around.members]
    nodes = [
        Node(
            text=each.metadata.name,
            path=links.page("workspaces", each.metadata.namespace, each.metadata.name),
            tone=badge.tone,
        )
        for each, badge in zip(around.members, badges, strict=True)
    ]
    return ProjectView(
        row=project_row(project, around.members),
        message=project.status.message,
        rollout_path=links.page("rollouts", meta.namespace, meta.name) if around.rollout else "",
        lineage=lineage(
            (
                [Node(text=name, path=path) for name, path in sets],
                [Node(text=meta.name, tone=phase_badge(project.status.phase).tone)],
                grouped(nodes, [badge.word for badge in badges], whole),
            ),
            around.root,
        ),
        members=tuple(row(each, around.explained(each), around.now) for each in around.members[:SHOWN]),
        all_path=whole if len(around.members) > SHOWN else "",
        sets=sets,
        conditions=project.status.conditions,
        changed=moment(project.status.last_reconcile_time, around.now),
    )
