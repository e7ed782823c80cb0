"""The life of a controller process: start order, stop order, exit codes.

Start: servers first (probes answer before anything is ready), then Events and caches, then, when the caches are filled,
the election, and controllers only while leading. A standby keeps its caches warm.

Stop, on the first SIGTERM or SIGINT: no new pass, those under way are finished within ``grace``; then the Lease is
given back; then Events are sent for a moment; then caches and servers end. A second signal ends the grace.

Exit codes: 0 a clean stop; 1 lost leadership (everything is cancelled at once) or the death of any task, because dead
work under a live Lease is worse than a restart; 2 a wrong setting.
"""

import random
from collections.abc import Awaitable, Callable, Iterator

import anyio
import structlog

from magos.errors import ConfigurationError, InvariantViolation
from magos.runtime.client.transport import Transport
from magos.runtime.clock import Clock
from magos.runtime.controller.controller import Controller
from magos.runtime.leaderelection.elector import LeadershipLost
from magos.runtime.manager.composition import Composition, ControllerApp, Host

EVENTS_DRAIN = 2.0
SYNC_REPORT = 30.0

_log = structlog.get_logger(__name__)


class Manager:
    """One process. Raises ``ConfigurationError`` for settings that cannot be kept."""

    def __init__(
        self, app: ControllerApp, transport: Transport, *, clock: Clock, rng: random.Random, host: Host | None = None
    ) -> None:
        self._transport = transport
        self._host = host or Host()
        self._parts = Composition(app, transport, clock=clock, rng=rng, host=self._host)
        self._stop = anyio.Event()
        self._hurry = anyio.Event()

    @property
    def parts(self) -> Composition:
        """What the process consists of."""
        return self._parts

    def request_stop(self) -> None:
        """Ask for a clean stop; asked again, passes under way are given no more time."""
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()

    async def run(self) -> int:
        """Live until asked to stop or until something dies; return the exit code."""
        code = 0
        try:
            await self._live()
        except* ConfigurationError as wrong:
            code = 2
            _log.error("process cannot start", error=str(next(_leaves(wrong))))
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
            for server in self._parts.servers:
                await group.start(server.run)
            group.start_soon(self._parts.monitor.run)
            if self._parts.certificate is not None:
                group.start_soon(self._parts.certificate.keep_fresh)
            for informer in self._parts.informers:
                group.start_soon(_forever, f"informer of {informer.kind.resource}", informer.run)
            events = anyio.Event()
            group.start_soon(self._send_events, events)
            if await self._unless_stopped(self._fill_caches):
                await self._lead()
            self._parts.recorder.close()
            with anyio.move_on_after(EVENTS_DRAIN):
                await events.wait()
            group.cancel_scope.cancel()

    async def _send_events(self, done: anyio.Event) -> None:
        await self._parts.recorder.run()
        done.set()

    async def _fill_caches(self) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self._report_unfilled)
            for informer in self._parts.informers:
                await informer.wait_synced()
            group.cancel_scope.cancel()
        self._host.on_filled()
        _log.info("caches filled", kinds=[each.kind.resource for each in self._parts.informers])

    async def _report_unfilled(self) -> None:
        while True:
            await anyio.sleep(SYNC_REPORT)
            _log.warning("still waiting", problem=self._parts.unready())

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
        if self._parts.elector is None:
            await self._work()
            return
        async with anyio.create_task_group() as group:

            async def withdraw() -> None:
                await self._stop.wait()
                if not self._parts.working:
                    group.cancel_scope.cancel()

            group.start_soon(withdraw)
            await self._parts.elector.run(self._work)
            group.cancel_scope.cancel()

    async def _work(self) -> None:
        """Run the controllers until asked to stop, then let them finish what they have begun."""
        self._parts.begin()
        try:
            async with anyio.create_task_group() as group:
                ended = [anyio.Event() for _ in self._parts.controllers]
                for controller, end in zip(self._parts.controllers, ended, strict=True):
                    group.start_soon(self._control, controller, end)
                for name, companion in self._parts.companions:
                    group.start_soon(_forever, name, companion)
                await self._stop.wait()
                for controller in self._parts.controllers:
                    controller.stop()
                group.start_soon(self._cut_short, group.cancel_scope)
                for end in ended:
                    await end.wait()
                group.cancel_scope.cancel()
        finally:
            self._parts.working = False

    async def _control(self, controller: Controller, end: anyio.Event) -> None:
        await controller.run()
        if not self._stop.is_set():
            raise InvariantViolation(f"controller {controller.name} ended by itself")
        end.set()

    async def _cut_short(self, scope: anyio.CancelScope) -> None:
        with anyio.move_on_after(self._parts.app.settings.grace):
            await self._hurry.wait()
        _log.warning("passes did not finish in time and are cancelled", grace=self._parts.app.settings.grace)
        scope.cancel()


async def _forever(what: str, run: Callable[[], Awaitable[None]]) -> None:
    await run()
    raise InvariantViolation(f"the {what} ended by itself")


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
