"""The server over a simulated API server, with callers whose rights a test sets."""

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import anyio
from starlette.requests import Request

from magos.api.meta import Kind
from magos.api.workspace import WORKSPACES
from magos.apps.server import Server
from magos.apps.serverparts import Parts
from magos.history.archive import LogArchive
from magos.history.store import HistoryReader
from magos.runtime.client.client import ApiClient
from magos.runtime.client.transport import HttpRequest, HttpResponse
from magos.server.access import Grant, Right, Verb
from magos.server.identity import Caller, CallerKind
from magos.server.problems import Problem, unauthenticated
from magos.server.settings import ServerSettings
from tests.sim.apiserver import SimApiServer
from tests.sim.apiserver.resources import Json
from tests.sim.magos import workspace
from tests.sim.virtualtime import VirtualClock, run_virtual
from tests.unit.server.asgi import Answer, ask, streaming

__all__ = ["API", "FakeAccess", "FakeAuthenticator", "World", "in_world"]

LIMIT = 1800.0
"""Virtual seconds after which a scene has failed: a stream that does not end as it should goes on for ever."""

API = "/apis/magosproject.io/v1alpha1"


class FakeAuthenticator:
    """Takes a bearer token for the name of its caller."""

    def __init__(self) -> None:
        self.expiry: dict[str, datetime] = {}

    async def caller(self, request: Request) -> Caller:
        """Return the caller that the token names."""
        name = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not name:
            raise unauthenticated()
        return Caller(kind=CallerKind.OIDC, username=name, subject=name, expires_at=self.expiry.get(name))


class FakeAccess:
    """Grants what ``rule`` says; by default everything."""

    def __init__(self) -> None:
        self.rule: Callable[[Caller, Right], bool] = lambda _caller, _right: True
        self.asked: list[Right] = []
        self.down = False

    def only(self, *namespaces: str) -> None:
        """Grant everything in these namespaces and nothing elsewhere."""
        self.rule = lambda _caller, right: right.namespace in namespaces

    async def allows(self, caller: Caller, right: Right) -> bool:
        """Tell whether the rule grants it."""
        self.asked.append(right)
        if self.down:
            raise Problem(503, "the Kubernetes API does not answer: try again")
        return self.rule(caller, right)

    async def require(self, caller: Caller, right: Right) -> Grant:
        """Return a grant if the rule does."""
        if not await self.allows(caller, right):
            raise Problem(403, f"{caller.username} may not {right}")
        return Grant(right=right, caller=caller)

    async def visible(
        self, caller: Caller, verb: Verb, resource: str, namespaces: Iterable[str]
    ) -> frozenset[str] | None:
        """Return those of the namespaces that the rule grants."""
        if await self.allows(caller, Right(verb=verb, resource=resource)):
            return None
        rights = [Right(verb=verb, resource=resource, namespace=each) for each in namespaces]
        return frozenset([each.namespace for each in rights if await self.allows(caller, each)])


class World:
    """A cluster, and the server in front of it."""

    def __init__(self, seed: int, history: HistoryReader | None = None, archive: LogArchive | None = None) -> None:
        self.clock = VirtualClock()
        self.api = SimApiServer(self.clock, random.Random(seed), namespaces=("default", "team-a", "team-b"))
        self.user = self.api.client("user")
        self.access = FakeAccess()
        self.authenticator = FakeAuthenticator()
        self.transport = self.api.transport("magos-api")
        parts = Parts(access=self.access, authenticator=self.authenticator, history=history, archive=archive)
        settings = ServerSettings(cors_origins=("https://portal.example",))
        self.server = Server(ApiClient(self.transport), self.clock, settings, parts)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the server around a block; it begins once the caches are filled."""
        async with anyio.create_task_group() as group:
            group.start_soon(self.server.work)
            cluster = self.server.cluster
            for informer in (cluster.workspaces, cluster.projects, cluster.rollouts, cluster.variable_sets):
                await informer.wait_synced()
            yield
            group.cancel_scope.cancel()

    def put(self, kind: Kind[Any], name: str, namespace: str, spec: Json, status: Json | None = None) -> Json:
        """Create an object at once, with its status."""
        resource = self.api.resource(kind)
        body: Json = {"metadata": {"name": name, "namespace": namespace}, "spec": spec}
        return self.api.create(resource, body | ({"status": status} if status else {}))

    def workspace(self, name: str, namespace: str = "default", project: str = "platform") -> Json:
        """Create a Workspace at once."""
        spec = workspace(name)["spec"] | {"projectRef": {"name": project}}
        return self.put(WORKSPACES, name, namespace, spec)

    async def set_status(self, name: str, status: Mapping[str, Any], namespace: str = "default") -> None:
        """Set fields of a Workspace's status as its controller would."""
        await self.user.patch(WORKSPACES, namespace, name, {"status": status}, subresource="status")

    async def annotations(self, name: str, namespace: str = "default") -> Mapping[str, str]:
        """Return a Workspace's annotations as they are stored."""
        return (await self.user.get(WORKSPACES, namespace, name)).metadata.annotations

    def before_patch(self, action: Callable[[], Awaitable[None]]) -> None:
        """Do something once, right before the server's next patch reaches the cluster."""
        plain = self.transport.request

        async def request_after(request: HttpRequest) -> HttpResponse:
            if request.method == "PATCH":
                self.transport.request = plain  # type: ignore[method-assign]
                await action()
            return await plain(request)

        self.transport.request = request_after  # type: ignore[method-assign]

    async def settled(self) -> None:
        """Wait until the caches have what was written so far."""
        await anyio.sleep(1)

    async def ask(self, path: str, **options: Any) -> Answer:
        """Make a request and return the answer."""
        return await ask(self.server.app, path, **options)

    def stream(self, path: str, **options: Any) -> Any:
        """Open a stream."""
        return streaming(self.server.app, path, **options)


def in_world(scene: Callable[[World], Awaitable[None]], seed: int = 1, **parts: Any) -> None:
    """Play a scene in virtual time; the server runs from its begin."""

    async def main() -> None:
        world = World(seed, **parts)
        async with world.running():
            await scene(world)

    run_virtual(main, seed=seed, limit=LIMIT)
