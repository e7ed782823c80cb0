"""Evaluators that crash, hang, lie or fall silent: the plan never passes (spec §7.4, invariant I6).

The stage is real, the plan is real; only the evaluator is a stand-in, as its real failures cannot be had at will.
"""

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from magos.local.programs.recipes import TOFU_VERSION
from magos.local.servers.mirror import ReleaseMirror
from tests.e2e.runner.pod import PLAN, RUN, Workspace, until
from tests.e2e.runner.policypod import Rendered, policy


def says(word: str = "pass", policy: str = "p", kind: str = "ClusterReport", count: int = 1) -> str:
    """A shell command that prints a report with one result; ``count`` is what the summary says."""
    entry = {"policy": policy, "result": word, "message": "m"}
    return f"echo '{json.dumps({'kind': kind, 'summary': {word: count}, 'results': [entry]})}'"


_EMPTY = """echo '{"kind": "ClusterReport", "summary": {}, "results": []}'"""
Evaluator = Callable[[str], Path]


@pytest.fixture
def evaluator(tmp_path: Path) -> Evaluator:
    """Makes a folder with a shell script as the program ``kyverno``."""

    def make(script: str) -> Path:
        program = tmp_path / "kyverno"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return tmp_path

    return make


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory, mirror: ReleaseMirror) -> Rendered:
    settings = {
        "TF_VERSION": TOFU_VERSION,
        "MAGOS_TF_DISTRIBUTION": "opentofu",
        "MAGOS_OPENTOFU_MIRROR": mirror.url,
        "MAGOS_RELEASE_KEYS": str(mirror.keys),
    }
    workspace = Workspace(tmp_path_factory.mktemp("workspace"), settings)
    workspace.commit({"main.tf": workspace.backend + 'resource "terraform_data" "a" {}\n'})
    return Rendered(workspace.pod(PLAN, RUN))


def test_the_stand_in_is_believed_when_it_behaves(planned: Rendered, evaluator: Evaluator) -> None:
    assert planned.judge(evaluator(says("pass")), policy("true")).exit_code == 0
    assert planned.judge(evaluator(f"{says('fail')}; exit 1"), policy("true")).reason == "PolicyViolation"
    assert planned.judge(evaluator(says("fail")), policy("true")).reason == "PolicyViolation"


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("exit 3", "check the fields of the policies (kyverno exit code 3)"),
        ("echo 'Error: cannot load' >&2; exit 1", "(kyverno exit code 1: cannot load)"),
        ("kill -9 $$", "killed by signal 9"),
        ("true", "there is no report"),
        ("echo some words", "there is no report"),
        (f"{says()} | head -c 50", "the report is not complete"),
        (f"{says()}; {says()}", "there are 2 reports"),
        (f"{says()}; exit 1", "the exit code is 1, which the report does not explain"),
        (f"{says()}; kill -9 $$", "the exit code is -9"),
        (f"{says('fail')}; kill -9 $$", "the exit code is -9"),
        (says("error"), "policy p cannot be evaluated: m"),
        (says("fine"), "has another form"),
        (_EMPTY, "policy p is not reported"),
        (says(policy="q"), "policy 'q' is reported but was not selected"),
        (says(count=2), "summary does not agree"),
        (says(kind="List"), "the report is a 'List'"),
    ],
)
def test_what_is_no_complete_report_fails_the_plan(
    planned: Rendered, evaluator: Evaluator, script: str, problem: str
) -> None:
    result = planned.judge(evaluator(script), policy("true"))
    assert (result.exit_code, result.reason) == (5, "PolicyEvaluationFailed")
    assert problem in result.message
    assert (result.policies.selected, result.policies.evaluated) == (1, 0)
    assert (result.changes.add, result.has_changes) == (1, True)


def test_an_evaluator_that_hangs_is_ended(planned: Rendered, evaluator: Evaluator) -> None:
    planned.limit = 1.0
    try:
        result = planned.judge(evaluator(f"trap '' TERM INT; {says()}; sleep 600"), policy("true"))
    finally:
        planned.limit = 0.0
    assert (result.exit_code, result.reason) == (5, "PolicyEvaluationFailed")
    assert "kyverno took longer than 1 s" in result.message


def test_a_missing_or_broken_evaluator_is_named(planned: Rendered, tmp_path: Path) -> None:
    planned.mount({})
    no_evaluator = planned.judge(tmp_path, policy("true"))
    assert (no_evaluator.exit_code, no_evaluator.reason) == (5, "PolicyEvaluationFailed")
    assert "there is no program kyverno in the runner image" in no_evaluator.message
    (tmp_path / "kyverno").write_bytes(b"\x7fELF")
    (tmp_path / "kyverno").chmod(0o755)
    broken = planned.judge(tmp_path, policy("true"))
    assert (broken.exit_code, broken.reason) == (5, "PolicyEvaluationFailed")
    assert "kyverno cannot be started" in broken.message


def test_the_evaluator_sees_policies_and_plan_and_none_of_our_variables(
    planned: Rendered, evaluator: Evaluator, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    script = f'env > {seen}; echo "$@" >> {seen}; cat "$2"/* >> {seen}; head -c 1 "$4" >> {seen}; {says()}'
    planned.pod.env |= {"TF_VAR_x": "hidden-1", "GIT_PASSWORD": "hidden-2", "AWS_SECRET_ACCESS_KEY": "hidden-3"}
    assert planned.judge(evaluator(script), policy("true", failurePolicy="Ignore")).exit_code == 0
    text = seen.read_text()
    assert "hidden-" not in text
    assert "--policy-report --output-format json" in text
    assert '"failurePolicy": "Fail"' in text
    assert text.endswith("{")


def test_a_stop_request_ends_the_evaluation_in_time(planned: Rendered, evaluator: Evaluator, tmp_path: Path) -> None:
    started = tmp_path / "started"
    with planned.judging(evaluator(f"trap '' INT; touch {started}; sleep 600"), policy("true")) as process:
        until(started.exists)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=5) == 143
    assert planned.pod.result.reason == "Interrupted"
