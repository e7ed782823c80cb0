"""Which change wakes which Workspace (spec §6.2): indexers and mappers of the workspace controller."""

from collections.abc import Callable, Iterable
from typing import Any

from magos.api import labels
from magos.api.annotations import APPROVED, FORCE_DELETE, PERMISSION, RECONCILE_REQUEST
from magos.api.kube import (
    Job,
    SecretMetadata,
    ServiceAccountMetadata,
)
from magos.api.meta import Resource
from magos.api.project import Project
from magos.api.variableset import VariableSet
from magos.api.workspace import WORKSPACES, Workspace
from magos.reconcilers.members import BY_PROJECT, project_index
from magos.reconcilers.workspace.observation import workspace_index
from magos.runtime.cache.cache import Change
from magos.runtime.cache.informer import Informer
from magos.runtime.controller.source import owner_key, usual_priority
from magos.runtime.controller.workqueue import Key
from magos.runtime.decision import Priority

BY_LABEL = "label"
BY_SET = "variableset"
BY_ACCOUNT = "serviceaccount"
_ASKED_BY_PEOPLE = (RECONCILE_REQUEST, APPROVED, *PERMISSION, FORCE_DELETE)


def by_label(workspace: Workspace) -> Iterable[str]:
    """Index a Workspace by the label that its objects carry."""
    yield workspace_index(workspace.metadata.namespace, labels.workspace_label(workspace.metadata.name))


def by_workspace(item: Resource) -> Iterable[str]:
    """Index an object by the label of the Workspace that it belongs to."""
    label = item.metadata.labels.get(labels.WORKSPACE)
    if label is not None:
        yield workspace_index(item.metadata.namespace, label)


def urgency(change: Change[Workspace]) -> Priority | None:
    """What a person asks for by annotation goes first; our own status writes and everything else in their turn."""
    if change.old is not None and change.new is not None:
        before, after = change.old.metadata.annotations, change.new.metadata.annotations
        if any(after.get(key) not in (None, before.get(key)) for key in _ASKED_BY_PEOPLE):
            return Priority.USER
    return usual_priority(change)


def of_labelled(workspaces: Informer[Workspace]) -> Callable[[Change[Any]], Iterable[Key]]:
    """A label names the Workspace, shortened if need be: the index knows which one that is."""

    def mapper(change: Change[Any]) -> Iterable[Key]:
        item = change.new if change.new is not None else change.old
        if item is None:
            return ()
        found = (each for value in by_workspace(item) for each in workspaces.cache.by_index(BY_LABEL, value))
        return tuple(map(_key, found))

    return mapper


def of_job(workspaces: Informer[Workspace]) -> Callable[[Change[Job]], Iterable[Key]]:
    """A Job concerns its owner, and whoever waits for it because it carries that Workspace's label."""
    of_owner, of_label = owner_key(WORKSPACES), of_labelled(workspaces)

    def mapper(change: Change[Job]) -> Iterable[Key]:
        return tuple(dict.fromkeys((*of_owner(change), *of_label(change))))

    return mapper


def of_project(workspaces: Informer[Workspace]) -> Callable[[Change[Project]], Iterable[Key]]:
    """A Project concerns its members, but not by its status."""

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


def sets_of_workspace(workspace: Workspace) -> Iterable[str]:
    """Index a Workspace by the VariableSets that it names."""
    return {f"{workspace.metadata.namespace}/{ref.name}" for ref in workspace.spec.variable_set_ref}


def sets_of_project(project: Project) -> Iterable[str]:
    """Index a Project by the VariableSets that its members inherit."""
    return {f"{project.metadata.namespace}/{ref.name}" for ref in project.spec.variable_set_ref}


def of_set(
    workspaces: Informer[Workspace], projects: Informer[Project]
) -> Callable[[Change[VariableSet]], Iterable[Key]]:
    """A set concerns the Workspaces that name it, directly or through their Project."""

    def mapper(change: Change[VariableSet]) -> Iterable[Key]:
        found = change.new if change.new is not None else change.old
        if found is None or change.initial or _same_variables(change):  # at the start everybody is looked at anyway
            return ()
        name = f"{found.metadata.namespace}/{found.metadata.name}"
        keys = {_key(each): None for each in workspaces.cache.by_index(BY_SET, name)}
        for project in projects.cache.by_index(BY_SET, name):
            members = project_index(project.metadata.namespace, project.metadata.name)
            keys.update({_key(each): None for each in workspaces.cache.by_index(BY_PROJECT, members)})
        return tuple(keys)

    return mapper


def _same_variables(change: Change[VariableSet]) -> bool:
    old, new = change.old, change.new
    return old is not None and new is not None and (old.spec, old.status) == (new.spec, new.status)


def of_namespace(workspaces: Informer[Workspace]) -> Callable[[Change[SecretMetadata]], Iterable[Key]]:
    """Metadata does not tell the URL: every Workspace of the namespace looks whether its start was refused for it."""

    def mapper(change: Change[SecretMetadata]) -> Iterable[Key]:
        secret = change.new if change.new is not None else change.old
        if secret is None or change.initial:
            return ()
        return tuple(map(_key, workspaces.cache.list(secret.metadata.namespace)))

    return mapper


def account_of_workspace(workspace: Workspace) -> Iterable[str]:
    """Index a Workspace by the ServiceAccount of its runs."""
    yield f"{workspace.metadata.namespace}/{workspace.spec.service_account_name}"


def of_account(workspaces: Informer[Workspace]) -> Callable[[Change[ServiceAccountMetadata]], Iterable[Key]]:
    """An account that appears has just been created or labelled: a Workspace that was refused for it may start now.

    One that disappears, or whose label does, wakes no Workspace: every start reads the account anyway.
    """

    def mapper(change: Change[ServiceAccountMetadata]) -> Iterable[Key]:
        if change.new is None or change.old is not None or change.initial:
            return ()
        meta = change.new.metadata
        return tuple(map(_key, workspaces.cache.by_index(BY_ACCOUNT, f"{meta.namespace}/{meta.name}")))

    return mapper


def _key(workspace: Workspace) -> Key:
    return Key(workspace.metadata.namespace, workspace.metadata.name)
