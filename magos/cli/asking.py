"""``magos reconcile``, ``approve`` and ``discard``: what a person asks of a Workspace.

A request is a patch that names the version it was judged by. If the Workspace has changed meanwhile it is judged anew,
and what a person has confirmed is confirmed only for what was shown.
"""

from collections.abc import Callable
from datetime import timedelta

import click

from magos import actions
from magos.api.annotations import RECONCILE_REQUEST, reconcile_request
from magos.api.phases import Phase
from magos.api.workspace import WORKSPACES, AwaitingApproval, CurrentRun, GateReason, Workspace
from magos.cli.accounts import account_of
from magos.cli.options import cluster_options, named, timeout_option, workspace_argument
from magos.cli.session import Cluster, Session, Target, session
from magos.cli.waiting import Wait
from magos.errors import ConfigurationError, MagosError
from magos.runtime.client.errors import ApiError
from magos.terminal import echo, one_line

_ATTEMPTS = 5
"""A status may be written between the look and the request; more often than this in a row somebody else is at it."""


async def ask(cluster: Cluster, name: str, judge: Callable[[Workspace], actions.Patch]) -> tuple[Workspace, Workspace]:
    """Patch a Workspace with what ``judge`` makes of it; return it as it was judged and as it is now.

    Raises what ``judge`` raises, and ``ApiError``.
    """
    client, namespace = cluster.client, cluster.namespace
    for attempt in range(1, _ATTEMPTS + 1):
        judged = await client.get(WORKSPACES, namespace, name)
        try:
            return judged, await client.patch(WORKSPACES, namespace, name, judge(judged))
        except ApiError as error:
            if not error.conflict or attempt == _ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")


@click.command()
@workspace_argument
@click.option("--wait", is_flag=True, help="Wait until the run has ended; say meanwhile what it waits for.")
@timeout_option
@cluster_options
def reconcile(*, workspace: str, wait: bool, timeout: timedelta | None, target: Target) -> None:
    """Ask for a new run of a Workspace.

    It begins after the run that is under way. A plan that waits for approval is discarded. With --wait the status is 1
    if the run fails and 5 if it has not ended in time.
    """
    target, name = named(target, workspace)
    here = session()

    async def work(cluster: Cluster) -> None:
        judged, patched = await ask(cluster, name, lambda each: actions.reconcile(each, here.now()))
        _say_discarded(judged)
        echo(one_line(f"Asked for a run of {_ref(patched)}."))
        if wait:
            await _await_run(here, cluster, patched, timeout)

    here.on_cluster(target, work)


async def _await_run(here: Session, cluster: Cluster, patched: Workspace, limit: timedelta | None) -> None:
    wanted = reconcile_request(patched.metadata.annotations)

    def answered(each: Workspace) -> bool:
        nonlocal wanted
        status = each.status
        run = status.current_run or CurrentRun()
        if status.last_handled_reconcile_request == wanted:
            return True
        if RECONCILE_REQUEST in each.metadata.annotations and run.request != wanted:
            wanted = reconcile_request(each.metadata.annotations)  # a later request: its run serves ours as well
        return status.last_handled_reconcile_request == wanted

    ended = await Wait(here, cluster).until(patched.metadata.name, answered, limit)
    account = await account_of(here, cluster, ended)
    if ended.status.phase is not Phase.APPLIED:
        raise MagosError(one_line(account.sentence))
    echo(one_line(account.sentence))


@click.command()
@workspace_argument
@click.option("--run", "run_id", default="", metavar="ID", help="The run to approve; without it you are asked.")
@click.option("--acknowledge-warnings", is_flag=True, help="Approve a plan although it violates policies.")
@cluster_options
def approve(*, workspace: str, run_id: str, acknowledge_warnings: bool, target: Target) -> None:
    """Approve exactly one run.

    Its plan, and no other, is then applied. On a terminal you may leave --run out: the plan is summed up and you are
    asked.
    """
    target, name = named(target, workspace)
    here = session()

    async def work(cluster: Cluster) -> None:
        if run_id:
            _, patched = await ask(
                cluster,
                name,
                lambda each: actions.approve(each, run_id, acknowledge_warnings=acknowledge_warnings),
            )
        else:
            patched = await _approve_shown(here, cluster, name)
        approved = run_id or (patched.status.awaiting_approval or _NO_GATE).run_id
        echo(one_line(f"Approved run {approved} of {_ref(patched)}; the apply follows."))

    here.on_cluster(target, work)


_NO_GATE = AwaitingApproval(run_id="", reason=GateReason.MANUAL_APPROVAL, since="")


async def _approve_shown(here: Session, cluster: Cluster, name: str) -> Workspace:
    shown = await cluster.client.get(WORKSPACES, cluster.namespace, name)
    waiting = shown.status.awaiting_approval
    if waiting is None:
        actions.approve(shown, "")  # says that nothing waits
        raise AssertionError("a plan that does not wait is not approved")
    if not here.asks:
        raise ConfigurationError(
            f"name the run to approve: there is no terminal to ask on; run {waiting.run_id} of {_ref(shown)} waits"
        )
    _show(shown, waiting)
    warned = waiting.reason is GateReason.AUDIT_VIOLATIONS
    allowed = (waiting.run_id,) if warned else (waiting.run_id, "y", "yes")
    what = "Type the run ID to apply it in spite of them" if warned else "Type y or the run ID to apply it"
    if click.prompt(one_line(what), default="", show_default=False).strip() not in allowed:
        raise MagosError(f"nothing was approved: run {waiting.run_id} goes on waiting")

    def judge(each: Workspace) -> actions.Patch:
        if _judged(each) != _judged(shown):
            raise MagosError(f"nothing was approved: {_ref(each)} has changed since it was shown; look at it again")
        return actions.approve(each, waiting.run_id, acknowledge_warnings=warned)

    return (await ask(cluster, name, judge))[1]


def _judged(each: Workspace) -> tuple[object, ...]:
    """Return all that a person judges a plan by."""
    status = each.status
    return (
        each.metadata.uid,
        each.metadata.generation,
        status.awaiting_approval,
        status.plan_summary,
        status.policy_violations,
        status.current_run.plan_digest if status.current_run else "",
    )


def _show(workspace: Workspace, waiting: AwaitingApproval) -> None:
    status = workspace.status
    counts = status.plan_summary
    echo(one_line(f"{_ref(workspace)} waits for approval since {waiting.since}."))
    echo(one_line(f"  run      {waiting.run_id}"))
    echo(one_line(f"  commit   {waiting.revision or 'not known'}"))
    if counts is not None:
        echo(one_line(f"  changes  {counts.destroy} to destroy, {counts.change} to change, {counts.add} to add"))
    if status.policy_violations:
        echo(f"  The plan violates {len(status.policy_violations)} policies:")
    for each in status.policy_violations:
        echo(one_line(f"    {each.policy}: {each.message}"))


@click.command()
@workspace_argument
@cluster_options
def discard(*, workspace: str, target: Target) -> None:
    """Discard the plan that waits for approval; a new run follows."""
    target, name = named(target, workspace)
    here = session()

    async def work(cluster: Cluster) -> None:
        judged, patched = await ask(cluster, name, lambda each: actions.discard(each, here.now()))
        _say_discarded(judged)
        echo(one_line(f"A new run of {_ref(patched)} follows."))

    here.on_cluster(target, work)


def _say_discarded(judged: Workspace) -> None:
    given_up = actions.discarded(judged)
    if given_up:
        echo(one_line(f"Discarded {given_up}."))


def _ref(workspace: Workspace) -> str:
    return f"Workspace {workspace.metadata.namespace}/{workspace.metadata.name}"
