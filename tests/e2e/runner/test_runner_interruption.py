"""SIGTERM and SIGKILL in every stage of plan and apply, beside a state server that counts locks and writes.

After SIGTERM nothing of ours holds the lock and no finished resource is missing from the state; after SIGKILL the next
run says who holds the lock. A plan is applied at most once, whatever happened.
"""

import json
import os
import random
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from magos.api.names import JobType
from magos.api.result import Outcome, Result
from magos.api.runnerpod import Stage
from magos.local.servers.gitserver import git_server
from tests.e2e.runner.moments import moments_of
from tests.e2e.runner.pod import APPLY, NEXT, PLAN, RUN, RunnerPod, Workspace, apply, plan, provisioned, until
from tests.e2e.runner.statebackend import StateServer, state_server

_INTERRUPTED = 143
LATER = "20260101T000200-00000003"


@pytest.fixture
def server() -> Iterator[StateServer]:
    with state_server() as running:
        yield running


def module(server: StateServer, script: str = "true") -> str:
    """One resource that is finished at once, then one whose creation runs ``script``."""
    return (
        server.backend
        + 'resource "terraform_data" "done" {}\n'
        + provisioned(script, "depends_on = [terraform_data.done]")
    )


def counting(workspace: Workspace, server: StateServer, script: str = "true") -> Path:
    """Commit a module whose apply appends a line to the returned file."""
    count = workspace.folder / "count"
    workspace.commit({"main.tf": module(server, f"echo x >> {count}; {script}")})
    return count


def applying(workspace: Workspace, planned: Result, name: str = "") -> RunnerPod:
    extra = {"MAGOS_REVISION": planned.revision, "MAGOS_PLAN_DIGEST": planned.plan_digest}
    return workspace.pod(APPLY, planned.run_id, name, **extra)


def planned_run(workspace: Workspace) -> Result:
    pod, planned = plan(workspace)
    assert planned.result is Outcome.SUCCEEDED, pod.log
    return planned


def finish(process: subprocess.Popen[bytes]) -> int:
    code = process.wait(timeout=60)
    assert process.stdin is not None
    process.stdin.close()
    return code


@contextmanager
def begun(pod: RunnerPod, stage: Stage) -> Iterator[subprocess.Popen[bytes]]:
    """Run the stages before ``stage`` and start it."""
    for before in stage.before(pod.phase):
        assert pod.stage(before) == 0, pod.log
    process = pod.start(stage)
    try:
        yield process
    finally:
        process.kill()
        finish(process)


def slow_tool(pod: RunnerPod) -> Path:
    """Put a program before the unpacked tool that tells of its start and waits to be stopped."""
    started = pod.root / "tool-started"
    tool = pod.root / "work" / "tool" / "tofu"
    tool.unlink()
    tool.write_text(f"#!/bin/sh\ntrap 'exit 1' INT\ntouch {started}\nwhile :; do sleep 0.05; done\n")
    tool.chmod(0o755)
    return started


# The state server's operations in the order in which the commands do them.
_PLAN_POINTS = [("GET", 0), ("LOCK", 0), ("GET", 1), ("UNLOCK", 0)]
_APPLY_POINTS = [("GET", 0), ("LOCK", 0), ("GET", 1), ("POST", 0), ("UNLOCK", 0)]


def _ids(points: list[tuple[str, int]]) -> list[str]:
    return [f"{operation.lower()}-{after}" for operation, after in points]


@pytest.mark.parametrize("point", _PLAN_POINTS, ids=_ids(_PLAN_POINTS))
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_a_stopped_plan_changes_no_state(
    workspace: Workspace, server: StateServer, point: tuple[str, int], number: signal.Signals
) -> None:
    workspace.commit({"main.tf": module(server)})
    pod = workspace.pod(PLAN, RUN)
    with begun(pod, Stage.TERRAFORM) as process, server.hold(*point) as held:
        assert held.reached.wait(60), pod.log
        stop(pod, process, number, held.let_go)
    assert server.resources == []
    assert not pod.plan_file.exists() or number is signal.SIGKILL
    if number is signal.SIGTERM:
        assert_interrupted(pod, process, server)
    after(workspace, server)


@pytest.mark.parametrize("point", _APPLY_POINTS, ids=_ids(_APPLY_POINTS))
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_a_stopped_apply_keeps_what_it_finished_and_is_never_repeated(
    workspace: Workspace, server: StateServer, point: tuple[str, int], number: signal.Signals
) -> None:
    count = counting(workspace, server)
    planned = planned_run(workspace)
    pod = applying(workspace, planned)
    with begun(pod, Stage.TERRAFORM) as process, server.hold(*point) as held:
        assert held.reached.wait(60), pod.log
        stop(pod, process, number, held.let_go)
    if number is signal.SIGTERM:
        assert_interrupted(pod, process, server)
        if count.exists():
            assert server.resources == ["a", "done"], "a resource that was created is missing from the state"
    again = applying(workspace, planned, "again").run()
    assert again.result is Outcome.FAILED
    assert "second time" in again.message
    assert not count.exists() or count.read_text() == "x\n"
    after(workspace, server)


def stop(pod: RunnerPod, process: subprocess.Popen[bytes], number: signal.Signals, release: Callable[[], None]) -> None:
    """Send the signal, several times if it is SIGTERM, and let the state server answer."""
    process.send_signal(number)
    if number is signal.SIGTERM:
        until(lambda: "SIGINT" in pod.log)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
    release()
    finish(process)


def assert_interrupted(pod: RunnerPod, process: subprocess.Popen[bytes], server: StateServer) -> None:
    assert process.returncode == _INTERRUPTED, pod.log
    assert pod.log.count("Two interrupts received") == 0
    assert server.lock is None, pod.log
    assert server.counts["locked"] == server.counts["unlocked"]


def after(workspace: Workspace, server: StateServer) -> None:
    """The next run goes on, or says who holds the lock that a killed one left."""
    orphan = server.lock
    _, result = plan(workspace, NEXT)
    if orphan is None:
        assert result.result is Outcome.SUCCEEDED, result.message
    else:
        assert result.reason == "PlanFailed"
        assert orphan["ID"] in result.message
        assert orphan["Who"] in result.message
        assert "ago)" in result.message


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_a_resource_in_creation_is_waited_for_or_known_to_be_unfinished(
    workspace: Workspace, server: StateServer, number: signal.Signals
) -> None:
    go = workspace.folder / "go"
    count = counting(workspace, server, f"while ! test -e {go}; do sleep 0.02; done")
    planned = planned_run(workspace)
    pod = applying(workspace, planned)
    with begun(pod, Stage.TERRAFORM) as process:
        until(count.exists)
        process.send_signal(number)
        if number is signal.SIGTERM:
            until(lambda: "SIGINT" in pod.log)
        go.touch()
        finish(process)
    if number is signal.SIGTERM:
        assert_interrupted(pod, process, server)
        assert "done" in server.resources
    assert applying(workspace, planned, "again").run().reason == "ApplyFailed"
    assert count.read_text() == "x\n"
    after(workspace, server)


@contextmanager
def silence() -> Iterator[tuple[str, socket.socket]]:
    """A server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", listening


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
@pytest.mark.parametrize("step", ["plan git", "plan get", "apply git"])
def test_a_stopped_fetch_starts_nothing_and_leaves_the_work_to_a_later_pod(
    workspace: Workspace, server: StateServer, step: str, number: signal.Signals
) -> None:
    count = counting(workspace, server)
    planned = planned_run(workspace)
    with silence() as (url, listening):
        pod = workspace.pod(PLAN, NEXT) if step.startswith("plan") else applying(workspace, planned)
        if step == "plan get":
            workspace.commit({"main.tf": f'module "m" {{\n  source = "{url}/m.zip"\n}}\n'})
        else:
            pod.env |= {"REPO_URL": f"{url}/r.git", "MAGOS_ALLOWED_GIT_SCHEMES": "http", "GIT_PASSWORD": "hunter2"}
        with begun(pod, Stage.FETCH) as process:
            connection, _ = listening.accept()
            asked = time.monotonic()
            process.send_signal(number)
            code = finish(process)
            connection.close()
    if number is signal.SIGTERM:
        assert code == _INTERRUPTED, pod.log
        assert time.monotonic() - asked < 8
        assert list((pod.root / "tmp").glob("git-*")) == list((pod.root / "tmp").glob("access-*")) == []
    assert not count.exists()
    if step.startswith("plan"):  # it has removed the plan before: a run that plans is the only one that is left
        counting(workspace, server, "true again")
        _, planned = plan(workspace, LATER)
        assert planned.result is Outcome.SUCCEEDED, planned.message
    _, applied = apply(workspace, planned, "later")
    assert applied.result is Outcome.SUCCEEDED, applied.message
    assert count.read_text() == "x\n"
    assert server.lock is None


def test_a_fetch_stopped_at_any_line_ends_as_interrupted(workspace: Workspace) -> None:
    """At seeded lines, more of them where connections get their time limits: there, clean-up has failed before."""
    workspace.commit({"main.tf": "", "modules/m/main.tf": ""})
    draw = random.Random(5)
    with git_server(workspace.folder) as server:
        # The tool does not exist: the stage ends when everything of Git is done.
        environment = workspace.pod(PLAN, RUN).env | {
            "REPO_URL": server.clone_url(workspace.repository.name),
            "MAGOS_ALLOWED_GIT_SCHEMES": "http",
            "GIT_PASSWORD": "hunter2",
            "TF_VERSION": "9.9.9",
        }
        modules = [
            f"magos.git.{name}" for name in ("checkout", "remote", "fetch", "export", "http", "lsremote", "peek")
        ]
        modules += ["magos.runner.fetch", "magos.toolchain.install"]
        with moments_of("fetch", environment, *modules, watch="magos/outbound/cuts.py") as moments:
            whole = moments.stop_at(0, workspace.pod(PLAN, RUN, "whole").root)
            assert (whole.code, whole.sent) == (0, [])
            chosen = {*draw.sample(range(1, whole.passed), 16), *draw.sample(whole.watched, 30)}
            reached = 0
            for moment in sorted(chosen):
                pod = workspace.pod(PLAN, RUN, f"at-{moment}")
                ending = moments.stop_at(moment, pod.root)
                if not ending.sent:
                    continue  # the server's answer came in fewer pieces this time, so there are fewer lines
                reached += 1
                assert ending.code == _INTERRUPTED, (ending.sent, pod.log)
                if not ending.cut_short:
                    status = json.loads((pod.root / "scratch/fetch/status.json").read_bytes())
                    assert status.get("reason") == "Interrupted", (ending.sent, pod.log)
            assert reached > len(chosen) * 0.9


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_a_stopped_render_leaves_no_plan_json(
    workspace: Workspace, server: StateServer, number: signal.Signals
) -> None:
    workspace.commit({"main.tf": module(server)})
    pod = workspace.pod(PLAN, RUN)
    for stage in (Stage.FETCH, Stage.TERRAFORM):
        assert pod.stage(stage) == 0, pod.log
    started = slow_tool(pod)
    process = pod.start(Stage.RENDER)
    until(started.exists)
    process.send_signal(number)
    code = finish(process)
    if number is signal.SIGTERM:
        assert code == _INTERRUPTED
        assert not (pod.root / "scratch/render/plan.json").exists()
    assert server.lock is None
    after(workspace, server)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
@pytest.mark.parametrize("phase", [PLAN, APPLY])
def test_a_stopped_job_stage_says_interrupted_or_nothing(
    workspace: Workspace, server: StateServer, phase: JobType, number: signal.Signals
) -> None:
    counting(workspace, server)
    planning, planned = plan(workspace)
    pod = planning if phase is PLAN else applying(workspace, planned)
    for stage in Stage.JOB.before(phase) if phase is APPLY else ():
        assert pod.stage(stage) == 0, pod.log
    log = pod.root / "dev" / "termination-log"
    log.unlink(missing_ok=True)
    # The stage reads the status of the one before it; a pipe in the place of what it writes holds it at its last act.
    os.mkfifo(log)
    process = pod.start(Stage.JOB)
    until(lambda: pod.log.count("succeeded at") >= (2 if phase is PLAN else 1))
    process.send_signal(number)
    if number is signal.SIGKILL:
        assert finish(process) == -signal.SIGKILL
        return
    descriptor = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
    assert finish(process) == _INTERRUPTED
    os.close(descriptor)
    assert server.lock is None


def test_pods_started_at_the_same_time_apply_once(workspace: Workspace, server: StateServer) -> None:
    count = counting(workspace, server)
    planned = planned_run(workspace)
    pods = [applying(workspace, planned, f"pod-{number}") for number in range(3)]
    with ThreadPoolExecutor(len(pods)) as together:
        results = list(together.map(RunnerPod.run, pods))
    assert sorted(result.result for result in results) == [Outcome.FAILED, Outcome.FAILED, Outcome.SUCCEEDED]
    assert count.read_text() == "x\n"
    assert server.counts["locked"] == server.counts["unlocked"] == 2
    assert server.lock is None


def test_a_lock_of_somebody_else_is_told_with_holder_and_age_and_left_alone(
    workspace: Workspace, server: StateServer
) -> None:
    created = datetime.now(UTC) - timedelta(hours=3, minutes=5)
    held = {
        "ID": "11111111-2222-3333-4444-555555555555",
        "Operation": "OperationTypeApply",
        "Who": "ann@laptop",
        "Version": "1.12.6",
        "Created": created.isoformat().replace("+00:00", "Z"),
        "Info": "",
        "Path": "",
    }
    server.lock = dict(held)
    workspace.commit({"main.tf": module(server)})
    _, result = plan(workspace)
    assert result.reason == "PlanFailed"
    assert "held by ann@laptop for Apply" in result.message
    assert "(3h5m" in result.message
    assert server.lock == held
    assert server.counts["UNLOCK"] == 0


def test_a_state_that_the_backend_refuses_is_kept_and_handed_over_by_the_next_run(
    workspace: Workspace, server: StateServer
) -> None:
    count = counting(workspace, server)
    planned = planned_run(workspace)
    server.refuse_writes = True
    _, result = apply(workspace, planned)
    kept = workspace.volume / "unsaved-state" / f"{RUN}.tfstate"
    assert result.reason == "ApplyFailed"
    assert f"/workspace-data/unsaved-state/{RUN}.tfstate" in result.message
    assert {each["name"] for each in json.loads(kept.read_text())["resources"]} == {"a", "done"}
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600

    _, refused = plan(workspace, NEXT)
    assert refused.reason == "PlanFailed"
    assert f"unsaved-state/{RUN}.tfstate" in refused.message
    assert "nothing was planned" in refused.message
    assert kept.exists()

    server.refuse_writes = False
    _, following = plan(workspace, LATER)
    assert (following.result, following.has_changes) == (Outcome.SUCCEEDED, False), following.message
    assert server.resources == ["a", "done"]
    assert count.read_text() == "x\n"
    assert not kept.exists()
