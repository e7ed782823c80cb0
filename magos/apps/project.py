"""Composition root of ``magos-project-controller``.

What it watches, and which change wakes which Project (spec §6.3)."""

import sys
from collections.abc import Mapping, Sequence
from datetime import datetime

from magos.adapters.members import of_member
from magos.adapters.metrics.project import project_gauges
from magos.api.project import PROJECTS
from magos.api.rollout import ROLLOUTS
from magos.api.workspace import WORKSPACES
from magos.apps.controllers import Build, run_program
from magos.reconcilers.members import BY_PROJECT, by_project
from magos.reconcilers.project import observe, reconcile
from magos.reconcilers.trouble import show_trouble
from magos.runtime.controller.controller import ControllerSpec
from magos.runtime.controller.source import EventSource, own_key
from magos.runtime.decision import Decision, Request, View
from magos.runtime.manager.assembly import Assembly


def main() -> None:
    """Run the project controller; ends the process with its exit code."""
    sys.exit(run_program("project", _prepare))


def _prepare(environ: Mapping[str, str]) -> Build:
    del environ  # nothing but the common settings
    return project_controller


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
