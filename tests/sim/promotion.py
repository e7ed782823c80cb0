"""A simulated cluster with the real project and rollout controllers, and an actor that imitates Workspaces.

The actor follows the Workspace's phases with its own words: it begins runs, obeys permission, takes time, and fails
where a commit is broken. It keeps what was started and what was applied, so that a test can say what must never have
happened.
"""

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import msgspec

from magos.api.annotations import DETECTED_REVISION, PERMISSION
from magos.api.phases import Phase
from magos.api.project import PROJECTS, Project
from magos.api.reasons import Reason
from magos.api.rollout import ROLLOUTS, Rollout
from magos.api.triggers import Trigger
from magos.api.workspace import WORKSPACES, Workspace
from magos.apps.controllers import Build
from magos.apps.project import project_controller
from magos.apps.rollout import rollout_controller
from magos.reconcilers.permission import permitted, unnamed
from magos.reconcilers.revisions import detected_revision, pending_revision, source_of
from magos.runtime.client.errors import ApiError
from magos.runtime.manager.composition import ControllerApp
from magos.runtime.manager.manager import Manager
from magos.runtime.manager.settings import Settings
from tests.sim.apiserver import Served, SimApiServer
from tests.sim.apiserver.resources import Json
from tests.sim.history.checker import Violation, violations
from tests.sim.history.recorder import Recorder
from tests.sim.virtualtime import VirtualClock, run_virtual

__all__ = ["NAMESPACE", "PROJECT", "Land", "Start", "in_land"]

NAMESPACE = "default"
PROJECT = "platform"
CONTROLLERS = ("project", "rollout")
_BUILDS: Mapping[str, Build] = {"project": project_controller, "rollout": rollout_controller}
_REASONS = {
    Phase.PENDING: Reason.AWAITING_ROLLOUT,
    Phase.PLANNING: Reason.PLANNING,
    Phase.PLANNED: Reason.PLAN_SUCCEEDED,
    Phase.APPLYING: Reason.APPLYING,
    Phase.APPLIED: Reason.APPLY_SUCCEEDED,
    Phase.FAILED: Reason.PLAN_FAILED,
}


@dataclass(frozen=True, kw_only=True)
class Start:
    """A plan or an apply that began."""

    workspace: str
    phase: Phase
    revision: str
    at: float


@dataclass
class Imitation:
    """Stands for the workspace controller and what is below it.

    ``broken`` are the (Workspace, commit) pairs that fail; ``applied`` tells when a Workspace first had a commit.
    """

    land: "Land"
    head: str = "1" * 40
    broken: set[tuple[str, str]] = field(default_factory=set)
    started: list[Start] = field(default_factory=list)
    applied: dict[str, dict[str, float]] = field(default_factory=dict)
    busy: dict[str, float] = field(default_factory=dict)

    async def run(self) -> None:
        """Work for ever, on one Workspace after the other in changing order."""
        client = self.land.server.client("workspace")
        while True:
            found = list((await client.list_all(WORKSPACES, NAMESPACE)).items)
            self.land.rng.shuffle(found)
            for workspace in found:
                try:
                    await self._one(workspace)
                except ApiError as error:
                    if not error.conflict:
                        raise
            await anyio.sleep(self.land.rng.uniform(0.02, 0.2))

    async def _one(self, workspace: Workspace) -> None:
        name, status = workspace.metadata.name, workspace.status
        match status.phase:
            case None:
                await self._reset(workspace, Trigger.CONFIGURATION)
            case Phase.PENDING | Phase.PLANNED if self._overtaken(workspace):
                await self._reset(workspace, status.current_run_trigger or Trigger.REVISION)
            case Phase.PENDING | Phase.PLANNED if permitted(workspace):
                await self._start(workspace)
            case Phase.PLANNING | Phase.APPLYING if self.land.clock.monotonic() >= self.busy.get(name, 0.0):
                await self._end(workspace)
            case Phase.APPLIED | Phase.FAILED:
                await self._rest(workspace)

    def _overtaken(self, workspace: Workspace) -> bool:
        run, status = workspace.status.current_run, workspace.status
        assert run is not None
        changed = status.observed_generation != workspace.metadata.generation
        newer = bool(detected_revision(workspace)) and detected_revision(workspace) != run.revision
        return changed or (newer and not (status.phase is Phase.PLANNED and permitted(workspace)))

    async def _reset(self, workspace: Workspace, trigger: Trigger) -> None:
        if unnamed(workspace) and workspace.status.phase is not None:
            await self._annotate(workspace, dict.fromkeys(PERMISSION))
            return
        await self._write(workspace, Phase.PENDING, pending_revision(workspace), currentRunTrigger=str(trigger))

    async def _start(self, workspace: Workspace) -> None:
        name, run = workspace.metadata.name, workspace.status.current_run
        assert run is not None
        revision = run.revision or self.head
        phase = Phase.PLANNING if workspace.status.phase is Phase.PENDING else Phase.APPLYING
        await self._write(workspace, phase, revision, lastAttemptedRevision=revision)
        now = self.land.clock.monotonic()
        self.busy[name] = now + self.land.rng.uniform(0.5, 3.0)
        self.started.append(Start(workspace=name, phase=phase, revision=revision, at=now))

    async def _end(self, workspace: Workspace) -> None:
        name, run = workspace.metadata.name, workspace.status.current_run
        assert run is not None
        if (name, run.revision) in self.broken:
            await self._write(workspace, Phase.FAILED, run.revision)
        elif workspace.status.phase is Phase.PLANNING:
            await self._write(workspace, Phase.PLANNED, run.revision)
        else:
            done: Json = {"observedRevision": run.revision, "observedSource": source_of(workspace)}
            await self._write(workspace, Phase.APPLIED, run.revision, **done)
            self.applied.setdefault(name, {}).setdefault(run.revision, self.land.clock.monotonic())

    async def _rest(self, workspace: Workspace) -> None:
        values, status = workspace.metadata.annotations, workspace.status
        detected = detected_revision(workspace)
        if any(key in values for key in PERMISSION):
            await self._annotate(workspace, dict.fromkeys(PERMISSION))
        elif status.phase is Phase.APPLIED and detected and detected == status.observed_revision:
            await self._annotate(workspace, {DETECTED_REVISION: None})
        elif status.observed_generation != workspace.metadata.generation:
            await self._reset(workspace, Trigger.CONFIGURATION)
        elif detected and detected != status.last_attempted_revision:
            await self._reset(workspace, Trigger.REVISION)

    async def prepare(self, name: str) -> None:
        """Give a Workspace its first run."""
        await self._reset(self.land.workspace(name), Trigger.CONFIGURATION)

    async def _write(self, workspace: Workspace, phase: Phase, revision: str, **fields: object) -> None:
        status: Json = {
            "phase": str(phase),
            "reason": str(_REASONS[phase]),
            "observedGeneration": workspace.metadata.generation,
            "currentRunID": "r",
            "currentRun": {
                "revision": revision,
                "sourceKey": source_of(workspace),
                "specHash": str(workspace.metadata.generation),
            },
            **fields,
        }
        body = {"metadata": {"resourceVersion": workspace.metadata.resource_version}, "status": status}
        client = self.land.server.client("workspace")
        await client.patch(WORKSPACES, NAMESPACE, workspace.metadata.name, body, subresource="status")

    async def _annotate(self, workspace: Workspace, values: Mapping[str, str | None]) -> None:
        meta = {"resourceVersion": workspace.metadata.resource_version, "annotations": dict(values)}
        client = self.land.server.client("workspace")
        await client.patch(WORKSPACES, NAMESPACE, workspace.metadata.name, {"metadata": meta})


class Land:
    """The cluster and a user in it."""

    def __init__(self, seed: int = 1) -> None:
        self.rng = random.Random(seed)
        self.clock = VirtualClock()
        self.server = SimApiServer(self.clock, random.Random(seed + 1))
        self.history = Recorder(self.server)
        self.user = self.server.client("user")
        self.actor = Imitation(self)

    def manager(self, name: str) -> Manager:
        """Return a controller process that has not started yet."""
        settings = Settings(
            namespace="kube-system", identity=name, workers=2, leader_elect=True, grace=1.0, health=None
        )
        app = ControllerApp(name=f"{name}-controller", settings=settings, build=_BUILDS[name])
        return Manager(app, self.server.transport(name), clock=self.clock, rng=random.Random(self.rng.random()))

    @asynccontextmanager
    async def running(self, names: Sequence[str] = CONTROLLERS) -> AsyncIterator[None]:
        """Run the actor and these controllers around a block; leaving it kills them."""
        async with anyio.create_task_group() as group:
            group.start_soon(self.actor.run)
            for name in names:
                group.start_soon(self.manager(name).run)
            yield
            group.cancel_scope.cancel()

    async def add(self, name: str, stage: str, **fields: object) -> None:
        """Create a Workspace of the project as a user."""
        spec: Json = {
            "projectRef": {"name": PROJECT},
            "source": {"repoURL": "https://git.example.com/demo.git", "targetRevision": "main"},
            "terraform": {"version": "1.9.8"},
            **fields,
        }
        meta: Json = {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {"stage": stage},
            "annotations": {DETECTED_REVISION: self.actor.head},
        }
        await self.user.create(WORKSPACES, {"metadata": meta, "spec": spec})

    async def add_project(self) -> None:
        await self.user.create(PROJECTS, {"metadata": {"name": PROJECT, "namespace": NAMESPACE}, "spec": {}})

    async def add_rollout(self, *steps: str) -> None:
        """Create the Rollout with a step for each stage."""
        meta = {"name": PROJECT, "namespace": NAMESPACE}
        await self.user.create(ROLLOUTS, {"metadata": meta, "spec": _spec(steps)})

    async def edit_rollout(self, *steps: str) -> None:
        await self.user.patch(ROLLOUTS, NAMESPACE, PROJECT, {"spec": _spec(steps)})

    async def relabel(self, name: str, stage: str) -> None:
        await self.user.patch(WORKSPACES, NAMESPACE, name, {"metadata": {"labels": {"stage": stage}}})

    async def announce(self, revision: str) -> None:
        """A commit appears: every Workspace is told, one after the other in any order, as RefWatcher would."""
        self.actor.head = revision
        for each in self.rng.sample(self.workspaces(), len(self.workspaces())):
            body = {"metadata": {"annotations": {DETECTED_REVISION: revision}}}
            await self.user.patch(WORKSPACES, NAMESPACE, each.metadata.name, body)
            await anyio.sleep(self.rng.uniform(0.0, 0.3))

    def workspaces(self) -> list[Workspace]:
        """Return what is stored, without a request."""
        items = self.server.store.items(self.server.resource("workspaces.magosproject.io"), NAMESPACE)
        return [msgspec.convert(item, Workspace) for item in items]

    def workspace(self, name: str) -> Workspace:
        return next(each for each in self.workspaces() if each.metadata.name == name)

    def rollout(self) -> Rollout:
        item = self.server.store.get(self.server.resource("rollouts.magosproject.io"), (NAMESPACE, PROJECT))
        return msgspec.convert(item, Rollout)

    def project(self) -> Project:
        item = self.server.store.get(self.server.resource("projects.magosproject.io"), (NAMESPACE, PROJECT))
        return msgspec.convert(item, Project)

    def all_applied(self, revision: str) -> bool:
        return all(
            each.status.phase is Phase.APPLIED and each.status.observed_revision == revision
            for each in self.workspaces()
        )

    def allowed(self) -> set[str]:
        return {each.metadata.name for each in self.workspaces() if permitted(each)}

    async def until(self, condition: Callable[[], bool], *, within: float = 600.0) -> None:
        """Wait in virtual time until the condition holds."""
        with anyio.fail_after(within):
            while not condition():  # noqa: ASYNC110 - any state of the land may be the condition
                await anyio.sleep(0.01)

    def writes(self, user: str) -> list[Served]:
        """The writes of a controller to Workspaces and Rollouts so far that succeeded."""
        return [
            each
            for each in self.server.served
            if each.user == user and each.verb == "patch" and "magosproject.io" in each.path and each.status == 200
        ]

    def violations(self) -> list[Violation]:
        """Return what the history breaks of what is about permission: the actor imitates nothing else."""
        return [each for each in violations(self.history.records) if each.invariant in ("I7", "I8")]

    def check_order(self, *stages: str) -> None:
        """Assert that whatever began in a stage had been applied by every Workspace of the stages before it."""
        stage = {each.metadata.name: each.metadata.labels["stage"] for each in self.workspaces()}
        for start in self.actor.started:
            earlier = stages[: stages.index(stage[start.workspace])]
            for name in (name for name, where in stage.items() if where in earlier):
                at = self.actor.applied.get(name, {}).get(start.revision)
                assert at is not None, f"{start} but {name} never applied it"
                assert at <= start.at, f"{start} before {name} applied it"


def _spec(steps: Sequence[str]) -> Json:
    return {
        "projectRef": PROJECT,
        "strategy": {"steps": [{"name": each, "selector": {"matchLabels": {"stage": each}}} for each in steps]},
    }


def in_land(scene: Callable[[Land], Awaitable[None]], *, seed: int = 1) -> None:
    """Play a scene in a fresh land in virtual time."""

    async def main() -> None:
        await scene(Land(seed))

    run_virtual(main, seed=seed)
