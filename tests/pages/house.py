"""The server with its pages over a simulated cluster that holds the objects of ``states``."""

import random
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import anyio
from starlette.requests import Request

from magos.api.meta import Kind
from magos.api.project import PROJECTS
from magos.api.rollout import ROLLOUTS
from magos.api.variableset import VARIABLESETS
from magos.api.workspace import WORKSPACES
from magos.apps.server import Server
from magos.apps.serverparts import Parts
from magos.history.archive import ArchiveUnavailable, LogNotFound, StoredLog
from magos.history.runs import Run, RunPage
from magos.history.settings import Retention
from magos.history.store import HistoryUnavailable
from magos.runtime.clock import Clock, SystemClock
from magos.server.about import About
from magos.server.access import Grant, Right, Verb
from magos.server.identity import Caller, CallerKind
from magos.server.pages import page_routes, refusal_pages
from magos.server.problems import Problem, unauthenticated
from magos.server.settings import ServerSettings
from tests.pages import states
from tests.sim.apiserver import SimApiServer

__all__ = ["House", "NoonClock"]


_OBJECTS: tuple[tuple[Kind[Any], tuple[states.Json, ...]], ...] = (
    (WORKSPACES, states.WORKSPACES),
    (PROJECTS, states.PROJECTS),
    (ROLLOUTS, states.ROLLOUTS),
    (VARIABLESETS, states.SETS),
)


class NoonClock:
    """Shows the time of ``states``, and goes on from there."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._began = self._clock.monotonic()

    def monotonic(self) -> float:
        """Return the seconds of the machine."""
        return self._clock.monotonic()

    def now(self) -> datetime:
        """Return noon, and what has passed since the beginning."""
        return states.NOW + timedelta(seconds=self._clock.monotonic() - self._began)


class FakeLogin:
    """Lets everybody in as ``jane@example.org``, or nobody."""

    def __init__(self, origin: str) -> None:
        self.closed = False
        self.origin = origin

    async def caller(self, request: Request) -> Caller:
        """Return Jane; an unsafe request needs the token of the form."""
        if self.closed:
            raise unauthenticated()
        if request.method == "POST":
            body = (await request.body()).decode()
            if "csrf_token=" not in body or request.headers.get("origin", self.origin) != self.origin:
                raise Problem(403, "request could not be verified, reload the page")
        return Caller(kind=CallerKind.OIDC, username="jane@example.org", subject="oidc|jane", by_cookie=True)


class FakeAccess:
    """Allows everything but what ``refused`` holds: ``<verb> <resource>[/<subresource>]``, or a namespace."""

    def __init__(self) -> None:
        self.refused: set[str] = set()
        self.down = False

    async def allows(self, caller: Caller, right: Right) -> bool:
        """Tell whether the right is not refused."""
        del caller
        sub = f"/{right.subresource}" if right.subresource else ""
        return not {f"{right.verb} {right.resource}{sub}", right.namespace} & self.refused

    async def require(self, caller: Caller, right: Right) -> Grant:
        """Return the grant or raise 403."""
        if not await self.allows(caller, right):
            raise Problem(403, f"{caller.username} may not {right}")
        return Grant(right=right, caller=caller)

    async def visible(
        self, caller: Caller, verb: Verb, resource: str, namespaces: Iterable[str]
    ) -> frozenset[str] | None:
        """Return the namespaces that are not refused; None for all."""
        del caller, verb, resource
        if self.down:
            raise Problem(503, "the Kubernetes API does not answer: try again")
        return frozenset(set(namespaces) - self.refused) if self.refused else None


class FakeHistory:
    """History of every Workspace: the runs of ``states``; ``down`` makes it unavailable."""

    def __init__(self) -> None:
        self.down = False
        self.items = states.runs()

    async def runs(self, namespace: str, name: str, *, uid: str = "", limit: int = 20, cursor: str = "") -> RunPage:
        """Return a page of them."""
        del namespace, name, uid, limit
        if self.down:
            raise HistoryUnavailable("the database does not answer")
        start = int(cursor or 0)
        return RunPage(items=self.items[start : start + 10], next_cursor=str(start + 10) if start < 10 else "")

    async def run(self, namespace: str, name: str, run_id: str, *, uid: str = "") -> Run | None:
        """Return one of them."""
        del namespace, uid
        if self.down:
            raise HistoryUnavailable("the database does not answer")
        if (name, run_id) == ("pay-prod", states.RUN):
            return states.PLANNED_RUN
        return next((each for each in self.items if each.run_id == run_id), None)


class FakeArchive:
    """Holds the log of a plan under ``states.PLAN_KEY``, and one log under every other key."""

    def __init__(self) -> None:
        self.log = states.LOG
        self.down = False

    async def store(self, key: str, chunks: AsyncIterator[bytes]) -> StoredLog:
        """Store nothing."""
        raise NotImplementedError

    @asynccontextmanager
    async def open(self, key: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open the log."""
        if self.down:
            raise ArchiveUnavailable("the bucket does not answer")
        if not key:
            raise LogNotFound(key)
        log = states.PLAN_LOG if key == states.PLAN_KEY else self.log

        async def chunks() -> AsyncIterator[bytes]:
            for start in range(0, len(log), 1000):
                yield log[start : start + 1000]

        yield chunks()

    async def delete(self, keys: Collection[str]) -> None:
        """Delete nothing."""


ABOUT = About(
    admin=True,
    issuer="https://issuer.example.com",
    retention=Retention(keep=12, ttl=timedelta(days=5)),
)


class House:
    """The server and everything it stands on."""

    def __init__(self, *, base_url: str = "http://127.0.0.1", clock: Clock | None = None) -> None:
        self.clock = clock or NoonClock()
        self.api = SimApiServer(self.clock, random.Random(1), namespaces=("shop", "platform"), latency=(0.0, 0.0))
        self.user = self.api.client("user")
        self.login, self.access = FakeLogin(base_url), FakeAccess()
        self.history, self.archive = FakeHistory(), FakeArchive()
        settings = ServerSettings(base_url=base_url)
        parts = Parts(
            access=self.access,
            authenticator=self.login,
            history=self.history,
            archive=self.archive,
            routes=lambda context: page_routes(context, ABOUT),
            render=refusal_pages(base_url, "test"),
        )
        self.server = Server(self.api.client("magos-api"), self.clock, settings, parts)

    async def fill(self) -> None:
        """Put the objects of ``states`` into the cluster."""
        for kind, items in _OBJECTS:
            for item in items:
                meta = {key: value for key, value in item["metadata"].items() if key not in ("uid", "resourceVersion")}
                self.api.create(self.api.resource(kind), {"metadata": meta, "spec": item["spec"]})
                body = {"status": item["status"]}
                await self.user.patch(kind, meta["namespace"], meta["name"], body, subresource="status")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the caches full around a block."""
        await self.fill()
        async with anyio.create_task_group() as group:
            group.start_soon(self.server.work)
            cluster = self.server.cluster
            for informer in (cluster.workspaces, cluster.projects, cluster.rollouts, cluster.variable_sets):
                await informer.wait_synced()
            yield
            group.cancel_scope.cancel()
