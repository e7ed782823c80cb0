"""Runs: out of history, out of status, and merged."""

from typing import Any

import pytest

from magos.api.names import source_key
from magos.api.workspace import RunResult
from magos.history.runs import Run, RunPhase
from tests.unit.server.records import RUN, FakeHistory
from tests.unit.server.world import API, World, in_world

RUNS = f"{API}/workspaces/default/a/runs"
CURRENT = "20260102T000000-00000000"


def rows(count: int, uid: str = "") -> tuple[Run, ...]:
    """Return runs of the day before the current one."""
    return tuple(Run(run_id=f"20260101T{number:06}-00000000", workspace_uid=uid) for number in range(count))


def planning(**run: Any) -> dict[str, Any]:
    """Return the status of a Workspace whose current run plans."""
    key = source_key("https://git.example.com/demo.git", "main")
    current = {"revision": "a" * 40, "sourceKey": key, "planJob": "a-plan", "principal": "ann", **run}
    return {
        "phase": "Planning",
        "currentRunID": CURRENT,
        "currentRunTrigger": "manual",
        "lastRunStartedAt": "2026-01-02T00:00:00Z",
        "currentRun": current,
        "planSummary": {"add": 1, "change": 2, "destroy": 3, "noChanges": False},
    }


def test_without_history_the_list_is_empty_and_the_current_run_can_be_got() -> None:
    async def scene(world: World) -> None:
        world.workspace("a")
        await world.set_status("a", planning())
        await world.settled()
        assert (await world.ask(RUNS)).json == {"items": []}
        assert (await world.ask(f"{RUNS}/{CURRENT}")).json["principal"] == "ann"

    in_world(scene)


def test_a_page_has_the_newest_first_and_leads_to_the_next() -> None:
    history = FakeHistory(*rows(45))

    async def scene(world: World) -> None:
        history.rows = list(rows(45, world.workspace("a")["metadata"]["uid"]))
        await world.settled()
        seen: list[str] = []
        query: dict[str, str] = {}
        for size in (20, 20, 5):
            page = (await world.ask(RUNS, **query)).json
            assert len(page["items"]) == size
            seen += [each["runID"] for each in page["items"]]
            query = {"cursor": page.get("nextCursor", "")}
        assert query == {"cursor": ""}
        assert seen == sorted(seen, reverse=True)
        assert len(set(seen)) == 45

    in_world(scene, history=history)


@pytest.mark.parametrize(("limit", "asked"), [("1", 1), ("100", 100), ("101", 100), ("9" * 30, 100), ("", 20)])
def test_a_limit_above_a_hundred_counts_as_a_hundred(limit: str, asked: int) -> None:
    history = FakeHistory()

    async def scene(world: World) -> None:
        world.workspace("a")
        await world.settled()
        assert (await world.ask(RUNS, limit=limit)).status == 200
        assert history.asked[0][1] == asked

    in_world(scene, history=history)


@pytest.mark.parametrize("query", [{"limit": "0"}, {"limit": "-1"}, {"limit": "ten"}, {"limit": "٣"}, {"cursor": "x"}])
def test_a_bad_limit_or_cursor_is_400_and_named(query: dict[str, str]) -> None:
    async def scene(world: World) -> None:
        world.workspace("a")
        await world.settled()
        answer = await world.ask(RUNS, **query)
        assert answer.status == 400
        assert next(iter(query)) in answer.error

    in_world(scene, history=FakeHistory())


def test_the_current_run_is_merged_from_status_until_its_row_exists() -> None:
    history = FakeHistory()

    async def scene(world: World) -> None:
        uid = world.workspace("a")["metadata"]["uid"]
        history.rows = list(rows(2, uid))
        await world.set_status("a", planning())
        await world.settled()
        first, *rest = (await world.ask(RUNS)).json["items"]
        assert first == {
            "runID": CURRENT,
            "workspaceUID": uid,
            "project": "platform",
            "trigger": "manual",
            "targetRevision": "main",
            "observedRevision": "a" * 40,
            "startedAt": "2026-01-02T00:00:00Z",
            "principal": "ann",
            "plan": {"jobName": "a-plan"},
        }
        assert len(rest) == 2
        history.rows.append(Run(run_id=CURRENT, workspace_uid=uid, result=RunResult.FAILED, principal="of the row"))
        again = (await world.ask(RUNS)).json["items"]
        assert [each["runID"] for each in again].count(CURRENT) == 1
        assert (again[0]["result"], again[0]["principal"]) == ("Failed", "of the row")
        assert again[0]["plan"] == {"jobName": "a-plan"}, "what the row does not say is still taken from status"

    in_world(scene, history=history)


def test_what_an_earlier_plan_would_change_is_not_shown_for_the_current_run() -> None:
    async def scene(world: World) -> None:
        world.workspace("a")
        await world.set_status("a", planning())
        await world.settled()
        assert "changes" not in (await world.ask(f"{RUNS}/{CURRENT}")).json
        await world.set_status("a", planning(hasChanges=True))
        await world.settled()
        assert (await world.ask(f"{RUNS}/{CURRENT}")).json["changes"]["destroy"] == 3

    in_world(scene)


def test_a_run_that_waits_to_be_stored_is_shown_with_its_end() -> None:
    async def scene(world: World) -> None:
        world.workspace("a")
        record = {"runID": RUN, "result": "Applied", "finishedAt": "2026-01-01T01:00:00Z"}
        await world.set_status("a", planning() | {"historyOutbox": [record]})
        await world.settled()
        current, ended = (await world.ask(RUNS)).json["items"]
        assert (current["runID"], ended["runID"], ended["result"]) == (CURRENT, RUN, "Applied")

    in_world(scene, history=FakeHistory())


def test_a_new_workspace_does_not_show_the_runs_of_an_earlier_one_but_by_its_uid() -> None:
    history = FakeHistory(*rows(3, "old"))

    async def scene(world: World) -> None:
        world.workspace("a")
        await world.set_status("a", planning())
        await world.settled()
        assert [each["runID"] for each in (await world.ask(RUNS)).json["items"]] == [CURRENT]
        old = (await world.ask(RUNS, uid="old")).json["items"]
        assert [each["workspaceUID"] for each in old] == ["old"] * 3
        run_id = old[0]["runID"]
        assert (await world.ask(f"{RUNS}/{run_id}")).status == 404
        assert (await world.ask(f"{RUNS}/{run_id}", uid="old")).json["runID"] == run_id

    in_world(scene, history=history)


def test_runs_of_a_deleted_workspace_can_be_read_and_those_of_none_are_404() -> None:
    history = FakeHistory(*rows(1, "old"))

    async def scene(world: World) -> None:
        assert len((await world.ask(RUNS)).json["items"]) == 1
        history.rows.clear()
        assert (await world.ask(RUNS)).status == 404

    in_world(scene, history=history)


def test_a_database_that_is_down_is_503_without_its_address() -> None:
    history = FakeHistory()
    history.down = True

    async def scene(world: World) -> None:
        world.workspace("a")
        await world.settled()
        for path in (RUNS, f"{RUNS}/{RUN}"):
            answer = await world.ask(path)
            assert (answer.status, answer.error) == (503, "history temporarily unavailable")
        assert (await world.ask(f"{API}/workspaces/default/a")).status == 200

    in_world(scene, history=history)


def test_runs_need_the_right_to_get_the_workspace() -> None:
    history = FakeHistory(Run(run_id=RUN, plan=RunPhase(job_name="x")))

    async def scene(world: World) -> None:
        world.access.only("team-a")
        for path in (RUNS, f"{RUNS}/{RUN}", f"{RUNS}/{RUN}/log", f"{RUNS}/current/log/stream"):
            answer = await world.ask(path)
            assert (answer.status, answer.error) == (403, "ann may not get workspaces in default")
        assert history.asked == []

    in_world(scene, history=history)


def test_a_bad_run_id_is_400_and_an_unknown_one_404() -> None:
    async def scene(world: World) -> None:
        world.workspace("a")
        await world.settled()
        assert (await world.ask(f"{RUNS}/latest")).status == 400
        assert (await world.ask(f"{RUNS}/{RUN}")).status == 404

    in_world(scene, history=FakeHistory())
