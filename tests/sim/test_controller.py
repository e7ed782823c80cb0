"""Claims of the controller and of its write barrier, with the toy controller in a simulated cluster."""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

import anyio
import pytest
import structlog

from magos.api.kube import CONFIG_MAPS, ConfigMap
from magos.api.meta import ObjectMeta
from magos.runtime.client.client import ApiClient
from magos.runtime.client.errors import ApiError
from magos.runtime.clock import SystemClock
from magos.runtime.controller import controller as controller_module
from magos.runtime.controller.effects import Step
from magos.runtime.controller.endings import Applied
from magos.runtime.controller.passes import PassReport, Result
from magos.runtime.controller.queries import QueryRefused
from magos.runtime.controller.workqueue import Key
from magos.runtime.decision import (
    Create,
    Decision,
    Delete,
    LiveGet,
    LiveList,
    Outcome,
    PatchAnnotations,
    Query,
    QueryAnswer,
    Refusal,
    Request,
    View,
)
from magos.runtime.resourceversion import is_older
from tests.sim import toy
from tests.sim.apiserver import Answer, Lose, Rule
from tests.sim.apiserver.watch import Watch
from tests.sim.toy import WIDGETS
from tests.sim.world import Process, World, in_world

WRITING = frozenset({"POST", "PATCH", "DELETE", "PUT"})


async def life(world: World) -> None:
    """Play the user of the canonical scenario: create, resize, delete."""
    if world.widget("a") is None:
        await world.create("a")
    await world.until(lambda: world.is_ready("a", 1))
    await world.resize("a", 2)
    await world.until(lambda: world.is_ready("a", 2))
    await world.user.delete(WIDGETS, "default", "a")
    await world.until(lambda: world.widget("a") is None and world.children() == {})


# --- convergence ------------------------------------------------------------------------------------------------------


def test_ten_objects_converge_and_then_nothing_is_written_or_listed() -> None:
    async def scene(world: World) -> None:
        process = Process(world)
        async with process.running():
            for number in range(10):
                await world.create(f"w{number}")
            await world.until(lambda: all(world.is_ready(f"w{number}", 1) for number in range(10)))
            await anyio.sleep(5)
            passes = len(process.reports)
            world.server.served.clear()
            await anyio.sleep(2 * 3600 + 60)
            assert world.writes() == 0
            assert world.server.counts("controller")["list"] == 0
            assert world.server.counts("controller")["get"] == 0
            # Each came back at its appointments and decided nothing.
            assert len(process.reports) - passes == 20
            assert {report.result for report in process.reports[passes:]} == {Result.REQUEUE_AFTER}

    in_world(scene)


def test_status_events_are_emitted_once_per_transition() -> None:
    async def scene(world: World) -> None:
        process = Process(world)
        async with process.running():
            await world.create("a")
            await world.until(lambda: world.is_ready("a", 1))
            await anyio.sleep(10)
        assert [event.reason for event in process.events] == ["Building", "Ready"]

    in_world(scene)


class Killed(BaseException):
    """The process dies here."""


class Killer:
    """Kills at the n-th crash point: before or after each step, counted over the life of the process."""

    def __init__(self, at: int) -> None:
        self.left = at
        self.killed = False

    def before(self, step: Step) -> None:
        self._point(step)

    def after(self, step: Step) -> None:
        self._point(step)

    def _point(self, _step: Step) -> None:
        if self.left == 0:
            self.killed = True
            raise Killed
        self.left -= 1


async def _live_until_killed(world: World, killer: Killer) -> None:
    try:
        async with Process(world, observer=killer).running():
            await life(world)
    except* Killed:
        pass


def test_a_crash_at_every_step_converges_after_restart() -> None:
    points: list[int] = []

    def crash_at(point: int) -> bool:
        killer = Killer(point)

        async def scene(world: World) -> None:
            await _live_until_killed(world, killer)
            if killer.killed:
                async with Process(world).running():
                    await _finish(world)

        in_world(scene, seed=point)
        return killer.killed

    while crash_at(len(points)):
        points.append(len(points))
    # finalizer, status, child, status + mark; the same but the finalizer after the resize plus one deletion; the end.
    assert len(points) >= 20


async def _finish(world: World) -> None:
    """Take up the scenario wherever the crash left it."""
    widget = world.widget("a")
    if widget is not None and "deletionTimestamp" not in widget["metadata"]:
        size = widget["spec"]["size"]
        await world.until(lambda: world.is_ready("a", size))
        if size == 1:
            await world.resize("a", 2)
            await world.until(lambda: world.is_ready("a", 2))
        await world.user.delete(WIDGETS, "default", "a")
    await world.until(lambda: world.widget("a") is None and world.children() == {})


@pytest.mark.parametrize("fault", [Lose(effect=True), Lose(effect=False), Answer(code=504, effect=True)])
def test_an_unanswered_write_at_every_step_converges(fault: Any) -> None:
    def lose(number: int) -> int:
        async def scene(world: World) -> None:
            async with Process(world).running():
                rule = Rule(fault=fault, methods=WRITING, skip=number)
                await world.create("a")
                world.server.faults.add(rule)
                await world.until(lambda: world.is_ready("a", 1))
                struck.append(rule.struck)
                world.server.faults.clear()
                await life(world)

        struck: list[int] = []
        in_world(scene, seed=number)
        return struck[0]

    number = 0
    while lose(number):
        number += 1
    assert number >= 4


@pytest.mark.parametrize("seed", range(8))
def test_many_objects_converge_through_random_faults(seed: int) -> None:
    async def scene(world: World) -> None:
        names = [f"w{number}" for number in range(12)]
        checks = Checks()
        process = Process(world, reconcile=checks.reconcile, workers=3)
        checks.watch(process)
        async with process.running():
            for name in names:
                await world.create(name)
            for fault in (Lose(effect=True), Lose(), Answer(code=503), Answer(code=429, reason="TooManyRequests")):
                world.server.faults.add(Rule(fault=fault, methods=WRITING, times=None, probability=0.1))
            for size in (2, 3, 4):
                for name in world.rng.sample(names, 8):
                    await _persist(world, name, size)
                    await anyio.sleep(world.rng.random() / 10)
                world.server.disconnect()
            world.server.faults.clear()
            for name in names:
                await _persist(world, name, 5)
            await world.until(lambda: all(world.is_ready(name, 5) for name in names), within=3600)
        assert checks.violations == []
        assert checks.passes > 50

    in_world(scene, seed=seed)


async def _persist(world: World, name: str, size: int) -> None:
    """Resize as a stubborn user who repeats what got no answer."""
    while True:
        try:
            await world.resize(name, size)
        except ApiError:
            await anyio.sleep(0.01)
        else:
            return


class Checks:
    """Wraps the toy reconciler and notes every breach of what the controller promises about passes."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.passes = 0
        self.stale = 0
        self._active: set[tuple[str, str]] = set()
        self._acknowledged: dict[tuple[str, str], str] = {}
        self._deleted: set[str] = set()

    def reconcile(self, request: Request, view: View, now: datetime) -> Decision:
        self.passes += 1
        key = (request.namespace, request.name)
        if key in self._active:
            self.violations.append(f"{key} is with two workers")
        self._active.add(key)
        widget = view.get(WIDGETS, *key)
        if view.stale:
            self.stale += 1
        elif widget is not None:
            own = self._acknowledged.get(key, "")
            if is_older(widget.metadata.resource_version, own):
                self.violations.append(f"{key} sees {widget.metadata.resource_version}, has written {own}")
            for child in view.list(CONFIG_MAPS, request.namespace):
                mine = child.metadata.name.startswith(f"{request.name}-")
                if mine and child.metadata.uid in self._deleted:
                    self.violations.append(f"{key} sees {child.metadata.name}, which it has deleted")
        return toy.reconcile(request, view, now)

    def watch(self, process: Process) -> None:
        """Look at what the executor acknowledges, and at the ends of passes."""
        apply = process.executor.apply

        async def noting(decision: Decision) -> Applied:
            applied = await apply(decision)
            for write in applied.writes:
                if write.gone and not write.unknown:
                    self._deleted.add(write.uid)
                elif write.kind == WIDGETS and not write.unknown:
                    self._acknowledged[write.namespace, write.name] = write.resource_version
            return applied

        process.executor.apply = noting  # type: ignore[method-assign]
        process.controller._observers = (*process.controller._observers, self)

    def passed(self, report: PassReport) -> None:
        self._active.discard((report.key.namespace, report.key.name))


def test_another_writer_at_fifty_hertz_neither_loses_nor_is_lost() -> None:
    async def scene(world: World) -> None:
        flips = 0

        async def flip() -> None:
            nonlocal flips
            while True:
                body = {"metadata": {"annotations": {"example.com/flip": str(flips)}}}
                await world.user.patch(WIDGETS, "default", "a", body)
                flips += 1
                await anyio.sleep(0.02)

        process = Process(world)
        await world.create("a")
        async with anyio.create_task_group() as group:
            group.start_soon(flip)
            async with process.running():
                for size in range(2, 8):
                    await world.until(lambda size=size: world.is_ready("a", size - 1), within=60)  # type: ignore[misc]
                    await world.resize("a", size)
            group.cancel_scope.cancel()
        stored = world.widget("a")
        assert stored is not None
        # The last patch may have been cut off after it was committed.
        assert stored["metadata"]["annotations"]["example.com/flip"] in {str(flips - 1), str(flips)}
        assert toy.SEEN in stored["metadata"]["annotations"]
        conflicts = [report for report in process.reports if report.result is Result.REQUEUE]
        assert all(report.result is not Result.ERROR for report in process.reports)
        # A conflict is waited out, not hammered.
        assert len(conflicts) < flips

    in_world(scene)


# --- read your own writes ---------------------------------------------------------------------------------------------


def test_a_silent_watch_makes_the_pass_wait_and_then_run_stale_without_deleting() -> None:
    async def scene(world: World) -> None:
        checks = Checks()
        process = Process(world, reconcile=checks.reconcile)
        checks.watch(process)
        async with process.running():
            await world.create("a")
            await world.until(lambda: world.is_ready("a", 1))
            await anyio.sleep(5)
            for watch in world.server.watches:
                if watch.request.resource.plural == "configmaps":
                    watch.silence()
            await world.resize("a", 2)
            await world.until(lambda: "a-g2" in world.children())
            started = world.clock.monotonic()
            await world.until(lambda: checks.stale > 0, within=40)
            assert 29 <= world.clock.monotonic() - started <= 31
            assert set(world.children()) == {"a-g1", "a-g2"}
            # The informer takes the silent stream for dead after 75 s, and everything comes right.
            await world.until(lambda: world.is_ready("a", 2), within=90)
        assert checks.violations == []

    with structlog.testing.capture_logs() as logs:
        in_world(scene)
    behind = [each for each in logs if each["event"] == "caches do not show own writes"]
    assert [(each["name"], each["resources"]) for each in behind] == [("a", ["configmaps"])]


def test_a_write_the_cache_can_never_show_holds_the_key_for_five_seconds_only() -> None:
    async def scene(world: World) -> None:
        process = Process(world)
        async with process.running():
            await world.create("a")
            await world.until(lambda: world.is_ready("a", 1))
            await anyio.sleep(5)
            for watch in world.server.watches:
                if watch.request.resource.plural == "configmaps":
                    watch.silence()
            await world.resize("a", 2)
            await world.until(lambda: "a-g2" in world.children())
            child = await world.user.get(CONFIG_MAPS, "default", "a-g2")
            await world.user.delete(CONFIG_MAPS, "default", "a-g2", uid=child.metadata.uid)
            started = world.clock.monotonic()
            # Gone before the cache ever saw it: the key is let go, and the child is created again.
            await world.until(lambda: "a-g2" in world.children(), within=20)
            assert 4 <= world.clock.monotonic() - started <= 7

    in_world(scene)


class Remover:
    """Deletes the ConfigMap ``x`` whenever a live read shows it, and notes what its passes see of it."""

    def __init__(self) -> None:
        self.query = LiveGet(CONFIG_MAPS, "default", "x")
        self.deletions = 0
        self.seen: list[tuple[bool, bool]] = []
        """Per pass: is ``x`` in the view, is the view stale."""

    def decide(self, _request: Request, view: View, _now: datetime) -> Decision:
        self.seen.append((view.get(CONFIG_MAPS, "default", "x") is not None, view.stale))
        answer = view.answer(self.query)
        if answer is None:
            return Decision(queries=(self.query,))
        if answer.value is None:
            return Decision()
        self.deletions += 1
        uid = answer.value.metadata.uid
        return Decision(effects=(Delete(kind=CONFIG_MAPS, namespace="default", name="x", uid=uid),))


def _watch_of_config_maps(world: World) -> Watch:
    return _watch_of(world, "configmaps")


def _watch_of(world: World, plural: str) -> Watch:
    return next(each for each in world.server.watches if each.request.resource.plural == plural)


async def _delete_unseen(world: World, remover: Remover, meanwhile: Callable[[Watch], None]) -> None:
    """Let the controller delete an object that its cache has not been shown."""
    await anyio.sleep(5)
    meanwhile(_watch_of_config_maps(world))
    await world.user.create(CONFIG_MAPS, ConfigMap(metadata=ObjectMeta(name="x", namespace="default")))
    await world.resize("a", 2)
    await world.until(lambda: remover.deletions == 1)
    await anyio.sleep(0.1)
    remover.seen.clear()


def test_what_was_deleted_before_the_cache_was_shown_it_is_not_shown_to_the_next_pass() -> None:
    remover = Remover()

    async def scene(world: World, process: Process) -> None:
        await _delete_unseen(world, remover, Watch.hold)
        watch = _watch_of_config_maps(world)
        end = watch._lines.pop()  # its creation arrives, its deletion does not yet
        watch.release()
        await world.until(lambda: process.config_maps.cache.get("default", "x") is not None)
        await world.resize("a", 3)
        await anyio.sleep(1)
        assert remover.seen == []
        watch._lines.append(end)
        watch.release()
        await world.until(lambda: remover.seen != [], within=1)
        assert remover.seen[0] == (False, False)
        assert remover.deletions == 1

    in_toy_world(remover.decide, scene)


@pytest.mark.parametrize("relisted", [False, True])
def test_a_deletion_that_no_event_shows_holds_the_key_until_a_relist_or_makes_it_run_stale(relisted: bool) -> None:
    remover = Remover()

    async def scene(world: World, process: Process) -> None:
        await _delete_unseen(world, remover, Watch.hold if relisted else Watch.silence)
        started = world.clock.monotonic()
        await world.resize("a", 3)
        await anyio.sleep(10)
        assert remover.seen == []
        if relisted:
            watch = _watch_of_config_maps(world)
            watch._lines.clear()
            watch.expire()
            watch.release()
        await world.until(lambda: remover.seen != [], within=25)
        assert remover.seen[0] == (False, not relisted)
        if not relisted:
            assert 28 <= world.clock.monotonic() - started <= 31
        # The informer takes the silent stream for dead after 75 s; from then on nothing is stale.
        await anyio.sleep(80)
        await world.resize("a", 4)
        await world.until(lambda: remover.seen[-1] == (False, False), within=1)
        assert remover.deletions == 1
        assert process.controller.waiting == 0

    in_toy_world(remover.decide, scene)


def test_a_write_in_doubt_during_an_outage_of_reads_is_settled_after_it() -> None:
    async def scene(world: World) -> None:
        checks = Checks()
        process = Process(world, reconcile=checks.reconcile)
        checks.watch(process)
        async with process.running():
            await world.create("a")
            await world.until(lambda: world.is_ready("a", 1))
            await anyio.sleep(5)
            world.server.faults.add(Rule(fault=Lose(effect=True), methods=WRITING, path="/status"))
            world.server.faults.add(Rule(fault=Answer(code=503), methods=frozenset({"GET"}), times=None))
            await world.resize("a", 2)
            await anyio.sleep(45)
            assert checks.stale > 0
            world.server.faults.clear()
            await anyio.sleep(10)
            stale = checks.stale
            await world.until(lambda: world.is_ready("a", 2))
            await world.resize("a", 3)
            await world.until(lambda: world.is_ready("a", 3))
            assert checks.stale == stale
        assert checks.violations == []

    in_world(scene)


# --- what a pass is shown ---------------------------------------------------------------------------------------------


def in_toy_world(
    decide: Callable[[Request, View, datetime], Decision],
    scene: Callable[[World, Process], Awaitable[None]],
    **options: Any,
) -> None:
    """Play a scene in which another reconciler takes the toy's place and one Widget ``a`` exists."""

    async def whole(world: World) -> None:
        process = Process(world, reconcile=decide, **options)
        await world.create("a")
        async with process.running():
            await scene(world, process)

    in_world(whole)


def note(view: View, value: str) -> PatchAnnotations:
    widget = view.get(WIDGETS, "default", "a")
    assert widget is not None
    return PatchAnnotations(
        kind=WIDGETS,
        namespace="default",
        name="a",
        uid=widget.metadata.uid,
        annotations={"example.com/note": value},
    )


def test_a_refusal_is_shown_to_exactly_the_next_pass_at_once() -> None:
    shown: list[tuple[float, Refusal | None]] = []

    async def scene(world: World, process: Process) -> None:
        world.server.faults.add(
            Rule(fault=Answer(code=403, reason="Forbidden", message="quota"), methods=frozenset({"PATCH"}))
        )
        await world.until(lambda: len(shown) >= 2)
        await world.resize("a", 2)
        await world.until(lambda: len(shown) >= 3)
        assert [refusal is not None for _, refusal in shown] == [False, True, False]
        assert shown[1][1] is not None
        assert shown[1][1].code == 403
        assert shown[1][0] - shown[0][0] < 0.1
        assert [report.result for report in process.reports] == [Result.REQUEUE, Result.SUCCESS, Result.SUCCESS]

    def decide(_request: Request, view: View, now: datetime) -> Decision:
        shown.append((now.timestamp(), view.refusal))
        return Decision(effects=() if len(shown) > 1 else (note(view, "x"),))

    in_toy_world(decide, scene)


async def _replaced(world: World, watch: Watch) -> str:
    """Put another object in the place of ``a``, which the cache is told in one go; return its UID."""
    watch.hold()
    await world.user.delete(WIDGETS, "default", "a")
    new = await world.create("a", size=9)
    watch.release()
    return new.metadata.uid


@pytest.mark.parametrize("inherited", ["refusal", "answer", "failures"])
def test_an_object_of_the_same_name_inherits_nothing(inherited: str) -> None:
    shown: list[tuple[str, Refusal | None, QueryAnswer | None, int]] = []
    query = LiveGet(CONFIG_MAPS, "default", "x")
    watches: list[Watch] = []

    def decide(request: Request, view: View, _now: datetime) -> Decision:
        widget = view.get(WIDGETS, "default", "a")
        if widget is None:
            return Decision()
        shown.append((widget.metadata.uid, view.refusal, view.answer(query), request.attempt))
        if widget.spec.size != 2:
            return Decision()
        if inherited != "failures":
            # From here on the cache is told nothing: the next pass has to wait until it has seen this one's write.
            watches[0].hold()
        status = toy._status(widget, toy.WidgetStatus(phase="Ready"))
        if inherited == "answer":
            return Decision(status=status, queries=(query,))
        return Decision(status=status, effects=(Create(kind=CONFIG_MAPS, manifest=toy.child_of(widget)),))

    async def scene(world: World, process: Process) -> None:
        code = 503 if inherited == "failures" else 403
        await world.until(lambda: len(shown) == 1)
        watches.append(_watch_of(world, "widgets"))
        rule = Rule(fault=Answer(code=code), methods=frozenset({"POST"}), path="/configmaps", times=None)
        world.server.faults.add(rule)
        await world.resize("a", 2)
        await world.until(lambda: len(shown) > 6 or process.controller.waiting == 1)
        uid = await _replaced(world, watches[0])
        await world.until(lambda: shown[-1][0] == uid)
        assert next(each for each in shown if each[0] == uid) == (uid, None, None, 0)

    in_toy_world(decide, scene)


def test_asking_again_for_what_was_refused_backs_off() -> None:
    async def scene(world: World, process: Process) -> None:
        world.server.faults.add(
            Rule(fault=Answer(code=403, reason="Forbidden"), methods=frozenset({"PATCH"}), times=None)
        )
        await anyio.sleep(300)
        assert 20 < len(process.reports) < 50
        assert process.reports[-1].result is Result.ERROR

    in_toy_world(lambda _request, view, _now: Decision(effects=(note(view, "x"),)), scene)


class Weather(Query, frozen=True):
    place: str


def test_queries_are_answered_after_the_decision_and_shown_to_the_next_pass_only() -> None:
    answers: list[list[QueryAnswer | None]] = []
    get = LiveGet(WIDGETS, "default", "a")
    missing = LiveGet(WIDGETS, "default", "nobody")
    everything = LiveList(WIDGETS, "default")
    weather = Weather("here")
    storm = Weather("there")
    queries = (get, missing, everything, weather, storm)

    async def forecast(query: Weather, _client: ApiClient) -> str:
        if query.place == "there":
            raise QueryRefused("Storm", "no forecast from there")
        return "sunny"

    def decide(_request: Request, view: View, _now: datetime) -> Decision:
        answers.append([view.answer(query) for query in queries])
        if len(answers) == 1:
            return Decision(effects=(note(view, "x"),), queries=queries)
        return Decision()

    async def scene(world: World, process: Process) -> None:
        await world.until(lambda: len(answers) >= 2)
        await world.resize("a", 2)
        await world.until(lambda: len(answers) >= 3)
        first, second, third = answers[:3]
        assert first == third == [None] * 5
        live, nobody, listed, sunny, refused = second
        assert live is not None
        # Read after the effect of the pass that asked.
        assert live.value.metadata.annotations == {"example.com/note": "x"}
        assert nobody is not None
        assert (nobody.value, nobody.failure) == (None, None)
        assert listed is not None
        assert [each.metadata.name for each in listed.value] == ["a"]
        assert sunny is not None
        assert sunny.value == "sunny"
        assert refused is not None
        assert refused.failure is not None
        assert refused.failure.reason == "Storm"
        assert process.reports[0].result is Result.REQUEUE

    in_toy_world(decide, scene, queries={Weather: forecast})


def test_forbidden_queries_are_answered_with_a_failure_and_unanswered_ones_back_off() -> None:
    seen: list[QueryAnswer | None] = []
    query = LiveGet(CONFIG_MAPS, "default", "x")

    def decide(_request: Request, view: View, _now: datetime) -> Decision:
        answer = view.answer(query)
        seen.append(answer)
        return Decision(queries=() if answer else (query,))

    async def scene(world: World, process: Process) -> None:
        path = "/configmaps/x"
        world.server.faults.add(Rule(fault=Answer(code=503), path=path, times=2))
        world.server.faults.add(Rule(fault=Answer(code=403, reason="Forbidden"), path=path))
        await world.until(lambda: len(seen) >= 4)
        await anyio.sleep(5)
        assert [answer is None for answer in seen] == [True, True, True, False]
        assert seen[3] is not None
        assert seen[3].failure is not None
        assert seen[3].failure.reason == "Forbidden"
        assert [report.result for report in process.reports].count(Result.ERROR) == 2

    in_toy_world(decide, scene)


def test_a_reconciler_that_never_stops_asking_is_slowed_down() -> None:
    async def scene(_world: World, process: Process) -> None:
        await anyio.sleep(60)
        assert len(process.reports) < 20 * controller_module.ROUNDS
        assert process.reports[-1].result is Result.ERROR

    query = LiveGet(WIDGETS, "default", "a")
    in_toy_world(lambda _request, _view, _now: Decision(queries=(query,)), scene)


# --- how a pass ends --------------------------------------------------------------------------------------------------


def test_an_exception_of_one_key_backs_off_and_harms_no_other() -> None:
    async def scene(world: World, process: Process) -> None:
        await world.create("b")
        await world.until(lambda: world.is_ready("b", 1))
        await anyio.sleep(100)
        broken = [report for report in process.reports if report.key.name == "a"]
        assert 10 < len(broken) < 30
        assert {report.result for report in broken} == {Result.ERROR}
        assert broken[0].error == "ZeroDivisionError: no"

    def decide(request: Request, view: View, now: datetime) -> Decision:
        if request.name == "a":
            raise ZeroDivisionError("no")
        return toy.reconcile(request, view, now)

    in_toy_world(decide, scene, workers=1)


def test_a_status_that_never_settles_is_slowed_down_to_one_write_a_second() -> None:
    async def scene(world: World, _process: Process) -> None:
        await anyio.sleep(1000)
        assert 900 < world.writes() < 1070

    passes = itertools.count()
    in_toy_world(lambda _request, view, _now: Decision(effects=(note(view, str(next(passes))),)), scene)


def test_what_the_server_asks_to_wait_is_waited() -> None:
    async def scene(world: World, process: Process) -> None:
        world.server.faults.add(Rule(fault=Answer(code=429, reason="TooManyRequests", retry_after=10), methods=WRITING))
        await world.until(lambda: world.writes() == 2, within=60)
        assert world.clock.monotonic() > 10
        assert [report.result for report in process.reports][:2] == [Result.ERROR, Result.SUCCESS]

    in_toy_world(lambda _request, view, _now: Decision(effects=(note(view, "x"),)), scene)


def test_workers_with_nothing_to_wait_for_give_way_to_others() -> None:
    """On a real loop: 20,000 passes without any I/O must not hold up a timer (CPU time: others share the machine)."""

    async def main() -> float:
        world = World()
        world.clock = SystemClock()  # type: ignore[assignment]
        process = Process(world, reconcile=lambda _request, _view, _now: Decision())
        process.controller._observers = ()
        for number in range(20_000):
            process.controller.queue.add(Key("default", str(number)))
        longest = 0.0
        async with anyio.create_task_group() as group:
            group.start_soon(process.controller.run)
            while not process.controller.queue.idle:
                asked = time.process_time()
                await anyio.sleep(0.001)
                longest = max(longest, time.process_time() - asked)
            group.cancel_scope.cancel()
        return longest

    assert asyncio.run(main()) < 0.1


def test_a_change_of_the_spec_ends_the_back_off() -> None:
    attempts: list[int] = []

    async def scene(world: World, _process: Process) -> None:
        await anyio.sleep(60)
        assert attempts[-1] > 8
        await world.resize("a", 2)
        await anyio.sleep(0.05)
        assert 0 in attempts[1:]

    def decide(request: Request, _view: View, _now: datetime) -> Decision:
        attempts.append(request.attempt)
        raise ZeroDivisionError("no")

    in_toy_world(decide, scene)


def test_appointments_are_kept_replaced_and_cancelled_by_what_the_last_pass_says() -> None:
    times: list[float] = []
    wanted: list[timedelta | None] = [
        timedelta(seconds=30), timedelta(seconds=10), None, timedelta(hours=3), timedelta(seconds=-5), None,
    ]  # fmt: skip

    def decide(_request: Request, _view: View, now: datetime) -> Decision:
        times.append(now.timestamp())
        wait = wanted[min(len(times), len(wanted)) - 1]
        return Decision(requeue_at=None if wait is None else now + wait, outcome=Outcome.WAITING)

    async def scene(world: World, _process: Process) -> None:
        await anyio.sleep(3600)
        assert [round(b - a, 1) for a, b in itertools.pairwise(times)] == [30, 10]
        await world.resize("a", 2)
        await anyio.sleep(4 * 3600)
        # A long appointment is looked at every hour, because the wall clock may have been set meanwhile.
        gaps = [round(b - a, 1) for a, b in itertools.pairwise(times[3:])]
        assert gaps == [3600, 0.0]

    in_toy_world(decide, scene)


def test_a_leader_that_lost_its_lease_writes_nothing_more() -> None:
    async def scene(world: World) -> None:
        process = Process(world)
        async with process.running():
            await world.create("a")
            await world.until(lambda: world.is_ready("a", 1))
            process.leading = False
            before = world.writes()
            await world.resize("a", 2)
            await anyio.sleep(60)
            assert world.writes() == before

    in_world(scene)


def test_log_lines_name_the_object_and_what_its_status_says() -> None:
    async def scene(world: World) -> None:
        with structlog.testing.capture_logs() as lines:
            process = Process(world)
            async with process.running():
                await world.create("a")
                await world.until(lambda: world.is_ready("a", 1))
                await anyio.sleep(1)
        passes = [line for line in lines if line["event"] == "reconciled"]
        assert {(line["controller"], line["namespace"], line["name"]) for line in passes} == {("toy", "default", "a")}
        assert len({line["reconcile_id"] for line in passes}) == len(passes)
        assert [line["phase"] for line in passes] == ["", "Building", "Building", "Ready"]

    in_world(scene)


def test_stop_finishes_the_pass_under_way_and_starts_no_other() -> None:
    async def scene(world: World) -> None:
        process = Process(world)
        world.server.latency = (0.5, 0.5)
        await world.create("a")
        async with anyio.create_task_group() as group:
            await process.sync(group)
            group.start_soon(process.controller.run)
            await world.until(lambda: bool(process.controller.queue.running()))
            process.controller.stop()
            await world.create("b")
            with anyio.fail_after(3):
                await world.until(lambda: not process.controller.queue.running())
            group.cancel_scope.cancel()
        assert [report.key.name for report in process.reports] == ["a"]
        stored = world.widget("a")
        assert stored is not None
        assert stored["metadata"]["finalizers"] == [toy.FINALIZER]

    in_world(scene)


def test_two_processes_at_once_still_end_with_one_child() -> None:
    """Split brain: the lease is no fence, preconditions and names are."""

    async def scene(world: World) -> None:
        first, second = Process(world, "controller"), Process(world, "rival")
        async with first.running(), second.running():
            await life(world)

    for seed in range(5):
        in_world(scene, seed=seed)
