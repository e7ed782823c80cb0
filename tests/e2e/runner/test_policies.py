"""Policies with the real Kyverno on real plans of a real OpenTofu.

The Kyverno command line is built once into the cache, which takes about ten minutes. Without it these tests fail: a
silent skip would read as proof. ``MAGOS_KYVERNO=off`` skips them on purpose.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from magos.api.meta import ObjectMeta
from magos.api.result import Outcome, Violation, ViolationAction
from magos.api.validatingpolicy import ValidatingPolicy, policy_file, policy_text
from magos.local.programs.assets import AssetSettings, kyverno_program
from magos.local.programs.progress import LineProgress
from magos.local.programs.recipes import TOFU_VERSION
from magos.local.servers.mirror import ReleaseMirror
from magos.local.servers.samplemodule import SHARED, environment_files
from tests.e2e.runner.pod import NEXT, PLAN, RUN, Workspace, apply
from tests.e2e.runner.policypod import Rendered, policy

TOKEN = "tok/\"en+of 'the' vault"
MODULE = f"""
variable "token" {{
  default   = {msgspec.json.encode(TOKEN).decode()}
  sensitive = true
}}
resource "terraform_data" "first" {{
  input = {{ name = "first", team = "net", token = var.token }}
}}
resource "terraform_data" "second" {{
  input = {{ name = "second", team = terraform_data.first.id }}
}}
"""
GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "policies.md"
SAMPLES = Path(__file__).parents[3] / "samples" / "policies"
TEAMS = "object.resource_changes.all(c, c.change.after.input.team != '')"
GUARDED = (
    "object.resource_changes.all(c, c.change.after == null || c.change.?after_unknown.?input.?team.orValue(false) ||"
    " c.change.after.?input.?team.orValue('') != '')"
)


@pytest.fixture(scope="module")
def kyverno() -> Path:
    """The folder of the program."""
    if os.environ.get("MAGOS_KYVERNO") == "off":
        pytest.skip("MAGOS_KYVERNO=off")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "magos"
    return kyverno_program(AssetSettings(cache=cache, environ=dict(os.environ)), LineProgress(sys.stderr)).parent


@pytest.fixture(scope="module")
def new_workspace(tmp_path_factory: pytest.TempPathFactory, mirror: ReleaseMirror) -> Callable[[], Workspace]:
    settings = {
        "TF_VERSION": TOFU_VERSION,
        "MAGOS_TF_DISTRIBUTION": "opentofu",
        "MAGOS_OPENTOFU_MIRROR": mirror.url,
        "MAGOS_RELEASE_KEYS": str(mirror.keys),
    }
    return lambda: Workspace(tmp_path_factory.mktemp("workspace"), settings)


@pytest.fixture(scope="module")
def creating(new_workspace: Callable[[], Workspace]) -> Rendered:
    """A plan that creates two resources, one of them with an input that is not known yet."""
    workspace = new_workspace()
    workspace.commit({"main.tf": workspace.backend + MODULE})
    return Rendered(workspace.pod(PLAN, RUN))


@pytest.fixture(scope="module")
def destroying(new_workspace: Callable[[], Workspace]) -> Rendered:
    """A plan that destroys one of two resources."""
    workspace = new_workspace()
    workspace.commit({"main.tf": workspace.backend + MODULE})
    _, applied = apply(workspace, workspace.pod(PLAN, RUN).run())
    assert applied.result is Outcome.SUCCEEDED
    workspace.commit({"main.tf": workspace.backend + MODULE.partition('resource "terraform_data" "second"')[0]})
    return Rendered(workspace.pod(PLAN, NEXT))


def test_a_plan_that_all_policies_pass_succeeds_and_counts_them(creating: Rendered, kyverno: Path) -> None:
    result = creating.judge(kyverno, policy("true", name="a"), policy("size(object.resource_changes) == 2", name="b"))
    assert (result.result, result.exit_code, result.reason) == (Outcome.SUCCEEDED, 0, "")
    assert (result.policies.selected, result.policies.evaluated) == (2, 2)
    assert (result.violations, result.violations_total) == ((), 0)
    assert result.changes.add == 2
    assert "policies selected by (all policies): 2" in creating.log


@pytest.mark.parametrize(
    ("actions", "action"),
    [
        (("Deny",), "Deny"),
        (("Warn",), "Warn"),
        ((), "Deny"),
        (None, "Deny"),
        (("Audit", "Deny"), "Deny"),
        (("Audit", "Warn"), "Warn"),
    ],
    ids=str,
)
def test_a_violation_blocks_unless_it_is_only_to_be_audited(
    creating: Rendered, kyverno: Path, actions: tuple[str, ...] | None, action: str
) -> None:
    result = creating.judge(kyverno, policy("false", actions=actions, message="not like this"))
    assert (result.result, result.exit_code, result.reason) == (Outcome.FAILED, 5, "PolicyViolation")
    assert result.violations == (Violation("p", "not like this", ViolationAction(action)),)
    assert result.message == "1 violation: p: not like this; change the code or the policy"
    assert (result.policies.evaluated, result.changes.add, result.has_changes) == (1, 2, True)


def test_a_violation_to_be_audited_is_reported_by_a_successful_plan(creating: Rendered, kyverno: Path) -> None:
    result = creating.judge(kyverno, policy("false", actions=["Audit"], message="look"), policy("true", name="q"))
    assert (result.result, result.exit_code, result.violations_total) == (Outcome.SUCCEEDED, 0, 1)
    assert result.violations == (Violation("p", "look", ViolationAction.AUDIT),)
    assert "violation (Audit) of policy p: look" in creating.log


def test_a_policy_whose_match_conditions_are_not_met_counts_as_evaluated(creating: Rendered, kyverno: Path) -> None:
    result = creating.judge(kyverno, policy("false", matchConditions=[{"name": "never", "expression": "false"}]))
    assert (result.exit_code, result.policies.selected, result.policies.evaluated) == (0, 1, 1)


def test_a_violation_that_is_declared_not_to_count_is_a_warning(creating: Rendered, kyverno: Path) -> None:
    result = creating.judge(kyverno, policy("false", annotations={"policies.kyverno.io/scored": "false"}))
    assert (result.exit_code, result.policies.evaluated, result.warnings) == (0, 1, ("policy p: no",))


def test_a_policy_that_checks_nothing_is_pointed_out(creating: Rendered, kyverno: Path) -> None:
    result = creating.judge(kyverno, policy("true", validations=[]))
    assert (result.exit_code, result.policies.evaluated) == (0, 1)
    assert result.warnings == ("policy p has no validations: it checks nothing",)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"expression": TEAMS}, "policy p cannot be evaluated: .*no such key"),
        ({"expression": "object.nothing == 1"}, "policy p cannot be evaluated: .*no such key: nothing"),
        ({"expression": "1 / size([]) == 1"}, "policy p cannot be evaluated: .*division by zero"),
        ({"expression": "object.("}, "failed to compile policy p .*[Ss]yntax error"),
        ({"expression": "'text'"}, "policies cannot be evaluated: .*exit code 1"),
        ({"expression": "object"}, "failed to compile policy p .*expected to be of type bool"),
        ({"expression": "false", "matchConditions": [{"name": "c", "expression": "object.nothing"}]}, "cannot be eval"),
        ({"expression": "true", "unknownField": 1}, "there is no report; .*check the fields of the policies"),
        ({"expression": "true", "validations": "none"}, "policy p is not reported; .*check the fields"),
    ],
    ids=[
        "value not known yet",
        "no such key",
        "division",
        "syntax",
        "no truth value",
        "anything",
        "error in a match condition",
        "unknown field",
        "malformed",
    ],
)
@pytest.mark.parametrize("failure_policy", ["Fail", "Ignore"])
def test_an_error_is_never_a_pass(
    creating: Rendered, kyverno: Path, changes: dict[str, Any], problem: str, failure_policy: str
) -> None:
    result = creating.judge(
        kyverno, policy(**changes, failurePolicy=failure_policy, actions=["Audit"]), policy("true", name="q")
    )
    assert (result.exit_code, result.reason) == (5, "PolicyEvaluationFailed"), creating.log
    assert result.policies.selected == 2
    assert result.violations == ()
    assert re.search(problem, result.message), result.message


def test_guarded_expressions_stand_values_that_are_not_known_yet(creating: Rendered, kyverno: Path) -> None:
    assert creating.judge(kyverno, policy(GUARDED)).exit_code == 0
    strict = GUARDED.replace("c.change.?after_unknown.?input.?team.orValue(false) ||", "")
    assert creating.judge(kyverno, policy(strict)).reason == "PolicyViolation"


def test_destroyed_resources_have_no_after(destroying: Rendered, kyverno: Path) -> None:
    assert destroying.judge(kyverno, policy(TEAMS)).reason == "PolicyEvaluationFailed"
    result = destroying.judge(kyverno, policy(GUARDED))
    assert (result.exit_code, result.changes.destroy) == (0, 1)


def test_a_policy_that_is_not_about_plans_is_named(creating: Rendered, kyverno: Path) -> None:
    pods = policy("true", name="for-pods", evaluation={"mode": "Kubernetes"})
    result = creating.judge_files(kyverno, {policy_file("for-pods"): policy_text(pods)})
    assert (result.exit_code, result.reason) == (5, "PolicyEvaluationFailed")
    assert "policy for-pods has the evaluation mode Kubernetes" in result.message


def test_changed_policies_are_not_believed(creating: Rendered, kyverno: Path) -> None:
    files = {policy_file("p"): policy_text(policy("true"))}
    creating.mount(files)
    digest = "sha256:" + "0" * 64
    result = creating.job(kyverno, {"MAGOS_POLICY_SELECTOR": "", "MAGOS_POLICIES_DIGEST": digest})
    assert (result.exit_code, result.reason) == (5, "PolicyEvaluationFailed")
    assert digest in result.message


def test_a_selector_that_matches_nothing_lets_the_plan_pass_and_says_so(creating: Rendered, kyverno: Path) -> None:
    creating.mount({})
    result = creating.job(kyverno, {"MAGOS_POLICY_SELECTOR": "team=a"})
    assert (result.exit_code, result.policies.selected, result.policies.evaluated) == (0, 0, 0)
    assert "policies selected by team=a: 0" in creating.log


def test_sensitive_values_are_masked_and_the_plan_is_never_printed(creating: Rendered, kyverno: Path) -> None:
    after = "object.resource_changes.filter(c, c.name == 'first')[0].change.after.input"
    quoting = [{"expression": "false", "messageExpression": f"{after}.token + ' and ' + {after}.team"}]
    failing = f"{after}.token.matches('(') || int({after}.token) == 1"
    blocked = creating.judge(kyverno, policy("true", validations=quoting))
    assert [violation.message for violation in blocked.violations] == ["*** and net"]
    assert blocked.message == "1 violation: p: *** and net; change the code or the policy"
    logs = creating.log
    assert creating.judge(kyverno, policy(f"int({after}.token) == 1")).reason == "PolicyEvaluationFailed"
    logs += creating.log + creating.pod.result.message
    assert creating.judge(kyverno, policy(failing)).reason == "PolicyEvaluationFailed"
    logs += creating.log + creating.pod.result.message
    for part in (TOKEN, "of 'the' vault", "tok/", "format_version", "planned_values"):
        assert part not in logs


def test_five_hundred_violations_fit_and_are_all_in_the_log(creating: Rendered, kyverno: Path) -> None:
    many = [policy("false", name=f"p{number:03}", message=f"{number} " + "m" * 300) for number in range(500)]
    result = creating.judge(kyverno, *many)
    assert (result.exit_code, result.violations_total, result.truncated) == (5, 500, True)
    assert result.policies.evaluated == 500
    assert 1 <= len(result.violations) <= 50
    assert result.message.startswith("500 violations: p000: 0 mmm")
    assert creating.log.count("violation (Deny) of policy p") == 500


def test_lines_of_any_length_are_read(creating: Rendered, kyverno: Path) -> None:
    result = creating.judge(kyverno, policy("false", message="m" * 200_000 + " end\n---\n{}"))
    assert (result.reason, result.violations_total) == ("PolicyViolation", 1)
    assert "m" * 200_000 + " end" in creating.log


@pytest.mark.parametrize("text", ["1e3", "no", "0x10", "a\n---\nb: {}", "\u2028 \u0085 \x7f \ufeff", "ä €  𝄞 '\"\\ #"])
def test_every_text_of_a_policy_arrives_as_it_was_written(creating: Rendered, kyverno: Path, text: str) -> None:
    result = creating.judge(kyverno, policy("false", message=text))
    assert [violation.message for violation in result.violations] == [text]


def read_policies(documents: Iterable[Any]) -> list[ValidatingPolicy]:
    return [
        ValidatingPolicy(metadata=ObjectMeta(name=each["metadata"]["name"]), spec=each["spec"])
        for each in documents
        if each.get("kind") == "ValidatingPolicy"
    ]


def sample_policies() -> list[ValidatingPolicy]:
    return read_policies(yaml.safe_load(path.read_text()) for path in sorted(SAMPLES.glob("*.yaml")))


@pytest.mark.parametrize(("replicas", "violated"), [(2, []), (30, ["few-changes"])])
def test_the_sample_policies_judge_the_sample_module(
    new_workspace: Callable[[], Workspace], kyverno: Path, replicas: int, violated: list[str]
) -> None:
    workspace = new_workspace()
    workspace.commit({**SHARED, **environment_files("dev", release="1", replicas=replicas, state=workspace.state)})
    planned = Rendered(workspace.pod(PLAN, RUN, TF_PATH="environments/dev"))
    policies = sample_policies()
    result = planned.judge(kyverno, *policies)
    assert result.policies.evaluated == len(policies) == 3
    assert [violation.policy for violation in result.violations] == violated, planned.log


def test_the_sample_policies_notice_what_they_are_for(destroying: Rendered, kyverno: Path) -> None:
    result = destroying.judge(kyverno, *sample_policies())
    assert result.exit_code == 0
    assert result.violations == (
        Violation("no-destroy", "the plan destroys terraform_data.second", ViolationAction.AUDIT),
    )


def test_the_policies_of_the_guide_do_what_it_says(creating: Rendered, destroying: Rendered, kyverno: Path) -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    policies = read_policies(yaml.safe_load(block) for block in blocks)
    assert [policy.metadata.name for policy in policies] == ["team-is-set", "nothing-unknown"]
    created = creating.judge(kyverno, *policies)
    assert (created.exit_code, created.policies.evaluated) == (0, 2), creating.log
    assert [violation.policy for violation in created.violations] == ["nothing-unknown"]
    destroyed = destroying.judge(kyverno, *policies)
    assert (destroyed.exit_code, destroyed.violations) == (0, ()), destroying.log
