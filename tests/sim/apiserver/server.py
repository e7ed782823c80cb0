"""The simulated API server and the transports that lead to it."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import anyio

from magos.api.meta import Kind
from magos.runtime.client.client import ApiClient
from magos.runtime.client.transport import HttpRequest, HttpResponse, HttpStream, Lane, TransportError
from magos.runtime.clock import Clock
from tests.sim.apiserver.faults import Answer, Faults, Hang, Late, Lose
from tests.sim.apiserver.gc import GarbageCollector
from tests.sim.apiserver.problems import Problem
from tests.sim.apiserver.reads import Reader
from tests.sim.apiserver.resources import BUILT_IN, CUSTOM, Json, ResourceType
from tests.sim.apiserver.routes import Router, problem_response
from tests.sim.apiserver.store import Store
from tests.sim.apiserver.watch import Watch
from tests.sim.apiserver.writes import Writer

__all__ = ["Served", "SimApiServer", "SimTransport"]

INACTIVITY_SECONDS = 75.0
"""After so much silence a client takes a stream for dead, as the real transport does."""


@dataclass(frozen=True, kw_only=True)
class Served:
    """One request as it reached the server; ``status`` 0 where the client got no answer."""

    verb: str
    path: str
    status: int
    lane: Lane
    user: str
    at: float


class SimApiServer:
    """One API server with its store, on the running (virtual) loop; all randomness comes from ``rng``.

    ``namespaces`` exist from the start. ``latency`` is the range in seconds of each way of a request; zero is allowed.
    ``collector.run()`` is for the caller's task group, ``collector.sweep()`` for tests that want it done at once.
    """

    def __init__(
        self,
        clock: Clock,
        rng: random.Random,
        *,
        resources: Iterable[ResourceType] = CUSTOM,
        namespaces: Iterable[str] = ("default", "kube-system"),
        latency: tuple[float, float] = (0.001, 0.005),
    ) -> None:
        self.clock = clock
        self.rng = rng
        self.latency = latency
        self.resources = (*BUILT_IN, *resources)
        self.store = Store()
        self.writer = Writer(self.store, rng)
        self.faults = Faults(rng)
        self.collector = GarbageCollector(self.store, self.writer, self.resources, clock)
        self.watches: list[Watch] = []
        self.served: list[Served] = []
        self.acting = ""
        self._router = Router(resources=self.resources, reader=Reader(self.store), writer=self.writer, clock=clock)
        for name in namespaces:
            self.create(self.resource("namespaces"), {"metadata": {"name": name}})

    def transport(self, user: str = "test") -> "SimTransport":
        """Return a new connection to this server."""
        return SimTransport(self, user)

    def client(self, user: str = "test") -> ApiClient:
        """Return a typed client over a new connection."""
        return ApiClient(self.transport(user))

    def resource(self, resource: str | Kind[Any]) -> ResourceType:
        """Return the served resource for ``<plural>.<group>`` or a Kind."""
        name = resource if isinstance(resource, str) else resource.resource
        return next(r for r in self.resources if r.resource == name)

    def create(self, resource: ResourceType, body: Json) -> Json:
        """Create an object at once, without a request."""
        namespace = body["metadata"].get("namespace", "") if resource.namespaced else ""
        return self.writer.create(resource, namespace, body, self.clock.now())

    def counts(self, user: str = "") -> Counter[str]:
        """Return the number of requests by verb (get, list, watch, create, update, patch, delete)."""
        return Counter(served.verb for served in self.served if not user or served.user == user)

    def handle(self, request: HttpRequest, user: str = "") -> HttpResponse:
        """Carry out a request at once; meanwhile ``acting`` tells the store's listeners who writes."""
        self.acting = user
        try:
            return self._router.handle(request)
        finally:
            self.acting = ""

    async def pause(self) -> None:
        """Let one way of a request pass."""
        await asyncio.sleep(self.rng.uniform(*self.latency))

    def open_watch(self, request: HttpRequest) -> Watch:
        """Open a watch; raises ``Problem`` where it is refused."""
        watch = Watch(self._router.watch_request(request), self.store, self.rng)
        watch.open()
        self.watches.append(watch)
        return watch

    def close_watch(self, watch: Watch) -> None:
        """Forget a watch whose client left."""
        watch.close()
        self.watches.remove(watch)

    def disconnect(self) -> None:
        """Break every open watch."""
        for watch in self.watches:
            watch.disconnect()

    def note(self, request: HttpRequest, user: str, status: int) -> None:
        """Record what was served."""
        self.served.append(
            Served(
                verb=self._verb(request),
                path=request.path,
                status=status,
                lane=request.lane,
                user=user,
                at=self.clock.monotonic(),
            )
        )

    def _verb(self, request: HttpRequest) -> str:
        if request.method != "GET":
            return {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[request.method]
        if ("watch", "1") in request.query:
            return "watch"
        try:
            return "get" if self._router.route(request.path).name else "list"
        except Problem:
            return "get"


class SimTransport:
    """A ``Transport`` to the simulated server; ``cut`` makes it unreachable, as a network partition does."""

    def __init__(self, server: SimApiServer, user: str) -> None:
        self.cut = False
        self._server = server
        self._user = user
        self._watches: list[Watch] = []

    async def request(self, request: HttpRequest) -> HttpResponse:
        """Carry the request there and the answer back, each way with its latency, faults permitting."""
        await self._travel(sent=False)
        response = await self._respond(request)
        self._server.note(request, self._user, response.status)
        await self._travel(sent=True)
        return response

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncIterator[HttpStream]:
        """Open a watch; a silent stream breaks after ``INACTIVITY_SECONDS``."""
        server = self._server
        await self._travel(sent=False)
        fault = server.faults.pick(request)
        if isinstance(fault, Lose | Hang | Late):
            await self._lose(request, effect=False)
        try:
            if isinstance(fault, Answer):
                raise fault.problem()
            watch = server.open_watch(request)
        except Problem as problem:
            server.note(request, self._user, problem.code)
            response = problem_response(problem)
            yield HttpStream(status=response.status, headers=response.headers, chunks=_whole(response.body))
            return
        server.note(request, self._user, 200)
        self._watches.append(watch)
        try:
            async with aclosing(self._chunks(watch)) as chunks:
                yield HttpStream(status=200, headers={}, chunks=chunks)
        finally:
            self._watches.remove(watch)
            server.close_watch(watch)

    async def aclose(self) -> None:
        """Become unreachable for good."""
        self.partition()

    def partition(self) -> None:
        """Cut this client off: its streams go silent and its requests find nobody."""
        self.cut = True
        for watch in self._watches:
            watch.silence()

    async def _chunks(self, watch: Watch) -> AsyncGenerator[bytes, None]:
        async with aclosing(watch.chunks()) as chunks:
            while True:
                try:
                    with anyio.fail_after(INACTIVITY_SECONDS):
                        chunk = await anext(chunks)
                except StopAsyncIteration:
                    return
                except TimeoutError:
                    raise TransportError(f"the stream was silent for {INACTIVITY_SECONDS} s", sent=True) from None
                await self._server.pause()
                yield chunk

    async def _travel(self, *, sent: bool) -> None:
        await self._server.pause()
        if self.cut:
            raise TransportError("the API server is unreachable", sent=sent)

    async def _respond(self, request: HttpRequest) -> HttpResponse:
        server = self._server
        fault = server.faults.pick(request)
        if fault is None:
            return server.handle(request, self._user)
        if isinstance(fault, Lose):
            await self._lose(request, effect=fault.effect)
        if isinstance(fault, Late):
            loop = asyncio.get_running_loop()
            loop.call_later(request.timeout + fault.seconds, server.handle, request, self._user)
        elif fault.effect:
            server.handle(request, self._user)
        if isinstance(fault, Answer):
            return problem_response(fault.problem())
        server.note(request, self._user, 0)
        await asyncio.sleep(request.timeout)
        raise TransportError(f"no answer within {request.timeout} s", sent=True)

    async def _lose(self, request: HttpRequest, *, effect: bool) -> NoReturn:
        if effect:
            self._server.handle(request, self._user)
        self._server.note(request, self._user, 0)
        await self._server.pause()
        raise TransportError("the connection was reset", sent=True)


async def _whole(body: bytes) -> AsyncIterator[bytes]:
    yield body
