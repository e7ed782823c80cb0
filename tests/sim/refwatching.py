"""A simulated cluster with RefWatcher in it, and Git servers that a test plays."""

import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import anyio
import msgspec

from magos.api.annotations import DETECTED_REVISION, DETECTED_SOURCE
from magos.api.conditions import ConditionType, find
from magos.api.kube import NAMESPACES, SECRETS
from magos.api.meta import Condition
from magos.api.workspace import WORKSPACES, Workspace
from magos.apps.refwatcher import RefWatcherSettings, refwatcher_controller
from magos.reconcilers.refwatcher.machine import Failure
from magos.reconcilers.refwatcher.schedule import Listing, Poll, PollLimits
from magos.runtime.manager.composition import ControllerApp
from magos.runtime.manager.manager import Manager
from magos.runtime.manager.settings import Settings
from tests.sim.apiserver import Served, SimApiServer
from tests.sim.apiserver.resources import Json
from tests.sim.virtualtime import VirtualClock, run_virtual

NAMESPACE = "default"
TIMEOUT = 10.0
USER = "refwatcher"
_WRITING = frozenset({"create", "update", "patch", "delete"})


def sha(number: int) -> str:
    """Return a commit ID."""
    return f"{number:040x}"


def url(name: str) -> str:
    return f"https://{name}.example.com/repo.git"


@dataclass
class Remote:
    """One repository: references by target; ``hangs`` never answers, ``failure`` is what it says otherwise."""

    refs: dict[str, str] = field(default_factory=dict)
    hangs: bool = False
    failure: Failure | None = None
    retry_after: float = 0.0
    seconds: float = 0.05
    asked: list[float] = field(default_factory=list)
    targets: list[tuple[str, ...]] = field(default_factory=list)
    fingerprints: Counter[str] = field(default_factory=Counter)


class World:
    """The cluster, the Git servers and a user."""

    def __init__(self, seed: int = 1) -> None:
        self.rng = random.Random(seed)
        self.clock = VirtualClock()
        self.server = SimApiServer(self.clock, random.Random(seed + 1))
        self.user = self.server.client("user")
        self.remotes: dict[str, Remote] = {}
        self.settings = RefWatcherSettings(default_poll_interval=timedelta(seconds=30), limits=PollLimits())

    def remote(self, name: str, **refs: str) -> Remote:
        """Put a repository on the network."""
        return self.remotes.setdefault(url(name), Remote(refs=dict(refs)))

    async def ask(self, poll: Poll) -> Listing:
        """Answer a poll as the Git server would; a time-out is answered by ourselves."""
        remote = self.remotes[poll.key.url]
        began = self.clock.monotonic()
        remote.asked.append(began)
        remote.targets.append(poll.targets)
        remote.fingerprints[poll.key.fingerprint] += 1
        if remote.hangs:
            await anyio.sleep(TIMEOUT)
            failure: Failure | None = Failure("GitFailed", "took longer than 10 s")
        else:
            await anyio.sleep(remote.seconds)
            failure = remote.failure
        results: Mapping[str, str | Failure] = {
            target: failure or remote.refs.get(target) or Failure("RevisionNotFound", f"no {target}")
            for target in poll.targets
        }
        return Listing(
            results=results, seconds=self.clock.monotonic() - began, retry_after=remote.retry_after if failure else 0.0
        )

    def manager(self) -> Manager:
        """Return a RefWatcher process."""
        settings = Settings(
            namespace="kube-system", identity=USER, workers=2, leader_elect=True, grace=1.0, health=None
        )
        app = ControllerApp(
            name="refwatcher-controller",
            settings=settings,
            build=lambda assembly: refwatcher_controller(assembly, self.settings, self.ask),
        )
        return Manager(app, self.server.transport(USER), clock=self.clock, rng=random.Random(self.rng.random()))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run RefWatcher around a block; leaving it kills the process."""
        async with anyio.create_task_group() as group:
            group.start_soon(self.manager().run)
            yield
            group.cancel_scope.cancel()

    async def create(
        self, name: str, repository: str, target: str = "main", *, namespace: str = NAMESPACE, **annotations: str
    ) -> None:
        """Create a Workspace; ``git_poll_interval="5s"`` becomes an annotation."""
        await self.user.create(
            WORKSPACES,
            {
                "metadata": {"name": name, "namespace": namespace, "annotations": _keys(annotations)},
                "spec": {
                    "projectRef": {"name": "platform"},
                    "source": {"repoURL": url(repository), "targetRevision": target},
                    "terraform": {"version": "1.9.8"},
                },
            },
        )

    async def annotate(self, name: str, **values: str | None) -> None:
        await self.user.patch(WORKSPACES, NAMESPACE, name, {"metadata": {"annotations": _keys(values)}})

    async def retarget(self, name: str, **source: str) -> None:
        """Change ``spec.source``."""
        await self.user.patch(WORKSPACES, NAMESPACE, name, {"spec": {"source": source}})

    async def set_status(self, name: str, **status: object) -> None:
        await self.user.patch(WORKSPACES, NAMESPACE, name, {"status": status}, subresource="status")

    async def namespace(self, name: str) -> None:
        await self.user.create(NAMESPACES, {"metadata": {"name": name}})

    async def secret(self, name: str, repository: str, password: bytes, *, namespace: str = NAMESPACE) -> None:
        """Create a repository Secret."""
        await self.user.create(
            SECRETS,
            {
                "metadata": {
                    "name": name,
                    "namespace": namespace,
                    "labels": {"magosproject.io/secret-type": "repository"},
                },
                "data": msgspec.to_builtins({"repoURL": url(repository).encode(), "password": password}),
            },
        )

    def workspace(self, name: str, namespace: str = NAMESPACE) -> Workspace:
        """Return the stored Workspace, without a request."""
        item = self.server.store.get(self.server.resource("workspaces.magosproject.io"), (namespace, name))
        return msgspec.convert(item, Workspace)

    def detected(self, name: str, namespace: str = NAMESPACE) -> str:
        return self.workspace(name, namespace).metadata.annotations.get(DETECTED_REVISION, "")

    def source(self, name: str) -> str:
        return self.workspace(name).metadata.annotations.get(DETECTED_SOURCE, "")

    def unreachable(self, name: str) -> Condition | None:
        return find(self.workspace(name).status.conditions, ConditionType.SOURCE_UNREACHABLE)

    async def until(self, condition: Callable[[], bool], *, within: float = 600.0) -> float:
        """Wait in virtual time until the condition holds; return how long that took."""
        began = self.clock.monotonic()
        with anyio.fail_after(within):
            while not condition():  # noqa: ASYNC110 - any state of the world may be the condition
                await anyio.sleep(0.01)
        return self.clock.monotonic() - began

    def served(self, *verbs: str) -> list[Served]:
        """RefWatcher's requests so far, Events and leases not counted."""
        return [
            each
            for each in self.server.served
            if each.user == USER
            and each.verb in (verbs or _WRITING)
            and "/events" not in each.path
            and "/leases" not in each.path
        ]


def _keys(values: Mapping[str, str | None]) -> Json:
    return {f"magosproject.io/{key.replace('_', '-')}": value for key, value in values.items()}


def in_world(scene: Callable[[World], Awaitable[None]], *, seed: int = 1) -> None:
    """Play a scene in a fresh world in virtual time."""

    async def main() -> None:
        await scene(World(seed))

    run_virtual(main, seed=seed)
