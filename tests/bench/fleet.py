"""What a fleet of 1,000 Workspaces costs: listings at the Git server, writes at rest, runs after a restart.

Everything is real but the runs themselves: the Workspaces belong to a Project that does not exist, so each has its run
and waits for permission. For every other one the run is then ended in place of the runner, so that the fleet at rest
has both phases: Pending, where a run waits, and Applied, where each trigger would start one.
"""

import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.abc
import msgspec

from magos.api.kube import JOBS
from magos.api.meta import Kind
from magos.api.names import JobType, job_name
from magos.api.phases import Phase
from magos.api.reasons import Reason
from magos.api.workspace import WORKSPACES, Workspace
from magos.ids import RunID
from magos.local.machine import STATE_FOLDER
from magos.local.ports import free_ports
from magos.local.servers.samplerepo import SampleRepository
from magos.runtime.client.client import ApiClient
from magos.runtime.client.config import load_config
from magos.runtime.client.http import connect
from tests.bench.scrape import Process, Samples, process, samples
from tests.e2e.onemachine import Document, OneMachine, one_machine
from tests.envtest.audit import WRITE_VERBS, Request

__all__ = ["NAMES", "Fleet", "measure"]

NAMES = ("fleet1000.listings_per_repo_poll", "fleet1000.runs_after_restart", "fleet1000.idle_writes")

_CONTROLLERS = "system:serviceaccount:magos-system:magos-"
_POLL_SECONDS = 15
_QUIET_SECONDS = 5.0
_POLLS = 3
_AT_ONCE = 24

_T = TypeVar("_T")


class Polled(msgspec.Struct, frozen=True):
    """Listings that the Git server has answered, and polls that RefWatcher has counted, each by repository."""

    listings: tuple[int, ...]
    polls: tuple[float, ...]


class Fleet:
    """``count`` Workspaces on ``repositories`` repositories, spread over two namespaces."""

    def __init__(self, here: OneMachine, count: int, repositories: int) -> None:
        self._here = here
        self._namespaces = (here.namespace(), here.namespace())
        self.names = tuple((self._namespaces[i * 2 // count], f"fleet-{i:04}") for i in range(count))
        folders = [f"fleet-{i}.git" for i in range(repositories)]
        for folder in folders:
            SampleRepository.create(here.here.folder / "git" / folder, STATE_FOLDER)
        self.urls = tuple(here.here.git.clone_url(folder) for folder in folders)
        self._ports = dict(zip(here.here.controllers, free_ports(len(here.here.controllers)), strict=True))
        for name, supervised in here.here.controllers.items():
            flags = [f"--metrics-bind-address=127.0.0.1:{self._ports[name]}", "--metrics-secure=false"]
            spec = supervised.spec
            supervised.spec = msgspec.structs.replace(spec, argv=[*spec.argv, *flags])
        self.restart(signal.SIGTERM)

    def restart(self, number: signal.Signals) -> None:
        """End all controllers at once and wait until their successors lead."""
        controllers = self._here.here.controllers
        starts = {name: each.starts for name, each in controllers.items()}
        for each in controllers.values():
            if each.pid is not None:
                os.kill(each.pid, number)
        _until(lambda: all(each.starts > starts[name] for name, each in controllers.items()), "a restart")
        _until(lambda: all(map(self._leads, controllers)), "new leaders")

    def settle(self) -> None:
        """Create all Workspaces, end the run of every other one, and wait until nothing is written any more."""
        began = time.monotonic()
        self._all(self._create, range(len(self.names)))
        _say(f"created after {time.monotonic() - began:.0f} s")
        _until(lambda: all(map(_waits, self.workspaces())), "a run and a commit for each Workspace", within=600)
        _say(f"each has its run and commit after {time.monotonic() - began:.0f} s")
        self._all(self._end_run, [each for each in self.workspaces() if _is_even(each)])
        _until(lambda: all(_rests(each) for each in self.workspaces()), "the end of every other run", within=300)
        _say(f"every other run is ended after {time.monotonic() - began:.0f} s")
        _until(lambda: not self._writes_soon(), "an end of all writing", within=120)

    def wait_for_polls(self, polls: int) -> Polled:
        """Wait until each repository was polled so many times more; return what was counted meanwhile."""
        before = self._polled()
        target = [count + polls for count in before.polls]
        _until(
            lambda: all(now >= then for now, then in zip(self._poll_counts(), target, strict=True)),
            f"{polls} polls of each repository",
        )
        after = self._polled()
        return Polled(
            tuple(now - then for now, then in zip(after.listings, before.listings, strict=True)),
            tuple(round(now - then, 3) for now, then in zip(after.polls, before.polls, strict=True)),
        )

    def wait_until_caught_up(self) -> None:
        """Wait until the Workspace controller has looked at each Workspace since its start and is done."""
        _until(self._caught_up, "a pass of each Workspace", within=300)

    def writes(self, since: int) -> list[Request]:
        """What the controllers have written since that mark of the audit log, leases left out."""
        requests = self._here.audit.requests(since)
        return [
            each
            for each in requests
            if each.user.startswith(_CONTROLLERS) and each.verb in WRITE_VERBS and each.resource != "leases"
        ]

    def mark(self) -> int:
        """The present end of the audit log."""
        return self._here.audit.mark()

    def workspaces(self) -> list[Workspace]:
        """All Workspaces as they are now."""
        return self._listed(WORKSPACES)

    def jobs(self) -> int:
        """How many Jobs there are."""
        return len(self._listed(JOBS))

    def processes(self) -> dict[str, Process]:
        """What each controller uses."""
        return {name: process(each.pid) for name, each in self._here.here.controllers.items() if each.pid is not None}

    # --- the API ---------------------------------------------------------------------------------------------------

    def _listed(self, kind: Kind[Any]) -> list[Any]:
        async def listed(client: ApiClient) -> list[Any]:
            return [each for name in self._namespaces for each in (await client.list_all(kind, name)).items]

        return self._with_client(listed)

    def _all(self, work: Callable[[ApiClient, Any], Awaitable[None]], items: Sequence[Any]) -> None:
        async def everything(client: ApiClient) -> None:
            limit = anyio.CapacityLimiter(_AT_ONCE)

            async def one(item: Any) -> None:
                async with limit:
                    await work(client, item)

            async with anyio.create_task_group() as tasks:
                for item in items:
                    tasks.start_soon(one, item)

        self._with_client(everything)

    def _with_client(self, work: Callable[[ApiClient], Awaitable[_T]]) -> _T:
        async def connected() -> _T:
            config = load_config(str(self._here.here.plane.admin_kubeconfig), environ={})
            client = ApiClient(connect(config, user_agent="magos bench"))
            try:
                return await work(client)
            finally:
                await client.aclose()

        return anyio.run(connected)

    async def _create(self, client: ApiClient, index: int) -> None:
        await client.create(WORKSPACES, self._document(index))

    def _document(self, index: int) -> Document:
        annotations = {
            "magosproject.io/git-poll-interval": f"{_POLL_SECONDS}s",
            "magosproject.io/reconcile-interval": "24h",  # a tick moves the schedule on, which is a write
        }
        return self._here.workspace_document(
            *self.names[index],
            source={"repoURL": self.urls[index % len(self.urls)]},
            annotations=annotations,
            projectRef={"name": "nobody"},
        )

    async def _end_run(self, client: ApiClient, workspace: Workspace) -> None:
        """Write what the end of a successful run writes."""
        meta, status = workspace.metadata, workspace.status
        assert status.current_run is not None
        names = (meta.namespace, meta.name, RunID(status.current_run_id))
        jobs = {"planJob": job_name(*names, JobType.PLAN), "applyJob": job_name(*names, JobType.APPLY)}
        revision = status.current_run.revision
        ended = {
            "phase": Phase.APPLIED,
            "reason": Reason.APPLY_SUCCEEDED,
            "message": "",
            "observedRevision": revision,
            "observedSource": status.current_run.source_key,
            "lastAttemptedRevision": revision,
            "currentRun": jobs | {"hasChanges": True},
        }
        await client.patch(WORKSPACES, meta.namespace, meta.name, {"status": ended}, subresource="status")

    # --- waiting and counting --------------------------------------------------------------------------------------

    def _writes_soon(self) -> bool:
        mark = self.mark()
        time.sleep(_QUIET_SECONDS)  # quiet is a span of time without writes
        return bool(self.writes(mark))

    def _polled(self) -> Polled:
        """Both counts of one moment: none at which a listing is under way, which only one of them would have."""

        def quiet() -> Polled | None:
            before = self._listings()
            time.sleep(0.5)
            polls = self._poll_counts()
            return Polled(before, polls) if self._listings() == before else None

        return _until(quiet, "half a second without a listing")

    def _listings(self) -> tuple[int, ...]:
        paths = Counter(
            each.path.split("/info/refs")[0] for each in self._here.here.git.log.all() if "/info/refs" in each.path
        )
        return tuple(paths["/" + url.rpartition("/")[2]] for url in self.urls)

    def _poll_counts(self) -> tuple[float, ...]:
        """By repository, how often each of its Workspaces was polled since RefWatcher was started, on average."""
        counts = Counter[tuple[str, str]]()
        for labels, value in self._samples("refwatcher", "refwatcher_poll_total"):
            counts[labels["namespace"], labels["name"]] += int(value)
        shares = [self.names[i :: len(self.urls)] for i in range(len(self.urls))]
        return tuple(round(sum(counts[name] for name in share) / len(share), 3) for share in shares)

    def _caught_up(self) -> bool:
        passes = Counter[tuple[str, str]]()
        for labels, value in self._samples("workspace", "workspace_reconcile_total"):
            passes[labels["namespace"], labels["name"]] += int(value)
        waiting = sum(value for _, value in self._samples("workspace", "workqueue_depth"))
        return not waiting and all(passes[name] for name in self.names)

    def _leads(self, controller: str) -> bool:
        samples = self._samples(controller, "leader_election_master_status")
        return any(value == 1 for _, value in samples)

    def _samples(self, controller: str, family: str) -> Samples:
        return samples(self._ports[controller], family)


def _until(probe: Callable[[], _T | None], what: str, *, within: float = 120.0) -> _T:
    """Return the first truthy answer; asked every other second, because reading a fleet keeps the API server busy."""
    end = time.monotonic() + within
    while not (answer := probe()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {within:g} s: {what}")
        time.sleep(2.0)
    return answer


def _is_even(workspace: Workspace) -> bool:
    return int(workspace.metadata.name.rpartition("-")[2]) % 2 == 0


def _waits(workspace: Workspace) -> bool:
    status = workspace.status
    run = status.current_run
    return status.reason == Reason.AWAITING_ROLLOUT and run is not None and bool(run.revision)


def _rests(workspace: Workspace) -> bool:
    return not _is_even(workspace) or workspace.status.phase is Phase.APPLIED


def _say(text: str) -> None:
    print(f"fleet: {text}", file=sys.stderr)


def _rest(fleet: Fleet) -> dict[str, float]:
    """Count listings and writes over some polls at rest."""
    used, began, mark = fleet.processes(), time.monotonic(), fleet.mark()
    counted = fleet.wait_for_polls(_POLLS)
    seconds, writes = time.monotonic() - began, fleet.writes(mark)
    _say(f"at rest for {seconds:.0f} s: listings {counted.listings}, polls {counted.polls}, writes {len(writes)}")
    for name, now in fleet.processes().items():
        cpu = (now.cpu - used[name].cpu) / seconds
        _say(f"{name}: {cpu:.1%} of a core at rest, {now.cpu:.1f} s of CPU since its start, {now.memory:.0f} MiB")
    return {
        "fleet1000.listings_per_repo_poll": round(sum(counted.listings) / sum(counted.polls), 3),
        "fleet1000.idle_writes": len(writes),
    }


def _restarted(fleet: Fleet) -> dict[str, float]:
    """Kill all controllers and count the runs that are there afterwards and were not before."""
    before = {each.metadata.uid: each for each in fleet.workspaces()}
    jobs, mark, began = fleet.jobs(), fleet.mark(), time.monotonic()
    fleet.restart(signal.SIGKILL)
    _say(f"all controllers lead again {time.monotonic() - began:.1f} s after SIGKILL")
    fleet.wait_until_caught_up()
    _say(f"every Workspace was looked at {time.monotonic() - began:.1f} s after SIGKILL")
    fleet.wait_for_polls(2)
    after = fleet.workspaces()
    assert {each.metadata.uid for each in after} == before.keys()
    runs = sum(each.status.current_run_id != before[each.metadata.uid].status.current_run_id for each in after)
    writes = Counter(f"{each.user.rpartition('-')[2]} {each.verb} {each.resource}" for each in fleet.writes(mark))
    _say(f"new run IDs {runs}, Jobs {fleet.jobs()} (before {jobs}), writes {dict(writes)}")
    return {"fleet1000.runs_after_restart": runs + fleet.jobs() - jobs}


def measure() -> dict[str, float]:
    """1,000 Workspaces on 10 repositories, at rest and after a restart of all controllers."""
    with tempfile.TemporaryDirectory() as folder, one_machine(Path(folder), {}) as here:
        began = time.monotonic()
        fleet = Fleet(here, 1000, 10)
        fleet.settle()
        phases = Counter(str(each.status.phase) for each in fleet.workspaces())
        _say(f"settled after {time.monotonic() - began:.0f} s: {dict(phases)}, {len(fleet.writes(0))} writes in all")
        return _rest(fleet) | _restarted(fleet)
