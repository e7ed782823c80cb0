"""Composition root of ``magos-rollout-controller``.

What it watches, and which change wakes which Rollout (spec §6.4)."""

import sys
from collections.abc import Mapping, Sequence
from datetime import datetime

from magos.adapters.members import of_member
from magos.adapters.metrics.rollout import RolloutMetrics
from magos.api.rollout import ROLLOUTS
from magos.api.workspace import WORKSPACES
from magos.apps.controllers import Build, run_program
from magos.reconcilers.members import BY_PROJECT, by_project
from magos.reconcilers.rollout.machine import reconcile
from magos.reconcilers.rollout.observation import observe
from magos.reconcilers.trouble import show_trouble
from magos.runtime.controller.controller import ControllerSpec
from magos.runtime.controller.source import EventSource, own_key
from magos.runtime.decision import Decision, Request, View
from magos.runtime.manager.assembly import Assembly


def main() -> None:
    """Run the rollout controller; ends the process with its exit code."""
    sys.exit(run_program("rollout", _prepare))


def _prepare(environ: Mapping[str, str]) -> Build:
    del environ  # nothing but the common settings
    return rollout_controller


def rollout_controller(assembly: Assembly) -> Sequence[ControllerSpec]:
    """Declare the informers and return the controller."""
    rollouts = assembly.informer(ROLLOUTS)
    workspaces = assembly.informer(WORKSPACES, indexers={BY_PROJECT: by_project})
    if assembly.metrics is not None:
        metrics = RolloutMetrics(rollouts, per_object=assembly.settings.metrics_per_object)
        assembly.metrics.collect(metrics.collect)
    return (
        ControllerSpec(
            name="rollout",
            kind=ROLLOUTS,
            reconcile=rollout_reconciler,
            sources=(
                EventSource(rollouts, own_key),
                EventSource(workspaces, of_member),  # a Rollout bears the name of the Project whose members it permits
            ),
            workers=assembly.settings.workers,
        ),
    )


def rollout_reconciler(request: Request, view: View, now: datetime) -> Decision:
    """Decide about one Rollout."""
    decision = reconcile(observe(request, view, now))
    return show_trouble(decision, ROLLOUTS, view.get(ROLLOUTS, request.namespace, request.name), view.trouble, now)
