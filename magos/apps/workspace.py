"""Composition root of ``magos-workspace-controller``.

What it watches, and which change wakes which Workspace (spec §6.2)."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from msgspec.structs import replace

from magos.adapters.archivist.stores import Stores
from magos.adapters.jobevents import read_job_events
from magos.adapters.metrics.workspace import WorkspaceMetrics
from magos.adapters.repositorysecrets import RepositorySecretReader
from magos.adapters.workspacesettings import load_workspace_settings
from magos.adapters.workspacesources import (
    BY_ACCOUNT,
    BY_LABEL,
    BY_SET,
    account_of_workspace,
    by_label,
    by_workspace,
    of_account,
    of_job,
    of_labelled,
    of_namespace,
    of_project,
    of_set,
    sets_of_project,
    sets_of_workspace,
    urgency,
)
from magos.api import labels
from magos.api.kube import (
    JOBS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SECRET_METADATA,
    SERVICE_ACCOUNT_METADATA,
)
from magos.api.project import PROJECTS
from magos.api.repositorysecret import SELECTOR
from magos.api.variableset import VARIABLESETS
from magos.api.workspace import WORKSPACES, Workspace, WorkspaceStatus
from magos.apps.archiving import Informers, archiving
from magos.apps.controllers import Build, run_program
from magos.apps.stores import load_store_settings, stores_of
from magos.reconcilers.archive.keeping import Standing
from magos.reconcilers.effects import JobEvents, RepositorySecrets
from magos.reconcilers.members import BY_PROJECT, by_project
from magos.reconcilers.trouble import show_trouble
from magos.reconcilers.workspace.machine import reconcile
from magos.reconcilers.workspace.observation import BY_WORKSPACE, observe
from magos.reconcilers.workspace.pod.settings import WorkspaceSettings
from magos.runtime.controller.controller import ControllerSpec
from magos.runtime.controller.source import EventSource, own_key, owner_key
from magos.runtime.decision import Decision, Reconciler, Request, View
from magos.runtime.manager.assembly import Assembly

_RUN_ID_BYTES = 4


def main() -> None:
    """Run the workspace controller; ends the process with its exit code."""
    sys.exit(run_program("workspace", _prepare))


def _prepare(environ: Mapping[str, str]) -> Build:
    settings, kept = load_workspace_settings(environ), load_store_settings(environ)

    def build(assembly: Assembly) -> Sequence[ControllerSpec]:
        complete = replace(settings, keeping=kept.keeping(assembly.settings.namespace))
        return workspace_controller(assembly, complete, stores=stores_of(kept, assembly.client))

    return build


def workspace_controller(
    assembly: Assembly,
    settings: WorkspaceSettings,
    draw: Callable[[int], bytes] = os.urandom,
    stores: Stores | None = None,
) -> Sequence[ControllerSpec]:
    """Declare the informers and return the controllers; ``draw`` gives the random bytes of run IDs.

    ``stores`` are where records and logs go, as far as the settings say that they are kept.
    """
    ours = labels.WORKSPACE  # "has the label": nothing else of these kinds concerns us
    workspaces = assembly.informer(
        WORKSPACES,
        indexers={
            BY_PROJECT: by_project,
            BY_LABEL: by_label,
            BY_SET: sets_of_workspace,
            BY_ACCOUNT: account_of_workspace,
        },
    )
    jobs = assembly.informer(JOBS, selector=ours, indexers={BY_WORKSPACE: by_workspace})
    pods = assembly.informer(PODS, selector=ours, indexers={BY_WORKSPACE: by_workspace})
    claims = assembly.informer(PERSISTENT_VOLUME_CLAIMS, selector=ours)
    projects = assembly.informer(PROJECTS, indexers={BY_SET: sets_of_project})
    sets = assembly.informer(VARIABLESETS)
    secrets = assembly.informer(SECRET_METADATA, selector=SELECTOR)
    accounts = assembly.informer(SERVICE_ACCOUNT_METADATA, selector=f"{labels.RUNNER}=true")
    if assembly.metrics is not None:
        metrics = WorkspaceMetrics(assembly.metrics, workspaces.cache, per_object=assembly.settings.metrics_per_object)
        workspaces.add_handler(metrics.workspace_changed)
        jobs.add_handler(metrics.job_changed)
    archive = archiving(assembly, settings.keeping, stores, Informers(workspaces, jobs, pods))
    return (
        ControllerSpec(
            name="workspace",
            kind=WORKSPACES,
            reconcile=workspace_reconciler(settings, draw, archive.standing),
            sources=(
                EventSource(workspaces, own_key, urgency),
                EventSource(jobs, of_job(workspaces)),
                EventSource(claims, owner_key(WORKSPACES)),
                EventSource(pods, of_labelled(workspaces)),
                EventSource(projects, of_project(workspaces)),
                EventSource(sets, of_set(workspaces, projects)),
                EventSource(secrets, of_namespace(workspaces)),
                EventSource(accounts, of_account(workspaces)),
            ),
            workers=assembly.settings.workers,
            queries={RepositorySecrets: RepositorySecretReader(), JobEvents: read_job_events},
            log_fields=log_fields,
            wake_ups=archive.wake_ups,
        ),
        *archive.specs,
    )


def workspace_reconciler(
    settings: WorkspaceSettings,
    draw: Callable[[int], bytes] = os.urandom,
    standing: Callable[[Workspace], Standing] = lambda _workspace: Standing(),
) -> Reconciler:
    """Return the reconciler; the random bytes are drawn here, so that what decides stays pure.

    ``standing`` tells what history has of a Workspace's records; it answers at once.
    """

    def decide(request: Request, view: View, now: datetime) -> Decision:
        seen = observe(request, view, now, settings, draw(_RUN_ID_BYTES))
        if seen.workspace is not None:
            seen = replace(seen, history=standing(seen.workspace))
        decision = reconcile(seen)
        workspace = view.get(WORKSPACES, request.namespace, request.name)
        return show_trouble(decision, WORKSPACES, workspace, view.trouble, now)

    return decide


def log_fields(status: WorkspaceStatus) -> Mapping[str, str]:
    """Return what every log line about a Workspace tells: where it is, and the run that it is about."""
    known = {"run_id": status.current_run_id, "phase": str(status.phase or ""), "reason": status.reason}
    return {name: value for name, value in known.items() if value}
