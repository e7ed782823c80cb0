"""Carries out the schedule: one task per listing, woken when something is due, and results handed to the controller.

Nothing is written here. The answer to a poll is judged by the same function as in a pass; where that decides
something, the Workspace's pass is woken and carries it out, with everything a pass has: fence,
conditional writes, retries.
"""

import random
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Protocol

import anyio
import anyio.abc
import structlog

from magos.api.reasons import Reason
from magos.api.workspace import Workspace
from magos.reconcilers.refwatcher.machine import Failure, Observation, PollResult, compare, reconcile, told_reason
from magos.reconcilers.refwatcher.schedule import Listing, Poll, PollLimits, PollScheduler
from magos.reconcilers.refwatcher.watch import Watch
from magos.runtime.client.errors import ApiError
from magos.runtime.clock import Clock
from magos.runtime.controller.source import WakeUp
from magos.runtime.controller.workqueue import Key
from magos.runtime.decision import Decision

Lister = Callable[[Poll], Awaitable[Listing]]
FindWorkspace = Callable[[str, str], Workspace | None]

_log = structlog.get_logger(__name__)


class PollObserver(Protocol):
    """Gets every listing and what it meant for each Workspace, synchronously."""

    def listed(self, seconds: float) -> None:
        """A listing took this long, credentials and queueing for threads included."""
        ...

    def judged(self, key: Key, result: PollResult) -> None:
        """A Workspace has got an answer."""
        ...


class _Unobserved:
    def listed(self, seconds: float) -> None:
        """Do nothing."""

    def judged(self, key: Key, result: PollResult) -> None:
        """Do nothing."""


class Poller:
    """The registry and its workers; everything but ``run`` is synchronous and belongs on the loop."""

    def __init__(
        self,
        limits: PollLimits,
        lister: Lister,
        find: FindWorkspace,
        wake_up: WakeUp,
        *,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self.schedule = PollScheduler(limits)
        self.observer: PollObserver = _Unobserved()
        self._lister = lister
        self._find = find
        self._wake_up = wake_up
        self._clock = clock
        self._rng = rng
        self._changed = anyio.Event()

    def track(self, key: Key, watch: Watch) -> None:
        """Poll a Workspace as ``watch`` says."""
        self.schedule.track(key, watch, self._clock.monotonic(), self._rng.random())
        self._changed.set()

    def drop(self, key: Key) -> None:
        """Poll a Workspace no more."""
        if key in self.schedule:
            self.schedule.drop(key)
            self._changed.set()

    def judge(self, key: Key, workspace: Workspace, at: datetime) -> Decision:
        """Return what the last poll means for a Workspace; once nothing is left to do, it is dealt with."""
        watch, now = self.schedule.watch(key), self._clock.monotonic()
        seen = Observation(
            now=at,
            workspace=workspace,
            polled=watch is not None,
            answer=self.schedule.answer(key),
            similar=watch.access.similar if watch is not None else (),
            told=self.schedule.told(key, now),
        )
        decision = reconcile(seen)
        if seen.answer is not None and nothing_to_do(decision):
            self.schedule.done(key, told_reason(seen), now)
        return decision

    async def run(self) -> None:
        """Poll for ever."""
        async with anyio.create_task_group() as group:
            while True:
                self._changed = anyio.Event()
                self._start_due(group)
                due = self.schedule.next_due()
                pause = None if due is None else max(due - self._clock.monotonic(), 0.0)
                with anyio.move_on_after(pause):
                    await self._changed.wait()

    def _start_due(self, group: anyio.abc.TaskGroup) -> None:
        while (poll := self.schedule.take(self._clock.monotonic())) is not None:
            group.start_soon(self._poll, poll, name=f"poll of {len(poll.members)} workspaces")

    async def _poll(self, poll: Poll) -> None:
        began = self._clock.monotonic()
        listing = await self._list(poll)
        now = self._clock.monotonic()
        self.observer.listed(now - began)
        answered = self.schedule.finish(poll, listing, now)
        self._changed.set()
        at = self._clock.now()
        for name in answered:
            self._hand_over(Key(*name), at)
        if poll.access.problem or not listing.results:  # perhaps there are other credentials by now
            for name in poll.members:
                self._wake_up.wake(Key(*name))

    async def _list(self, poll: Poll) -> Listing:
        """Return the answer; without one the source is asked again soon, and no Workspace gets an answer."""
        example = min(poll.members)
        if poll.access.problem:
            failure = Failure(Reason.GIT_AUTHENTICATION_FAILED, poll.access.problem)
            return Listing(results=dict.fromkeys(poll.targets, failure))
        try:
            return await self._lister(poll)
        except ApiError as error:
            _log.warning(
                "credentials cannot be read", namespace=poll.namespace, secret=poll.access.secret, error=error.message
            )
        except Exception:  # noqa: BLE001 - no source ends the polling of the others
            _log.exception("poll raised", namespace=example[0], name=example[1])
        return Listing()

    def _hand_over(self, key: Key, at: datetime) -> None:
        answer, workspace = self.schedule.answer(key), self._find(*key)
        if answer is None or workspace is None:
            return
        self.observer.judged(key, compare(workspace, answer))
        if not nothing_to_do(self.judge(key, workspace, at)):
            self._wake_up.wake(key)


def nothing_to_do(decision: Decision) -> bool:
    """Tell whether a decision writes nothing."""
    return decision.status is None and not decision.effects
