"""Policies from the cluster to the verdict: selected by a real controller, evaluated in a real pod, acted upon.

Needs the Kyverno command line, which is built once into the cache. ``MAGOS_KYVERNO=off`` skips these tests on purpose.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from magos.api.phases import Phase
from tests.e2e.onemachine import OneMachine, one_machine
from tests.e2e.test_podrunner import container, finished, pod
from tests.envtest.cluster import eventually

_POLICY = "policies.kyverno.io/v1"


@pytest.fixture(scope="module")
def policed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneMachine]:
    """A one-machine mode of its own: policies are cluster-wide and would meet other tests' Workspaces."""
    if os.environ.get("MAGOS_KYVERNO") == "off":
        pytest.skip("MAGOS_KYVERNO=off")
    settings = {"MAGOS_JOB_START_TIMEOUT": "30s"}
    with one_machine(tmp_path_factory.mktemp("machine"), settings, policies=True) as running:
        yield running


@pytest.fixture
def team(policed: OneMachine) -> str:
    """A namespace that is also the label its policies carry."""
    return policed.namespace()


def policy(team: str, name: str, expression: str, *actions: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": _POLICY,
        "kind": "ValidatingPolicy",
        "metadata": {"name": f"{team}-{name}", "labels": {"team": team}},
        "spec": {
            "evaluation": {"mode": "JSON"},
            "validations": [{"expression": expression, "message": f"{name} says no"}],
            "validationActions": list(actions),
            **spec,
        },
    }


def workspace(here: OneMachine, team: str, **spec: Any) -> dict[str, Any]:
    validation = {"policySelector": {"matchLabels": {"team": team}}}
    return here.workspace_document(team, "net", validation=validation, autoApply=True, **spec)


def test_a_container_finds_the_evaluator(policed: OneMachine, team: str) -> None:
    script = "kyverno version > /dev/termination-log"
    policed.apply(pod(team, "evaluator", containers=[container("main", f"HOME=/tmp {script}")]))
    status = finished(policed, team, "evaluator")
    assert status["phase"] == "Succeeded", status
    assert "1.19.1" in status["containerStatuses"][0]["state"]["terminated"]["message"]


def test_policies_that_hold_let_the_plan_be_applied(policed: OneMachine, team: str) -> None:
    policed.apply(policy(team, "fine", "size(object.resource_changes) > 0", "Deny"), workspace(policed, team))
    status = policed.wait_settled(team, "net").status
    assert (status.phase, status.policies_evaluated) == (Phase.APPLIED, 1), status.message


def test_a_violation_blocks_the_apply(policed: OneMachine, team: str) -> None:
    policed.apply(
        policy(team, "deny", "false", "Deny"), policy(team, "audit", "false", "Audit"), workspace(policed, team)
    )
    status = policed.wait_settled(team, "net").status
    assert (status.phase, status.reason) == (Phase.VALIDATION_FAILED, "PolicyViolation")
    assert status.message.startswith(f"1 violation: {team}-deny: deny says no")  # what only audits is not counted
    assert [(each.policy, each.action) for each in status.policy_violations] == [
        (f"{team}-deny", "Deny"),
        (f"{team}-audit", "Audit"),
    ]
    assert "apply" not in policed.here.kubectl.run("get", "jobs", "-n", team, "-o", "name")


def test_violations_to_be_audited_ask_for_an_approval(policed: OneMachine, team: str) -> None:
    policed.apply(policy(team, "audit", "false", "Audit"), workspace(policed, team))
    gated = policed.wait(team, "net", lambda w: w.status.phase is Phase.PLANNED_WITH_VIOLATIONS).status
    assert gated.reason == "AuditPolicyViolation"
    assert [each.message for each in gated.policy_violations] == ["audit says no"]
    policed.annotate(team, "net", {"magosproject.io/approved": gated.current_run_id})
    assert policed.wait_settled(team, "net").status.phase is Phase.APPLIED


def test_no_match_is_visible_and_harmless(policed: OneMachine, team: str) -> None:
    policed.apply(workspace(policed, team))
    status = policed.wait_settled(team, "net").status
    assert (status.phase, status.policies_evaluated) == (Phase.APPLIED, 0)
    eventually(lambda: "NoPoliciesMatched" in policed.here.kubectl.run("get", "events", "-n", team, "-o", "yaml"))


@pytest.mark.parametrize(
    ("spec", "expression", "cause"),
    [
        ({"evaluation": {"mode": "Kubernetes"}}, "true", "Kubernetes"),
        ({}, "object.nothing == 1", "no such key: nothing"),
    ],
    ids=["mode", "error"],
)
def test_what_cannot_be_evaluated_blocks_and_is_named(
    policed: OneMachine, team: str, spec: dict[str, Any], expression: str, cause: str
) -> None:
    policed.apply(policy(team, "odd", expression, "Audit", **spec), workspace(policed, team))
    status = policed.wait_settled(team, "net").status
    assert (status.phase, status.reason) == (Phase.FAILED, "PolicyEvaluationFailed")
    assert f"{team}-odd" in status.message
    assert cause in status.message
    assert "apply" not in policed.here.kubectl.run("get", "jobs", "-n", team, "-o", "name")
