"""One Workspace in a list: what every page that lists Workspaces shows of it."""

from datetime import datetime

from msgspec import Struct

from magos.api.workspace import Workspace
from magos.explain import Account
from magos.ui import links
from magos.ui.badges import Badge, workspace_badge
from magos.ui.links import Commit, Repository
from magos.ui.times import Moment, moment


class Row(Struct, frozen=True, kw_only=True):
    """A Workspace as a line or a card."""

    namespace: str
    name: str
    path: str
    """Of its page, below the root."""
    project: str
    project_path: str
    badge: Badge
    sentence: str
    since: Moment | None
    commit: Commit | None
    repository: Repository
    revision: str
    folder: str
    changed: Moment | None
    next_run: Moment | None
    action: str
    """What its page is opened for: ``Review`` or ``Open log``; empty for nothing in particular."""
    action_path: str


def row(workspace: Workspace, account: Account, now: datetime) -> Row:
    """Return a Workspace as lists show it."""
    meta, spec, status = workspace.metadata, workspace.spec, workspace.status
    path = links.page("workspaces", meta.namespace, meta.name)
    action, action_path = "", ""
    if status.awaiting_approval:
        action, action_path = "Review", links.query(path, dialog="approve")
    elif workspace_badge(workspace).tone == "bad" and status.current_run_id:
        action, action_path = "Open log", log_path(workspace)
    return Row(
        namespace=meta.namespace,
        name=meta.name,
        path=path,
        project=spec.project_ref.name,
        project_path=links.page("projects", meta.namespace, spec.project_ref.name),
        badge=workspace_badge(workspace),
        sentence=without_subject(account.sentence, workspace),
        since=moment(account.since, now),
        commit=links.commit(spec.source, status.observed_revision),
        repository=links.repository(spec.source),
        revision=spec.source.target_revision,
        folder=spec.source.path,
        changed=moment(status.last_reconcile_time, now),
        next_run=moment(status.next_reconcile_time, now),
        action=action,
        action_path=action_path,
    )


def without_subject(sentence: str, workspace: Workspace) -> str:
    """Return a sentence for a place where the Workspace's name stands beside it."""
    said = sentence.removeprefix(f"Workspace {workspace.metadata.namespace}/{workspace.metadata.name} ")
    return said[:1].upper() + said[1:]


def log_path(workspace: Workspace) -> str:
    """Return the path of the log that tells most about a Workspace now: of the apply once there is one."""
    meta, status = workspace.metadata, workspace.status
    applies = status.current_run is not None and bool(status.current_run.apply_job)
    path = links.page("workspaces", meta.namespace, meta.name, "runs", status.current_run_id, "log")
    return links.query(path, phase="apply" if applies else "plan")
