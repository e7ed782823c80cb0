"""The command line beside a real run: it asks for it, follows its log, approves it, and says what holds it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from magos.api.phases import Phase
from tests.e2e.onemachine import OneMachine

_PROGRAM = Path(sys.executable).parent / "magos"
_PATIENCE = 90


def _environ(here: OneMachine) -> dict[str, str]:
    return {"KUBECONFIG": str(here.here.plane.admin_kubeconfig), "PATH": os.defpath}


def magos(here: OneMachine, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(_PROGRAM), *arguments],
        env=_environ(here),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=_PATIENCE,
    )


@contextmanager
def going(here: OneMachine, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    pipe = subprocess.PIPE
    with subprocess.Popen([str(_PROGRAM), *arguments], env=_environ(here), stdout=pipe, stderr=pipe, text=True) as one:
        try:
            yield one
        finally:
            one.kill()


def test_a_run_is_asked_for_followed_approved_and_waited_for(here: OneMachine, namespace: str) -> None:
    path = f"{namespace}/held"
    here.apply(here.workspace_document(namespace, "held", autoApply=False))
    with going(here, "logs", path, "-f") as follower:
        gated = here.wait(namespace, "held", lambda each: each.status.awaiting_approval is not None)
        out, err = follower.communicate(timeout=_PATIENCE)
    assert follower.returncode == 0, err
    assert out.splitlines()[0] == "=== fetch ==="
    assert "=== terraform ===" in out
    assert "terraform_data" in out

    waiting = gated.status.awaiting_approval
    assert waiting is not None
    told = magos(here, "explain", path)
    assert f"$ magos approve {path} --run {waiting.run_id}" in told.stdout
    late = magos(here, "reconcile", path, "--wait", "--timeout", "3s")
    assert (late.returncode, "gave up after 3s" in late.stderr) == (5, True)

    gated = here.wait(
        namespace,
        "held",
        lambda each: (
            each.status.awaiting_approval is not None and each.status.awaiting_approval.run_id != waiting.run_id
        ),
    )
    second = gated.status.awaiting_approval
    assert second is not None
    refused = magos(here, "approve", path, "--run", waiting.run_id)
    assert (refused.returncode, second.run_id in refused.stderr) == (1, True)
    assert magos(here, "approve", path, "--run", second.run_id).returncode == 0
    here.wait(namespace, "held", lambda each: each.status.phase is Phase.APPLIED)
    log = magos(here, "logs", path)
    assert "Apply complete!" in log.stdout

    ended = magos(here, "reconcile", path, "--wait", "--timeout", "60s")
    assert ended.returncode == 0, ended.stderr
    assert "needs no changes" in ended.stdout
    assert "run" in ended.stderr
