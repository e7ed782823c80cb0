"""Claims of magos/runtime/controller/probes.py that need no controller."""

import random
from collections.abc import Awaitable, Callable

import pytest

from magos.api.kube import CONFIG_MAPS
from magos.api.meta import Kind, ObjectMeta
from magos.errors import ConfigurationError, InvariantViolation
from magos.runtime.client.client import ApiClient
from magos.runtime.controller.queries import QueryHandler, QueryRegistry
from magos.runtime.decision import LiveGet, LiveList, Query
from tests.sim.apiserver import SimApiServer
from tests.sim.toy import Widget
from tests.sim.virtualtime import VirtualClock, run_virtual

UNSERVED = Kind(group="nowhere.example.com", version="v1", plural="things", name="Thing", type=Widget)


class Slow(Query, frozen=True):
    name: str


def with_registry(
    scene: Callable[[QueryRegistry, ApiClient], Awaitable[None]],
    handlers: dict[type[Query], QueryHandler] | None = None,
) -> None:
    async def main() -> None:
        clock = VirtualClock()
        client = SimApiServer(clock, random.Random(1)).client()
        await scene(QueryRegistry(client, clock, handlers or {}), client)

    run_virtual(main)


def test_a_kind_that_is_not_served_is_a_failure_and_not_an_absent_object() -> None:
    async def scene(registry: QueryRegistry, _client: ApiClient) -> None:
        get, listed = LiveGet(UNSERVED, "default", "x"), LiveList(UNSERVED, "default")
        answers = await registry.answer((get, listed))
        assert all(answer.failure is not None and answer.failure.reason == "NotFound" for answer in answers.values())

    with_registry(scene)


def test_a_list_with_an_unreadable_object_is_no_list() -> None:
    odd = Kind(group="", version="v1", plural="configmaps", name="ConfigMap", type=_Odd)

    async def scene(registry: QueryRegistry, client: ApiClient) -> None:
        manifest = {"metadata": {"name": "x", "namespace": "default"}, "data": {"a": "b"}}
        await client.create(CONFIG_MAPS, manifest)
        (answer,) = (await registry.answer((LiveList(odd, "default"),))).values()
        assert answer.failure is not None
        assert answer.failure.reason == "Undecodable"
        assert "ConfigMap default/x" in answer.failure.message

    with_registry(scene)


class _Odd(Widget, frozen=True):
    data: int = 0


def test_equal_probes_are_asked_once() -> None:
    asked: list[str] = []

    async def handler(query: Slow, _client: ApiClient) -> int:
        asked.append(query.name)
        return len(asked)

    async def scene(registry: QueryRegistry, _client: ApiClient) -> None:
        answers = await registry.answer((Slow("a"), Slow("a"), Slow("b")))
        assert len(answers) == 2
        assert sorted(asked) == ["a", "b"]

    with_registry(scene, {Slow: handler})


def test_a_broken_handler_is_an_error_of_the_pass() -> None:
    async def handler(_probe: Slow, _client: ApiClient) -> int:
        raise ZeroDivisionError

    async def scene(registry: QueryRegistry, _client: ApiClient) -> None:
        with pytest.raises(ZeroDivisionError):
            await registry.answer((Slow("a"), Slow("b")))

    with_registry(scene, {Slow: handler})


def test_a_probe_nobody_answers_and_a_handler_for_a_builtin_are_refused() -> None:
    async def scene(registry: QueryRegistry, client: ApiClient) -> None:
        with pytest.raises(InvariantViolation, match="Slow"):
            await registry.answer((Slow("a"),))

        async def handler(_probe: LiveGet, _client: ApiClient) -> ObjectMeta:
            return ObjectMeta()

        with pytest.raises(ConfigurationError, match="LiveGet"):
            QueryRegistry(client, VirtualClock(), {LiveGet: handler})

    with_registry(scene)
