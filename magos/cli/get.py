"""``magos get``: objects of Magos in a table, or as they are."""

from contextlib import aclosing
from typing import Any

import click
from msgspec import Struct

from magos.cli.kinds import Columns, columns_of, raw
from magos.cli.options import Output, cluster_options, named, output_option
from magos.cli.printing import print_exactly, print_names, table
from magos.cli.session import Cluster, Session, Target, session
from magos.cli.watching import Change, Selected, changes
from magos.errors import ConfigurationError
from magos.terminal import echo


class _Question(Struct, frozen=True, kw_only=True):
    """What was asked for. ``namespaced`` puts the namespace in front of each row."""

    columns: Columns
    selected: Selected[Any]
    output: Output
    namespaced: bool


@click.command("get")
@click.argument("kind", default="workspaces")
@click.argument("name", default="")
@click.option("-A", "--all-namespaces", is_flag=True, help="Look in all namespaces.")
@click.option("-l", "--selector", default="", metavar="SELECTOR", help="Only objects with these labels.")
@click.option("-w", "--watch", is_flag=True, help="Go on and print every change.")
@output_option(Output.TABLE, Output.WIDE, Output.JSON, Output.YAML, Output.NAME)
@cluster_options
def get(  # noqa: PLR0913 - the flags of a command
    *, kind: str, name: str, all_namespaces: bool, selector: str, watch: bool, output: str, target: Target
) -> None:
    """Show Workspaces, Projects, Rollouts or VariableSets.

    KIND is workspaces (ws), projects (mproj), rollouts (mro) or variablesets (vset). JSON and YAML are the objects as
    the Kubernetes API has them.
    """
    columns = columns_of(kind)
    if name and (all_namespaces or selector):
        raise ConfigurationError("a name goes with neither --all-namespaces nor --selector: leave one of them out")
    if name:
        target, name = named(target, name)
    here = session()

    async def work(cluster: Cluster) -> None:
        namespace = "" if all_namespaces else cluster.namespace
        selected = Selected(kind=columns.kind, namespace=namespace, name=name, selector=selector)
        question = _Question(columns=columns, selected=selected, output=Output(output), namespaced=all_namespaces)
        await (_follow(here, cluster, question) if watch else _show(here, cluster, question))

    here.on_cluster(target, work)


async def _show(here: Session, cluster: Cluster, question: _Question) -> None:
    selected = question.selected
    exact = question.output in (Output.JSON, Output.YAML)
    kind = raw(selected.kind) if exact else selected.kind
    if selected.name:
        items: tuple[Any, ...] = (await cluster.client.get(kind, selected.namespace, selected.name),)
    else:
        page = await cluster.client.list_all(kind, selected.namespace, selector=selected.selector)
        items = page.items
        for bad in page.undecodable:
            echo(f"magos: {bad.unreadable(selected.kind)}", error=True)
    if exact:
        listed = {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}
        print_exactly(items[0] if selected.name else listed, question.output)
    elif question.output is Output.NAME:
        print_names(selected.kind.resource, (each.metadata.name for each in items))
    elif not items:
        where = f"namespace {selected.namespace}" if selected.namespace else "any namespace"
        echo(f"There are no {selected.kind.plural} in {where}.", error=True)
    else:
        echo(_rows(here, question, items, header=True))


async def _follow(here: Session, cluster: Cluster, question: _Question) -> None:
    if question.selected.name:  # a watch says nothing about what is not there
        await cluster.client.get(question.selected.kind, question.selected.namespace, question.selected.name)
    header = True
    async with aclosing(changes(cluster.client, question.selected)) as batches:
        async for batch in batches:
            await _tell(here, cluster, question, batch, header=header)
            header = header and not batch


async def _tell(
    here: Session, cluster: Cluster, question: _Question, batch: tuple[Change[Any], ...], *, header: bool
) -> None:
    there = [change.object for change in batch if not change.gone]
    kind = question.selected.kind
    match question.output:
        case Output.TABLE | Output.WIDE:
            for change in batch:
                if change.gone:
                    echo(f"{kind.ref(change.object.metadata.namespace, change.object.metadata.name)} was deleted.")
            if there:
                echo(_rows(here, question, tuple(there), header=header))
        case Output.NAME:
            print_names(kind.resource, (each.metadata.name for each in there))
        case _:
            for each in there:
                await _print_whole(cluster, question, each)


async def _print_whole(cluster: Cluster, question: _Question, each: Any) -> None:
    """Print the object as it is now: the watch itself tells only what Magos reads."""
    from magos.runtime.client.errors import ApiError

    kind, meta = question.selected.kind, each.metadata
    try:
        whole: Any = await cluster.client.get(raw(kind), meta.namespace, meta.name)
    except ApiError as error:
        if not error.not_found:
            raise
        return
    if question.output is Output.YAML:
        print_exactly([whole], question.output)
    else:
        print_exactly(whole, question.output)


def _rows(here: Session, question: _Question, items: tuple[Any, ...], *, header: bool) -> str:
    wide, columns = question.output is Output.WIDE, question.columns
    first: tuple[str, ...] = ("NAMESPACE",) if question.namespaced else ()
    rows = [
        ((each.metadata.namespace,) if question.namespaced else ()) + columns.row(each, here.now(), wide=wide)
        for each in items
    ]
    text = table((*first, *columns.headings(wide=wide)), rows)
    return text if header else text.partition("\n")[2]
