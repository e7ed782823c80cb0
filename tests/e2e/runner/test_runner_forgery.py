"""Nothing that a configuration does in its container changes what the run reports: hostile modules in real pods.

The mount rules are those of the pods the workspace controller makes; the stages run in namespaces of their own.
"""

import os
import sys
from pathlib import Path

import pytest

from magos.api.annotations import APPROVED
from magos.api.phases import Phase
from magos.api.result import Outcome
from magos.local.node.volumes import claim_folder
from magos.local.programs.assets import AssetSettings
from magos.local.programs.progress import LineProgress
from tests.e2e.onemachine import OneMachine
from tests.e2e.runner.hostile import FORGED_REVISION, apply_files, provider_files, push, requires_time
from tests.e2e.runner.pod import NEXT, Workspace, plan
from tests.e2e.runner.provider import time_provider_program

_BACKEND = 'terraform {{\n  backend "local" {{\n    path = "/workspace-data/state/{name}.tfstate"\n  }}\n}}\n'

_LIAR = """
cat result.json
echo "[magos-job] apply succeeded at ffffffffffffffffffffffffffffffffffffffff"
echo "[magos-job] terraform done"
for place in /dev/termination-log /scratch/terraform/status.json /scratch/fetch/status.json /scratch/job/status.json \\
    /scratch/status.json /policies/x.yaml /etc/passwd /proc/1/mem; do
  if cat status.json 2>/dev/null >"$place"; then echo "wrote $place"; else echo "refused $place"; fi
done 2>/dev/null >/workspace-data/state/deeds
env >/workspace-data/state/environment
cat result.json >/dev/termination-log
exit 7
"""
_ASSASSIN = """
kill -9 1
for process in /proc/[0-9]*; do
  case "$(tr '\\0' ' ' <"$process/cmdline")" in */tofu\\ *) kill -9 "${process#/proc/}" ;; esac
done
sleep 60
"""
_DAEMON = """
cp status.json result.json /workspace-data/state/
setsid sh -c 'trap "" TERM INT HUP
echo up >/workspace-data/state/up
while :; do
  cat /workspace-data/state/status.json >/scratch/terraform/status.json
  cat /workspace-data/state/result.json >/dev/termination-log
done' </dev/null >/dev/null 2>&1 &
while ! test -e /workspace-data/state/up; do sleep 0.02; done
exit 7
"""
_DEEDS = {"liar": _LIAR, "assassin": _ASSASSIN, "daemon": _DAEMON, "gated": "true"}


@pytest.fixture(scope="session")
def provider() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "magos"
    return time_provider_program(AssetSettings(cache=cache, environ=dict(os.environ)), LineProgress(sys.stderr))


@pytest.fixture(scope="module")
def crowd(here: OneMachine, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A namespace with one Workspace for each hostile module, and their commit."""
    namespace = here.namespace()
    work = tmp_path_factory.mktemp("hostile")
    for name, deed in _DEEDS.items():
        (work / name).mkdir()
        for file, content in apply_files(_BACKEND.format(name=name), deed).items():
            (work / name / file).write_text(content)
    bare = here.here.repository.path.parent / "hostile.git"
    revision = push(work, bare)
    url = here.here.git.clone_url(bare.name)
    documents = [
        here.workspace_document(
            namespace, name, source={"repoURL": url, "path": name}, autoApply=name != "gated", annotations={}
        )
        for name in _DEEDS
    ]
    here.apply(*documents)
    return namespace, revision


def volume(here: OneMachine, namespace: str, name: str) -> Path:
    uid = here.here.kubectl.run("get", "pvc", f"{name}-data", "-n", namespace, "-o", "jsonpath={.metadata.uid}")
    return claim_folder(here.here.pods.folder, uid)


def failed(here: OneMachine, crowd: tuple[str, str], name: str) -> str:
    namespace, revision = crowd
    found = here.wait(namespace, name, lambda w: w.status.phase in (Phase.FAILED, Phase.APPLIED), within=240)
    status = found.status
    print(f"{name}: {status.phase} {status.reason}: {status.message}")
    assert status.phase is Phase.FAILED
    assert status.last_attempted_revision == revision
    assert status.observed_revision != FORGED_REVISION
    return f"{status.reason}: {status.message}"


def test_forged_lines_messages_and_statuses_change_nothing(here: OneMachine, crowd: tuple[str, str]) -> None:
    told = failed(here, crowd, "liar")
    assert told.startswith("ApplyFailed: ")
    assert "exit status 7" in told
    state = volume(here, crowd[0], "liar") / "state"
    deeds = [line.split(" ", 1) for line in (state / "deeds").read_text().splitlines()]
    refused = {place for outcome, place in deeds if outcome == "refused"}
    assert refused == {
        "/scratch/fetch/status.json",
        "/scratch/job/status.json",
        "/scratch/status.json",
        "/policies/x.yaml",
        "/etc/passwd",
        "/proc/1/mem",
    }
    environment = (state / "environment").read_text()
    assert "GIT_" not in environment


def test_a_killed_parent_is_a_failure_of_unknown_outcome(here: OneMachine, crowd: tuple[str, str]) -> None:
    told = failed(here, crowd, "assassin")
    assert "signal 9" in told
    assert "outcome of the apply is unknown" in told


def test_a_daemon_that_keeps_rewriting_the_status_is_ended_first(here: OneMachine, crowd: tuple[str, str]) -> None:
    told = failed(here, crowd, "daemon")
    assert "exit status 7" in told
    assert (volume(here, crowd[0], "daemon") / "state" / "up").exists()


def test_a_plan_file_replaced_while_it_waits_for_approval_is_not_applied(
    here: OneMachine, crowd: tuple[str, str]
) -> None:
    namespace, _ = crowd
    waiting = here.wait(namespace, "gated", lambda w: w.status.awaiting_approval is not None, within=240)
    assert waiting.status.awaiting_approval is not None
    run_id = waiting.status.awaiting_approval.run_id
    data = volume(here, namespace, "gated")
    plan_file = data / "runs" / run_id / "run.tfplan"
    plan_file.write_bytes(plan_file.read_bytes() + b"\0")
    here.annotate(namespace, "gated", {APPROVED: run_id})
    assert "PlanMismatch" in failed(here, crowd, "gated")
    assert not (data / "state" / "gated.tfstate").exists()
    assert not plan_file.exists()


def test_a_provider_that_forges_the_rendered_plan_does_not_change_the_counts(
    workspace: Workspace, provider: Path
) -> None:
    """Without pods: the provider of the repository waits in ``render`` for the plan JSON and overwrites it."""
    workspace.commit({"main.tf": workspace.backend + requires_time()})
    json_file = workspace.folder / f"plan-{NEXT}/scratch/render/plan.json"
    up = workspace.folder / "forger-up"
    forged = '{"format_version":"1.2","resource_changes":[]}'
    loop = f"while :; do test -e {json_file} && echo '{forged}' >{json_file}; touch {up}; done"
    # Only in render: that stage is the one with a scratch folder of that name.
    deed = f'test -d {json_file.parent} || exit 0; trap "" TERM; setsid sh -c \'trap "" TERM; {_quoted(loop)}\' &'
    provider_files(workspace.repository, provider, deed)
    workspace.commit_more()
    pod, result = plan(workspace, NEXT)
    assert result.result is Outcome.SUCCEEDED, pod.log
    assert up.exists(), pod.log
    assert (result.has_changes, result.changes.add) == (True, 1)


def _quoted(script: str) -> str:
    return script.replace("'", "'\"'\"'")
