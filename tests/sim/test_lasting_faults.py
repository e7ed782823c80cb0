"""A request that is answered wrongly for minutes: tries grow logarithmically, and everything heals unaided."""

import math
from datetime import datetime
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from magos.runtime.client.transport import HttpRequest
from magos.runtime.decision import Decision, LiveGet, Outcome, PatchAnnotations, Request, StatusPatch, Unreadable, View
from tests.sim.apiserver import Answer, Rule
from tests.sim.apiserver.faults import Fault, Hang, Lose
from tests.sim.toy import WIDGETS
from tests.sim.world import Process, World, in_world

MINUTE = 60.0
_FIRST_BACKOFF = 0.005
_REQUESTS_PER_TRY = 8
"""Reads and writes of one pass, what is looked up about them included."""

FAULTS: dict[str, Fault] = {
    "500": Answer(),
    "500 with effect": Answer(effect=True),
    "409": Answer(code=409, reason="Conflict", message="the object has been modified"),
    "403": Answer(code=403, reason="Forbidden", message="forbidden by a webhook"),
    "429": Answer(code=429, reason="TooManyRequests", message="slow down", retry_after=1),
    "reset": Lose(),
    "reset with effect": Lose(effect=True),
    "silence": Hang(),
}
REQUESTS = {
    "create configmaps": ("POST", "/configmaps"),
    "patch widgets": ("PATCH", "/widgets/a"),
    "patch status": ("PATCH", "/status"),
    "delete configmaps": ("DELETE", "/configmaps/"),
    "read widgets": ("GET", "/widgets/a"),
}


def most_tries(seconds: float) -> float:
    """Return how often a key may be tried in so many seconds: the back-off doubles up to 1,000 s."""
    return 4 + math.log2(seconds / _FIRST_BACKOFF) + seconds / 1000


@pytest.mark.parametrize("minutes", [1, 10, 60])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("request_", REQUESTS)
def test_a_fault_that_lasts_is_met_with_growing_pauses_and_heals(request_: str, fault: str, minutes: int) -> None:
    async def scene(world: World) -> None:
        process = Process(world)
        async with process.running():
            await world.create("a")
            await world.until(lambda: world.is_ready("a", 1))
            await anyio.sleep(MINUTE)
            method, path = REQUESTS[request_]
            skip = 1 if (method, path) == ("PATCH", "/widgets/a") else 0  # the user's own request
            rule = Rule(fault=FAULTS[fault], methods=frozenset({method}), path=path, skip=skip, times=None)
            world.server.faults.add(rule)
            world.server.served.clear()
            process.reports.clear()
            await world.resize("a", 2)
            await anyio.sleep(minutes * MINUTE)
            tried, requests = len(process.reports), len(controller_requests(world))
            world.server.faults.clear()
            bound = most_tries(minutes * MINUTE)
            assert tried <= 2 * bound, f"{tried} passes in {minutes} min"
            assert requests <= _REQUESTS_PER_TRY * bound, f"{requests} requests in {minutes} min"
            size = 2
            if fault == "403":  # a Widget that was refused waits for another spec
                size = 3
                await world.resize("a", size)
            await world.until(lambda: world.is_ready("a", size), within=1100 + minutes * MINUTE)

    in_world(scene)


def restless(request: Request, view: View, now: datetime) -> Decision:
    """Say something new in every pass, then do what is going to fail."""
    widget = view.get(WIDGETS, request.namespace, request.name)
    if widget is None:
        return Decision(outcome=Outcome.GONE)
    meta = widget.metadata
    name: dict[str, Any] = {"kind": WIDGETS, "namespace": meta.namespace, "name": meta.name}
    desired = replace(widget.status, message=now.isoformat())
    status = StatusPatch(**name, resource_version=meta.resource_version, observed=widget.status, desired=desired)
    return Decision(status=status, effects=(PatchAnnotations(**name, uid=meta.uid, annotations={"a": "1"}),))


@pytest.mark.parametrize("fault", ["500", "409", "reset"])
def test_watch_events_of_own_writes_do_not_cut_the_pauses_short(fault: str) -> None:
    async def scene(world: World) -> None:
        rule = Rule(
            fault=FAULTS[fault], methods=frozenset({"PATCH"}), path="/widgets/a", times=None, only=_is_no_status
        )
        world.server.faults.add(rule)
        process = Process(world, reconcile=restless)
        async with process.running():
            await world.create("a")
            await anyio.sleep(10 * MINUTE)
            assert len(process.reports) <= 2 * most_tries(10 * MINUTE)

    in_world(scene)


def stubborn(request: Request, view: View, now: datetime) -> Decision:
    """Tell of a refusal in one pass, and try the same again in the next."""
    del now
    widget = view.get(WIDGETS, request.namespace, request.name)
    if widget is None:
        return Decision(outcome=Outcome.GONE)
    meta = widget.metadata
    name: dict[str, Any] = {"kind": WIDGETS, "namespace": meta.namespace, "name": meta.name}
    message = None if view.refusal is None else view.refusal.message
    desired = replace(widget.status, message=message)
    status = StatusPatch(**name, resource_version=meta.resource_version, observed=widget.status, desired=desired)
    change = PatchAnnotations(**name, uid=meta.uid, annotations={"a": "1"})
    return Decision(status=status, effects=() if view.refusal is not None else (change,))


def test_a_refusal_that_was_told_is_asked_for_again_with_growing_pauses() -> None:
    async def scene(world: World) -> None:
        patches = frozenset({"PATCH"})
        rule = Rule(fault=FAULTS["403"], methods=patches, path="/widgets/a", times=None, only=_is_no_status)
        world.server.faults.add(rule)
        process = Process(world, reconcile=stubborn)
        async with process.running():
            await world.create("a")
            await anyio.sleep(10 * MINUTE)
            assert len(process.reports) <= 4 * most_tries(10 * MINUTE)

    in_world(scene)


def curious(request: Request, view: View, now: datetime) -> Decision:
    """Read the object itself and say what trouble there is."""
    del now
    widget = view.get(WIDGETS, request.namespace, request.name)
    if widget is None:
        return Decision(outcome=Outcome.GONE)
    meta = widget.metadata
    name: dict[str, Any] = {"kind": WIDGETS, "namespace": meta.namespace, "name": meta.name}
    desired = replace(widget.status, message=None if view.trouble is None else view.trouble.message)
    status = StatusPatch(**name, resource_version=meta.resource_version, observed=widget.status, desired=desired)
    query = LiveGet(WIDGETS, meta.namespace, meta.name)
    return Decision(status=status, queries=(query,) if view.answer(query) is None else ())


def message(world: World) -> str:
    return str(((world.widget("a") or {}).get("status") or {}).get("message") or "")


def test_trouble_is_shown_within_a_minute_and_no_more_once_it_is_over() -> None:
    async def scene(world: World) -> None:
        process = Process(world, reconcile=curious)
        async with process.running():
            await world.create("a")
            await anyio.sleep(MINUTE)
            assert not message(world)
            world.server.faults.add(Rule(fault=Answer(), methods=frozenset({"GET"}), path="/widgets/a", times=None))
            await world.resize("a", 2)
            await world.until(lambda: "InternalError" in message(world), within=MINUTE)
            await anyio.sleep(10 * MINUTE)
            world.server.faults.clear()
            await world.until(lambda: not message(world), within=11 * MINUTE)

    in_world(scene)


def test_trouble_is_shown_of_a_key_that_once_met_an_object_that_cannot_be_read() -> None:
    async def scene(world: World) -> None:
        met: list[Request] = []

        def reconcile(request: Request, view: View, now: datetime) -> Decision:
            if not met:
                met.append(request)
                raise Unreadable(WIDGETS.ref(request.namespace, request.name), "it is nested too deeply")
            return curious(request, view, now)

        process = Process(world, reconcile=reconcile)
        async with process.running():
            await world.create("a")
            await anyio.sleep(MINUTE)
            await world.resize("a", 1)
            await world.until(lambda: len(process.reports) > 1, within=11 * MINUTE)
            world.server.faults.add(Rule(fault=Answer(), methods=frozenset({"GET"}), path="/widgets/a", times=None))
            await world.resize("a", 2)
            await world.until(lambda: "InternalError" in message(world), within=MINUTE)

    in_world(scene)


def _is_no_status(request: HttpRequest) -> bool:
    return not request.path.endswith("/status")


def controller_requests(world: World) -> list[str]:
    """Return what the controller asked, watches excepted."""
    return [f"{s.verb} {s.path}" for s in world.server.served if s.user == "controller" and s.verb != "watch"]
