"""A simulated cluster with Magos' controllers as processes, and an actor that stands for Job controller and kubelet.

Everything runs on one virtual loop. What a pod does is told by a script; what was planned and applied is kept in a
ledger, so that a test can say what must never have happened.
"""

import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import msgspec

from magos.api.kube import JOBS, PODS, SERVICE_ACCOUNTS, Job, Pod
from magos.api.labels import JOB_SERVICE_ACCOUNT, JOB_TYPE, RUN_ID, RUNNER, WORKSPACE
from magos.api.names import JobType
from magos.api.project import PROJECTS
from magos.api.result import Outcome, PlannedChanges, Result
from magos.api.workspace import WORKSPACES, Workspace
from magos.apps.controllers import Build
from magos.apps.project import project_controller
from magos.apps.variableset import variableset_controller
from magos.apps.workspace import workspace_controller
from magos.ids import digest_of
from magos.reconcilers.workspace.pod.settings import WorkspaceSettings
from magos.runtime.client.errors import ApiError
from magos.runtime.manager.composition import ControllerApp
from magos.runtime.manager.manager import Manager
from magos.runtime.manager.settings import Settings
from tests.sim.apiserver import Served, SimApiServer
from tests.sim.apiserver.resources import CUSTOM, Json, ResourceType
from tests.sim.virtualtime import VirtualClock, run_virtual

NAMESPACE = "default"
SHA = "a" * 40
NEXT_SHA = "b" * 40
CONTROLLERS = ("workspace", "project")
WITH_VARIABLES = (*CONTROLLERS, "variableset")
POLICIES = (
    ResourceType(
        group="policies.kyverno.io",
        version="v1",
        plural="validatingpolicies",
        kind="ValidatingPolicy",
        namespaced=False,
        custom=True,
    ),
)
"""The foreign kind, as the component kyverno-crd brings it along."""

_WRITING = frozenset({"create", "update", "patch", "delete"})
_TICK = 0.05
DEADLINE = 3600.0


@dataclass
class Ran:
    """One pod that worked: an interval of one half of a run."""

    workspace: str
    run_id: str
    job_type: JobType
    began: float
    ended: float | None = None


@dataclass
class Node:
    """Job controller and kubelet. ``outcome`` tells how the pod of a Job ends; ``work`` is how long it runs."""

    world: "World"
    outcome: Callable[[Job, JobType], Result]
    work: float = 3.0
    ran: list[Ran] = field(default_factory=list)

    async def run(self) -> None:
        """Work for ever."""
        while True:
            with contextlib.suppress(ApiError):  # faults of the server strike the node, too; it looks again
                await self._look()
            await anyio.sleep(_TICK)

    async def _look(self) -> None:
        client = self.world.server.client("node")
        for job in (await client.list_all(JOBS)).items:
            if not job.spec.suspend and not job.ended and job.metadata.deletion_timestamp is None:
                await self._one(job)
        for pod in (await client.list_all(PODS)).items:
            await self._pod(pod)

    async def _one(self, job: Job) -> None:
        client = self.world.server.client("node")
        meta = job.metadata
        pods = [pod for pod in (await client.list_all(PODS)).items if _owned(pod, meta.uid)]
        if not pods:
            manifest = {
                "metadata": {
                    "name": f"{meta.name}-0",
                    "namespace": meta.namespace,
                    "labels": dict(meta.labels),
                    "ownerReferences": [
                        {
                            "apiVersion": "batch/v1",
                            "kind": "Job",
                            "name": meta.name,
                            "uid": meta.uid,
                            "controller": True,
                        }
                    ],
                },
                "spec": {"containers": [{"name": "job", "image": "x"}], "restartPolicy": "Never"},
            }
            await client.create(PODS, manifest)
        elif pods[0].ended:
            kind = "Complete" if pods[0].status.phase == "Succeeded" else "Failed"
            body = {"status": {"conditions": [{"type": kind, "status": "True", "reason": ""}]}}
            await client.patch(JOBS, meta.namespace, meta.name, body, subresource="status")

    async def _pod(self, pod: Pod) -> None:
        client = self.world.server.client("node")
        meta, now = pod.metadata, self.world.clock.monotonic()
        ran = next((each for each in self.ran if each.run_id == meta.labels[RUN_ID] and _is(each, pod)), None)
        if ran is not None and pod.ended and ran.ended is None:
            ran.ended = now  # said so already, but the answer was lost
        elif pod.status.phase == "Pending" and meta.deletion_timestamp is None:
            if ran is None:
                self.ran.append(Ran(meta.labels[WORKSPACE], meta.labels[RUN_ID], JobType(meta.labels[JOB_TYPE]), now))
            fetch = {
                "name": "fetch",
                "state": {"running": {}},
                "ready": False,
                "restartCount": 0,
                "image": "x",
                "imageID": "",
            }
            status: Json = {"phase": "Running", "initContainerStatuses": [fetch]}
            await client.patch(PODS, meta.namespace, meta.name, {"status": status}, subresource="status")
        elif ran is not None and ran.ended is None and now - ran.began >= self.work:
            job = await client.get(JOBS, meta.namespace, meta.name.removesuffix("-0"))
            result = self.outcome(job, ran.job_type)
            message = msgspec.json.encode(result).decode()
            code = result.exit_code
            ended = {"terminated": {"exitCode": code, "message": message}}
            container = {"name": "job", "state": ended, "ready": False, "restartCount": 0, "image": "x", "imageID": ""}
            status = {"phase": "Failed" if code else "Succeeded", "containerStatuses": [container]}
            await client.patch(PODS, meta.namespace, meta.name, {"status": status}, subresource="status")
            ran.ended = now


def _owned(pod: Pod, uid: str) -> bool:
    return any(owner.uid == uid for owner in pod.metadata.owner_references)


def _is(ran: Ran, pod: Pod) -> bool:
    return str(ran.job_type) == pod.metadata.labels[JOB_TYPE]


def good(job: Job, job_type: JobType) -> Result:
    """Every plan has changes, every apply succeeds; the runner reports the commit it was given."""
    record = msgspec.json.decode(job.metadata.annotations["magosproject.io/record"])
    run_id = job.metadata.labels[RUN_ID]
    return Result(
        run_id=run_id,
        phase=job_type,
        result=Outcome.SUCCEEDED,
        exit_code=0,
        revision=record.get("revision") or SHA,
        plan_digest=digest_of(run_id.encode()) if job_type is JobType.PLAN else "",
        has_changes=job_type is JobType.PLAN,
        changes=PlannedChanges(add=2),
    )


class World:
    """The cluster and a user in it."""

    def __init__(self, seed: int = 1, *, policies: bool = False) -> None:
        self.rng = random.Random(seed)
        self.clock = VirtualClock()
        self.server = SimApiServer(
            self.clock, random.Random(seed + 1), resources=(*CUSTOM, *(POLICIES if policies else ()))
        )
        self.user = self.server.client("user")
        self.settings = WorkspaceSettings(job_image="magos-job:sim")
        account = {"metadata": {"name": JOB_SERVICE_ACCOUNT, "namespace": NAMESPACE, "labels": {RUNNER: "true"}}}
        self.server.create(self.server.resource(SERVICE_ACCOUNTS), account)
        self.node = Node(self, good)

    def manager(self, name: str) -> Manager:
        """Return a controller process; it has not started yet."""
        builds: dict[str, Build] = {
            "workspace": lambda assembly: workspace_controller(assembly, self.settings, self.rng.randbytes),
            "project": project_controller,
            "variableset": variableset_controller,
        }
        settings = Settings(
            namespace="kube-system", identity=name, workers=2, leader_elect=True, grace=1.0, health=None
        )
        app = ControllerApp(name=f"{name}-controller", settings=settings, build=builds[name])
        transport = self.server.transport(name)
        return Manager(app, transport, clock=self.clock, rng=random.Random(self.rng.random()))

    @asynccontextmanager
    async def running(self, names: Sequence[str] = CONTROLLERS) -> AsyncIterator[None]:
        """Run the node and these controllers around a block; leaving it kills them."""
        async with anyio.create_task_group() as group:
            group.start_soon(self.node.run)
            group.start_soon(self.server.collector.run)
            for name in names:
                group.start_soon(self.manager(name).run)
            yield
            group.cancel_scope.cancel()

    async def apply(self, *names: str, **spec: object) -> None:
        """Create the Project and Workspaces as a user."""
        await self.user.create(PROJECTS, {"metadata": {"name": "platform", "namespace": NAMESPACE}, "spec": {}})
        for name in names:
            await self.user.create(WORKSPACES, workspace(name, **spec))

    async def annotate(self, name: str, **values: str | None) -> None:
        """Set Magos annotations as a user: ``reconcile_request="x"``."""
        changed = {f"magosproject.io/{key.replace('_', '-')}": value for key, value in values.items()}
        await self.user.patch(WORKSPACES, NAMESPACE, name, {"metadata": {"annotations": changed}})

    def workspace(self, name: str) -> Workspace | None:
        """Return the stored Workspace, without a request."""
        item = self.server.store.get(self.server.resource("workspaces.magosproject.io"), (NAMESPACE, name))
        return None if item is None else msgspec.convert(item, Workspace)

    def phase(self, name: str) -> str:
        found = self.workspace(name)
        return str(found.status.phase or "") if found is not None else "gone"

    def observed_revision(self, name: str) -> str:
        found = self.workspace(name)
        return found.status.observed_revision if found is not None else ""

    def trigger(self, name: str) -> str:
        found = self.workspace(name)
        return str(found.status.current_run_trigger or "") if found is not None else ""

    def jobs(self) -> list[Json]:
        return self.server.store.items(self.server.resource("jobs.batch"), NAMESPACE)

    async def until(self, condition: Callable[[], bool], *, within: float = DEADLINE) -> None:
        """Wait in virtual time until the condition holds."""
        with anyio.fail_after(within):
            while not condition():  # noqa: ASYNC110 - any state of the world may be the condition
                await anyio.sleep(0.01)

    def writes(self) -> list[Served]:
        """The controllers' writes so far, Events and leases not counted."""
        return [
            each
            for each in self.server.served
            if each.user in WITH_VARIABLES
            and each.verb in _WRITING
            and "/events" not in each.path
            and "/leases" not in each.path
        ]


def workspace(name: str, **spec: object) -> Json:
    """Return a Workspace as a user would write it."""
    fields: Json = {
        "projectRef": {"name": "platform"},
        "source": {"repoURL": "https://git.example.com/demo.git", "targetRevision": "main"},
        "terraform": {"version": "1.9.8"},
    }
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {**fields, **spec}}


def in_world(scene: Callable[[World], Awaitable[None]], *, seed: int = 1, policies: bool = False) -> None:
    """Play a scene in a fresh world in virtual time."""

    async def main() -> None:
        await scene(World(seed, policies=policies))

    run_virtual(main, seed=seed)


__all__ = ["NAMESPACE", "NEXT_SHA", "SHA", "Node", "Ran", "World", "good", "in_world", "workspace"]
