"""Leader election by Lease: at most one replica works.

The promise: at no time do two electors say ``still_leading``, whatever requests are delayed, lost or committed without
an answer, however wall clocks jump, and as long as monotonic clocks run at rates that differ by less than a quarter.
The reason:

1. A holder may act until the *sending* time of its last successful renewal + D·(1-0.2), with D the lease duration.
2. A rival takes over when D has passed on its own clock since it *first saw* the Lease in its present version.
3. sent <= committed <= seen, so the right to act ends before the takeover; every write is conditional on the version.

Only the monotonic clock counts (suspended time included). Wall time is written into the Lease for people to read and
never judged. A request that is on the wire when the right ends is beyond any lease: preconditions and unique names are
the fence there. If the Lease is deleted, candidates that have seen it wait as if it were still there; only one
that starts at that very moment cannot know.

The holder renews every 2 s, and gives up when 10 s have passed since it sent the last successful renewal; then, or when
it sees another holder, the fence closes at once, the guarded work is cancelled and awaited, and ``LeadershipLost`` ends
the process. When the work ends by itself, well or not, the Lease is given back after it, so that a successor need not
wait.
"""

import math
import random
from collections.abc import Awaitable, Callable
from typing import Protocol

import anyio
import structlog

from magos.api.kube import Lease
from magos.errors import MagosError
from magos.runtime.client.errors import ApiError
from magos.runtime.clock import Clock
from magos.runtime.leaderelection.record import Candidate, LeaseRecords, Timing
from magos.runtime.leaderelection.resourcelock import LeaseStore

_log = structlog.get_logger(__name__)

_NEVER = -math.inf
_SHORTEST_WAIT = 0.05
_SHORTEST_CALL = 0.05


class LeadershipLost(MagosError):
    """This process led and may not go on; its guarded work has ended. The process exits non-zero and is restarted."""


class StopGuard(Protocol):
    """Makes sure that work stops even if the loop does not run (``watchdog.Watchdog``)."""

    def arm(self, until: float) -> None:
        """The right to act ends at this reading of the monotonic clock."""
        ...

    def disarm(self) -> None:
        """The guarded work has ended."""
        ...


class LeaderElector:
    """One replica's part in the election. All its methods belong to the loop's thread."""

    def __init__(
        self,
        candidate: Candidate,
        store: LeaseStore,
        clock: Clock,
        rng: random.Random,
        guard: StopGuard,
        timing: Timing = Timing(),  # noqa: B008 - frozen
    ) -> None:
        self._candidate = candidate
        self._store = store
        self._clock = clock
        self._rng = rng
        self._guard = guard
        self._timing = timing
        self._records = LeaseRecords(candidate, timing, clock)
        self._seen: Lease | None = None
        self._seen_at = _NEVER
        self._sent_at = _NEVER
        self._valid_until = _NEVER
        self._stale = False
        self._log = _log.bind(lease=f"{candidate.namespace}/{candidate.name}", identity=candidate.identity)

    # --- for others to ask ----------------------------------------------------------------------------------------

    def still_leading(self) -> bool:
        """Tell whether this process may act right now. Asked right before every write; costs one clock reading."""
        return self._clock.monotonic() < self._valid_until

    @property
    def holder(self) -> str:
        """The holder named by the Lease when it was last seen, empty if there is none."""
        return (self._seen.spec.holder_identity or "") if self._seen is not None else ""

    @property
    def term(self) -> int:
        """How often the Lease had changed hands when it was last seen: numbers the terms in logs."""
        return (self._seen.spec.lease_transitions or 0) if self._seen is not None else 0

    # --- the life of a replica ------------------------------------------------------------------------------------

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait for leadership, do ``work`` while it lasts, give the Lease back after it.

        Returns when ``work`` returned, and raises what it raised. Raises ``LeadershipLost`` after leadership was lost
        and the work, cancelled, has ended. Cancelling ``run`` cancels the work, awaits it, and gives the Lease back.
        """
        await self._acquire()
        self._log.info("leading", term=self.term)
        failure: Exception | None = None
        lost = ""
        try:
            async with anyio.create_task_group() as group:

                async def keep() -> None:
                    nonlocal lost
                    lost = await self._renew_until_lost()
                    group.cancel_scope.cancel()

                group.start_soon(keep)
                try:
                    await work()
                except Exception as error:  # noqa: BLE001 - raised below, outside of the group
                    failure = error
                group.cancel_scope.cancel()
        finally:
            held = self.still_leading()
            self._end_term()
            self._guard.disarm()
            if held and not lost:
                await self._release()
        if lost:
            raise LeadershipLost(
                f"leadership of Lease {self._candidate.namespace}/{self._candidate.name} is lost: {lost}; "
                "all work was stopped, the process ends and competes again after its restart"
            ) from failure
        if failure is not None:
            raise failure

    async def _acquire(self) -> None:
        try:
            while not await self._try_to_acquire():  # noqa: ASYNC110 - what is waited for happens in the API server
                await anyio.sleep(self._pause())
        except anyio.get_cancelled_exc_class():
            if self._stale:  # a claim of ours may be on its way
                await self._release()
            raise

    def _pause(self) -> float:
        """Return how long a candidate waits: at most one retry, less if the Lease runs out before.

        What is seen late is taken over late, so the jitter only shortens: 17 s after a crash there is a new leader.
        """
        usual = self._timing.retry * self._rng.uniform(0.5, 1)
        rest = self._expires_at() - self._clock.monotonic()
        if 0 < rest < usual:
            return max(_SHORTEST_WAIT, rest + _SHORTEST_WAIT * self._rng.random())
        return usual

    async def _try_to_acquire(self) -> bool:
        try:
            with anyio.fail_after(self._timing.retry):
                lease = await self._store.get(self._timing.retry)
            if lease is not None:
                self._see(lease)
            if self._held_by_another():  # also where the Lease was deleted: its holder may not know yet
                return False
            return await self._write(self._records.new_lease() if lease is None else self._records.claimed(lease))
        except (ApiError, TimeoutError) as error:
            self._stale = True
            lasting = isinstance(error, ApiError) and error.permanent
            (self._log.error if lasting else self._log.info)("cannot acquire the lease yet", error=_text(error))
            return False

    async def _renew_until_lost(self) -> str:
        """Renew as long as it works; return why it does not any more."""
        while True:
            started = self._clock.monotonic()
            left = self._sent_at + self._timing.renew - started
            if left <= 0:
                return self._end_term(f"no renewal succeeded for {self._timing.renew:g} s")
            next_at = self._sent_at + self._timing.retry
            if started < next_at:
                await anyio.sleep(max(_SHORTEST_WAIT, next_at - started))
                continue
            if not await self._renew_once():
                self._guard.arm(min(self._valid_until, self._clock.monotonic()))  # a rival may act: be quick
                return self._end_term(f"its holder is {self.holder or 'empty'} now")
            rest = started + self._timing.retry - self._clock.monotonic()
            if self._sent_at < started and rest > 0:  # it failed: try again in step, but not after the end
                await anyio.sleep(max(_SHORTEST_WAIT, min(rest, left)))

    async def _renew_once(self) -> bool:
        """Try to renew; return False if another holds the Lease."""
        timeout = self._call_timeout()
        try:
            if self._stale:
                with anyio.fail_after(timeout):
                    self._see(await self._store.get(timeout))
            if self._seen is not None and self.holder != self._candidate.identity:
                return False
            await self._write(self._records.new_lease() if self._seen is None else self._records.renewed(self._seen))
        except (ApiError, TimeoutError) as error:
            self._stale = True
            self._log.warning("cannot renew the lease", error=_text(error))
        return True

    def _call_timeout(self) -> float:
        remaining = self._sent_at + self._timing.renew - self._clock.monotonic()
        return max(_SHORTEST_CALL, min(self._timing.retry, remaining / 2))

    async def _write(self, lease: Lease) -> bool:
        """Write a record of ours. Only a confirmed one counts, from the moment before it was sent."""
        timeout = self._call_timeout() if self.still_leading() else self._timing.retry
        sent_at = self._clock.monotonic()
        self._stale = True  # until answered, also where the call is cancelled: it may have been carried out
        call = self._store.replace if lease.metadata.resource_version else self._store.create
        with anyio.fail_after(timeout):
            self._see(await call(lease, timeout))
        if self._clock.monotonic() >= sent_at + self._timing.validity:
            return False  # confirmed too late to be worth anything
        self._sent_at = sent_at
        self._valid_until = sent_at + self._timing.validity
        self._guard.arm(self._valid_until)
        return True

    async def _release(self) -> None:
        """Give the Lease back if it is ours; a renewal that was cut short may still come between."""
        try:
            with anyio.fail_after(self._timing.retry, shield=True):
                while not await self._try_to_release():  # noqa: ASYNC110
                    await anyio.sleep(_SHORTEST_WAIT)
        except (ApiError, TimeoutError) as error:
            self._log.warning("cannot give the lease back, it runs out by itself", error=_text(error))

    async def _try_to_release(self) -> bool:
        if self._stale:
            self._see(await self._store.get(self._timing.retry))
        if self._seen is None or self.holder != self._candidate.identity:
            return True
        try:
            self._see(await self._store.replace(self._records.released(self._seen), self._timing.retry))
        except ApiError as error:
            self._stale = True
            if error.conflict:
                return False
            raise
        self._log.info("lease given back")
        return True

    def _end_term(self, why: str = "") -> str:
        """Close the fence; ``why`` it was lost, empty if the work has ended by itself."""
        if why:
            self._log.error("leadership lost", reason=why)
        self._valid_until = _NEVER
        return why

    # --- the Lease ------------------------------------------------------------------------------------------------

    def _see(self, lease: Lease | None) -> None:
        """Remember the Lease, and when this version of it was first seen: read the clock after the answer."""
        known = self._seen
        self._stale = False
        self._seen = lease
        if lease is None or known is None or lease.metadata.resource_version != known.metadata.resource_version:
            self._seen_at = self._clock.monotonic()

    def _held_by_another(self) -> bool:
        others = self.holder not in ("", self._candidate.identity)
        return others and self._clock.monotonic() < self._expires_at()

    def _expires_at(self) -> float:
        duration = self._seen.spec.lease_duration_seconds if self._seen is not None else None
        return self._seen_at + (duration or self._timing.lease)


def _text(error: Exception) -> str:
    return str(error) or "no answer in time"
