"""Starts, stops and leftovers: what happens to a stage's processes and to its run, with a real OpenTofu."""

import signal
import subprocess
import time
from pathlib import Path

from magos.api.result import Outcome
from magos.api.runnerpod import Stage
from tests.e2e.runner.pod import APPLY, NEXT, RUN, Workspace, apply, plan, provisioned, resources, until


def test_a_pod_started_twice_runs_the_tool_once(workspace: Workspace) -> None:
    count = workspace.folder / "count"
    text = provisioned(f"echo x >> {count}")
    workspace.commit({"main.tf": workspace.backend + text})
    _, planned = plan(workspace)
    _, applied = apply(workspace, planned)
    assert applied.result is Outcome.SUCCEEDED
    again, result = apply(workspace, planned, name="again")
    assert (result.exit_code, result.reason) == (1, "ApplyFailed")
    assert "second time" in result.message
    assert count.read_text() == "x\n"
    assert "Initializing" not in again.log


def test_a_stopped_apply_is_interrupted_once_and_leaves_a_consistent_state(workspace: Workspace) -> None:
    started = workspace.folder / "started"
    script = f"touch {started}; while :; do sleep 0.05; done"
    text = 'resource "terraform_data" "done" {}\n' + provisioned(script, "depends_on = [terraform_data.done]")
    workspace.commit({"main.tf": workspace.backend + text})
    _, planned = plan(workspace)
    extra = {"MAGOS_REVISION": planned.revision, "MAGOS_PLAN_DIGEST": planned.plan_digest}
    pod = workspace.pod(APPLY, RUN, **extra)
    assert pod.stage(Stage.FETCH) == 0
    process = pod.start(Stage.TERRAFORM)
    until(started.exists)
    process.send_signal(signal.SIGTERM)
    until(lambda: "SIGINT" in pod.log)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 143
    assert process.stdin is not None
    process.stdin.close()
    assert "Interrupt received" in pod.log
    assert "Two interrupts received" not in pod.log
    assert "done" in resources(workspace)
    assert not pod.plan_file.exists()
    assert not (pod.root / "plan").exists()


def test_a_tool_that_ignores_the_interrupt_is_killed_when_the_grace_ends(workspace: Workspace) -> None:
    started = workspace.folder / "started"
    script = f"trap '' INT TERM; touch {started}; while :; do sleep 0.1; done"
    text = provisioned(script)
    workspace.commit({"main.tf": workspace.backend + text})
    _, planned = plan(workspace)
    pod = workspace.pod(
        APPLY,
        RUN,
        MAGOS_REVISION=planned.revision,
        MAGOS_PLAN_DIGEST=planned.plan_digest,
        MAGOS_TERMINATION_GRACE_SECONDS="12",
    )
    assert pod.stage(Stage.FETCH) == 0
    process = pod.start(Stage.TERRAFORM)
    until(started.exists)
    asked = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 143
    assert time.monotonic() - asked < 12
    assert process.stdin is not None
    process.stdin.close()
    assert subprocess.run(["pgrep", "-f", str(started)], check=False, capture_output=True).stdout == b""


def test_a_daemon_that_a_module_leaves_behind_is_ended(workspace: Workspace) -> None:
    marker = workspace.folder / "daemon.pid"
    daemon = f"trap '' TERM; echo $$ > {marker}; while :; do sleep 0.1; done"
    script = f'setsid nohup sh -c "{daemon.replace("$", chr(92) + "$")}" >/dev/null 2>&1 &'
    script += f" while ! test -s {marker}; do sleep 0.02; done"
    text = provisioned(script)
    workspace.commit({"main.tf": workspace.backend + text})
    _, planned = plan(workspace)
    pod, result = apply(workspace, planned)
    assert result.result is Outcome.SUCCEEDED
    assert "left running by the tool" in pod.log
    assert not Path(f"/proc/{int(marker.read_text())}").exists()


def test_a_locked_state_is_told_with_lock_holder_and_time(workspace: Workspace) -> None:
    started, go = workspace.folder / "started", workspace.folder / "go"
    script = f"touch {started}; while ! test -e {go}; do sleep 0.05; done"
    text = provisioned(script)
    workspace.commit({"main.tf": workspace.backend + text})
    _, planned = plan(workspace)
    pod = workspace.pod(APPLY, RUN, MAGOS_REVISION=planned.revision, MAGOS_PLAN_DIGEST=planned.plan_digest)
    assert pod.stage(Stage.FETCH) == 0
    process = pod.start(Stage.TERRAFORM)
    until(started.exists)
    _, result = plan(workspace, NEXT)
    go.touch()
    assert process.wait(timeout=60) == 0
    assert process.stdin is not None
    process.stdin.close()
    assert result.reason == "PlanFailed"
    assert "the state is locked: lock " in result.message
    assert "for Apply since 20" in result.message
