"""``magos tree`` and ``magos rollout``: a Project with its steps and Workspaces, and how far a promotion is."""

from contextlib import aclosing
from datetime import timedelta

import click

from magos.api.phases import Phase
from magos.api.reasons import Reason
from magos.api.rollout import ROLLOUTS, Rollout
from magos.cli.failures import NotFound
from magos.cli.options import Name, cluster_options, named, timeout_option
from magos.cli.session import Cluster, Target, session
from magos.cli.tree import members_of, read_tree, rollout_tree
from magos.cli.waiting import Reporter, ticking, within
from magos.cli.watching import Selected, changes
from magos.errors import MagosError
from magos.terminal import echo, one_line


@click.command()
@click.argument("project", type=Name("projects"), metavar="[NAMESPACE/]PROJECT")
@cluster_options
def tree(*, project: str, target: Target) -> None:
    """Show a Project and what belongs to it.

    These are the steps of its Rollout and its Workspaces, with phase, reason and message.
    """
    target, name = named(target, project)

    async def work(cluster: Cluster) -> None:
        text = await read_tree(cluster.client, cluster.namespace, name)
        if text is None:
            raise NotFound(
                f"namespace {cluster.namespace} has no Project {name} and no Workspace of it; name another namespace"
                " with -n"
            )
        echo(text)

    session().on_cluster(target, work)


@click.group("rollout")
def rollout() -> None:
    """Show how far a promotion is."""


@rollout.command("status")
@click.argument("name", type=Name("rollouts"), metavar="[NAMESPACE/]NAME")
@click.option("-w", "--watch", is_flag=True, help="Wait until it has completed; say meanwhile what it waits for.")
@timeout_option
@cluster_options
def status(*, name: str, watch: bool, timeout: timedelta | None, target: Target) -> None:
    """Show the steps of a Rollout with their Workspaces.

    With --watch the status is 0 once the Rollout has completed, 1 if a step fails, and 5 if it takes too long.
    """
    target, name = named(target, name)
    here = session()

    async def work(cluster: Cluster) -> None:
        if not watch:
            echo(await _view(cluster, name))
            return
        reporter = Reporter(here)
        ended = await within(timeout, lambda: _ended(cluster, name, reporter), reporter)
        echo(await _view(cluster, name))
        if ended.status.phase is Phase.FAILED:
            raise MagosError(one_line(_sentence(ended)))

    here.on_cluster(target, work)


async def _ended(cluster: Cluster, name: str, reporter: Reporter) -> Rollout:
    """Return the Rollout once it has nothing left to do or has failed, as far as its controller has seen the spec."""
    ref = ROLLOUTS.ref(cluster.namespace, name)
    selected = Selected(kind=ROLLOUTS, namespace=cluster.namespace, name=name)

    async def nothing() -> None:
        """A Rollout says everything itself."""

    async with ticking(reporter, nothing), aclosing(changes(cluster.client, selected)) as batches:
        async for batch in batches:
            if not batch:
                raise NotFound(f"{ref} does not exist")
            for change in batch:
                if change.gone:
                    raise NotFound(f"{ref} was deleted while it was waited for")
                if _is_over(change.object):
                    return change.object
                reporter.tell(_sentence(change.object))
    raise AssertionError("the changes of an object do not end by themselves")


def _is_over(each: Rollout) -> bool:
    seen = each.status.observed_generation == each.metadata.generation
    return seen and (each.status.phase is Phase.FAILED or each.status.reason == Reason.ROLLOUT_COMPLETED)


def _sentence(each: Rollout) -> str:
    told = each.status.message or "its controller has said nothing yet"
    return f"Rollout {each.metadata.namespace}/{each.metadata.name} ({each.status.reason or 'new'}): {told}"


async def _view(cluster: Cluster, name: str) -> str:
    found = await cluster.client.get(ROLLOUTS, cluster.namespace, name)
    return rollout_tree(found, await members_of(cluster.client, cluster.namespace, found.spec.project_ref))
