"""Live streams: snapshot, changes in order, rights, limits and ends. In virtual time."""

from datetime import timedelta
from typing import Any

import anyio
import pytest

from magos.api.workspace import WORKSPACES
from magos.server.hub import BUFFER
from tests.unit.server.asgi import Stream
from tests.unit.server.world import API, World, in_world

EVENTS = f"{API}/workspaces/events"
SYNCED = ("synced", "")


async def said(stream: Stream) -> tuple[str, str]:
    """Return the next event in short: its type and the object's name, or its name and its reason."""
    name, data = await stream.event()
    if name == "message":
        return data["type"], data["object"]["metadata"]["name"]
    return name, (data or {}).get("reason", "")


async def touch(world: World, name: str, value: Any = "x", namespace: str = "default") -> None:
    """Change a Workspace."""
    body = {"metadata": {"annotations": {"touched": str(value)}}}
    await world.user.patch(WORKSPACES, namespace, name, body)


def test_a_stream_begins_with_what_exists_and_goes_on_with_every_change() -> None:
    async def scene(world: World) -> None:
        world.workspace("a")
        world.workspace("b")
        await world.settled()
        async with world.stream(EVENTS) as stream:
            assert [await said(stream) for _ in range(3)] == [("ADDED", "a"), ("ADDED", "b"), SYNCED]
            assert stream.headers["content-type"].startswith("text/event-stream")
            assert stream.headers["cache-control"] == "no-cache"
            assert stream.headers["x-accel-buffering"] == "no"
            world.workspace("c")
            assert await said(stream) == ("ADDED", "c")
            for value in range(3):
                await touch(world, "a", value)
            for value in range(3):
                block = await stream.block()
                assert block is not None
                assert f'"touched":"{value}"' in block
            await world.user.delete(WORKSPACES, "default", "b")
            assert await said(stream) == ("DELETED", "b")

    in_world(scene)


def test_the_id_of_an_event_is_the_version_of_its_object() -> None:
    async def scene(world: World) -> None:
        stored = world.workspace("a")
        await world.settled()
        async with world.stream(EVENTS) as stream:
            block = await stream.block()
            assert block is not None
            assert f"id: {stored['metadata']['resourceVersion']}\n" in block

    in_world(scene)


def test_a_stream_of_a_project_has_its_members_only_and_sees_them_come_and_go() -> None:
    async def scene(world: World) -> None:
        world.workspace("a", "team-a", "shop")
        world.workspace("b", "team-a", "bank")
        world.workspace("c", "team-b", "shop")
        await world.settled()
        async with world.stream(EVENTS, namespace="team-a", projectRef="shop") as stream:
            assert [await said(stream) for _ in range(2)] == [("ADDED", "a"), SYNCED]
            await touch(world, "b", namespace="team-a")
            await touch(world, "c", namespace="team-b")
            moved = {"spec": {"projectRef": {"name": "shop"}}}
            await world.user.patch(WORKSPACES, "team-a", "b", moved)
            assert await said(stream) == ("ADDED", "b")
            await world.user.patch(WORKSPACES, "team-a", "a", {"spec": {"projectRef": {"name": "bank"}}})
            assert await said(stream) == ("DELETED", "a")

    in_world(scene)


def test_a_silent_stream_is_pinged_every_fifteen_seconds() -> None:
    async def scene(world: World) -> None:
        async with world.stream(EVENTS) as stream:
            assert await said(stream) == SYNCED
            begun = world.clock.monotonic()
            for count in (1, 2, 3):
                assert await stream.block() == ": ping"
                assert world.clock.monotonic() - begun == pytest.approx(15 * count, abs=0.1)

    in_world(scene)


def test_a_client_that_reads_too_slowly_is_told_that_it_missed_changes() -> None:
    async def scene(world: World) -> None:
        world.workspace("a")
        await world.settled()
        async with world.stream(EVENTS) as stream, world.stream(EVENTS) as other:
            for each in (stream, other):
                assert [await said(each) for _ in range(2)] == [("ADDED", "a"), SYNCED]
            stream.reading.clear()
            for value in range(BUFFER + 3):
                await touch(world, "a", value)
                assert await said(other) == ("MODIFIED", "a")
            stream.reading.set()
            seen = [await said(stream) for _ in range(2)]
            assert seen == [("MODIFIED", "a"), ("resync", "this client reads too slowly and has missed changes")]
            assert await said(stream) == ("end", "")

    in_world(scene)


def test_what_changes_before_the_snapshot_is_read_is_neither_lost_nor_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("magos.server.events._PIECE", 1)

    async def scene(world: World) -> None:
        for name in "abc":
            world.workspace(name)
        await world.settled()
        async with world.stream(EVENTS) as stream:
            stream.takes = 3  # the start of the answer, a and b
            await world.settled()
            assert [await said(stream) for _ in range(2)] == [("ADDED", "a"), ("ADDED", "b")]
            for value in range(BUFFER * 2):
                await touch(world, "a", value)
            await world.user.delete(WORKSPACES, "default", "b")
            await world.user.delete(WORKSPACES, "default", "c")
            world.workspace("c", project="other")
            world.workspace("d")
            await world.settled()
            stream.takes = None
            stream.reading.set()
            last: dict[str, str] = {"a": "ADDED", "b": "ADDED"}
            while (event := await said(stream)) != SYNCED:
                last[event[1]] = event[0]
            assert last["b"] == "DELETED"
            assert {name for name, kind in last.items() if kind != "DELETED"} == {"a", "c", "d"}
            await touch(world, "a", "after")
            assert await said(stream) == ("MODIFIED", "a")

    in_world(scene)


def test_a_stream_shows_the_namespaces_that_may_be_watched_and_no_other() -> None:
    async def scene(world: World) -> None:
        world.workspace("a", "team-a")
        await world.settled()
        world.access.only("team-b")
        async with world.stream(EVENTS) as stream:
            assert await said(stream) == SYNCED
            await touch(world, "a", namespace="team-a")
            world.workspace("b", "team-b")
            assert await said(stream) == ("ADDED", "b")
        refused = await world.ask(EVENTS, namespace="team-a")
        assert (refused.status, refused.error) == (403, "ann may not watch workspaces in team-a")

    in_world(scene)


@pytest.mark.parametrize("namespace", ["", "team-a"])
def test_a_right_that_is_taken_away_ends_the_stream_within_thirty_seconds(namespace: str) -> None:
    async def scene(world: World) -> None:
        world.workspace("a", "team-a")
        world.workspace("b", "team-b")
        await world.settled()
        world.access.only("team-a", "team-b")
        query = {"namespace": namespace} if namespace else {}
        async with world.stream(EVENTS, **query) as stream:
            while await said(stream) != SYNCED:
                pass
            world.access.only("team-b")
            begun = world.clock.monotonic()
            assert (await said(stream))[0] == "resync"
            assert world.clock.monotonic() - begun <= 30
            assert await said(stream) == ("end", "")

    in_world(scene)


def test_a_stream_ends_where_nobody_can_tell_what_may_be_seen() -> None:
    async def scene(world: World) -> None:
        async with world.stream(EVENTS) as stream:
            assert await said(stream) == SYNCED
            world.access.down = True
            assert (await said(stream))[0] == "resync"
            assert await said(stream) == ("end", "")

    in_world(scene)


def test_a_stream_ends_with_the_token_that_opened_it() -> None:
    async def scene(world: World) -> None:
        world.authenticator.expiry["ann"] = world.clock.now() + timedelta(seconds=40)
        async with world.stream(EVENTS) as stream:
            assert await said(stream) == SYNCED
            begun = world.clock.monotonic()
            assert await said(stream) == ("resync", "the credential has expired")
            assert 40 <= world.clock.monotonic() - begun <= 55

    in_world(scene)


def test_streams_end_with_a_last_event_when_the_server_stops() -> None:
    async def scene(world: World) -> None:
        async with world.stream(EVENTS) as stream, world.stream(f"{API}/rollouts/events") as other:
            assert await said(stream) == SYNCED
            assert await said(other) == SYNCED
            begun = world.clock.monotonic()
            world.server.end_streams()
            for each in (stream, other):
                assert await said(each) == ("resync", "the server stops")
                assert await said(each) == ("end", "")
            assert world.clock.monotonic() == begun
        async with world.stream(EVENTS) as late:
            assert await said(late) == ("resync", "the server stops")

    in_world(scene)


def test_a_client_that_stops_reading_for_good_is_given_up() -> None:
    async def scene(world: World) -> None:
        hub = world.server.hubs["workspaces"]
        async with world.stream(EVENTS) as stream:
            assert await said(stream) == SYNCED
            assert hub.followers == 1
            stream.reading.clear()
            await anyio.sleep(100)
            assert hub.followers == 0

    in_world(scene)


def test_whoever_leaves_is_forgotten() -> None:
    async def scene(world: World) -> None:
        hub = world.server.hubs["workspaces"]
        async with world.stream(EVENTS) as stream:
            assert await said(stream) == SYNCED
            assert hub.followers == 1
        await world.settled()
        assert hub.followers == 0

    in_world(scene)


def test_each_state_is_encoded_once_for_all_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    from magos.server import hub

    encoded: list[str] = []
    encode = hub.resource

    def counted(kind: Any, item: Any) -> bytes:
        encoded.append(item.metadata.name)
        return encode(kind, item)

    monkeypatch.setattr(hub, "resource", counted)

    async def scene(world: World) -> None:
        world.workspace("a")
        await world.settled()
        async with world.stream(EVENTS) as one, world.stream(EVENTS, namespace="default") as two:
            for each in (one, two):
                assert [await said(each) for _ in range(2)] == [("ADDED", "a"), SYNCED]
            assert encoded == ["a"]
            await touch(world, "a")
            assert [await said(one), await said(two)] == [("MODIFIED", "a")] * 2
            assert encoded == ["a", "a"]
            await world.ask(f"{API}/workspaces")
            await world.ask(f"{API}/workspaces/default/a")
            assert encoded == ["a", "a"]

    in_world(scene)
