"""The life of a controller process: start order, stop order, exit codes.

Start: servers first (probes answer before anything is ready), then Events and caches, then, when the caches are filled,
the election, and controllers only while leading. A standby keeps its caches warm.

Stop, on the first SIGTERM or SIGINT: no new pass, those under way are finished within ``grace``; then the Lease is
given back; then Events are sent for a moment; then caches and servers end. A second signal ends the grace.

Exit codes: 0 a clean stop; 1 lost leadership (everything is cancelled at once) or the death of any task, because dead
work under a live Lease is worse than a restart; 2 a wrong setting.
"""

import random
from collections.abc import Awaitable, Callable, Iterator, Sequence

import anyio
import structlog
from msgspec import Struct

from magos.errors import InvariantViolation
from magos.runtime.assembly import Assembly
from magos.runtime.client import ApiClient
from magos.runtime.clock import Clock
from magos.runtime.controller import Controller, ControllerSpec, Machinery
from magos.runtime.effects import Executor
from magos.runtime.events import EventRecorder
from magos.runtime.leaderelection import Candidate, LeaderElector, LeadershipLost, StopGuard
from magos.runtime.leases import ApiLease
from magos.runtime.settings import Settings
from magos.runtime.transport import Transport

__all__ = ["ControllerApp", "Manager"]

EVENTS_DRAIN = 2.0
STUCK_AFTER = 300.0
SYNC_REPORT = 30.0

_log = structlog.get_logger(__name__)


class ControllerApp(Struct, frozen=True, kw_only=True):
    """One controller process. ``name`` (``workspace-controller``) is the Lease's default name and who reports Events.

    ``build`` declares the informers and returns the controllers over them; it does no I/O.
    """

    name: str
    settings: Settings
    build: Callable[[Assembly], Sequence[ControllerSpec]]


class _Unguarded:
    def arm(self, until: float) -> None:
        """There is no lease to guard."""

    def disarm(self) -> None:
        """There is no lease to guard."""


class Manager:
    """One process, composed.

    ``guard`` ends the process if the loop cannot (``watchdog.Watchdog``); ``on_filled`` is called once all caches are.
    """

    def __init__(
        self,
        app: ControllerApp,
        transport: Transport,
        *,
        clock: Clock,
        rng: random.Random,
        guard: StopGuard | None = None,
        on_filled: Callable[[], None] = lambda: None,
    ) -> None:
        self._app = app
        self._settings = app.settings
        self._transport = transport
        self._on_filled = on_filled
        self._clock = clock
        self._stop = anyio.Event()
        self._hurry = anyio.Event()
        self._working = False
        self._synced = False
        client = ApiClient(transport)
        self._assembly = Assembly(client, clock, rng, app.settings)
        specs = app.build(self._assembly)
        self._elector = self._candidate(client, rng, guard or _Unguarded()) if app.settings.leader_elect else None
        self._recorder = EventRecorder(client, clock, rng, reporter=(app.name, app.settings.identity or app.name))
        caches = self._assembly.caches()
        machinery = Machinery(
            client=client,
            clock=clock,
            rng=rng,
            informers=self._assembly.informers,
            caches=caches,
            executor=Executor(client, caches, still_leading=self.still_leading, emit=self._recorder.emit),
        )
        self._controllers = tuple(Controller(spec, machinery) for spec in specs)

    def still_leading(self) -> bool:
        """Tell whether this process may write right now."""
        return self._working and (self._elector is None or self._elector.still_leading())

    def request_stop(self) -> None:
        """Ask for a clean stop; asked again, passes under way are given no more time."""
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()

    def unready(self) -> str:
        """Return what is not ready yet, empty if everything is; a standby is ready."""
        unfilled = [each.kind.resource for each in self._assembly.informers if not each.synced]
        return f"caches not filled: {', '.join(unfilled)}" if unfilled else ""

    def unhealthy(self) -> str:
        """Return what is stuck, empty if nothing is."""
        stuck = [f"{each.name} {key}" for each in self._controllers for key in each.stuck(STUCK_AFTER)]
        return f"workers stuck for {STUCK_AFTER:g} s: {', '.join(stuck)}" if stuck else ""

    async def run(self) -> int:
        """Live until asked to stop or until something dies; return the exit code."""
        code = 0
        try:
            await self._live()
        except* LeadershipLost as lost:
            code = 1
            _log.error("process ends", error=str(next(_leaves(lost))))
        except* Exception as group:  # noqa: BLE001 - whatever killed a task ends the process
            code = 1
            for error in _leaves(group):
                _log.error("task died, process ends", error=str(error), exc_info=error)
        finally:
            with anyio.CancelScope(shield=True):
                await self._transport.aclose()
        _log.info("process ended", code=code)
        return code

    async def _live(self) -> None:
        async with anyio.create_task_group() as group:
            for informer in self._assembly.informers:
                group.start_soon(_forever, f"informer of {informer.kind.resource}", informer.run)
            events = anyio.Event()
            group.start_soon(self._send_events, events)
            if await self._unless_stopped(self._fill_caches):
                await self._lead()
            self._recorder.close()
            with anyio.move_on_after(EVENTS_DRAIN):
                await events.wait()
            group.cancel_scope.cancel()

    async def _send_events(self, done: anyio.Event) -> None:
        await self._recorder.run()
        done.set()

    async def _fill_caches(self) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self._report_unfilled)
            for informer in self._assembly.informers:
                await informer.wait_synced()
            group.cancel_scope.cancel()
        self._on_filled()
        _log.info("caches filled", kinds=[each.kind.resource for each in self._assembly.informers])

    async def _report_unfilled(self) -> None:
        while True:
            await anyio.sleep(SYNC_REPORT)
            _log.warning("still waiting", problem=self.unready())

    async def _unless_stopped(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Do ``work``; give it up and return False if the process is asked to stop meanwhile."""
        async with anyio.create_task_group() as group:

            async def watch() -> None:
                await self._stop.wait()
                group.cancel_scope.cancel()

            group.start_soon(watch)
            await work()
            group.cancel_scope.cancel()
        return not self._stop.is_set()

    async def _lead(self) -> None:
        if self._elector is None:
            await self._work()
            return
        async with anyio.create_task_group() as group:

            async def withdraw() -> None:
                await self._stop.wait()
                if not self._working:
                    group.cancel_scope.cancel()

            group.start_soon(withdraw)
            await self._elector.run(self._work)
            group.cancel_scope.cancel()

    async def _work(self) -> None:
        """Run the controllers until asked to stop, then let them finish what they have begun."""
        self._working = True
        try:
            async with anyio.create_task_group() as group:
                ended = [anyio.Event() for _ in self._controllers]
                for controller, end in zip(self._controllers, ended, strict=True):
                    group.start_soon(self._control, controller, end)
                await self._stop.wait()
                for controller in self._controllers:
                    controller.stop()
                group.start_soon(self._cut_short, group.cancel_scope)
                for end in ended:
                    await end.wait()
                group.cancel_scope.cancel()
        finally:
            self._working = False

    async def _control(self, controller: Controller, end: anyio.Event) -> None:
        await controller.run()
        if not self._stop.is_set():
            raise InvariantViolation(f"controller {controller.name} ended by itself")
        end.set()

    async def _cut_short(self, scope: anyio.CancelScope) -> None:
        with anyio.move_on_after(self._settings.grace):
            await self._hurry.wait()
        _log.warning("passes did not finish in time and are cancelled", grace=self._settings.grace)
        scope.cancel()

    def _candidate(self, client: ApiClient, rng: random.Random, guard: StopGuard) -> LeaderElector:
        settings = self._settings
        name = settings.leader_elect_id or self._app.name
        identity = f"{settings.identity or self._app.name}_{rng.getrandbits(64):016x}"
        candidate = Candidate(namespace=settings.namespace, name=name, identity=identity)
        store = ApiLease(client, settings.namespace, name)
        return LeaderElector(candidate, store, self._clock, rng, guard)


async def _forever(what: str, run: Callable[[], Awaitable[None]]) -> None:
    await run()
    raise InvariantViolation(f"the {what} ended by itself")


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
