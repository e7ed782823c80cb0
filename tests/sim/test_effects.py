"""Claims of magos/runtime/controller/effects.py: how one decision is carried out against an API server."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from magos.api.kube import CONFIG_MAPS, ConfigMap
from magos.api.meta import ObjectMeta
from magos.runtime.client.transport import HttpRequest, HttpResponse, TransportError
from magos.runtime.controller.effects import Step
from magos.runtime.controller.endings import End
from magos.runtime.decision import (
    AddFinalizer,
    Create,
    Decision,
    Delete,
    Effect,
    Event,
    EventType,
    PatchAnnotations,
    Release,
    RemoveFinalizer,
    StatusPatch,
    Unchanged,
)
from tests.sim import toy
from tests.sim.apiserver import Answer, Hang, Lose, Rule
from tests.sim.toy import WIDGETS, Widget, WidgetStatus
from tests.sim.world import WIDGET_RESOURCE, Process, World
from tests.sim.world import in_world as in_any_world

NAME: dict[str, Any] = {"kind": WIDGETS, "namespace": "default", "name": "a"}
READY = WidgetStatus(phase="Ready", observed_generation=1)


def in_world(scene: Callable[[World, Process], Awaitable[None]]) -> None:
    """Play a scene with a Widget ``a`` that the caches of a process have seen."""

    async def whole(world: World) -> None:
        await world.create("a")
        process = Process(world)
        async with anyio.create_task_group() as group:
            await process.sync(group)
            world.server.served.clear()
            await scene(world, process)
            group.cancel_scope.cancel()

    in_any_world(whole)


def cached(process: Process) -> Widget:
    widget = process.widgets.cache.get("default", "a")
    assert widget is not None
    return widget


def status_of(widget: Widget, desired: WidgetStatus = READY) -> StatusPatch:
    return StatusPatch(
        **NAME, resource_version=widget.metadata.resource_version, observed=widget.status, desired=desired
    )


def annotate(widget: Widget, value: str | None = "1", *, conditional: bool = False) -> PatchAnnotations:
    version = widget.metadata.resource_version if conditional else ""
    return PatchAnnotations(
        **NAME, uid=widget.metadata.uid, annotations={"example.com/note": value}, resource_version=version
    )


def create(widget: Widget, *, unchanged: bool = True) -> Create:
    judged = Unchanged(**NAME, resource_version=widget.metadata.resource_version)
    return Create(
        kind=CONFIG_MAPS,
        manifest=toy.child_of(widget),
        identity=(toy.GENERATION,),
        unchanged=judged if unchanged else None,
    )


def finalizer(effect: Any, widget: Widget) -> Any:
    return effect(**NAME, resource_version=widget.metadata.resource_version, finalizer=toy.FINALIZER)


def writes(world: World) -> list[tuple[str, int]]:
    return [
        (s.verb, s.status)
        for s in world.server.served
        if s.user == "controller" and s.verb not in ("get", "list", "watch")
    ]


def test_status_is_patched_only_where_it_differs_and_not_at_all_where_it_does_not() -> None:
    async def scene(world: World, process: Process) -> None:
        widget = cached(process)
        applied = await process.executor.apply(Decision(status=status_of(widget)))
        assert applied.end is End.COMPLETE
        assert [write.name for write in applied.writes] == ["a"]
        stored = world.widget("a")
        assert stored is not None
        assert stored["status"] == {"phase": "Ready", "observedGeneration": 1}
        seen = await process.client.get(WIDGETS, "default", "a")
        world.server.served.clear()
        applied = await process.executor.apply(Decision(status=status_of(seen)))
        assert (applied.end, applied.writes, world.server.served) == (End.COMPLETE, (), [])

    in_world(scene)


def test_status_of_an_object_judged_by_an_old_version_is_a_conflict_and_changes_nothing() -> None:
    async def scene(world: World, process: Process) -> None:
        widget = cached(process)
        await world.user.patch(WIDGETS, "default", "a", {"metadata": {"annotations": {"x": "1"}}})
        applied = await process.executor.apply(Decision(status=status_of(widget), effects=(create(widget),)))
        assert applied.end is End.CONFLICT
        assert [write.unknown for write in applied.writes] == [True]
        stored = world.widget("a")
        assert stored is not None
        assert "status" not in stored
        assert world.children() == {}

    in_world(scene)


def test_versions_moved_by_the_decision_itself_follow_along() -> None:
    async def scene(world: World, process: Process) -> None:
        widget = cached(process)
        effects: tuple[Effect, ...] = (
            finalizer(AddFinalizer, widget),
            annotate(widget, conditional=True),
            create(widget),
            finalizer(RemoveFinalizer, widget),
        )
        applied = await process.executor.apply(Decision(status=status_of(widget), effects=effects))
        assert applied.end is End.COMPLETE
        assert len(applied.writes) == 5
        assert list(world.children()) == ["a-g1"]

    in_world(scene)


def test_a_foreign_write_between_two_steps_stops_the_decision() -> None:
    async def scene(world: World, process: Process) -> None:
        widget = cached(process)

        class Meddler:
            def before(self, step: Step) -> None:
                pass

            def after(self, step: Step) -> None:
                stored = world.widget("a")
                assert stored is not None
                world.server.writer.patch(
                    WIDGET_RESOURCE, ("default", "a"), {"metadata": {"labels": {"x": str(step.index)}}}
                )

        process.executor._observer = Meddler()
        applied = await process.executor.apply(Decision(status=status_of(widget), effects=(create(widget),)))
        assert applied.end is End.CONFLICT
        assert world.children() == {}

    in_world(scene)


def test_an_unconditional_write_makes_later_preconditions_a_conflict() -> None:
    async def scene(_world: World, process: Process) -> None:
        widget = cached(process)
        applied = await process.executor.apply(Decision(effects=(annotate(widget), create(widget))))
        assert applied.end is End.CONFLICT

    in_world(scene)


@pytest.mark.parametrize(
    ("owner", "identity", "end"),
    [("same", "1", End.COMPLETE), ("same", "2", End.REFUSED), ("other", "1", End.REFUSED), ("none", "1", End.REFUSED)],
)
def test_a_taken_name_is_success_only_for_the_same_owner_and_identity(owner: str, identity: str, end: End) -> None:
    async def scene(world: World, process: Process) -> None:
        widget = cached(process)
        child = toy.child_of(widget)
        owners = child.metadata.owner_references
        if owner == "other":
            owners = (replace(owners[0], uid="another"),)
        elif owner == "none":
            owners = ()
        meta = replace(child.metadata, owner_references=owners, labels={toy.GENERATION: identity})
        await world.user.create(CONFIG_MAPS, ConfigMap(metadata=meta))
        applied = await process.executor.apply(Decision(effects=(create(widget),)))
        assert applied.end is end
        if end is End.REFUSED:
            assert applied.refusal is not None
            assert applied.refusal.reason == "AlreadyExists"
            assert "ConfigMap default/a-g1" in applied.refusal.message

    in_world(scene)


def test_without_owner_and_identity_nothing_is_adopted() -> None:
    async def scene(world: World, process: Process) -> None:
        manifest = ConfigMap(metadata=ObjectMeta(name="plain", namespace="default"))
        await world.user.create(CONFIG_MAPS, manifest)
        applied = await process.executor.apply(Decision(effects=(Create(kind=CONFIG_MAPS, manifest=manifest),)))
        assert applied.end is End.REFUSED

    in_world(scene)


def test_delete_counts_absence_and_another_uid_as_done_and_never_touches_the_namesake() -> None:
    async def scene(world: World, process: Process) -> None:
        def delete(uid: str) -> Decision:
            return Decision(effects=(Delete(kind=CONFIG_MAPS, namespace="default", name="a-g1", uid=uid),))

        widget = cached(process)
        assert (await process.executor.apply(delete("gone"))).end is End.COMPLETE
        await process.executor.apply(Decision(effects=(create(widget),)))
        child = await process.client.get(CONFIG_MAPS, "default", "a-g1")
        assert (await process.executor.apply(delete("another"))).end is End.COMPLETE
        assert list(world.children()) == ["a-g1"]
        applied = await process.executor.apply(delete(child.metadata.uid))
        assert [(write.gone, write.uid) for write in applied.writes] == [(True, child.metadata.uid)]
        assert world.children() == {}

    in_world(scene)


def requests(world: World) -> list[str]:
    return [served.verb for served in world.server.served if served.user == "controller" and served.verb != "watch"]


def test_a_deletion_names_a_version_that_the_cache_has_to_get_past() -> None:
    async def scene(world: World, process: Process) -> None:
        def delete(meta: ObjectMeta) -> Decision:
            return Decision(effects=(Delete(kind=CONFIG_MAPS, namespace="default", name=meta.name, uid=meta.uid),))

        await process.executor.apply(Decision(effects=(create(cached(process)),)))
        await world.until(lambda: process.config_maps.cache.get("default", "a-g1") is not None)
        shown = process.config_maps.cache.list()[0].metadata
        world.server.served.clear()
        applied = await process.executor.apply(delete(shown))
        assert [write.resource_version for write in applied.writes] == [shown.resource_version]
        assert requests(world) == ["delete"]

        for watch in world.server.watches:
            watch.hold()
        await world.user.create(CONFIG_MAPS, ConfigMap(metadata=ObjectMeta(name="b", namespace="default")))
        unseen = (await world.user.get(CONFIG_MAPS, "default", "b")).metadata
        world.server.served.clear()
        applied = await process.executor.apply(delete(unseen))
        assert [(write.gone, write.resource_version) for write in applied.writes] == [(True, unseen.resource_version)]
        assert requests(world) == ["get", "delete"]
        # What is not there is nobody's write.
        assert (await process.executor.apply(delete(unseen))).writes == ()
        assert requests(world) == ["get", "delete", "get"]

    in_world(scene)


def test_a_deletion_without_an_answer_names_its_version_too() -> None:
    async def scene(world: World, process: Process) -> None:
        for watch in world.server.watches:
            watch.hold()
        await world.user.create(CONFIG_MAPS, ConfigMap(metadata=ObjectMeta(name="b", namespace="default")))
        unseen = (await world.user.get(CONFIG_MAPS, "default", "b")).metadata
        world.server.faults.add(Rule(fault=Lose(effect=True), methods=frozenset({"DELETE"})))
        effect = Delete(kind=CONFIG_MAPS, namespace="default", name="b", uid=unseen.uid)
        applied = await process.executor.apply(Decision(effects=(effect,)))
        assert applied.end is End.TRANSIENT
        assert [(write.gone, write.unknown, write.resource_version) for write in applied.writes] == [
            (True, True, unseen.resource_version)
        ]

    in_world(scene)


def test_annotations_that_are_so_already_cost_no_request() -> None:
    async def scene(world: World, process: Process) -> None:
        widget = cached(process)
        assert (await process.executor.apply(Decision(effects=(annotate(widget, None),)))).end is End.COMPLETE
        assert writes(world) == []
        await process.executor.apply(Decision(effects=(annotate(widget),)))
        await world.until(lambda: cached(process).metadata.annotations.get("example.com/note") == "1")
        world.server.served.clear()
        await process.executor.apply(Decision(effects=(annotate(widget), annotate(cached(process), conditional=True))))
        assert writes(world) == []
        await process.executor.apply(Decision(effects=(annotate(widget, None), annotate(widget, None))))
        assert writes(world) == [("patch", 200)]
        stored = world.widget("a")
        assert stored is not None
        assert "annotations" not in stored["metadata"]

    in_world(scene)


def test_annotations_of_a_namesake_are_not_touched() -> None:
    async def scene(world: World, process: Process) -> None:
        widget = cached(process)
        stranger = replace(annotate(widget), uid="another")
        assert (await process.executor.apply(Decision(effects=(stranger,)))).end is End.CONFLICT
        await world.user.delete(WIDGETS, "default", "a")
        assert (await process.executor.apply(Decision(effects=(annotate(widget),)))).end is End.CONFLICT

    in_world(scene)


def test_finalizers_of_others_survive_ours() -> None:
    async def scene(world: World, process: Process) -> None:
        await world.user.patch(WIDGETS, "default", "a", {"metadata": {"finalizers": ["example.com/other"]}})
        await world.until(lambda: cached(process).metadata.finalizers != ())
        widget = cached(process)
        both = Decision(effects=(finalizer(AddFinalizer, widget),))
        assert (await process.executor.apply(both)).end is End.COMPLETE
        live = await process.client.get(WIDGETS, "default", "a")
        assert live.metadata.finalizers == ("example.com/other", toy.FINALIZER)
        applied = await process.executor.apply(Decision(effects=(finalizer(RemoveFinalizer, live),)))
        assert applied.end is End.COMPLETE
        live = await process.client.get(WIDGETS, "default", "a")
        assert live.metadata.finalizers == ("example.com/other",)
        world.server.served.clear()
        await process.executor.apply(Decision(effects=(finalizer(RemoveFinalizer, live),)))
        assert writes(world) == []

    in_world(scene)


def test_removing_the_last_finalizer_of_a_dying_object_counts_as_its_deletion() -> None:
    async def scene(world: World, process: Process) -> None:
        await world.user.patch(WIDGETS, "default", "a", {"metadata": {"finalizers": [toy.FINALIZER]}})
        await world.user.delete(WIDGETS, "default", "a")
        live = await process.client.get(WIDGETS, "default", "a")
        applied = await process.executor.apply(Decision(effects=(finalizer(RemoveFinalizer, live),)))
        assert [write.gone for write in applied.writes] == [True]
        assert world.widget("a") is None
        again = await process.executor.apply(Decision(effects=(finalizer(RemoveFinalizer, live),)))
        assert again.end is End.COMPLETE

    in_world(scene)


@pytest.mark.parametrize(
    ("fault", "end"),
    [
        (Answer(code=403, reason="Forbidden"), End.REFUSED),
        (Answer(code=400, reason="BadRequest"), End.REFUSED),
        (Answer(code=404, reason="NotFound"), End.REFUSED),
        (Answer(code=405, reason="MethodNotAllowed"), End.REFUSED),
        (Answer(code=422, reason="Invalid"), End.REFUSED),
        (Answer(code=401, reason="Unauthorized"), End.TRANSIENT),
        (Answer(code=429, reason="TooManyRequests"), End.TRANSIENT),
        (Answer(code=500), End.TRANSIENT),
        (Answer(code=504, reason="Timeout", effect=True), End.TRANSIENT),
        (Lose(effect=False), End.TRANSIENT),
        (Lose(effect=True), End.TRANSIENT),
        (Hang(effect=True), End.TRANSIENT),
    ],
)
def test_errors_of_a_creation_are_lasting_or_transient_and_stop_what_follows(fault: Any, end: End) -> None:
    async def scene(world: World, process: Process) -> None:
        widget = cached(process)
        world.server.faults.add(Rule(fault=fault, methods=frozenset({"POST"})))
        decision = Decision(effects=(create(widget), annotate(widget)), events=(event(widget),))
        applied = await process.executor.apply(decision)
        assert applied.end is end
        assert (applied.refusal is None) is (end is not End.REFUSED)
        assert process.events == []
        stored = world.widget("a")
        assert stored is not None
        assert "annotations" not in stored["metadata"]
        world.server.faults.clear()
        assert (await process.executor.apply(decision)).end is End.COMPLETE
        assert list(world.children()) == ["a-g1"]
        assert len(process.events) == 1

    in_world(scene)


def test_a_status_refused_for_good_is_a_failure_and_never_a_refusal() -> None:
    async def scene(world: World, process: Process) -> None:
        world.server.faults.add(Rule(fault=Answer(code=422, reason="Invalid"), methods=frozenset({"PATCH"})))
        applied = await process.executor.apply(Decision(status=status_of(cached(process))))
        assert (applied.end, applied.refusal) == (End.FAILED, None)

    in_world(scene)


def test_nothing_is_written_once_the_fence_is_down_not_even_in_the_middle() -> None:
    async def scene(world: World, process: Process) -> None:
        widget = cached(process)

        class Deposed:
            def before(self, step: Step) -> None:
                process.leading = step.index < 0

            def after(self, step: Step) -> None:
                pass

        process.executor._observer = Deposed()
        effects: tuple[Effect, ...] = (create(widget), annotate(widget))
        applied = await process.executor.apply(
            Decision(status=status_of(widget), effects=effects, events=(event(widget),))
        )
        assert applied.end is End.FENCED
        assert writes(world) == [("patch", 200)]
        assert process.events == []

    in_world(scene)


def test_leadership_lost_while_a_write_waits_to_be_sent_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(world: World, process: Process) -> None:
        send = process.transport.request

        async def late(request: HttpRequest) -> HttpResponse:
            if request.method == "GET":
                return await send(request)
            process.leading = False
            assert request.may_send is not None
            assert not request.may_send()
            raise TransportError("not sent", sent=False)

        monkeypatch.setattr(process.transport, "request", late)
        for effect in (create(cached(process)), annotate(cached(process)), finalizer(AddFinalizer, cached(process))):
            process.leading = True
            applied = await process.executor.apply(Decision(effects=(effect,)))
            assert (applied.end, applied.writes) == (End.FENCED, ())
        assert writes(world) == []

    in_world(scene)


def test_leadership_lost_while_the_precondition_is_read_stops_the_creation() -> None:
    async def scene(world: World, process: Process) -> None:
        widget = cached(process)
        async with anyio.create_task_group() as group:

            async def depose() -> None:
                await world.until(lambda: any(served.verb == "get" for served in world.server.served))
                process.leading = False

            group.start_soon(depose)
            world.server.latency = (0.1, 0.1)
            applied = await process.executor.apply(Decision(effects=(create(widget),)))
        assert applied.end is End.FENCED
        assert world.children() == {}

    in_world(scene)


def test_a_bug_in_a_manifest_keeps_what_was_written_before_it() -> None:
    async def scene(_world: World, process: Process) -> None:
        widget = cached(process)
        broken = Create(kind=CONFIG_MAPS, manifest=ConfigMap(metadata=ObjectMeta(namespace="default")))
        applied = await process.executor.apply(Decision(status=status_of(widget), effects=(broken,)))
        assert applied.end is End.FAILED
        assert "needs ObjectMeta with a name" in applied.message
        assert len(applied.writes) == 1

    in_world(scene)


def event(widget: Widget) -> Event:
    return Event(
        regarding=WIDGETS.ref("default", "a"),
        uid=widget.metadata.uid,
        type=EventType.NORMAL,
        reason="Ready",
        action="Reconcile",
        note="",
    )


def test_repeated_writes_stop_at_the_latest_a_tenth_of_a_second_after_what_they_were_judged_by_changed() -> None:
    async def scene(world: World, process: Process) -> None:
        widget = cached(process)
        world.server.latency = (0.01, 0.01)
        condition = Unchanged(**NAME, resource_version=widget.metadata.resource_version)
        await world.user.create(WIDGETS, {"metadata": {"name": "b", "namespace": "default"}, "spec": {}})
        target = await process.client.get(WIDGETS, "default", "b")
        changes = tuple(
            PatchAnnotations(
                kind=WIDGETS,
                namespace="default",
                name="b",
                uid=target.metadata.uid,
                annotations={"example.com/note": str(number)},
                unchanged=(condition,),
            )
            for number in range(100)
        )
        # The caches of this process are silent, so that only the API server itself can tell.
        process.transport.partition()
        process.transport.cut = False

        async def stop() -> None:
            await anyio.sleep(0.5)
            await world.user.patch(WIDGETS, "default", "a", {"metadata": {"annotations": {"x": "1"}}})

        async with anyio.create_task_group() as group:
            group.start_soon(stop)
            applied = await process.executor.apply(Decision(effects=changes))
        assert applied.end is End.CONFLICT
        at = [s.at for s in world.server.served if s.verb == "patch"]
        stopped = next(s.at for s in world.server.served if s.verb == "patch" and s.path.endswith("/a"))
        assert 20 < len(at) < 100
        assert max(at) <= stopped + 0.2

    in_world(scene)


def test_a_write_conditional_on_absence_stops_when_the_object_appears() -> None:
    async def scene(world: World, process: Process) -> None:
        widget = cached(process)
        absent = Unchanged(kind=WIDGETS, namespace="default", name="b", resource_version="")
        change = PatchAnnotations(
            **NAME, uid=widget.metadata.uid, annotations={"example.com/note": "1"}, unchanged=(absent,)
        )
        assert (await process.executor.apply(Decision(effects=(change,)))).end is End.COMPLETE
        await world.user.create(WIDGETS, {"metadata": {"name": "b", "namespace": "default"}, "spec": {}})
        await world.until(lambda: process.widgets.cache.get("default", "b") is not None)
        again = PatchAnnotations(
            **NAME, uid=widget.metadata.uid, annotations={"example.com/note": "2"}, unchanged=(absent,)
        )
        assert (await process.executor.apply(Decision(effects=(again,)))).end is End.CONFLICT

    in_world(scene)


async def _judged(world: World, process: Process) -> Release:
    """The release of Widget ``a``, judged together with a Widget ``b``."""
    await world.create("b")
    await world.until(lambda: process.widgets.cache.get("default", "b") is not None)
    other, widget = process.widgets.cache.get("default", "b"), cached(process)
    assert other is not None
    return Release(
        **NAME,
        uid=widget.metadata.uid,
        resource_version=widget.metadata.resource_version,
        annotations={"example.com/released": "true"},
        unchanged=Unchanged(
            kind=WIDGETS, namespace="default", name="b", resource_version=other.metadata.resource_version
        ),
    )


def _suspended(world: World) -> tuple[object, object]:
    (stored,) = [each for each in world.server.store.items(WIDGET_RESOURCE) if each["metadata"]["name"] == "a"]
    return stored["spec"].get("suspend"), stored["metadata"].get("annotations")


def test_a_release_is_one_write_that_also_marks_what_was_let_go() -> None:
    async def scene(world: World, process: Process) -> None:
        release = await _judged(world, process)
        assert (await process.executor.apply(Decision(effects=(release,)))).end is End.COMPLETE
        assert len(writes(world)) == 1
        assert _suspended(world) == (False, {"example.com/released": "true"})

    in_world(scene)


def test_a_release_stops_when_what_it_was_judged_by_has_changed_unseen() -> None:
    async def scene(world: World, process: Process) -> None:
        release = await _judged(world, process)
        await world.user.patch(WIDGETS, "default", "b", {"metadata": {"annotations": {"example.com/note": "1"}}})
        assert (await process.executor.apply(Decision(effects=(release,)))).end is End.CONFLICT
        assert _suspended(world) == (None, None)

    in_world(scene)


@pytest.mark.parametrize("field", ["uid", "resource_version"])
def test_a_release_lets_go_no_namesake_and_no_other_version(field: str) -> None:
    async def scene(world: World, process: Process) -> None:
        release = await _judged(world, process)
        other = replace(release, **{field: "1" if field == "resource_version" else "other"})
        assert (await process.executor.apply(Decision(effects=(other,)))).end is End.CONFLICT
        assert _suspended(world) == (None, None)

    in_world(scene)
