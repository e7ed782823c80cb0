"""What the project controller watches, and which change wakes which Project (spec §6.3)."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from magos.api.project import PROJECTS
from magos.api.rollout import ROLLOUTS
from magos.api.workspace import WORKSPACES, Workspace
from magos.apps.project_metrics import project_gauges
from magos.apps.workspace_composition import by_project
from magos.reconcilers.members import BY_PROJECT
from magos.reconcilers.project import observe, reconcile
from magos.reconcilers.trouble import show_trouble
from magos.runtime.cache.informer import Change
from magos.runtime.controller.controller import ControllerSpec
from magos.runtime.controller.source import EventSource, own_key
from magos.runtime.controller.workqueue import Key
from magos.runtime.decision import Decision, Request, View
from magos.runtime.manager.assembly import Assembly

__all__ = ["of_member", "project_controller", "project_reconciler"]


def project_controller(assembly: Assembly) -> Sequence[ControllerSpec]:
    """Declare the informers and return the controller."""
    projects = assembly.informer(PROJECTS)
    workspaces = assembly.informer(WORKSPACES, indexers={BY_PROJECT: by_project})
    rollouts = assembly.informer(ROLLOUTS)
    if assembly.metrics is not None and assembly.settings.metrics_per_object:
        assembly.metrics.collect(project_gauges(projects.cache))
    return (
        ControllerSpec(
            name="project",
            kind=PROJECTS,
            reconcile=project_reconciler,
            sources=(
                EventSource(projects, own_key),
                EventSource(workspaces, of_member),
                EventSource(rollouts, own_key),  # a Rollout bears the name of the Project that it manages
            ),
            workers=assembly.settings.workers,
        ),
    )


def project_reconciler(request: Request, view: View, now: datetime) -> Decision:
    """Decide about one Project."""
    decision = reconcile(observe(request, view, now))
    project = view.get(PROJECTS, request.namespace, request.name)
    return show_trouble(decision, PROJECTS, project, view.trouble, now)


def of_member(change: Change[Workspace]) -> Iterable[Key]:
    """Both the Project that a Workspace left and the one it joined."""
    found = (each for each in (change.old, change.new) if each is not None)
    return tuple({Key(each.metadata.namespace, each.spec.project_ref.name): None for each in found})
