"""Composition root of ``magos-workspace-controller``.

What it watches, and which change wakes which Workspace (spec §6.2)."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from magos.adapters.archivist.stores import Stores
from magos.adapters.jobevents import read_job_events
from magos.adapters.metrics.workspace import WorkspaceMetrics
from magos.adapters.repositorysecrets import RepositorySecretReader
from magos.adapters.workspacesettings import load_workspace_settings
from magos.api import labels
from magos.api.annotations import APPROVED, FORCE_DELETE, PERMISSION, RECONCILE_REQUEST
from magos.api.kube import (
    JOBS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SECRET_METADATA,
    SERVICE_ACCOUNT_METADATA,
    Job,
    SecretMetadata,
    ServiceAccountMetadata,
)
from magos.api.meta import Resource
from magos.api.project import PROJECTS, Project
from magos.api.repositorysecret import SELECTOR
from magos.api.variableset import VARIABLESETS, VariableSet
from magos.api.workspace import WORKSPACES, Workspace, WorkspaceStatus
from magos.apps.archiving import Informers, archiving
from magos.apps.controllers import Build, run_program
from magos.apps.stores import load_store_settings, stores_of
from magos.reconcilers.archive.keeping import Standing
from magos.reconcilers.effects import JobEvents, RepositorySecrets
from magos.reconcilers.members import BY_PROJECT, by_project, project_index
from magos.reconcilers.trouble import show_trouble
from magos.reconcilers.workspace.machine import reconcile
from magos.reconcilers.workspace.observation import BY_WORKSPACE, observe, workspace_index
from magos.reconcilers.workspace.pod.settings import WorkspaceSettings
from magos.runtime.cache.cache import Change
from magos.runtime.cache.informer import Informer
from magos.runtime.controller.controller import ControllerSpec
from magos.runtime.controller.source import EventSource, own_key, owner_key, usual_priority
from magos.runtime.controller.workqueue import Key
from magos.runtime.decision import Decision, Priority, Reconciler, Request, View
from magos.runtime.manager.assembly import Assembly

_BY_LABEL = "label"
_BY_SET = "variableset"
_BY_ACCOUNT = "serviceaccount"
_RUN_ID_BYTES = 4
_ASKED_BY_PEOPLE = (RECONCILE_REQUEST, APPROVED, *PERMISSION, FORCE_DELETE)


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
            _BY_LABEL: _by_label,
            _BY_SET: _sets_of_workspace,
            _BY_ACCOUNT: _account_of_workspace,
        },
    )
    jobs = assembly.informer(JOBS, selector=ours, indexers={BY_WORKSPACE: _by_workspace})
    pods = assembly.informer(PODS, selector=ours, indexers={BY_WORKSPACE: _by_workspace})
    claims = assembly.informer(PERSISTENT_VOLUME_CLAIMS, selector=ours)
    projects = assembly.informer(PROJECTS, indexers={_BY_SET: _sets_of_project})
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
                EventSource(workspaces, own_key, _urgency),
                EventSource(jobs, _of_job(workspaces)),
                EventSource(claims, owner_key(WORKSPACES)),
                EventSource(pods, _of_labelled(workspaces)),
                EventSource(projects, _of_project(workspaces)),
                EventSource(sets, _of_set(workspaces, projects)),
                EventSource(secrets, _of_namespace(workspaces)),
                EventSource(accounts, _of_account(workspaces)),
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


def _by_label(workspace: Workspace) -> Iterable[str]:
    yield workspace_index(workspace.metadata.namespace, labels.workspace_label(workspace.metadata.name))


def _by_workspace(item: Resource) -> Iterable[str]:
    label = item.metadata.labels.get(labels.WORKSPACE)
    if label is not None:
        yield workspace_index(item.metadata.namespace, label)


def _urgency(change: Change[Workspace]) -> Priority | None:
    """What a person asks for by annotation goes first; our own status writes and everything else in their turn."""
    if change.old is not None and change.new is not None:
        before, after = change.old.metadata.annotations, change.new.metadata.annotations
        if any(after.get(key) not in (None, before.get(key)) for key in _ASKED_BY_PEOPLE):
            return Priority.USER
    return usual_priority(change)


def _of_labelled(workspaces: Informer[Workspace]) -> Callable[[Change[Any]], Iterable[Key]]:
    """A label names the Workspace, shortened if need be: the index knows which one that is."""

    def mapper(change: Change[Any]) -> Iterable[Key]:
        item = change.new if change.new is not None else change.old
        if item is None:
            return ()
        found = (each for value in _by_workspace(item) for each in workspaces.cache.by_index(_BY_LABEL, value))
        return tuple(map(_key, found))

    return mapper


def _of_job(workspaces: Informer[Workspace]) -> Callable[[Change[Job]], Iterable[Key]]:
    """A Job concerns its owner, and whoever waits for it because it carries that Workspace's label."""
    of_owner, of_label = owner_key(WORKSPACES), _of_labelled(workspaces)

    def mapper(change: Change[Job]) -> Iterable[Key]:
        return tuple(dict.fromkeys((*of_owner(change), *of_label(change))))

    return mapper


def _of_project(workspaces: Informer[Workspace]) -> Callable[[Change[Project]], Iterable[Key]]:
    def mapper(change: Change[Project]) -> Iterable[Key]:
        project = change.new if change.new is not None else change.old
        if project is None or _same_inputs(change):
            return ()
        value = project_index(project.metadata.namespace, project.metadata.name)
        return tuple(map(_key, workspaces.cache.by_index(BY_PROJECT, value)))

    return mapper


def _same_inputs(change: Change[Project]) -> bool:
    """A Project's status concerns no member."""
    return change.old is not None and change.new is not None and change.old.spec == change.new.spec


def _sets_of_workspace(workspace: Workspace) -> Iterable[str]:
    return {f"{workspace.metadata.namespace}/{ref.name}" for ref in workspace.spec.variable_set_ref}


def _sets_of_project(project: Project) -> Iterable[str]:
    return {f"{project.metadata.namespace}/{ref.name}" for ref in project.spec.variable_set_ref}


def _of_set(
    workspaces: Informer[Workspace], projects: Informer[Project]
) -> Callable[[Change[VariableSet]], Iterable[Key]]:
    """A set concerns the Workspaces that name it, directly or through their Project."""

    def mapper(change: Change[VariableSet]) -> Iterable[Key]:
        found = change.new if change.new is not None else change.old
        if found is None or change.initial or _same_variables(change):  # at the start everybody is looked at anyway
            return ()
        name = f"{found.metadata.namespace}/{found.metadata.name}"
        keys = {_key(each): None for each in workspaces.cache.by_index(_BY_SET, name)}
        for project in projects.cache.by_index(_BY_SET, name):
            members = project_index(project.metadata.namespace, project.metadata.name)
            keys.update({_key(each): None for each in workspaces.cache.by_index(BY_PROJECT, members)})
        return tuple(keys)

    return mapper


def _same_variables(change: Change[VariableSet]) -> bool:
    old, new = change.old, change.new
    return old is not None and new is not None and (old.spec, old.status) == (new.spec, new.status)


def _of_namespace(workspaces: Informer[Workspace]) -> Callable[[Change[SecretMetadata]], Iterable[Key]]:
    """Metadata does not tell the URL: every Workspace of the namespace looks whether its start was refused for it."""

    def mapper(change: Change[SecretMetadata]) -> Iterable[Key]:
        secret = change.new if change.new is not None else change.old
        if secret is None or change.initial:
            return ()
        return tuple(map(_key, workspaces.cache.list(secret.metadata.namespace)))

    return mapper


def _account_of_workspace(workspace: Workspace) -> Iterable[str]:
    yield f"{workspace.metadata.namespace}/{workspace.spec.service_account_name}"


def _of_account(workspaces: Informer[Workspace]) -> Callable[[Change[ServiceAccountMetadata]], Iterable[Key]]:
    """An account that appears has just been created or labelled: a Workspace that was refused for it may start now.

    One that disappears, or whose label does, wakes no Workspace: every start reads the account anyway.
    """

    def mapper(change: Change[ServiceAccountMetadata]) -> Iterable[Key]:
        if change.new is None or change.old is not None or change.initial:
            return ()
        meta = change.new.metadata
        return tuple(map(_key, workspaces.cache.by_index(_BY_ACCOUNT, f"{meta.namespace}/{meta.name}")))

    return mapper


def _key(workspace: Workspace) -> Key:
    return Key(workspace.metadata.namespace, workspace.metadata.name)
