"""Logs: out of the archive, out of pods, and live. In virtual time."""

from typing import Any

import anyio
import pytest

from magos import joblog
from magos.api.kube import PODS
from magos.api.names import JobType
from magos.api.runnerpod import Stage
from magos.history.runs import Run, RunPhase
from magos.runtime.client.errors import ApiError
from tests.sim.apiserver.faults import Answer as Refuse
from tests.sim.apiserver.faults import Rule
from tests.unit.server.asgi import Stream
from tests.unit.server.records import RUN, FakeArchive, FakeHistory, FakeJobs, pod
from tests.unit.server.world import API, World, in_world

LOG = f"{API}/workspaces/default/a/runs/{RUN}/log"
LIVE = f"{API}/workspaces/default/a/runs/current/log/stream"
NEXT = "20260102T000000-00000000"


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> FakeJobs:
    """What pods print."""
    fake = FakeJobs()
    monkeypatch.setattr(joblog, "finished_log", fake.finished_log)
    monkeypatch.setattr(joblog, "followed_lines", fake.followed_lines)
    return fake


async def running(world: World, phase: str = "Planning", **run: Any) -> None:
    """Create Workspace ``a`` with a current run."""
    world.workspace("a")
    await world.set_status("a", {"phase": phase, "currentRunID": RUN, "currentRun": {"planJob": "x", **run}})
    await world.settled()


def put(world: World, body: dict[str, Any]) -> None:
    """Create a pod at once, with its status."""
    resource = world.api.resource(PODS)
    world.api.create(resource, body)
    key = (body["metadata"]["namespace"], body["metadata"]["name"])
    world.api.writer.patch(resource, key, {"status": body["status"]}, "status")


def stored(phase: JobType = JobType.APPLY, **fields: Any) -> Run:
    """Return a row with one phase."""
    recorded = RunPhase(job_name="x", **fields)
    return Run(run_id=RUN, plan=recorded) if phase is JobType.PLAN else Run(run_id=RUN, apply=recorded)


def test_an_archived_log_is_sent_as_text() -> None:
    archive = FakeArchive(key=b"Apply complete!\n" * 100)

    async def scene(world: World) -> None:
        answer = await world.ask(LOG)
        assert (answer.status, answer.body) == (200, b"Apply complete!\n" * 100)
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert archive.open_logs == 0

    in_world(scene, history=FakeHistory(stored(log_key="key")), archive=archive)


def test_each_phase_has_its_own_log() -> None:
    archive = FakeArchive(key=b"the plan")

    async def scene(world: World) -> None:
        assert (await world.ask(LOG, phase="plan")).body == b"the plan"
        missing = await world.ask(LOG, phase="apply")
        assert (missing.status, missing.error) == (
            404,
            f"there is no log of the apply of run {RUN}: the run has no apply",
        )

    in_world(scene, history=FakeHistory(stored(JobType.PLAN, log_key="key")), archive=archive)


def test_a_log_that_was_given_up_is_404_with_the_recorded_reason() -> None:
    async def scene(world: World) -> None:
        answer = await world.ask(LOG)
        assert answer.status == 404
        assert answer.error.endswith("the pod was gone before its log was read")

    row = stored(log_error="the pod was gone before its log was read")
    in_world(scene, history=FakeHistory(row), archive=FakeArchive())


def test_a_bad_phase_is_400() -> None:
    async def scene(world: World) -> None:
        answer = await world.ask(LOG, phase="destroy")
        assert (answer.status, answer.error) == (400, "phase 'destroy' is neither plan nor apply")

    in_world(scene)


def test_a_bucket_that_is_down_is_503_without_its_address() -> None:
    archive = FakeArchive()
    archive.down = True

    async def scene(world: World) -> None:
        answer = await world.ask(LOG)
        assert (answer.status, answer.error) == (503, "history temporarily unavailable")

    in_world(scene, history=FakeHistory(stored(log_key="key")), archive=archive)


@pytest.mark.parametrize("down", [False, True])
def test_a_log_that_is_not_archived_yet_is_read_from_its_pod(jobs: FakeJobs, down: bool) -> None:
    jobs.print("Plan: 1 to add")
    history = FakeHistory()
    history.down = down

    async def scene(world: World) -> None:
        await running(world)
        put(world, pod(JobType.PLAN, "Succeeded"))
        assert (await world.ask(LOG, phase="plan")).body == b"a-plan-succeeded plan\nPlan: 1 to add\n"

    in_world(scene, history=history)


def test_a_log_that_is_missing_in_the_bucket_is_read_from_its_pod(jobs: FakeJobs) -> None:
    del jobs

    async def scene(world: World) -> None:
        put(world, pod(JobType.APPLY, "Failed"))
        assert (await world.ask(LOG)).body == b"a-apply-failed apply\n"

    in_world(scene, history=FakeHistory(stored(log_key="lost")), archive=FakeArchive())


def test_the_log_of_a_job_that_runs_is_sent_until_its_end(jobs: FakeJobs) -> None:
    async def scene(world: World) -> None:
        await running(world)
        put(world, pod(JobType.PLAN, "Running"))
        jobs.print("fetched", Stage.FETCH)
        async with world.stream(LOG, phase="plan") as stream:
            await anyio.sleep(1)
            jobs.print("planned")
            await anyio.sleep(1)
            jobs.ended = True
            assert await stream.rest() == b"=== fetch ===\nfetched\n=== terraform ===\nplanned\n"

    in_world(scene)


def test_a_pod_that_only_bears_the_labels_of_a_run_is_not_taken_for_its_pod(jobs: FakeJobs) -> None:
    jobs.print("forged")

    async def scene(world: World) -> None:
        await running(world)
        put(world, pod(JobType.PLAN, "Succeeded", owner="another-job"))
        answer = await world.ask(LOG, phase="plan")
        assert answer.status == 404

    in_world(scene)


async def said(stream: Stream) -> tuple[str, str]:
    """Return type and text of the next event."""
    _, data = await stream.event()
    if data is None:
        return "end", ""
    return data["type"], data.get("line", data.get("message", ""))


def test_a_live_log_waits_for_its_pod_and_its_start_and_ends_with_it(jobs: FakeJobs) -> None:
    async def scene(world: World) -> None:
        await running(world)
        async with world.stream(LIVE) as stream:
            assert await said(stream) == ("status", "waiting for the pod")
            await anyio.sleep(5)
            put(world, pod(JobType.PLAN, "Pending"))
            assert await said(stream) == ("status", "pod a-plan-pending has not started yet")
            status = {"status": {"phase": "Running"}}
            await world.user.patch(PODS, "default", "a-plan-pending", status, subresource="status")
            assert await said(stream) == ("status", "reading pod a-plan-pending")
            jobs.print("fetched", Stage.FETCH)
            jobs.print("Plan: \N{SNOWMAN}")
            assert [await said(stream) for _ in range(4)] == [
                ("line", "=== fetch ==="),
                ("line", "fetched"),
                ("line", "=== terraform ==="),
                ("line", "Plan: \N{SNOWMAN}"),
            ]
            jobs.ended = True
            assert await said(stream) == ("eof", "the pod has ended")
            assert await said(stream) == ("end", "")
        assert jobs.followers == 0

    in_world(scene)


def test_an_event_names_run_phase_and_pod(jobs: FakeJobs) -> None:
    jobs.print("x")

    async def scene(world: World) -> None:
        await running(world, "Applying", applyJob="y")
        put(world, pod(JobType.APPLY, "Running"))
        async with world.stream(LIVE) as stream:
            await stream.event()
            await stream.event()
            assert (await stream.event())[1] == {
                "type": "line",
                "runID": RUN,
                "phase": "apply",
                "podName": "a-apply-running",
                "line": "x",
            }

    in_world(scene)


def test_a_live_log_ends_when_another_run_is_current(jobs: FakeJobs) -> None:
    async def scene(world: World) -> None:
        await running(world)
        put(world, pod(JobType.PLAN, "Running"))
        async with world.stream(LIVE) as reading, world.stream(LIVE, phase="apply") as waiting:
            await reading.event()
            await waiting.event()
            await world.set_status("a", {"currentRunID": NEXT})
            for stream in (reading, waiting):
                assert await said(stream) == ("eof", f"run {NEXT} is the current one now")
        assert jobs.followers == 0

    in_world(scene)


def test_a_live_log_of_a_run_that_is_over_does_not_wait_for_a_pod_that_will_not_come() -> None:
    async def scene(world: World) -> None:
        await running(world, "Applied")
        async with world.stream(LIVE, phase="apply") as stream:
            assert await said(stream) == ("eof", "the run is over, and its pod is gone")

    in_world(scene)


def test_a_live_log_ends_when_the_right_is_taken_away(jobs: FakeJobs) -> None:
    async def scene(world: World) -> None:
        await running(world)
        put(world, pod(JobType.PLAN, "Running"))
        async with world.stream(LIVE) as stream:
            await stream.event()
            begun = world.clock.monotonic()
            world.access.only("team-a")
            assert await said(stream) == ("error", "ann may not get workspaces in default")
            assert world.clock.monotonic() - begun <= 30
        assert jobs.followers == 0

    in_world(scene)


def test_a_log_that_cannot_be_read_ends_with_an_error_without_the_words_of_the_cluster(jobs: FakeJobs) -> None:
    jobs.print("x")
    jobs.failure = ApiError("secret words")

    async def scene(world: World) -> None:
        await running(world)
        put(world, pod(JobType.PLAN, "Running"))
        async with world.stream(LIVE) as stream:
            events = [await said(stream) for _ in range(4)]
            assert events[2:] == [("line", "x"), ("error", "the log cannot be read at the moment: connect again")]
            assert await said(stream) == ("end", "")

    in_world(scene)


def test_a_live_log_survives_an_api_server_that_fails_for_a_moment(jobs: FakeJobs) -> None:
    async def scene(world: World) -> None:
        await running(world)
        world.api.faults.add(Rule(fault=Refuse(code=503), path="/pods", times=1))
        async with world.stream(LIVE) as stream:
            assert (await said(stream))[0] in ("status", "error")
        del jobs.lines[:]

    in_world(scene)


def test_live_logs_end_with_a_last_event_when_the_server_stops(jobs: FakeJobs) -> None:
    async def scene(world: World) -> None:
        await running(world)
        put(world, pod(JobType.PLAN, "Running"))
        async with world.stream(LIVE) as stream:
            await stream.event()
            world.server.end_streams()
            assert await said(stream) == ("error", "the server stops: connect again")
        assert jobs.followers == 0

    in_world(scene)


def test_a_live_log_of_nothing_is_404() -> None:
    async def scene(world: World) -> None:
        assert (await world.ask(LIVE)).status == 404

    in_world(scene)
