"""Runs are listed newest first, page by page, and only those of the Workspace that was asked for."""

import base64
from datetime import UTC, datetime

import pytest

from magos.api.names import JobType
from magos.history.postgres import PostgresHistory
from tests.e2e.history.server import ended, phase, run_id, started, workspace

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 2, 1, tzinfo=UTC)


async def all_pages(history: PostgresHistory, limit: int) -> list[str]:
    found: list[str] = []
    cursor = ""
    while True:
        page = await history.runs("team", "app", limit=limit, cursor=cursor)
        assert len(page.items) <= limit
        found += [run.run_id for run in page.items]
        cursor = page.next_cursor
        if not cursor:
            return found


async def test_every_run_is_on_exactly_one_page_also_where_many_began_at_once(history: PostgresHistory) -> None:
    at_once = "2026-01-02T00:00:30.123456Z"
    for number in range(11):
        await history.record_run(workspace(), started(number, started_at=at_once if number < 7 else None))
    newest_first = [run_id(number) for number in (10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)]
    for limit in (1, 2, 3, 5, 11, 50):
        assert await all_pages(history, limit) == newest_first


async def test_runs_that_arrive_meanwhile_neither_repeat_nor_hide_a_run(history: PostgresHistory) -> None:
    for number in range(6):
        await history.record_run(workspace(), started(number))
    first = await history.runs("team", "app", limit=3)
    for number in range(6, 9):
        await history.record_run(workspace(), started(number))
    await history.record_run(workspace("uid-2"), started(20))
    second = await history.runs("team", "app", limit=3, cursor=first.next_cursor)
    assert [run.run_id for run in (*first.items, *second.items)] == [run_id(number) for number in (5, 4, 3, 2, 1, 0)]
    assert second.next_cursor == ""


async def test_a_workspace_that_is_created_anew_does_not_inherit_history(history: PostgresHistory) -> None:
    await history.record_run(workspace("old"), ended(1))
    await history.record_phase(workspace("old"), phase(1))
    await history.record_run(workspace("new"), ended(5))
    await history.record_phase(workspace("new"), phase(5, JobType.APPLY))
    # A write about the old one that was late; that it is gone is not known yet.
    await history.record_run(workspace("old"), ended(2))
    for _ in range(2):
        page = await history.runs("team", "app")
        assert [(run.run_id, run.workspace_uid) for run in page.items] == [(run_id(5), "new")]
        assert page.items[0].plan is None
        assert page.items[0].apply is not None
        assert await history.run("team", "app", run_id(1)) is None
        assert await history.run("team", "app", run_id(1), uid="old") is not None
        earlier = await history.runs("team", "app", uid="old")
        assert [run.run_id for run in earlier.items] == [run_id(2), run_id(1)]
        await history.mark_deleted(["new"], NOW)


async def test_the_last_bearer_of_a_name_is_shown_when_all_are_gone(history: PostgresHistory) -> None:
    await history.record_run(workspace("second"), ended(5))
    await history.record_run(workspace("first"), ended(1))
    await history.mark_deleted([], NOW)
    assert [run.workspace_uid for run in (await history.runs("team", "app")).items] == ["second"]


async def test_a_uid_gives_no_runs_of_another_name_or_namespace(history: PostgresHistory) -> None:
    await history.record_run(workspace("theirs", namespace="other"), ended(1))
    await history.record_run(workspace("mine", name="mine"), ended(2))
    for uid in ("theirs", "mine", "nobody's"):
        assert (await history.runs("team", "app", uid=uid)).items == ()
        assert await history.run("team", "app", run_id(1), uid=uid) is None
    assert (await history.runs("team", "app")).items == ()
    assert await history.run("team", "app", run_id(1)) is None
    forged = base64.urlsafe_b64encode(b'["theirs",9999999999999999,"z"]').rstrip(b"=").decode()
    assert (await history.runs("team", "app", cursor=forged)).items == ()


async def test_a_cursor_belongs_to_its_workspace(history: PostgresHistory) -> None:
    for number in range(3):
        await history.record_run(workspace("one"), started(number))
    cursor = (await history.runs("team", "app", limit=1)).next_cursor
    assert len((await history.runs("team", "app", uid="one", cursor=cursor)).items) == 2
    with pytest.raises(ValueError, match="another Workspace"):
        await history.runs("team", "app", uid="two", cursor=cursor)
    with pytest.raises(ValueError, match="is not a cursor"):
        await history.runs("team", "app", cursor="x")


async def test_a_page_has_at_most_100_runs(history: PostgresHistory) -> None:
    for number in range(102):
        await history.record_run(workspace(), started(number))
    page = await history.runs("team", "app", limit=10**9)
    assert len(page.items) == 100
    assert len((await history.runs("team", "app", limit=100, cursor=page.next_cursor)).items) == 2
