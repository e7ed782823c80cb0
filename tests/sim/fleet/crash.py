"""Crash points: every step of every decision, and what may happen to a process around it."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum

from magos.runtime.client.transport import HttpRequest, HttpResponse, HttpStream, TransportError
from magos.runtime.controller.effects import Step
from magos.runtime.decision import Create, StatusPatch
from tests.sim.apiserver import SimTransport

__all__ = ["CrashPlan", "Died", "FragileTransport", "Moment", "StepTrap"]


class Moment(StrEnum):
    """When a process dies, relative to one step."""

    BEFORE = "before"
    AFTER = "after"
    LOST_ANSWER = "after, but an error is returned"


class Died(Exception):
    """Ends the decision of a process that is dead already."""


@dataclass
class CrashPlan:
    """Strike the ``number``-th step (from 0) of all processes that share the plan, at that moment.

    A process that loses an answer lives on and has to find out; ``dies_of_lost_answers`` leaves that to its successor.
    """

    number: int = -1
    moment: Moment = Moment.BEFORE
    dies_of_lost_answers: bool = False
    seen: int = 0
    struck: str = ""

    def strikes(self) -> bool:
        """Tell whether the step that is about to be carried out is the one, and count it."""
        self.seen += 1
        return self.seen - 1 == self.number


class FragileTransport:
    """A connection to the simulated server that can lose the answer to the next write."""

    def __init__(self, inner: SimTransport) -> None:
        self.inner = inner
        self.lose_next_answer = False
        self.on_lost: Callable[[], None] = lambda: None

    async def request(self, request: HttpRequest) -> HttpResponse:
        """Carry the request out; the answer to an armed write never arrives."""
        strikes = self.lose_next_answer and request.method != "GET" and _is_effect(request.path)
        if strikes:
            self.lose_next_answer = False
        response = await self.inner.request(request)
        if strikes:
            self.on_lost()
            raise TransportError("the connection was reset", sent=True)
        return response

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[HttpStream]:
        """Open a watch."""
        return self._stream(request)

    async def aclose(self) -> None:
        """Become unreachable for good."""
        await self.inner.aclose()

    def cut(self) -> None:
        """Nothing gets through any more: the process is dead, or as good as dead."""
        self.inner.partition()

    @asynccontextmanager
    async def _stream(self, request: HttpRequest) -> AsyncIterator[HttpStream]:
        async with self.inner.stream(request) as stream:
            yield stream


class StepTrap:
    """The executor's observer in one process: counts steps in the shared plan and strikes where it says."""

    def __init__(self, plan: CrashPlan, transport: FragileTransport, die: Callable[[], None]) -> None:
        self._plan = plan
        self._transport = transport
        self._die = die
        self._mine: Step | None = None
        transport.on_lost = self._lost

    def before(self, step: Step) -> None:
        """Nothing of the step has been done."""
        plan = self._plan
        if not plan.strikes():
            return
        plan.struck = _name(step)
        if plan.moment is Moment.BEFORE:
            self._die()
            raise Died
        self._mine = step
        self._transport.lose_next_answer = plan.moment is Moment.LOST_ANSWER

    def after(self, step: Step) -> None:
        """The step is done and acknowledged."""
        if step is not self._mine:
            return
        self._mine = None
        self._transport.lose_next_answer = False
        if self._plan.moment is Moment.AFTER:
            self._die()
            raise Died

    def _lost(self) -> None:
        self._mine = None
        if self._plan.dies_of_lost_answers:
            self._die()


def _is_effect(path: str) -> bool:
    return "/leases" not in path and "/events" not in path


def _name(step: Step) -> str:
    action = step.action
    if isinstance(action, StatusPatch):
        return f"status of {action.kind.name}"
    target = action.manifest.metadata.name if isinstance(action, Create) else action.name
    return f"{type(action).__name__} {action.kind.name} {target}"
