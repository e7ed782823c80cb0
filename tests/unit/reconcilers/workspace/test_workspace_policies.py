"""Policies in the life of a run: selected before the plan, stored for its pod, judged by what the runner reports."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from magos.api.kube import CONFIG_MAPS, ConfigMap
from magos.api.labels import WORKSPACE
from magos.api.meta import ObjectMeta
from magos.api.names import JobType
from magos.api.phases import Phase
from magos.api.project import PROJECTS, Project, ProjectSpec, ProjectValidation
from magos.api.reasons import Reason
from magos.api.result import PolicyCount, Result, Violation, ViolationAction
from magos.api.selectors import LabelSelector
from magos.api.validatingpolicy import VALIDATING_POLICIES, ValidatingPolicy, content_digest
from magos.api.workspace import ApprovalKind, GateReason, Validation
from magos.runtime.decision import Create, QueryFailure
from tests.unit.reconcilers.cluster import Cluster
from tests.unit.reconcilers.model import NAME, NAMESPACE
from tests.unit.reconcilers.results import apply_result, environment_of, failed, plan_result, reasons

TEAM = LabelSelector(match_labels={"team": "a"})
OWN = Validation(policy_selector=TEAM)


def put_policy(
    model: Cluster, name: str, labels: Mapping[str, str] | None = None, *, mode: str = "JSON", note: str = ""
) -> None:
    meta = ObjectMeta(name=name, labels={"team": "a"} if labels is None else labels)
    spec = {"evaluation": {"mode": mode}, "validations": [{"expression": "true", "message": note}]}
    model.put(VALIDATING_POLICIES, ValidatingPolicy(metadata=meta, spec=spec))


def cluster(*policies: str) -> Cluster:
    model = Cluster()
    for name in policies:
        put_policy(model, name)
    return model


def granted(model: Cluster, **spec: Any) -> Cluster:
    if model.get(PROJECTS, "platform") is None:
        model.put(PROJECTS, Project(metadata=ObjectMeta(name="platform", namespace=NAMESPACE)))
    model.add_workspace(**{"validation": OWN, **spec})
    model.annotate(execution_allowed="true")
    model.settle()
    return model


def outcome(model: Cluster) -> tuple[Phase | None, str]:
    return model.workspace.status.phase, model.workspace.status.reason


def judge_env(model: Cluster) -> dict[str, str | None]:
    found = environment_of(model.created_jobs[-1], "job")
    return {name: each.value for name, each in found.items() if "POLIC" in name}


def violated(*actions: ViolationAction) -> tuple[Violation, ...]:
    return tuple(Violation(policy=f"p{i}", message="no", action=action) for i, action in enumerate(actions))


# --- the start --------------------------------------------------------------------------------------------------------


def test_the_selected_policies_reach_the_judging_stage_and_no_other() -> None:
    model = cluster("cost", "tags")
    put_policy(model, "other", {"team": "b"})
    granted(model)
    [stored] = model.all(CONFIG_MAPS)
    assert isinstance(stored, ConfigMap)
    assert (sorted(stored.data), stored.immutable) == (["cost.yaml", "tags.yaml"], True)
    assert stored.metadata.owner_references[0].uid == model.workspace.metadata.uid
    digest = content_digest({name: text.encode() for name, text in stored.data.items()})
    assert judge_env(model) == {"MAGOS_POLICY_SELECTOR": "team=a", "MAGOS_POLICIES_DIGEST": digest}
    spec = model.created_jobs[0].spec.template.spec
    [volume] = [each for each in spec.volumes if each.config_map is not None]
    assert volume.config_map is not None
    assert volume.config_map.name == stored.metadata.name
    seeing = [
        c.name for c in (*spec.init_containers, *spec.containers) for m in c.volume_mounts if m.name == "policies"
    ]
    assert seeing == ["job"]
    assert model.writes.index("create configmaps") < model.writes.index("create jobs")


def test_the_empty_selector_selects_all_and_says_so() -> None:
    model = granted(cluster("cost"), validation=Validation(policy_selector=LabelSelector()))
    assert judge_env(model)["MAGOS_POLICY_ALL"] == "true"
    assert judge_env(model)["MAGOS_POLICY_SELECTOR"] == ""


def test_without_a_selector_nothing_is_listed() -> None:
    model = cluster("cost")
    model.failing_kinds[VALIDATING_POLICIES.resource] = QueryFailure(reason="NotFound", message="no such kind")
    granted(model, validation=None)
    assert outcome(model)[0] is Phase.PLANNING
    assert judge_env(model) == {}
    assert model.all(CONFIG_MAPS) == []


def test_validation_of_the_workspace_replaces_the_projects_and_the_empty_one_switches_off() -> None:
    inherited = ProjectSpec(validation=ProjectValidation(policy_selector=TEAM))
    for validation, expected in ((None, "team=a"), (Validation(), None), (OWN, "team=a")):
        model = cluster("cost")
        model.put(PROJECTS, Project(metadata=ObjectMeta(name="platform", namespace=NAMESPACE), spec=inherited))
        granted(model, validation=validation)
        assert judge_env(model).get("MAGOS_POLICY_SELECTOR") == expected


def test_no_match_plans_without_evaluation_and_warns() -> None:
    model = granted(cluster())
    assert outcome(model)[0] is Phase.PLANNING
    assert model.all(CONFIG_MAPS) == []
    assert judge_env(model) == {"MAGOS_POLICY_SELECTOR": "team=a"}
    [told] = [event for event in model.events if event.reason == "NoPoliciesMatched"]
    assert (told.type, "team=a" in told.note) == ("Warning", True)


@pytest.mark.parametrize("reason", ["Forbidden", "NotFound", "Undecodable"])
def test_policies_that_cannot_be_listed_keep_the_plan_from_starting(reason: str) -> None:
    model = cluster("cost")
    model.failing_kinds[VALIDATING_POLICIES.resource] = QueryFailure(reason=reason, message="the server said no")
    granted(model)
    assert outcome(model) == (Phase.FAILED, Reason.POLICY_EVALUATION_FAILED)
    assert "the server said no" in model.workspace.status.message
    assert model.created_jobs == []
    before = model.versions
    model.settle()
    assert model.versions == before
    model.failing_kinds.clear()
    model.settle()
    assert outcome(model)[0] is Phase.PENDING


def test_a_policy_that_is_not_for_plans_is_named() -> None:
    model = cluster("cost")
    put_policy(model, "pods", mode="Kubernetes")
    granted(model)
    assert outcome(model) == (Phase.FAILED, Reason.POLICY_EVALUATION_FAILED)
    assert "pods (Kubernetes)" in model.workspace.status.message


def test_changed_policies_are_stored_anew_and_the_former_ones_go() -> None:
    model = granted(cluster("cost"))
    [first] = model.all(CONFIG_MAPS)
    model.run_job(JobType.PLAN, plan_result(model, has_changes=False))
    stranger = ObjectMeta(name="theirs", namespace=NAMESPACE, labels={WORKSPACE: NAME})
    model.put(CONFIG_MAPS, ConfigMap(metadata=stranger))
    put_policy(model, "cost", note="stricter")
    model.annotate(reconcile_request="r")
    model.settle()
    model.annotate(execution_allowed="true")
    model.settle()
    names = [each.metadata.name for each in model.all(CONFIG_MAPS)]
    assert len(names) == 2
    assert "theirs" in names
    assert first.metadata.name not in names


def test_equal_policies_are_stored_once() -> None:
    model = granted(cluster("cost"))
    model.run_job(JobType.PLAN, plan_result(model, has_changes=False))
    model.annotate(reconcile_request="r")
    model.settle()
    model.annotate(execution_allowed="true")
    model.settle()
    assert len(model.created_jobs) == 2
    assert model.writes.count("create configmaps") == 1


def test_a_config_map_of_somebody_else_is_not_used_and_the_refusal_does_not_loop() -> None:
    model = cluster("cost")
    other = granted(cluster("cost"))
    [stored] = other.all(CONFIG_MAPS)
    model.put(CONFIG_MAPS, ConfigMap(metadata=ObjectMeta(name=stored.metadata.name, namespace=NAMESPACE)))
    granted(model)
    assert outcome(model) == (Phase.FAILED, Reason.JOB_REJECTED)
    assert stored.metadata.name in model.workspace.status.message
    assert model.created_jobs == []
    before = model.versions
    model.settle()
    assert model.versions == before


def test_a_config_map_over_quota_is_told_with_the_servers_text() -> None:
    model = cluster("cost")
    model.refusals.append((Create, CONFIG_MAPS.resource, 403, "Forbidden", "exceeded quota: objects"))
    granted(model)
    assert outcome(model) == (Phase.FAILED, Reason.JOB_REJECTED)
    assert "exceeded quota: objects" in model.workspace.status.message


def test_the_apply_pod_has_no_policies() -> None:
    model = cluster("cost")
    model.to_applying(validation=OWN)
    assert judge_env(model) == {}
    assert not [each for each in model.created_jobs[-1].spec.template.spec.volumes if each.config_map is not None]


def test_an_apply_does_not_ask_for_policies_again() -> None:
    model = cluster("cost")
    model.to_planned(validation=OWN)
    model.failing_kinds[VALIDATING_POLICIES.resource] = QueryFailure(reason="NotFound", message="no such kind")
    model.failing_kinds[CONFIG_MAPS.resource] = QueryFailure(reason="Forbidden", message="no")
    model.annotate(execution_allowed="true")
    model.settle()
    assert outcome(model)[0] is Phase.APPLYING


# --- the verdict ------------------------------------------------------------------------------------------------------


def judged(result_of: Any, **spec: Any) -> Cluster:
    model = cluster("p0")
    model.to_planning(validation=OWN, **spec)
    model.run_job_end(JobType.PLAN, result_of(model))
    return model


def blocked(*actions: ViolationAction) -> Any:
    def result_of(model: Cluster) -> Result:
        said = failed(model, JobType.PLAN, "PolicyViolation", "violations", exit_code=5)
        found = violated(*actions)
        return replace(said, violations=found, violations_total=len(found), policies=PolicyCount(1, 1))

    return result_of


@pytest.mark.parametrize("action", [ViolationAction.DENY, ViolationAction.WARN])
def test_deny_and_warn_block_the_apply_whatever_else_is_violated(action: ViolationAction) -> None:
    model = judged(blocked(action, ViolationAction.AUDIT))
    status = model.workspace.status
    assert outcome(model) == (Phase.VALIDATION_FAILED, Reason.POLICY_VIOLATION)
    assert status.message.startswith("1 violation: p0: no")
    assert [str(each.action) for each in status.policy_violations] == [str(action), "Audit"]
    assert status.policies_evaluated == 1
    assert model.job(JobType.APPLY) is None
    assert [(c.type, c.status) for c in status.conditions] == [("Ready", "False"), ("Stalled", "True")]


@pytest.mark.parametrize("action", [ViolationAction.DENY, ViolationAction.WARN])
def test_a_blocking_violation_in_a_result_that_claims_success_blocks_too(action: ViolationAction) -> None:
    model = judged(lambda model: plan_result(model, violations=violated(action), violations_total=1))
    assert outcome(model) == (Phase.VALIDATION_FAILED, Reason.POLICY_VIOLATION)


def test_audit_violations_close_the_gate_also_under_auto_apply() -> None:
    model = judged(lambda model: plan_result(model, violations=violated(ViolationAction.AUDIT), violations_total=1))
    status = model.workspace.status
    assert outcome(model) == (Phase.PLANNED_WITH_VIOLATIONS, Reason.AUDIT_POLICY_VIOLATION)
    assert status.awaiting_approval is not None
    assert status.awaiting_approval.reason is GateReason.AUDIT_VIOLATIONS
    model.annotate(approved=status.current_run_id)
    model.settle()
    assert outcome(model)[0] is Phase.APPLYING
    run = model.workspace.status.current_run
    assert run is not None
    assert run.approval is not None
    assert run.approval.kind is ApprovalKind.APPROVED_WITH_WARNINGS
    model.run_job(JobType.APPLY, apply_result(model))
    assert outcome(model) == (Phase.APPLIED, Reason.APPLY_SUCCEEDED)


def test_audit_violations_that_were_cut_from_the_result_close_the_gate_as_well() -> None:
    model = judged(lambda model: plan_result(model, violations_total=3, truncated=True))
    assert outcome(model) == (Phase.PLANNED_WITH_VIOLATIONS, Reason.AUDIT_POLICY_VIOLATION)


@pytest.mark.parametrize("has_changes", [True, False])
def test_a_result_that_does_not_speak_about_every_selected_policy_is_not_applied(has_changes: bool) -> None:
    """Whatever else it says: only a complete report lets a plan pass (I6)."""
    count = PolicyCount(selected=2, evaluated=1)
    model = judged(lambda model: plan_result(model, policies=count, has_changes=has_changes))
    assert outcome(model) == (Phase.FAILED, Reason.POLICY_EVALUATION_FAILED)
    assert "1 of 2 selected policies" in model.workspace.status.message
    assert model.job(JobType.APPLY) is None


@pytest.mark.parametrize("count", [PolicyCount(), PolicyCount(selected=2, evaluated=2)])
def test_a_result_about_other_policies_than_were_selected_is_not_applied(count: PolicyCount) -> None:
    model = judged(lambda model: plan_result(model, policies=count))
    assert outcome(model) == (Phase.FAILED, Reason.POLICY_EVALUATION_FAILED)
    assert "of 1 selected policies" in model.workspace.status.message
    assert model.job(JobType.APPLY) is None


def test_a_plan_without_changes_is_applied_and_keeps_its_audit_violations_in_view() -> None:
    model = judged(
        lambda model: plan_result(
            model, has_changes=False, violations=violated(ViolationAction.AUDIT), violations_total=1
        )
    )
    assert outcome(model) == (Phase.APPLIED, Reason.NO_CHANGES)
    assert len(model.workspace.status.policy_violations) == 1


def test_an_evaluation_that_failed_in_the_runner_is_retried_on_the_tick() -> None:
    model = judged(lambda model: failed(model, JobType.PLAN, "PolicyEvaluationFailed", "kyverno exited 1", 5))
    assert outcome(model) == (Phase.FAILED, Reason.POLICY_EVALUATION_FAILED)
    count = len(model.history)
    model.settle()
    assert len(model.history) == count
    model.advance(minutes=4)
    model.settle()
    assert str(model.workspace.status.current_run_trigger) == "retry"


def test_a_changed_selector_of_the_project_discards_a_plan_made_under_the_former_one() -> None:
    model = cluster("cost")
    model.to_planning()
    project = model.get(PROJECTS, "platform")
    selector = ProjectSpec(validation=ProjectValidation(policy_selector=TEAM))
    model.put(PROJECTS, replace(project, spec=selector))
    model.run_job_end(JobType.PLAN, plan_result(model))
    assert outcome(model)[0] is Phase.PENDING
    assert str(model.workspace.status.current_run_trigger) == "configuration"
    assert reasons(model.events)[-2:] == ["PlanDiscarded", "RunPending"]


def test_more_than_fifty_violations_are_counted_and_fifty_listed() -> None:
    model = judged(
        lambda model: plan_result(model, violations=violated(*[ViolationAction.AUDIT] * 60), violations_total=60)
    )
    assert len(model.workspace.status.policy_violations) == 50
    assert "60 audit violations" in model.workspace.status.message
