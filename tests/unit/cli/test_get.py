"""``magos get``: tables for people, exact objects for programs, changes as they come."""

import json
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest
import yaml

from magos.api.phases import Phase
from magos.api.project import PROJECTS
from magos.api.rollout import ROLLOUTS
from magos.api.workspace import WORKSPACES
from magos.errors import MagosError
from magos.terminal import shown
from tests.unit.cli.shop import HOSTILE, Shop
from tests.unit.explain.objects import COMMIT, RUN, project, rollout, with_meta, workspace

APPLIED = workspace(Phase.APPLIED, "ApplySucceeded", "All well.", observed_revision=COMMIT)
FAILED = with_meta(workspace(Phase.FAILED, "PlanFailed", HOSTILE), name="broken", labels={"team": "red"})


def test_a_table_shows_what_kubectl_shows_with_the_reason(shop: Shop) -> None:
    shop.has(APPLIED)
    assert shop("get").out.splitlines() == [
        "NAME   PHASE     READY   REASON           PROJECT   REVISION   AGE",
        "prod   Applied   -       ApplySucceeded   shop      c0ffee0    10m",
    ]
    wide = shop("get", "ws", "-o", "wide").out.splitlines()
    assert wide[0].split()[-5:] == ["RUN", "TRIGGER", "NEXT", "PATH", "MESSAGE"]
    assert RUN in wide[1]
    assert wide[1].endswith("All well.")


@pytest.mark.parametrize("called", ["rollout", "mro", "Rollouts", "rollouts.magosproject.io"])
def test_a_kind_goes_by_each_of_its_names(shop: Shop, called: str) -> None:
    shop.put(ROLLOUTS, rollout(0, "dev", "prod", reason="LevelProgressing"))
    assert "LevelProgressing   shop      0/2" in shop("get", called).out


def test_what_is_no_kind_or_no_name_is_wrong_usage(shop: Shop) -> None:
    ended = shop("get", "pods")
    assert (ended.code, "workspaces (ws), projects (mproj)" in ended.err) == (2, True)
    assert shop("get", "ws", "prod", "-A").code == 2
    assert shop("get", "ws", "a/b/c").code == 2
    assert shop("get", "ws", "team-b/prod", "-n", "team-a").code == 2


def test_nothing_that_is_not_there_is_found(shop: Shop) -> None:
    ended = shop("get", "ws", "prod")
    assert ended.code == 3
    assert ended.err.startswith("magos: get Workspace team-a/prod: NotFound")
    assert shop("get", "ws").err == "There are no workspaces in namespace team-a.\n"
    assert shop("get", "ws", "-w", "prod").code == 3


def test_labels_and_namespaces_select(shop: Shop) -> None:
    shop.has(APPLIED, FAILED)
    assert shop("get", "ws", "-l", "team=red", "-o", "name").out == "workspaces.magosproject.io/broken\n"
    assert shop("get", "ws", "-A").out.splitlines()[0].startswith("NAMESPACE   NAME")
    assert shop("get", "ws", "-n", "default", "-o", "name").out == ""
    assert shop("get", "ws", "team-a/prod", "-o", "name").out == "workspaces.magosproject.io/prod\n"
    assert shop.targets[-1].namespace == "team-a"


def test_machine_readable_output_is_the_object_as_the_server_has_it(shop: Shop) -> None:
    shop.has(FAILED)
    kept: dict[str, Any] = {**shop.workspace("broken"), "unheardOf": {"deep": [1, 2.5, None, "\u202e"]}}
    stored = shop.server.store.put(shop.server.resource(WORKSPACES), ("team-a", "broken"), kept)
    one = shop("get", "ws", "broken", "-o", "json").out
    assert json.loads(one) == stored
    assert "\u202e" in one
    assert json.loads(one)["status"]["message"] == HOSTILE
    many = json.loads(shop("get", "ws", "-o", "json").out)
    assert (many["apiVersion"], many["kind"], many["items"]) == ("v1", "List", [stored])
    assert yaml.safe_load(shop("get", "ws", "broken", "-o", "yaml").out) == stored


def test_no_text_of_others_is_obeyed_by_a_terminal_or_looks_like_a_line_of_ours(shop: Shop) -> None:
    shop.has(FAILED)
    printed = shop("get", "ws", "-o", "wide").out
    assert shown(printed) == printed
    assert len(printed.splitlines()) == 2


def _later(*steps: Callable[[], object]) -> Callable[[], Coroutine[Any, Any, None]]:
    async def meanwhile() -> None:
        for step in steps:
            await anyio.sleep(1)
            step()

    return meanwhile


def test_a_watch_prints_what_is_there_and_then_every_change(shop: Shop) -> None:
    shop.put(PROJECTS, project())
    shop.has(APPLIED)

    def remove() -> None:
        shop.server.store.remove(shop.server.resource(WORKSPACES), ("team-a", "broken"))

    def deny() -> None:
        raise MagosError("enough")

    shop.meanwhile = _later(lambda: shop.has(FAILED), remove, deny)
    lines = shop("get", "ws", "-w").out.splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", "prod", "broken", "broken", "Workspace"]
    assert lines[4] == "Workspace team-a/broken was deleted."


def test_a_watch_survives_a_broken_connection_and_a_server_that_forgets(shop: Shop) -> None:
    shop.has(APPLIED)

    def forget() -> None:
        shop.has(FAILED)
        shop.server.store.compact()
        shop.server.disconnect()

    def end() -> None:
        raise MagosError("enough")

    shop.meanwhile = _later(shop.server.disconnect, forget, lambda: None, end)
    printed = shop("get", "ws", "-w", "-o", "name").out.splitlines()
    assert printed == ["workspaces.magosproject.io/prod", "workspaces.magosproject.io/broken"]
