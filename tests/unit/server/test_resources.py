"""Lists and single objects: what is sent, and who sees it."""

import msgspec
import pytest

from magos.api.project import PROJECTS
from magos.api.rollout import ROLLOUTS
from magos.api.workspace import Workspace
from magos.server.access import Right, Verb
from tests.unit.server.world import API, World, in_world


def test_a_list_has_full_resources_in_their_json_form() -> None:
    async def scene(world: World) -> None:
        stored = world.workspace("network")
        await world.settled()
        answer = await world.ask(f"{API}/workspaces")
        [found] = answer.json
        assert (found["apiVersion"], found["kind"]) == ("magosproject.io/v1alpha1", "Workspace")
        assert found["metadata"]["uid"] == stored["metadata"]["uid"]
        assert found["spec"] == stored["spec"]
        assert msgspec.convert(found, Workspace).metadata.name == "network"
        assert answer.headers["content-type"] == "application/json"

    in_world(scene)


@pytest.mark.parametrize("plural", ["workspaces", "projects", "rollouts", "variablesets"])
def test_what_is_not_there_is_an_empty_array_and_404(plural: str) -> None:
    async def scene(world: World) -> None:
        assert (await world.ask(f"{API}/{plural}")).json == []
        missing = await world.ask(f"{API}/{plural}/default/nothing")
        assert missing.status == 404
        assert "default/nothing" in missing.error

    in_world(scene)


def test_a_list_is_filtered_by_namespace_and_project() -> None:
    async def scene(world: World) -> None:
        world.workspace("a", "team-a", "shop")
        world.workspace("b", "team-a", "bank")
        world.workspace("c", "team-b", "shop")
        world.put(PROJECTS, "shop", "team-a", {})
        world.put(ROLLOUTS, "shop", "team-a", {"projectRef": "shop", "strategy": {"steps": []}})
        await world.settled()

        async def names(plural: str, **query: str) -> list[str]:
            return [each["metadata"]["name"] for each in (await world.ask(f"{API}/{plural}", **query)).json]

        assert await names("workspaces") == ["a", "b", "c"]
        assert await names("workspaces", namespace="team-a") == ["a", "b"]
        assert await names("workspaces", namespace="team-a", projectRef="shop") == ["a"]
        assert await names("projects", namespace="team-a", projectRef="bank") == []
        assert await names("rollouts", namespace="team-a", projectRef="shop") == ["shop"]

    in_world(scene)


def test_a_list_has_only_what_the_caller_may_list() -> None:
    async def scene(world: World) -> None:
        for namespace in ("team-a", "team-b"):
            world.workspace("network", namespace)
        await world.settled()
        world.access.only("team-b")
        found = (await world.ask(f"{API}/workspaces")).json
        assert [each["metadata"]["namespace"] for each in found] == ["team-b"]
        refused = await world.ask(f"{API}/workspaces", namespace="team-a")
        assert refused.status == 403
        assert refused.error == "ann may not list workspaces in team-a"

    in_world(scene)


def test_whoever_may_not_see_a_namespace_is_not_told_what_exists_there() -> None:
    async def scene(world: World) -> None:
        world.workspace("network", "team-a")
        await world.settled()
        world.access.only("team-b")
        there = await world.ask(f"{API}/workspaces/team-a/network")
        missing = await world.ask(f"{API}/workspaces/team-a/nothing")
        assert (there.status, there.body) == (missing.status, missing.body)
        assert there.status == 403

    in_world(scene)


def test_a_get_asks_for_exactly_that_object() -> None:
    async def scene(world: World) -> None:
        await world.ask(f"{API}/projects/team-a/shop")
        assert world.access.asked == [Right(verb=Verb.GET, resource="projects", namespace="team-a", name="shop")]

    in_world(scene)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"projectRef": "shop"}, "projectRef needs namespace"),
        ({"namespace": "Not_A_Name"}, "namespace 'Not_A_Name'"),
        ({"namespace": "a", "projectRef": "../etc"}, "projectRef '../etc'"),
    ],
)
def test_a_bad_parameter_is_named(query: dict[str, str], words: str) -> None:
    async def scene(world: World) -> None:
        answer = await world.ask(f"{API}/workspaces", **query)
        assert answer.status == 400
        assert words in answer.error

    in_world(scene)


def test_variable_sets_cannot_be_selected_by_a_project() -> None:
    async def scene(world: World) -> None:
        answer = await world.ask(f"{API}/variablesets", namespace="team-a", projectRef="shop")
        assert answer.status == 400
        assert "several Projects may use one" in answer.error

    in_world(scene)


def test_a_request_without_a_credential_is_401_whatever_it_asks_for() -> None:
    async def scene(world: World) -> None:
        for path in ("workspaces", "workspaces/Bad_/x", "workspaces/default/x/runs", "workspaces/events"):
            answer = await world.ask(f"{API}/{path}", token="")
            assert (answer.status, answer.error) == (401, "authentication required")
            assert answer.headers["www-authenticate"] == "Bearer"

    in_world(scene)
