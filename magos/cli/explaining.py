"""``magos explain``: what a Workspace waits for, who holds it, and what to do."""

import click

from magos.api.timestamps import format_time
from magos.api.workspace import WORKSPACES
from magos.cli.accounts import account_of
from magos.cli.options import Output, cluster_options, named, output_option, workspace_argument
from magos.cli.printing import print_exactly, span
from magos.cli.session import Cluster, Session, Target, session
from magos.explain import Account
from magos.terminal import echo, one_line


@click.command()
@workspace_argument
@output_option(Output.TABLE, Output.JSON, Output.YAML)
@cluster_options
def explain(*, workspace: str, output: str, target: Target) -> None:
    """Say what a Workspace waits for.

    With who or what holds it, since when, and what to do.
    """
    target, name = named(target, workspace)
    here = session()

    async def work(cluster: Cluster) -> None:
        found = await cluster.client.get(WORKSPACES, cluster.namespace, name)
        account = await account_of(here, cluster, found)
        if Output(output) is Output.TABLE:
            _tell(here, account)
        else:
            print_exactly(account, Output(output))

    here.on_cluster(target, work)


def _tell(here: Session, account: Account) -> None:
    echo(one_line(account.sentence))
    if account.holder:
        echo(one_line(f"  held by  {account.holder}"))
    if account.since is not None:
        echo(f"  since    {format_time(account.since)} ({span(here.now() - account.since)} ago)")
    for index, step in enumerate(account.next_steps):
        echo(one_line(f"  {'next' if index == 0 else '':<7}  {step}"))
        if index == 0 and account.command:
            echo(one_line(f"{'':11}$ {here.spoken(account.command)}"))
