"""``magos logs``: what the plan or the apply of a run prints, from its pod or from the archive."""

import codecs
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing

import anyio
import click
from msgspec import Struct

from magos.api.kube import PODS, Pod
from magos.api.labels import JOB_TYPE, RUN_ID, WORKSPACE, workspace_label
from magos.api.names import JobType
from magos.api.phases import TERMINAL, Phase
from magos.api.workspace import WORKSPACES, Workspace
from magos.cli.failures import NotFound
from magos.cli.options import cluster_options, named, workspace_argument
from magos.cli.serverflags import ServerFlags, server_options
from magos.cli.session import Cluster, Session, Target, session
from magos.cli.waiting import Wait
from magos.cli.watching import Selected, changes
from magos.errors import ConfigurationError
from magos.ids import parse_run_id
from magos.joblog import finished_log, followed_lines, heading
from magos.terminal import echo

_LONGEST_LINE = 1 << 16


class _Wanted(Struct, frozen=True, kw_only=True):
    """Which log. ``phase`` None: that of the apply if the run has begun one, else that of the plan."""

    name: str
    run_id: str
    phase: JobType | None


@click.command()
@workspace_argument
@click.option("--run", "run_id", default="", metavar="ID", help="The run (default: the present or last one).")
@click.option("--phase", type=click.Choice([str(each) for each in JobType]), help="(default: the later one there is)")
@click.option("-f", "--follow", is_flag=True, help="Wait for the pod and print its lines as they are written.")
@server_options
@cluster_options
def logs(*, workspace: str, run_id: str, phase: str | None, follow: bool, server: ServerFlags, target: Target) -> None:
    """Print the log of a run.

    It is that of its plan or of its apply. It comes from the pod as long as there is one, else from the archive, which
    needs the API server of Magos.
    """
    target, name = named(target, workspace)
    here = session()
    if run_id:
        try:
            parse_run_id(run_id)
        except ValueError as error:
            raise ConfigurationError(str(error)) from error
    wanted = _Wanted(name=name, run_id=run_id, phase=JobType(phase) if phase else None)

    async def work(cluster: Cluster) -> tuple[str, _Wanted] | None:
        found = await cluster.client.get(WORKSPACES, cluster.namespace, name)
        if follow:
            found = await _with_a_run(here, cluster, found, wanted)
        done = await (_follow if follow else _print)(here, cluster, found, wanted)
        return None if done else (cluster.namespace, _resolved(found, wanted))

    missing = here.on_cluster(target, work)
    if missing is not None:
        namespace, resolved = missing
        _archived(here, server, namespace, resolved)


def _resolved(workspace: Workspace, wanted: _Wanted) -> _Wanted:
    """Return the log that is meant, with the run named."""
    run_id = wanted.run_id or workspace.status.current_run_id
    if not run_id:
        meta = workspace.metadata
        raise NotFound(f"Workspace {meta.namespace}/{meta.name} has had no run yet, so there is no log")
    return _Wanted(name=wanted.name, run_id=run_id, phase=wanted.phase)


async def _with_a_run(here: Session, cluster: Cluster, workspace: Workspace, wanted: _Wanted) -> Workspace:
    """Return the Workspace once it has a run, which a new one gets in a moment."""
    if wanted.run_id or workspace.status.current_run_id:
        return workspace
    return await Wait(here, cluster).until(wanted.name, lambda each: bool(each.status.current_run_id), None)


async def _print(here: Session, cluster: Cluster, workspace: Workspace, wanted: _Wanted) -> bool:
    """Print the log of the pod if there is one; tell whether there was."""
    del here
    pod = await _found(cluster, _resolved(workspace, wanted))
    if pod is None:
        return False
    await _write(finished_log(cluster.client, pod, _type_of(pod)))
    return True


async def _follow(here: Session, cluster: Cluster, workspace: Workspace, wanted: _Wanted) -> bool:
    """Wait for the pod, print its lines, and return true; false if the run is over and has no pod any more."""
    resolved = _resolved(workspace, wanted)
    if resolved.phase is None and workspace.status.phase is Phase.APPLYING:
        resolved = _Wanted(name=resolved.name, run_id=resolved.run_id, phase=JobType.APPLY)
    pod = await _found(cluster, resolved)
    if pod is None and not _over(workspace, resolved):
        await _await_pod(here, cluster, resolved)
        pod = await _found(cluster, resolved)
    if pod is None:
        return False
    stage = None
    async with aclosing(followed_lines(cluster.client, pod, _type_of(pod))) as lines:
        async for line in lines:
            if line.stage is not stage:
                stage = line.stage
                echo(heading(stage))
            echo(line.text.decode(errors="replace"))
    return True


async def _await_pod(here: Session, cluster: Cluster, wanted: _Wanted) -> None:
    """Return once there is a pod, or once the run is over; say meanwhile what the Workspace waits for."""
    selected = Selected(kind=PODS, namespace=cluster.namespace, selector=_labels(wanted))
    async with anyio.create_task_group() as tasks:

        async def look() -> None:
            async with aclosing(changes(cluster.client, selected)) as batches:
                async for batch in batches:
                    if _latest([each.object for each in batch if not each.gone], wanted.phase) is not None:
                        tasks.cancel_scope.cancel()

        tasks.start_soon(look)
        await Wait(here, cluster).until(wanted.name, lambda each: _over(each, wanted), None)
        tasks.cancel_scope.cancel()


async def _found(cluster: Cluster, wanted: _Wanted) -> Pod | None:
    page = await cluster.client.list_all(PODS, cluster.namespace, selector=_labels(wanted))
    return _latest(page.items, wanted.phase)


def _over(workspace: Workspace, wanted: _Wanted) -> bool:
    """Tell whether no further pod of the run is to come."""
    status = workspace.status
    return status.current_run_id != wanted.run_id or status.phase in (*TERMINAL, Phase.DELETING)


def _labels(wanted: _Wanted) -> str:
    labels = {WORKSPACE: workspace_label(wanted.name), RUN_ID: wanted.run_id}
    if wanted.phase is not None:
        labels[JOB_TYPE] = str(wanted.phase)
    return ",".join(f"{key}={value}" for key, value in labels.items())


def _type_of(pod: Pod) -> JobType:
    return JobType.APPLY if pod.metadata.labels.get(JOB_TYPE) == JobType.APPLY else JobType.PLAN


def _latest(pods: Iterable[Pod], phase: JobType | None) -> Pod | None:
    """Return the pod of the apply before that of the plan, and the youngest of them."""
    wanted = [each for each in pods if phase in (None, _type_of(each))]
    order = [(_type_of(each) is JobType.APPLY, each.metadata.creation_timestamp or "") for each in wanted]
    return wanted[order.index(max(order))] if wanted else None


def _archived(here: Session, server: ServerFlags, namespace: str, wanted: _Wanted) -> None:
    """Print the log from the archive, which the API server of Magos gives out."""
    what = f"run {wanted.run_id} of Workspace {namespace}/{wanted.name}"
    address = server.address(here)
    if not address:
        raise NotFound(
            f"no pod of {what} is left, and its archived log needs the API server of Magos: give its address with"
            " --server or MAGOS_SERVER"
        )
    text = Lines()
    with server.open(here) as api:
        for chunk in api.log(namespace, wanted.name, wanted.run_id, wanted.phase or JobType.APPLY):
            text.feed(chunk)
    text.close()


async def _write(chunks: AsyncGenerator[bytes, None]) -> None:
    text = Lines()
    async with aclosing(chunks):
        async for chunk in chunks:
            text.feed(chunk)
    text.close()


class Lines:
    """Prints bytes as lines of text, each through the door of terminals; a very long line is printed in parts."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def feed(self, chunk: bytes) -> None:
        """Print the lines that are complete."""
        *lines, self._rest = (self._rest + self._decoder.decode(chunk)).split("\n")
        for line in lines:
            echo(line)
        if len(self._rest) > _LONGEST_LINE:
            echo(self._rest)
            self._rest = ""

    def close(self) -> None:
        """Print what is left."""
        self._rest += self._decoder.decode(b"", final=True)
        if self._rest:
            echo(self._rest)
            self._rest = ""
