"""Every page of the UI in its states, rendered from view models without a server."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from magos.api.names import JobType
from magos.api.project import Project
from magos.api.rollout import Rollout
from magos.api.variableset import VariableSet
from magos.api.workspace import Workspace
from magos.explain import Account, explain
from magos.history.runs import Run
from magos.ui import errors, home, logs, plan, projects, rollouts, runs, settings, variablesets, workspace, workspaces
from magos.ui.login import login
from magos.ui.planlog import PlanLog, Reader
from magos.ui.render import assets, render
from magos.ui.shell import Live, Shell, Stream
from tests.pages import states

__all__ = ["LoginState", "gallery", "shell"]

Change = Callable[[str], str]
"""What is done to every text that others may write."""


class LoginState(msgspec.Struct, frozen=True, kw_only=True):
    """What the login page is given."""

    password: bool = True
    oidc: bool = True
    error: str = ""
    return_path: str = "/workspaces"
    csrf: str = "token"


LIVE = Live(streams=(Stream(path="/apis/x/events"), Stream(path="/apis/y/events", name="shop", mark="1")))

_FIXED = frozenset(
    {
        "phase", "result", "trigger", "reason", "since", "kind", "action", "approval", "currentRunTrigger", "operator",
        "creationTimestamp", "lastReconcileTime", "nextReconcileTime", "lastRunStartedAt", "startedAt", "finishedAt",
        "lastTransitionTime", "distribution", "optional",
    }
)  # fmt: skip
"""Fields whose values are words of ours, or times."""


def _changed(item: Any, change: Change, key: str = "") -> Any:
    if key in ("labels", "matchLabels"):
        return item  # the API server takes no others
    if isinstance(item, dict):
        return {name: _changed(value, change, name) for name, value in item.items()}
    if isinstance(item, list | tuple):
        return [_changed(each, change, key) for each in item]
    return change(item) if isinstance(item, str) and key not in _FIXED else item


def shell(root: str = "", **more: Any) -> Shell:
    """Return what stands around a page."""
    fields = {"path": "/workspaces", "version": "1.2.3", "username": "jane", "csrf": "token", **more}
    return Shell(root=root, assets=assets(), now="2026-12-01T12:00:00Z", live=LIVE, **fields)


def gallery(change: Change = str, root: str = "") -> Iterator[tuple[str, str]]:
    """Yield the name and the HTML of every page; ``change`` is applied to every text of an object."""
    found = tuple(_made(each, Workspace, change) for each in states.WORKSPACES)
    around = shell(root, username=change("jane@example.org"), csrf=change("token"), version=change("1.2.3"))
    yield from _lists(found, around, change)
    for index, each in enumerate(found):
        for tab in workspace.Tab:
            yield f"workspace {index} {tab}", render("workspace", around, _workspace(each, around, change, tab=tab))
        for dialog in ("approve", "reconcile"):
            view = _workspace(each, around, change, dialog=dialog, problem=change("went wrong"))
            yield f"workspace {index} {dialog}", render("workspace", around, view)
    for index, run in enumerate(_runs(change)[:5]):
        row = runs.run_row(found[0], run, states.NOW)
        shown = plan.view(_plan(change) if index else change("no log"), run.changes)
        page = runs.RunPageView(run=row, name=found[0].metadata.name, path="/workspaces/a/b", plan=shown)
        yield f"run {index}", render("run", around, page)
    yield from _logs(around, change)
    for status in (400, 401, 403, 404, 409, 422, 429, 503, 500):
        yield f"error {status}", render("error", around, errors.view(status, change("no right")))
    for password in (True, False):
        for oidc in (True, False):
            state = LoginState(password=password, oidc=oidc, error=change("login failed"), return_path=change("/x"))
            yield f"login {password} {oidc}", login(state, root=root)


def _made(item: Any, kind: type[Any], change: Change) -> Any:
    return msgspec.convert(_changed(item, change), kind)


def _runs(change: Change) -> tuple[Run, ...]:
    return tuple(_made(msgspec.to_builtins(each), Run, change) for each in states.runs())


def _plan(change: Change) -> PlanLog:
    reader = Reader("[cut]")
    reader.feed(states.plan_log(states.PLANS["mixed"]))
    read = reader.finish()
    changes = tuple(
        msgspec.structs.replace(
            each, address=change(each.address), lines=tuple(map(change, each.lines)), left_out=index
        )
        for index, each in enumerate(read.changes)
    )
    return msgspec.structs.replace(read, changes=changes[1:])


def _account(each: Workspace) -> Account:
    return explain(each, None, None, states.NOW)


def _workspace(each: Workspace, around: Shell, change: Change, **choices: Any) -> workspace.WorkspaceView:
    surroundings = workspace.Surroundings(
        project=None,
        account=_account(each),
        rights=workspace.Rights(reconcile=change("jane may not patch workspaces in shop.")),
        runs=_runs(change),
        now=states.NOW,
        older=change("cursor"),
        history_problem=change("history is down"),
        plan=_plan(change) if choices.get("tab") is workspace.Tab.PLAN else "",
        root=around.root,
    )
    return workspace.view(each, surroundings, workspace.Choices(**choices))


def _lists(found: tuple[Workspace, ...], around: Shell, change: Change) -> Iterator[tuple[str, str]]:
    from magos.server.pages.lists import ListPage

    yield "home", render("home", around, home.view(found, _account, states.NOW))
    yield "home, empty", render("home", around, home.view((), _account, states.NOW))
    for layout in workspaces.Layout:
        query = workspaces.Query(view=layout, q="", project=change("shop"), label=change("stage"))
        yield f"workspaces {layout}", render("workspaces", around, workspaces.view(found, query, _account, states.NOW))
        query = workspaces.Query(view=layout)
        yield f"all {layout}", render("workspaces", around, workspaces.view(found, query, _account, states.NOW))
    empty = workspaces.view((), workspaces.Query(), _account, states.NOW)
    yield "workspaces, none", render("workspaces", around, empty)
    groups = [_made(each, Project, change) for each in states.PROJECTS]
    promotions = [_made(each, Rollout, change) for each in states.ROLLOUTS]
    sets = [_made(each, VariableSet, change) for each in states.SETS]
    rows: dict[str, list[Any]] = {
        "projects": [projects.project_row(each, found) for each in groups],
        "rollouts": [rollouts.rollout_row(each) for each in promotions],
        "variable-sets": [variablesets.set_row(each, states.NOW) for each in sets],
    }
    for name, shown in rows.items():
        yield name, render(name, around, ListPage(rows=tuple(shown), newer="/x", older="/y?after=a"))
        yield f"{name}, none", render(name, around, ListPage(rows=(), newer="", older=""))
    for index, project in enumerate(groups):
        surroundings = projects.Surroundings(
            members=found, rollout=promotions[0], explained=_account, now=states.NOW, root=around.root
        )
        yield f"project {index}", render("project", around, projects.view(project, surroundings))
    for index, rollout in enumerate(promotions):
        yield f"rollout {index}", render("rollout", around, rollouts.view(rollout, found, states.NOW))
    for index, each in enumerate(sets):
        yield f"set {index}", render("variable-set", around, variablesets.view(each, groups, found, states.NOW))
    person = settings.Person(username=change("jane"), kind="oidc", subject=change("sub"), expires_at=states.NOW)
    rights = (settings.NamespaceRights(namespace=change("shop"), allowed=(True, False, True, False)),)
    parts = (settings.Part(name="History", tone="ok", text=change("on")),)
    yield "settings", render("settings", around, settings.view(person, rights, 3, parts, states.NOW))


def _logs(around: Shell, change: Change) -> Iterator[tuple[str, str]]:
    base = logs.LogView(
        title=change("Plan log"),
        run_path="/workspaces/a/b/runs/r",
        workspace_path="/workspaces/a/b",
        workspace=change("b"),
        phase=JobType.PLAN,
        phases=((JobType.PLAN, "/x"), (JobType.APPLY, "/y")),
        base="/workspaces/a/b/runs/r/log",
        download="/apis/log",
        search=change("aws"),
    )
    reading = logs.Reading(1, base.search)
    reading.feed(states.LOG + change("a text").encode(errors="replace") + b"\n")
    yield "log", render("log", around, logs.view(base, reading, around.root))
    yield "log, empty", render("log", around, logs.view(base, logs.Reading(0), around.root))
    yield "log, live", render("log", around, msgspec.structs.replace(base, stream="/apis/stream?phase=plan"))
    yield "log, none", render("log", around, msgspec.structs.replace(base, problem=change("gone")))
