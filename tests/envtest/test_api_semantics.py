"""The semantics that Magos relies on, on both servers: where the simulation differs from the real one, this fails."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import msgspec
import pytest

from magos.api.meta import Kind, ObjectMeta, OwnerReference
from magos.runtime.client.errors import ApiError
from magos.runtime.client.transport import HttpRequest, Lane
from magos.runtime.client.watchevents import WatchEvent, WatchType
from magos.runtime.decision import Propagation
from tests.envtest.apiserver_under_test import (
    CONFIG_MAPS,
    PARTIAL_SECRETS,
    SECRETS,
    THINGS,
    Bag,
    Server,
    Thing,
    loose_kind,
    raw,
    run_on,
)

Run = Callable[[Callable[[Server], Awaitable[None]]], None]
PODS = loose_kind("pods", "Pod")
CLAIMS = loose_kind("persistentvolumeclaims", "PersistentVolumeClaim")
JOBS = loose_kind("jobs", "Job", "batch")


@pytest.fixture(params=["simulated", "real"])
def run(request: pytest.FixtureRequest) -> Run:
    which: str = request.param
    return lambda scenario: run_on(which, request, scenario)


@contextlib.asynccontextmanager
async def refused() -> AsyncIterator[list[ApiError]]:
    """Collect the one error that the block must raise."""
    errors: list[ApiError] = []
    with pytest.raises(ApiError) as caught:
        yield errors
    errors.append(caught.value)


async def events_until(
    server: Server,
    kind: Kind[Any],
    version: str,
    last: Callable[[WatchEvent[Any]], bool],
    selector: str = "",
) -> list[tuple[str, str]]:
    """Return (type, name) of all events but bookmarks up to the one that ``last`` accepts."""
    seen: list[tuple[str, str]] = []
    with anyio.fail_after(30):
        async with server.client.watch(
            kind, namespace=server.namespace, resource_version=version, selector=selector, timeout_seconds=60
        ) as batches:
            async for batch in batches:
                for event in batch:
                    if event.object is not None:
                        seen.append((event.type.value, event.object.metadata.name))
                    if last(event):
                        return seen
    raise AssertionError(f"the watch ended early: {seen}")


def bag(server: Server, name: str, **meta: object) -> Bag:
    return Bag(metadata=server.meta(name, **meta), data={"a": "1"})


def test_create_fills_in_what_the_server_owns_and_a_name_is_taken_once(run: Run) -> None:
    async def scenario(server: Server) -> None:
        made = await server.client.create(CONFIG_MAPS, bag(server, "x", uid="mine"))
        assert made.metadata.uid not in ("", "mine")
        assert made.metadata.resource_version
        assert made.metadata.creation_timestamp
        thing = await server.client.create(THINGS, Thing(metadata=server.meta("x", generation=7)))
        assert thing.metadata.generation == 1
        async with refused() as errors:
            await server.client.create(CONFIG_MAPS, bag(server, "x"))
        assert errors[0].already_exists
        assert not errors[0].conflict
        assert 'configmaps "x" already exists' in str(errors[0])
        named = await server.client.create(
            CONFIG_MAPS, Bag(metadata=ObjectMeta(generate_name="gen-", namespace=server.namespace))
        )
        assert named.metadata.name.startswith("gen-")
        assert len(named.metadata.name) == len("gen-") + 5

    run(scenario)


def test_what_does_not_exist_is_not_found(run: Run) -> None:
    async def scenario(server: Server) -> None:
        async with refused() as errors:
            await server.client.get(CONFIG_MAPS, server.namespace, "none")
        async with refused() as more:
            await server.client.patch(CONFIG_MAPS, server.namespace, "none", {"data": {}})
        async with refused() as deletion:
            await server.client.delete(CONFIG_MAPS, server.namespace, "none", uid="u")
        for error in (errors[0], more[0], deletion[0]):
            assert error.not_found
            assert error.reason == "NotFound"
        async with refused() as unserved:
            await server.client.list(loose_kind("nothings", "Nothing", "nowhere.example.com"))
        assert unserved[0].not_found
        async with refused() as homeless:
            await server.client.create(CONFIG_MAPS, Bag(metadata=ObjectMeta(name="x", namespace="no-such-namespace")))
        assert homeless[0].not_found
        assert 'namespaces "no-such-namespace" not found' in str(homeless[0])

    run(scenario)


def test_an_invalid_name_or_owner_is_refused_with_its_field(run: Run) -> None:
    async def scenario(server: Server) -> None:
        async with refused() as errors:
            await server.client.create(CONFIG_MAPS, bag(server, "Not_A_Name"))
        assert errors[0].invalid
        assert errors[0].permanent
        assert [cause.field for cause in errors[0].causes] == ["metadata.name"]
        owners = tuple(
            OwnerReference(api_version="v1", kind="ConfigMap", name=n, uid=n, controller=True) for n in ("a", "b")
        )
        async with refused() as two:
            await server.client.create(CONFIG_MAPS, bag(server, "x", owner_references=owners))
        assert two[0].invalid
        async with refused() as nameless:
            await server.client.create(CONFIG_MAPS, Bag(metadata=ObjectMeta(namespace=server.namespace)))
        assert nameless[0].invalid

    run(scenario)


def test_a_merge_patch_merges_removes_and_replaces_lists(run: Run) -> None:
    async def scenario(server: Server) -> None:
        await server.client.create(THINGS, Thing(metadata=server.meta("t"), spec={"m": {"a": 1, "b": 2}, "l": [1, 2]}))
        done = await server.client.patch(
            THINGS,
            server.namespace,
            "t",
            {"spec": {"m": {"a": None, "c": 3}, "l": [9]}, "metadata": {"labels": {"k": "v"}}},
        )
        assert done.spec == {"m": {"b": 2, "c": 3}, "l": [9]}
        assert done.metadata.labels == {"k": "v"}

    run(scenario)


def test_a_conditional_write_meets_a_conflict_and_an_unconditional_one_does_not(run: Run) -> None:
    async def scenario(server: Server) -> None:
        await server.client.create(CONFIG_MAPS, bag(server, "c"))
        first = await server.client.create(THINGS, Thing(metadata=server.meta("t"), spec={"n": 1}))
        second = await server.client.patch(THINGS, server.namespace, "t", {"spec": {"n": 2}})
        stale = {"metadata": {"resourceVersion": first.metadata.resource_version}, "spec": {"n": 3}}
        async with refused() as errors:
            await server.client.patch(THINGS, server.namespace, "t", stale)
        async with refused() as status:
            await server.client.patch(THINGS, server.namespace, "t", stale, subresource="status")
        async with refused() as replaced:
            await server.client.replace(THINGS, msgspec.structs.replace(first, spec={"n": 4}))
        async with refused() as other:
            await server.client.patch(THINGS, server.namespace, "t", {"metadata": {"uid": "other"}, "spec": {"n": 5}})
        async with refused() as another:
            wrong = msgspec.structs.replace(first.metadata, uid="other", resource_version="")
            await server.client.replace(CONFIG_MAPS, Bag(metadata=msgspec.structs.replace(wrong, name="c")))
        for error in (errors[0], status[0], replaced[0], another[0]):
            assert error.conflict
            assert error.reason == "Conflict"
        assert other[0].conflict
        assert other[0].reason == "Invalid"
        fresh = {"metadata": {"resourceVersion": second.metadata.resource_version}, "spec": {"n": 6}}
        assert (await server.client.patch(THINGS, server.namespace, "t", fresh)).spec == {"n": 6}
        async with refused() as blind:
            await server.client.replace(THINGS, Thing(metadata=server.meta("t"), spec={"n": 7}))
        assert blind[0].invalid
        await server.client.create(CONFIG_MAPS, bag(server, "x"))
        free = await server.client.replace(CONFIG_MAPS, Bag(metadata=server.meta("x"), data={"b": "2"}))
        assert free.data == {"b": "2"}

    run(scenario)


def test_narrow_patches_of_two_writers_never_lose_each_other(run: Run) -> None:
    async def scenario(server: Server) -> None:
        client, rounds = server.client, 30
        await client.create(THINGS, Thing(metadata=server.meta("t", annotations={"theirs": "0", "ours": "0"})))

        async def flip() -> None:
            for count in range(1, rounds + 1):
                body = {"metadata": {"annotations": {"theirs": str(count)}}}
                await client.patch(THINGS, server.namespace, "t", body)

        async def count_up() -> None:
            written = 0
            while written < rounds:
                seen = await client.get(THINGS, server.namespace, "t")
                ours = int(seen.metadata.annotations["ours"])
                assert ours == written
                metadata = {"resourceVersion": seen.metadata.resource_version, "annotations": {"ours": str(ours + 1)}}
                try:
                    await client.patch(THINGS, server.namespace, "t", {"metadata": metadata})
                    written += 1
                except ApiError as error:
                    if not error.conflict:  # then: read again, decide again
                        raise

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(flip)
            tasks.start_soon(count_up)
        last = await client.get(THINGS, server.namespace, "t")
        assert last.metadata.annotations == {"theirs": str(rounds), "ours": str(rounds)}

    run(scenario)


def test_a_write_that_changes_nothing_moves_no_version(run: Run) -> None:
    async def scenario(server: Server) -> None:
        made = await server.client.create(THINGS, Thing(metadata=server.meta("t", labels={"a": "b"}), spec={"n": 1}))
        same = await server.client.patch(THINGS, server.namespace, "t", {"spec": {"n": 1}})
        again = await server.client.patch(THINGS, server.namespace, "t", {"metadata": {"annotations": {"x": None}}})
        assert made.metadata.resource_version == same.metadata.resource_version == again.metadata.resource_version

    run(scenario)


def test_generation_counts_changes_of_the_spec_only(run: Run) -> None:
    async def scenario(server: Server) -> None:
        made = await server.client.create(THINGS, Thing(metadata=server.meta("t"), spec={"n": 1}, status={"s": 1}))
        assert made.metadata.generation == 1
        labelled = await server.client.patch(THINGS, server.namespace, "t", {"metadata": {"labels": {"a": "b"}}})
        assert labelled.metadata.generation == 1
        told = await server.client.patch(THINGS, server.namespace, "t", {"status": {"s": 1}}, subresource="status")
        assert told.metadata.generation == 1
        changed = await server.client.patch(THINGS, server.namespace, "t", {"spec": {"n": 2}})
        assert changed.metadata.generation == 2

    run(scenario)


def test_status_is_written_through_its_subresource_only(run: Run) -> None:
    async def scenario(server: Server) -> None:
        made = await server.client.create(THINGS, Thing(metadata=server.meta("t"), spec={"n": 1}, status={"s": 1}))
        assert made.status == {}
        ignored = await server.client.patch(THINGS, server.namespace, "t", {"status": {"s": 2}})
        assert ignored.status == {}
        assert ignored.metadata.resource_version == made.metadata.resource_version
        body = {"status": {"s": 3}, "spec": {"n": 9}, "metadata": {"labels": {"a": "b"}}}
        told = await server.client.patch(THINGS, server.namespace, "t", body, subresource="status")
        assert told.status == {"s": 3}
        assert told.spec == {"n": 1}
        assert told.metadata.labels == {}
        async with refused() as errors:
            await server.client.patch(CONFIG_MAPS, server.namespace, "t", body, subresource="status")
        assert errors[0].not_found

    run(scenario)


def test_finalizers_keep_an_object_until_the_last_one_is_removed(run: Run) -> None:
    async def scenario(server: Server) -> None:
        client, names = server.client, ("magosproject.io/one", "magosproject.io/two")
        made = await client.create(THINGS, Thing(metadata=server.meta("t", finalizers=names), spec={"n": 1}))
        await client.delete(THINGS, server.namespace, "t")
        ending = await client.get(THINGS, server.namespace, "t")
        assert ending.metadata.deletion_timestamp
        assert ending.metadata.deletion_grace_period_seconds == 0
        assert ending.metadata.generation == made.metadata.generation + 1
        await client.delete(THINGS, server.namespace, "t")
        unmoved = await client.get(THINGS, server.namespace, "t")
        assert unmoved.metadata.resource_version == ending.metadata.resource_version
        async with refused() as errors:
            more = {"metadata": {"finalizers": [*names, "magosproject.io/three"]}}
            await client.patch(THINGS, server.namespace, "t", more)
        assert errors[0].invalid
        still = await client.patch(THINGS, server.namespace, "t", {"metadata": {"finalizers": [names[1]]}})
        last = await client.patch(THINGS, server.namespace, "t", {"metadata": {"finalizers": None}})
        assert last.metadata.finalizers == ()
        assert await server.gone(THINGS, "t")
        seen = await events_until(
            server, THINGS, still.metadata.resource_version, lambda event: event.type is WatchType.DELETED
        )
        assert seen == [("DELETED", "t")]

    run(scenario)


def test_a_deletion_with_another_uid_or_version_is_a_conflict(run: Run) -> None:
    async def scenario(server: Server) -> None:
        made = await server.client.create(CONFIG_MAPS, bag(server, "x"))
        async with refused() as errors:
            await server.client.delete(CONFIG_MAPS, server.namespace, "x", uid="other")
        async with refused() as version:
            await server.client.delete(CONFIG_MAPS, server.namespace, "x", resource_version="1")
        assert errors[0].conflict
        assert version[0].conflict
        await server.client.delete(CONFIG_MAPS, server.namespace, "x", uid=made.metadata.uid)
        assert await server.gone(CONFIG_MAPS, "x")

    run(scenario)


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("app=a", ["one"]),
        ("app==a", ["one"]),
        ("app!=a", ["three", "two"]),
        ("app in (a,b),tier", ["one"]),
        ("app notin (a)", ["three", "two"]),
        ("!app", ["three"]),
        ("app", ["one", "two"]),
    ],
)
def test_label_selectors_choose_as_documented(run: Run, selector: str, names: list[str]) -> None:
    async def scenario(server: Server) -> None:
        for name, labels in (("one", {"app": "a", "tier": "x"}), ("two", {"app": "b"}), ("three", {"of": "suite"})):
            await server.client.create(THINGS, Thing(metadata=server.meta(name, labels=labels)))
        page = await server.client.list(THINGS, server.namespace, selector=selector)
        assert [item.metadata.name for item in page.items] == names
        page = await server.client.list(THINGS, server.namespace, field_selector="metadata.name=two")
        assert [item.metadata.name for item in page.items] == ["two"]
        async with refused() as errors:
            await server.client.list(THINGS, server.namespace, selector="a in (")
        assert errors[0].invalid

    run(scenario)


def test_a_list_is_paged_in_the_order_of_keys_at_one_version(run: Run) -> None:
    async def scenario(server: Server) -> None:
        for name in ("c", "a", "b", "e", "d"):
            await server.client.create(THINGS, Thing(metadata=server.meta(name)))
        first = await server.client.list(THINGS, server.namespace, limit=2)
        await server.client.create(THINGS, Thing(metadata=server.meta("bb")))
        second = await server.client.list(THINGS, server.namespace, limit=2, continue_=first.continue_)
        third = await server.client.list(THINGS, server.namespace, limit=2, continue_=second.continue_)
        assert [i.metadata.name for page in (first, second, third) for i in page.items] == ["a", "b", "c", "d", "e"]
        assert first.resource_version == second.resource_version == third.resource_version
        assert third.continue_ == ""
        whole = await server.client.list_all(THINGS, server.namespace)
        assert [i.metadata.name for i in whole.items] == ["a", "b", "bb", "c", "d", "e"]

    run(scenario)


def test_a_version_of_the_future_is_named_as_such(run: Run) -> None:
    async def scenario(server: Server) -> None:
        async with refused() as errors:
            await server.client.list(THINGS, server.namespace, resource_version="999999999")
        assert errors[0].too_large_resource_version
        assert errors[0].transient

    run(scenario)


def test_a_watch_tells_every_change_in_order_with_rising_versions(run: Run) -> None:
    async def scenario(server: Server) -> None:
        client, ns = server.client, server.namespace
        start = (await client.list(THINGS, ns)).resource_version
        await client.create(THINGS, Thing(metadata=server.meta("x"), spec={"n": 1}))
        await client.patch(THINGS, ns, "x", {"spec": {"n": 2}})
        await client.create(THINGS, Thing(metadata=server.meta("y")))
        await client.delete(THINGS, ns, "x")
        versions: list[int] = []

        def last(event: WatchEvent[Any]) -> bool:
            versions.append(int(event.resource_version))
            return event.type is WatchType.DELETED

        seen = await events_until(server, THINGS, start, last)
        assert seen == [("ADDED", "x"), ("MODIFIED", "x"), ("ADDED", "y"), ("DELETED", "x")]
        assert versions == sorted(set(versions))

    run(scenario)


def test_a_watch_without_version_begins_with_what_exists(run: Run) -> None:
    async def scenario(server: Server) -> None:
        for name in ("b", "a"):
            await server.client.create(THINGS, Thing(metadata=server.meta(name)))
        count = 0

        def last(_: WatchEvent[Any]) -> bool:
            nonlocal count
            count += 1
            return count == 2

        seen = await events_until(server, THINGS, "", last)
        assert sorted(seen) == [("ADDED", "a"), ("ADDED", "b")]

    run(scenario)


def test_a_selected_watch_sees_objects_come_and_go_by_their_labels(run: Run) -> None:
    async def scenario(server: Server) -> None:
        client, ns = server.client, server.namespace
        start = (await client.list(THINGS, ns)).resource_version
        await client.create(THINGS, Thing(metadata=server.meta("x")))
        await client.patch(THINGS, ns, "x", {"metadata": {"labels": {"in": "yes"}}})
        await client.patch(THINGS, ns, "x", {"spec": {"n": 1}})
        await client.patch(THINGS, ns, "x", {"metadata": {"labels": {"in": None}}})
        seen = await events_until(server, THINGS, start, lambda e: e.type is WatchType.DELETED, selector="in=yes")
        assert seen == [("ADDED", "x"), ("MODIFIED", "x"), ("DELETED", "x")]

    run(scenario)


def test_a_watch_ends_cleanly_at_its_timeout(run: Run) -> None:
    async def scenario(server: Server) -> None:
        start = (await server.client.list(THINGS, server.namespace)).resource_version
        with anyio.fail_after(20):
            async with server.client.watch(
                THINGS, namespace=server.namespace, resource_version=start, timeout_seconds=2
            ) as batches:
                types = {event.type async for batch in batches for event in batch}
        assert types <= {WatchType.BOOKMARK}

    run(scenario)


POD_SPEC = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "example.invalid/none"}]}


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        (THINGS, {}),
        (PODS, POD_SPEC),
        (JOBS, {"suspend": True, "template": {"spec": POD_SPEC}}),
        (PARTIAL_SECRETS, None),
    ],
)
def test_bookmarks_tell_of_writes_outside_the_selector_and_are_no_objects(
    run: Run, kind: Kind[Any], spec: dict[str, Any] | None
) -> None:
    async def scenario(server: Server) -> None:
        start = (await server.client.list(kind, server.namespace, selector="in=yes")).resource_version
        events: list[WatchEvent[Any]] = []
        with anyio.fail_after(30):
            async with server.client.watch(
                kind, namespace=server.namespace, selector="in=yes", resource_version=start, timeout_seconds=5
            ) as batches:
                body = {"metadata": {"name": "x", "namespace": server.namespace}}
                made = await server.client.create(kind, body if spec is None else {**body, "spec": spec})
                async for batch in batches:
                    events += batch
        assert {event.type for event in events} == {WatchType.BOOKMARK}
        assert {event.object for event in events} == {None}
        assert int(events[-1].resource_version) >= int(made.metadata.resource_version)

    run(scenario)


def test_a_watch_from_a_forgotten_version_is_told_to_list_anew(run: Run) -> None:
    async def scenario(server: Server) -> None:
        gone = False
        try:
            async with server.client.watch(
                THINGS, namespace=server.namespace, resource_version="1", timeout_seconds=5
            ) as batches:
                async for batch in batches:
                    gone = gone or any(event.status is not None and event.status.code == 410 for event in batch)
        except ApiError as error:
            gone = error.gone
        assert gone

    run(scenario)


def test_only_merge_patches_by_their_own_content_type_are_sent(run: Run) -> None:
    async def scenario(server: Server) -> None:
        await server.client.create(CONFIG_MAPS, bag(server, "x"))
        path = f"/api/v1/namespaces/{server.namespace}/configmaps/x"
        response = await server.transport.request(
            HttpRequest(method="PATCH", path=path, body=b"{}", content_type="application/json", lane=Lane.WRITE)
        )
        assert response.status == 415

    run(scenario)


def test_metadata_only_answers_carry_no_content(run: Run) -> None:
    async def scenario(server: Server) -> None:
        await server.client.create(SECRETS, Bag(metadata=server.meta("s", labels={"a": "b"}), data={"k": "c2VjcmV0"}))
        page = await server.client.list(PARTIAL_SECRETS, server.namespace, selector="a=b")
        assert [(i.metadata.name, i.data) for i in page.items] == [("s", {})]
        accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
        path = f"/api/v1/namespaces/{server.namespace}/secrets/s"
        response = await server.transport.request(HttpRequest(method="GET", path=path, accept=accept))
        assert response.status == 200
        body = raw(response.body)
        assert (body["kind"], "data" in body) == ("PartialObjectMetadata", False)
        bodies: list[bytes] = []
        query = (("watch", "1"), ("labelSelector", "a=b"), ("timeoutSeconds", "2"))
        watch = HttpRequest(method="GET", path=path.removesuffix("/s"), query=query, accept=accept, lane=Lane.WATCH)
        async with server.transport.stream(watch) as stream:
            bodies += [chunk async for chunk in stream.chunks]
        assert b'"name":"s"' in b"".join(bodies)
        assert b"c2VjcmV0" not in b"".join(bodies)

    run(scenario)


def child(server: Server, owner: Thing, *, block: bool = True) -> Bag:
    reference = OwnerReference(
        api_version=THINGS.api_version,
        kind=THINGS.name,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=block,
    )
    return bag(server, "child", owner_references=(reference,))


@pytest.mark.parametrize("propagation", list(Propagation))
def test_dependents_follow_their_owner_as_the_propagation_says(run: Run, propagation: Propagation) -> None:
    async def scenario(server: Server) -> None:
        owner = await server.client.create(THINGS, Thing(metadata=server.meta("owner")))
        await server.client.create(CONFIG_MAPS, child(server, owner))
        await server.client.delete(THINGS, server.namespace, "owner", propagation=propagation)
        await server.eventually(lambda: server.gone(THINGS, "owner"))
        if propagation is Propagation.ORPHAN:
            left = await server.client.get(CONFIG_MAPS, server.namespace, "child")
            assert left.metadata.owner_references == ()
        else:
            await server.eventually(lambda: server.gone(CONFIG_MAPS, "child"))

    run(scenario)


def test_a_child_of_an_owner_that_never_was_is_collected(run: Run) -> None:
    async def scenario(server: Server) -> None:
        owner = await server.client.create(THINGS, Thing(metadata=server.meta("owner")))
        await server.client.delete(THINGS, server.namespace, "owner")
        await server.client.create(CONFIG_MAPS, child(server, owner))
        await server.eventually(lambda: server.gone(CONFIG_MAPS, "child"))

    run(scenario)


def test_pods_end_at_once_unless_a_node_has_them(run: Run) -> None:
    async def scenario(server: Server) -> None:
        free = {"metadata": {"name": "free", "namespace": server.namespace}, "spec": POD_SPEC}
        await server.client.create(PODS, free)
        await server.client.delete(PODS, server.namespace, "free")
        assert await server.gone(PODS, "free")
        bound = {
            "metadata": {"name": "bound", "namespace": server.namespace},
            "spec": {**POD_SPEC, "nodeName": "somewhere"},
        }
        made = await server.client.create(PODS, bound)
        assert made.status["phase"] == "Pending"
        await server.client.delete(PODS, server.namespace, "bound")
        ending = await server.client.get(PODS, server.namespace, "bound")
        assert ending.metadata.deletion_grace_period_seconds == 30
        assert ending.metadata.deletion_timestamp
        await server.client.delete(PODS, server.namespace, "bound", grace_seconds=0)
        assert await server.gone(PODS, "bound")

    run(scenario)


def test_a_claim_is_protected_and_vanishes_when_unused(run: Run) -> None:
    async def scenario(server: Server) -> None:
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        claim = {"metadata": {"name": "c", "namespace": server.namespace}, "spec": spec}
        made = await server.client.create(CLAIMS, claim)
        assert "kubernetes.io/pvc-protection" in made.metadata.finalizers
        assert made.status["phase"] == "Pending"
        await server.client.delete(CLAIMS, server.namespace, "c")
        await server.eventually(lambda: server.gone(CLAIMS, "c"))

    run(scenario)


def test_a_job_keeps_its_template_and_orphans_its_pods_unless_told_otherwise(run: Run) -> None:
    async def scenario(server: Server) -> None:
        template = {"spec": POD_SPEC}
        job = {
            "metadata": {"name": "j", "namespace": server.namespace},
            "spec": {"suspend": True, "template": template},
        }
        made = await server.client.create(JOBS, job)
        assert made.metadata.generation == 1
        other = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "example.invalid/other"}]}}}}
        async with refused() as errors:
            await server.client.patch(JOBS, server.namespace, "j", other)
        assert errors[0].invalid
        body = {"status": {"startTime": None}, "metadata": {"annotations": {"saved": "yes"}}}
        told = await server.client.patch(JOBS, server.namespace, "j", body, subresource="status")
        assert told.metadata.annotations == {"saved": "yes"}
        await server.client.delete(JOBS, server.namespace, "j", propagation=Propagation.BACKGROUND)
        await server.eventually(lambda: server.gone(JOBS, "j"))

    run(scenario)


def test_a_terminating_namespace_takes_nothing_new_and_ends_when_empty(run: Run) -> None:
    async def scenario(server: Server) -> None:
        namespaces = loose_kind("namespaces", "Namespace", namespaced=False)
        name = f"{server.namespace}-end"
        await server.client.create(namespaces, {"metadata": {"name": name}})
        held = ObjectMeta(name="held", namespace=name, finalizers=("magosproject.io/held",))
        await server.client.create(CONFIG_MAPS, Bag(metadata=held))
        await server.client.delete(namespaces, "", name)
        async with refused() as errors:
            await server.client.create(CONFIG_MAPS, Bag(metadata=ObjectMeta(name="late", namespace=name)))
        assert errors[0].forbidden
        assert "NamespaceTerminating" in [cause.reason for cause in errors[0].causes]
        await server.client.patch(CONFIG_MAPS, name, "held", {"metadata": {"finalizers": None}})

        async def ended() -> bool:
            try:
                await server.client.get(namespaces, "", name)
            except ApiError as error:
                return error.not_found
            # Somebody has to collect what was held; the namespace controller looks again every few seconds.
            return False

        await server.eventually(ended)

    run(scenario)
