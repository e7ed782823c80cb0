"""The whole fleet on one virtual loop: cluster, actors, people, and the real controllers as processes.

A seed decides everything: latencies, the order of ready tasks, what actors take their time for. The same seed and the
same scene give the same history to the last record.
"""

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import anyio
import structlog

from magos.api.labels import ARCHIVE_FINALIZER, OUTBOX, RUN_ID
from magos.api.names import JobType
from magos.api.phases import RUNNING, WITH_PLAN, Phase
from magos.api.workspace import WORKSPACES, Workspace
from magos.reconcilers.archive.keeping import Keeping
from magos.reconcilers.workspace.pod.settings import WorkspaceSettings
from tests.sim.apiserver import SimApiServer
from tests.sim.apiserver.resources import CUSTOM, Json
from tests.sim.fleet.clocks import EXACT, Clocks
from tests.sim.fleet.crash import CrashPlan
from tests.sim.fleet.evidence import Evidence
from tests.sim.fleet.git import Git
from tests.sim.fleet.jobcontroller import JobController
from tests.sim.fleet.kubelet import Kubelet
from tests.sim.fleet.replica import SYSTEM, Replica, Stage
from tests.sim.fleet.terraform import Terraform
from tests.sim.fleet.users import NAMESPACE, URL, Users
from tests.sim.history.checker import Violation, violations
from tests.sim.history.outcome import Outcome, outcome_of
from tests.sim.history.recorder import ADVERSARY, Recorder
from tests.sim.history.records import CONTROLLERS as PROGRAMS
from tests.sim.history.records import ToolEnded, ToolStarted
from tests.sim.magos import POLICIES
from tests.sim.virtualtime import run_virtual

__all__ = ["Fleet", "play"]

DEADLINE = 3600.0
NOTHING_KEPT = Keeping()
KEPT = Keeping(records=True, logs=True, namespace=SYSTEM)
"""Records and logs."""


class Fleet:
    """See the module. ``programs`` are the controllers that take part; with ``election`` each has two replicas;
    ``clocks`` says whose clock goes wrong by how much; with ``policies`` their kind is installed.

    ``also`` is the task group for whatever else a scene lets run until its end.
    """

    also: anyio.abc.TaskGroup

    def __init__(
        self,
        seed: int = 1,
        *,
        programs: Sequence[str] = ("workspace", "project"),
        election: bool = False,
        crash: CrashPlan | None = None,
        clocks: Clocks = EXACT,
        policies: bool = False,
        keeping: Keeping = NOTHING_KEPT,
    ) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.clocks = clocks
        self.clock = clocks.server()
        resources = (*CUSTOM, *(POLICIES if policies else ()))
        self.server = SimApiServer(self.clock, random.Random(seed + 1), resources=resources)
        self.history = Recorder(self.server)
        self.git = Git()
        self.terraform = Terraform(git=self.git, rng=random.Random(seed + 2), tell=self.history.tell)
        self.jobs = JobController(self.server, random.Random(seed + 3))
        self.kubelet = Kubelet(self.server, random.Random(seed + 4), self.terraform, clocks.node())
        self.users = Users(self.server)
        self.adversary = Users(self.server, ADVERSARY)
        self.users.account(runner=True)
        self.crash = crash or CrashPlan()
        self.programs = tuple(programs)
        self.evidence = Evidence(self.server, random.Random(seed + 6))
        stage = Stage(
            evidence=self.evidence if keeping.on else None,
            server=self.server,
            clocks=clocks,
            rng=random.Random(seed + 5),
            crash=self.crash,
            git=self.git,
            settings=WorkspaceSettings(
                job_image="magos-job:sim", start_timeout=timedelta(minutes=2), refused_namespace=SYSTEM, keeping=keeping
            ),
            election=election,
        )
        self.keeping = keeping
        count = 2 if election else 1
        self.replicas = [Replica(stage, program, number) for program in self.programs for number in range(count)]

    async def run(self) -> None:
        """Live until cancelled."""
        async with anyio.create_task_group() as group:
            group.start_soon(self.server.collector.run)
            group.start_soon(self.jobs.run)
            group.start_soon(self.kubelet.run)
            for replica in self.replicas:
                group.start_soon(replica.run)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Fleet"]:
        """Live around a block."""
        async with anyio.create_task_group() as group:
            self.also = group
            group.start_soon(self.run)
            yield self
            group.cancel_scope.cancel()

    async def until(self, condition: Callable[[], bool], what: str = "", *, within: float = DEADLINE) -> None:
        """Wait in virtual time until the condition holds; it is looked at after every commit."""
        woken = anyio.Event()
        end = self.server.store.subscribe(lambda _: woken.set())
        try:
            with anyio.fail_after(within):
                while not condition():
                    with anyio.move_on_after(5.0):
                        await woken.wait()
                    woken = anyio.Event()
        except TimeoutError:
            raise AssertionError(
                f"seed {self.seed}: {what or 'the condition'} does not come true\n{self.show()}"
            ) from None
        finally:
            end()

    async def phase(self, phase: str, *names: str, within: float = DEADLINE) -> None:
        """Wait until these Workspaces show the phase and nothing of a finished run is left on them."""
        await self.until(lambda: all(self.phase_of(name) == phase for name in names), f"{names} {phase}", within=within)

    async def reason(self, reason: str, *names: str, within: float = DEADLINE) -> None:
        """Wait until these Workspaces show the reason."""
        wanted = dict.fromkeys(names, reason)
        await self.until(lambda: {n: self.reason_of(n) for n in names} == wanted, f"{names} {reason}", within=within)

    async def quiet(self, seconds: float = 3.0, *, within: float = DEADLINE) -> None:
        """Wait until every program works and none has written anything for so long."""
        with anyio.fail_after(within):
            while True:
                seen = self.writes()
                await anyio.sleep(seconds)
                if self.writes() == seen and all(self.leader(program).leads for program in self.programs):
                    return

    def writes(self) -> int:
        """Return the number of commits by controllers so far, leases and Events left out."""
        return sum(1 for record in self.history.records if record.actor in PROGRAMS)

    def working(self, name: str, half: JobType) -> bool:
        """Tell whether the tool is at work on this half of a run of the Workspace."""
        starts, ends = 0, 0
        for record in self.history.records:
            if isinstance(record, ToolStarted | ToolEnded) and (record.workspace[1], record.job_type) == (name, half):
                starts += isinstance(record, ToolStarted)
                ends += isinstance(record, ToolEnded)
        return starts > ends

    async def at_work(self, name: str, half: JobType, *, within: float = DEADLINE) -> None:
        """Wait until the tool is at work."""
        await self.until(lambda: self.working(name, half), f"the {half} of {name}", within=within)

    def outcome(self) -> Outcome:
        """Return the end state."""
        return outcome_of(self.server, self.history.records, self.terraform.infrastructure)

    def violations(self) -> list[Violation]:
        """Return what the history breaks."""
        return violations(self.history.records, fast=self.clocks.fastest(), slow=self.clocks.slowest())

    def lacking(self) -> list[str]:
        """Return what history and archive lack of the runs that were started, and what still waits in the cluster."""
        found = [each for each in map(self._item, self.items(WORKSPACES.resource)) if each is not None]
        busy = RUNNING | WITH_PLAN | {Phase.PENDING}
        going = {each.status.current_run_id for each in found if each.status.phase in busy}
        waiting = [each.metadata.name for each in found if each.status.history_outbox]
        held = [job["metadata"]["name"] for job in self.items("jobs.batch") if self._is_held(job, going)]
        parcels = [
            each["metadata"]["name"] for each in self.items("configmaps") if OUTBOX in each["metadata"]["labels"]
        ]
        left = [f"{each} still waits" for each in (*waiting, *held, *parcels)]
        return [*self.evidence.lacking(self.history.records, going), *left]

    def _item(self, item: Json) -> Workspace | None:
        return self.users.find(item["metadata"]["name"])

    def _is_held(self, job: Json, going: Collection[str]) -> bool:
        meta = job["metadata"]
        return ARCHIVE_FINALIZER in (meta.get("finalizers") or []) and meta["labels"][RUN_ID] not in going

    async def archived(self) -> None:
        """Wait until everything is where it belongs."""
        await self.until(lambda: not self.lacking(), "the archive of every run")

    def phase_of(self, name: str) -> str:
        """Return the phase of a Workspace, ``gone`` if it is not there."""
        found = self.users.find(name)
        return "gone" if found is None else str(found.status.phase or "")

    def reason_of(self, name: str) -> str:
        """Return the reason that a Workspace shows, empty if it is not there."""
        found = self.users.find(name)
        return "" if found is None else found.status.reason

    def observed(self, name: str) -> str:
        """Return the commit that is applied, once the run that applied it has left nothing on the Workspace."""
        found = self.users.find(name)
        done = found is not None and found.status.phase is Phase.APPLIED
        return found.status.observed_revision if found is not None and done else ""

    def infrastructure(self, name: str) -> str:
        """Return what the Workspace's infrastructure is like, empty if there is none."""
        return self.terraform.infrastructure.get((NAMESPACE, name), "")

    def gated(self, name: str) -> bool:
        """Tell whether a plan of the Workspace waits for a person."""
        found = self.users.find(name)
        return found is not None and found.status.awaiting_approval is not None

    def pinned(self, name: str) -> str:
        """Return the commit of the current run."""
        found = self.users.find(name)
        return found.status.current_run.revision if found is not None and found.status.current_run else ""

    def current(self, name: str) -> bool:
        """Tell whether status is about the present spec."""
        found = self.users.find(name)
        return found is not None and found.status.observed_generation == found.metadata.generation

    def items(self, resource: str) -> list[Json]:
        """Return the stored objects of a resource."""
        return self.server.store.items(self.server.resource(resource))

    def leader(self, program: str) -> Replica:
        """Return the replica that leads, the first one if none does right now."""
        replicas = [each for each in self.replicas if each.program == program]
        return next((each for each in replicas if each.leads), replicas[0])

    def commit(self, *, url: str = URL, branch: str = "main", **what: Any) -> str:
        """Push a commit; where no RefWatcher takes part, a hook of the Git server tells the Workspaces."""
        sha = self.git.push(url, branch, **what)
        self.tell_commit(url, branch, sha)
        return sha

    def tell_commit(self, url: str, branch: str, sha: str) -> None:
        """Let the hook tell all Workspaces of a branch."""
        if "refwatcher" in self.programs:
            return
        hook = Users(self.server, "hook")
        for item in self.server.store.items(self.server.resource(WORKSPACES)):
            source = item["spec"]["source"]
            if (source["repoURL"], source["targetRevision"]) == (url, branch):
                hook.annotate(item["metadata"]["name"], detected_revision=sha)

    def show(self) -> str:
        """Return what the Workspaces look like, for the message of a failure."""
        crash = self.crash
        lines = [f"at {self.clock.monotonic():.3f} s, crash point {crash.number} {crash.moment} {crash.struck}"]
        for item in self.server.store.items(self.server.resource(WORKSPACES), NAMESPACE):
            status = item.get("status") or {}
            told = {key.rpartition("/")[2]: value for key, value in (item["metadata"].get("annotations") or {}).items()}
            lines.append(
                f"  {item['metadata']['name']}: {status.get('phase')}/{status.get('reason')}"
                f" run {status.get('currentRunID')} {told} {status.get('message')}"
            )
        return "\n".join(lines)


def play(fleet: Callable[[], Fleet], scene: Callable[[Fleet], Awaitable[None]], *, seed: int = 1) -> Fleet:
    """Play a scene with a fleet of its own in virtual time and return the fleet as the scene left it."""

    async def main() -> Fleet:
        made = fleet()
        async with made.running():
            await scene(made)
        return made

    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    try:
        return run_virtual(main, seed=seed)
    finally:
        structlog.configure(**before)
