"""``magos runs``: the history of a Workspace, which the API server of Magos keeps."""

import click

from magos.cli.options import Output, cluster_options, named, output_option, workspace_argument
from magos.cli.printing import age, print_exactly, span, table
from magos.cli.serverflags import ServerFlags, server_options
from magos.cli.session import Session, Target, session
from magos.explain.account import time_of
from magos.history.runs import Run, RunPage
from magos.terminal import echo, one_line

_MOST = 100


@click.command()
@workspace_argument
@click.option("--limit", type=click.IntRange(1, _MOST), default=20, show_default=True, help="Runs of one page.")
@click.option("--cursor", default="", help="Where the page before said to go on.")
@output_option(Output.TABLE, Output.WIDE, Output.JSON, Output.YAML, Output.NAME)
@server_options
@cluster_options
def runs(*, workspace: str, limit: int, cursor: str, output: str, server: ServerFlags, target: Target) -> None:
    """List the runs of a Workspace, newest first."""
    target, name = named(target, workspace)
    here = session()
    server.needed(here, "the history of runs")
    namespace = _namespace(here, target)
    with server.open(here, "the history of runs") as api:
        page = api.runs(namespace, name, limit=limit, cursor=cursor)
    match Output(output):
        case Output.JSON | Output.YAML:
            print_exactly(page, Output(output))
        case Output.NAME:
            for run in page.items:
                echo(one_line(run.run_id))
        case Output.TABLE | Output.WIDE:
            _print(here, page, wide=Output(output) is Output.WIDE)
            if page.next_cursor:
                echo(one_line(f"Older runs: --cursor {page.next_cursor}"), error=True)


def _namespace(here: Session, target: Target) -> str:
    """Return the namespace that is named, else that of the kubeconfig; nothing is asked of the cluster."""
    if target.namespace:
        return target.namespace
    from magos.runtime.client.config import load_config

    return load_config(target.kubeconfig or None, target.context or None, environ=here.environ).namespace


def _print(here: Session, page: RunPage, *, wide: bool) -> None:
    if not page.items:
        echo("No run is recorded.", error=True)
        return
    header = ("RUN", "TRIGGER", "COMMIT", "PLAN", "RESULT", "REASON", "TOOK", "AGE", *(_WIDE if wide else ()))
    echo(table(header, [_row(here, run, wide=wide) for run in page.items]))


_WIDE = ("BY", "APPROVED BY", "MESSAGE")


def _row(here: Session, run: Run, *, wide: bool) -> tuple[str, ...]:
    counts = run.changes
    plan = f"-{counts.destroy} ~{counts.change} +{counts.add}" if counts is not None else ""
    began, ended = time_of(run.started_at), time_of(run.finished_at)
    took = span(ended - began) if began is not None and ended is not None else ""
    more = (run.principal, run.approved_by, run.message) if wide else ()
    result = str(run.result or "")
    old = age(run.started_at, here.now())
    return (run.run_id, str(run.trigger), run.observed_revision[:7], plan, result, run.reason, took, old, *more)
