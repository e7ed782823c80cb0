"""The page of one Workspace: what it waits for, what may be done, its plan, runs and facts."""

from datetime import datetime
from enum import StrEnum

from markupsafe import Markup
from msgspec import Struct

from magos.api.meta import Condition
from magos.api.phases import Phase
from magos.api.project import Project
from magos.api.workspace import AwaitingApproval, GateReason, PlanSummary, PolicyViolation, UsedVariable, Workspace
from magos.explain import Account
from magos.history.runs import Run
from magos.ui import links
from magos.ui.badges import Badge, phase_badge, workspace_badge
from magos.ui.links import Commit, Repository
from magos.ui.plan import PlanView
from magos.ui.plan import view as plan_view
from magos.ui.planlog import PlanLog
from magos.ui.progress import Step, timeline
from magos.ui.rows import log_path
from magos.ui.runs import Paging, RunsView, runs_view, short_id
from magos.ui.svg import Node, lineage
from magos.ui.times import Moment, moment


class Tab(StrEnum):
    """The tabs of the page."""

    OVERVIEW = "overview"
    PLAN = "plan"
    LOG = "log"
    RUNS = "runs"
    DETAILS = "details"


class Rights(Struct, frozen=True, kw_only=True):
    """What the caller may do with a Workspace; each is empty if allowed, and else says why not."""

    reconcile: str = ""
    approve: str = ""


class Action(Struct, frozen=True, kw_only=True):
    """A button. ``refused`` says why it is disabled; empty means that it may be used."""

    title: str
    path: str
    key: str
    refused: str
    primary: bool = False


class Fact(Struct, frozen=True, kw_only=True):
    """A line of the facts; ``url`` leads out, ``path`` to a page of ours."""

    title: str
    text: str
    url: str = ""
    path: str = ""


class Choices(Struct, frozen=True, kw_only=True):
    """What the address asks of the page: the tab, the open dialog, the page of runs, and what went wrong before."""

    tab: Tab = Tab.OVERVIEW
    dialog: str = ""
    cursor: str = ""
    problem: str = ""


class ApproveDialog(Struct, frozen=True, kw_only=True):
    """What is approved, in full: this very run, or nothing."""

    run_id: str
    short: str
    why: str
    since: Moment | None
    commit: Commit | None
    digest: str
    changes: PlanSummary | None
    violations: tuple[PolicyViolation, ...]


class WorkspaceView(Struct, frozen=True, kw_only=True):
    """The page."""

    namespace: str
    name: str
    path: str
    project: str
    project_path: str
    badge: Badge
    sentence: str
    holder: str
    since: Moment | None
    next_steps: tuple[str, ...]
    command: str
    reason: str
    message: str
    actions: tuple[Action, ...]
    steps: tuple[Step, ...]
    tab: Tab
    tabs: tuple[tuple[Tab, str], ...]
    log_path: str
    live_log: str
    """Path of the stream of the running phase's log; empty while nothing runs."""
    console: str
    """Names the phase and run of that log: another one is shown anew, and not in the place of this one."""
    facts: tuple[Fact, ...]
    repository: Repository
    commit: Commit | None
    changes: PlanSummary | None
    plan_of: str
    plan: PlanView
    violations: tuple[PolicyViolation, ...]
    policies: str
    conditions: tuple[Condition, ...]
    variables: tuple[UsedVariable, ...]
    lineage: Markup
    runs: RunsView
    approve: ApproveDialog | None
    reconcile: bool
    discards: str
    """The run whose plan a reconcile discards; empty if none waits."""
    problem: str


class Surroundings(Struct, frozen=True, kw_only=True):
    """What the page needs besides the Workspace. ``runs`` are newest first; ``older`` is the cursor behind them."""

    project: Project | None
    account: Account
    rights: Rights
    runs: tuple[Run, ...]
    now: datetime
    older: str = ""
    history_problem: str = ""
    plan: PlanLog | str = ""
    """What the log of the current run's plan tells, or why that is not known. Only the tab of the plan shows it."""
    root: str = ""


def view(workspace: Workspace, around: Surroundings, choices: Choices) -> WorkspaceView:
    """Return the page of a Workspace."""
    meta, spec, status = workspace.metadata, workspace.spec, workspace.status
    path, now, account = links.page("workspaces", meta.namespace, meta.name), around.now, around.account
    waiting = status.awaiting_approval
    work = status.current_run
    actions = _actions(workspace, around.rights, path)
    paging = Paging(cursor=choices.cursor, older=around.older, problem=around.history_problem)
    return WorkspaceView(
        namespace=meta.namespace,
        name=meta.name,
        path=path,
        project=spec.project_ref.name,
        project_path=links.page("projects", meta.namespace, spec.project_ref.name),
        badge=workspace_badge(workspace),
        sentence=account.sentence,
        holder=account.holder,
        since=moment(account.since, now),
        next_steps=account.next_steps,
        command=account.command,
        reason=status.reason,
        message=status.message,
        actions=actions,
        steps=timeline(workspace, next((run for run in around.runs if run.run_id == status.current_run_id), None), now),
        tab=choices.tab,
        tabs=tuple((tab, links.query(path, tab="" if tab is Tab.OVERVIEW else str(tab))) for tab in Tab),
        log_path=log_path(workspace) if status.current_run_id else "",
        live_log=live_log(workspace),
        console=f"console-{status.phase}-{status.current_run_id}",
        facts=_facts(workspace, now),
        repository=links.repository(spec.source),
        commit=links.commit(spec.source, status.observed_revision),
        changes=status.plan_summary,
        plan_of=status.current_run_id if work and work.has_changes is not None else "",
        plan=plan_view(around.plan, status.plan_summary),
        violations=status.policy_violations,
        policies="" if status.policies_evaluated is None else f"{status.policies_evaluated} policies evaluated",
        conditions=status.conditions,
        variables=work.variables if work else (),
        lineage=_lineage(workspace, around.project, around.root),
        runs=runs_view(workspace, around.runs, now, paging),
        approve=_approve(workspace, waiting, now) if waiting and _opens("approve", "a", actions, choices) else None,
        reconcile=_opens("reconcile", "r", actions, choices),
        discards=waiting.run_id if waiting else "",
        problem=choices.problem or _stale(choices, waiting),
    )


def live_log(workspace: Workspace) -> str:
    """Return the path of the stream of the log that is being written, below the root; empty while nothing runs."""
    phases = {Phase.PLANNING: "plan", Phase.APPLYING: "apply"}
    phase = phases.get(workspace.status.phase) if workspace.status.phase else None
    if phase is None:
        return ""
    meta = workspace.metadata
    api = "/apis/magosproject.io/v1alpha1" + links.page("workspaces", meta.namespace, meta.name)
    return f"{api}/runs/current/log/stream?phase={phase}"


_BUSY = {
    Phase.PENDING: "a run is about to start",
    Phase.PLANNING: "a plan runs",
    Phase.APPLYING: "an apply runs",
    Phase.DELETING: "the Workspace is being deleted",
}


def _actions(workspace: Workspace, rights: Rights, path: str) -> tuple[Action, ...]:
    status = workspace.status
    busy = "the Workspace is being deleted" if workspace.metadata.deletion_timestamp else ""
    busy = busy or (_BUSY.get(status.phase, "") if status.phase else "its controller has not seen it yet")
    gated = status.awaiting_approval is not None and not workspace.metadata.deletion_timestamp
    reconcile = Action(
        title="Reconcile",
        path=links.query(path, dialog="reconcile"),
        key="r",
        refused=rights.reconcile or (f"Not now: {busy}." if busy else ""),
    )
    approve = Action(
        title="Review and approve" if gated else "Approve",
        path=links.query(path, dialog="approve"),
        key="a",
        refused=rights.approve or ("" if gated else "No plan waits for an approval."),
        primary=True,
    )
    return (approve, reconcile)


def _approve(workspace: Workspace, waiting: AwaitingApproval, now: datetime) -> ApproveDialog:
    status = workspace.status
    why = {
        GateReason.MANUAL_APPROVAL: "spec.autoApply is false: a person approves each plan with changes.",
        GateReason.AUDIT_VIOLATIONS: "The plan violates policies with action Audit.",
    }
    return ApproveDialog(
        run_id=waiting.run_id,
        short=short_id(waiting.run_id),
        why=why[waiting.reason],
        since=moment(waiting.since, now),
        commit=links.commit(workspace.spec.source, waiting.revision),
        digest=status.current_run.plan_digest if status.current_run else "",
        changes=status.plan_summary,
        violations=status.policy_violations if waiting.reason is GateReason.AUDIT_VIOLATIONS else (),
    )


def _opens(dialog: str, key: str, actions: tuple[Action, ...], choices: Choices) -> bool:
    """Tell whether the dialog that the address asks for opens: only where its button can be used."""
    return choices.dialog == dialog and not next(each.refused for each in actions if each.key == key)


def _stale(choices: Choices, waiting: AwaitingApproval | None) -> str:
    if choices.dialog == "approve" and waiting is None:
        return "No plan of this Workspace waits for an approval any more."
    return ""


def _facts(workspace: Workspace, now: datetime) -> tuple[Fact, ...]:
    spec, status = workspace.spec, workspace.status
    repository = links.repository(spec.source)
    following = moment(status.next_reconcile_time, now)
    last = moment(status.last_run_started_at, now)
    tool = spec.terraform
    found = (
        Fact(title="Repository", text=repository.shown, url=repository.url),
        Fact(title="Revision", text=spec.source.target_revision),
        Fact(title="Path", text=spec.source.path),
        Fact(title="Tool", text=f"{tool.distribution} {tool.version}", url=links.release(tool)),
        Fact(title="Auto-apply", text="on" if spec.auto_apply else "off: a person approves each plan"),
        Fact(title="Last run", text=last.relative if last else ""),
        Fact(title="Next run", text=following.relative if following else ""),
        Fact(title="Interval", text=status.observed_reconcile_interval),
        Fact(title="ServiceAccount", text=spec.service_account_name),
    )
    sets = tuple(
        Fact(
            title="Variable set",
            text=each.name,
            path=links.page("variable-sets", workspace.metadata.namespace, each.name),
        )
        for each in spec.variable_set_ref
    )
    return tuple(fact for fact in (*found, *sets) if fact.text)


def _lineage(workspace: Workspace, project: Project | None, root: str) -> Markup:
    namespace = workspace.metadata.namespace
    inherited = project.spec.variable_set_ref if project else ()
    names = dict.fromkeys(each.name for each in (*inherited, *workspace.spec.variable_set_ref))
    sets = [Node(text=name, path=links.page("variable-sets", namespace, name)) for name in names]
    owner = Node(
        text=workspace.spec.project_ref.name,
        path=links.page("projects", namespace, workspace.spec.project_ref.name) if project else "",
        tone=phase_badge(project.status.phase).tone if project else "bad",
    )
    return lineage((sets, [owner], [Node(text=workspace.metadata.name, tone=workspace_badge(workspace).tone)]), root)
