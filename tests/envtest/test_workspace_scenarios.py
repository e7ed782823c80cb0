"""Each situation of spec §6.2.11 and §6.2.10, on a real API server, with the controllers under their own accounts."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from magos.api.annotations import APPROVED, EXECUTION_ALLOWED, RECONCILE_REQUEST, RELEASED
from magos.api.names import JobType
from tests.envtest.cluster import Cluster, eventually
from tests.envtest.workspaces import NODE, OTHER_SHA, SHA, Stage, controllers

PLAN, APPLY = JobType.PLAN, JobType.APPLY
_KYVERNO = Path(__file__).parents[2] / "deploy" / "kustomize" / "components" / "kyverno-crd"


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the controllers' logs are, as ``<name>.log``."""
    return tmp_path_factory.mktemp("magos")


@pytest.fixture(scope="module")
def magos(control_plane: Cluster, logs: Path) -> Iterator[Cluster]:
    """The controllers that a run needs, for this module, and a node for the pods."""
    control_plane.request("POST", "/api/v1/nodes", {"metadata": {"name": NODE}})
    with controllers(control_plane, logs, "workspace", "project", "variableset"):
        yield control_plane
    control_plane.request("DELETE", f"/api/v1/nodes/{NODE}")


@pytest.fixture
def stage(magos: Cluster, namespace: str) -> Stage:
    """A namespace without a Project: permission is the test's to give."""
    return Stage(magos, namespace)


def annotations(stage: Stage) -> dict[str, str]:
    return dict(stage.workspace.metadata.annotations)


# --- spec §6.2.11 -----------------------------------------------------------------------------------------------------


def test_permission_revoked_during_a_run_refuses_only_the_next_start(stage: Stage) -> None:
    stage.declare()
    stage.reaches("Pending", "AwaitingRollout")
    stage.annotate(execution_allowed="true")
    stage.starts(PLAN)
    stage.annotate(execution_allowed=None)
    stage.ends(PLAN)
    stage.reaches("Planned", "AwaitingRollout")
    assert len(stage.jobs()) == 1
    stage.annotate(execution_allowed="true")
    stage.starts(APPLY)
    stage.annotate(execution_allowed=None)
    stage.ends(APPLY)
    found = stage.reaches("Applied", "ApplySucceeded")
    assert found.status.observed_revision == SHA
    assert [(c.type, c.status) for c in found.status.conditions] == [("Ready", "True")]
    told = {"RunPending", "PlanStarted", "PlanSucceeded", "AwaitingRollout", "ApplyStarted", "ApplySucceeded"}
    eventually(lambda: told <= stage.events())


def test_approvals_in_advance_and_of_other_runs_have_no_effect_now_or_later(stage: Stage) -> None:
    stage.declare(autoApply=False)
    stage.reaches("Pending")
    stage.annotate(execution_allowed="true", approved=stage.run_id)
    stage.starts(PLAN)
    stage.ends(PLAN)
    found = stage.until(lambda ws: ws.status.awaiting_approval is not None)
    assert APPROVED not in found.metadata.annotations
    stage.annotate(approved="20250101T000000-00000000")
    stage.annotate(tf_log_level="DEBUG")  # something to look at again for
    assert stage.workspace.status.awaiting_approval is not None
    assert len(stage.jobs()) == 1
    principal = f'{{"runID": "{stage.run_id}", "principal": "ann"}}'
    stage.annotate(approved=stage.run_id, approved_by=principal)
    stage.applies()
    approval = stage.run.approval
    assert approval is not None
    assert (str(approval.kind), approval.by) == ("approved", "direct edit (unverified)")
    eventually(lambda: APPROVED not in annotations(stage))


def test_a_request_during_a_run_causes_one_run_afterwards(stage: Stage) -> None:
    stage.declare()
    stage.plans()
    stage.starts(APPLY)
    first = stage.run_id
    stage.annotate(reconcile_request="now")
    stage.ends(APPLY)
    stage.triggered("manual", first)
    assert stage.run.principal == "direct edit (unverified)"
    stage.plans(has_changes=False)
    found = stage.reaches("Applied", "NoChanges")
    assert found.status.last_handled_reconcile_request == "now"
    eventually(lambda: RECONCILE_REQUEST not in annotations(stage))


def test_the_request_that_a_run_has_recorded_causes_no_second_one(stage: Stage) -> None:
    stage.declare()
    stage.reaches("Pending")
    stage.annotate(reconcile_request="now")
    stage.until(lambda ws: ws.status.current_run is not None and ws.status.current_run.request == "now")
    first = stage.run_id
    stage.plans()
    stage.starts(APPLY)
    assert annotations(stage)[RECONCILE_REQUEST] == "now"
    stage.ends(APPLY)
    stage.reaches("Applied", "ApplySucceeded")
    eventually(lambda: RECONCILE_REQUEST not in annotations(stage))
    assert stage.run_id == first
    assert stage.workspace.status.last_handled_reconcile_request == "now"


def test_a_spec_edit_during_a_plan_is_served_when_the_plan_has_ended(stage: Stage) -> None:
    stage.declare()
    stage.reaches("Pending")
    stage.annotate(execution_allowed="true")
    stage.starts(PLAN)
    first = stage.run_id
    stage.account("other", runner=True)
    stage.edit(serviceAccountName="other", autoApply=False)
    stage.annotate(reconcile_interval="1h")
    eventually(lambda: stage.workspace.status.observed_reconcile_interval == "1h0m0s")  # the edit has been seen, too
    status = stage.workspace.status
    assert (status.phase, status.observed_generation, status.current_run_id) == ("Planning", 1, first)
    assert len(stage.jobs()) == 1
    stage.ends(PLAN)
    stage.triggered("configuration", first)
    eventually(lambda: EXECUTION_ALLOWED not in annotations(stage))
    eventually(lambda: not stage.jobs())
    assert "PlanDiscarded" in eventually(lambda: stage.events() & {"PlanDiscarded"})


def test_a_failing_commit_is_tried_once_and_then_on_the_tick_and_a_branch_that_moves_back_is_followed(
    stage: Stage,
) -> None:
    stage.declare()
    stage.plans()
    stage.applies()
    first = stage.run_id
    stage.annotate(detected_revision=OTHER_SHA)
    stage.triggered("revision", first)
    stage.reaches("Pending")
    stage.annotate(execution_allowed="true")
    stage.starts(PLAN)
    stage.fails(PLAN, "PlanFailed")
    failed = stage.reaches("Failed", "PlanFailed")
    assert failed.status.last_attempted_revision == OTHER_SHA
    second = stage.run_id
    stage.annotate(execution_allowed="true")
    eventually(lambda: EXECUTION_ALLOWED not in annotations(stage))  # seen, and not taken for a reason to run
    assert stage.run_id == second
    stage.annotate(reconcile_interval="10s")
    stage.triggered("retry", second)
    assert stage.run.revision == OTHER_SHA
    stage.annotate(reconcile_interval=None, detected_revision=SHA)  # back, while the retry waits
    stage.until(lambda ws: ws.status.current_run is not None and ws.status.current_run.revision == SHA)
    assert stage.workspace.status.current_run_trigger == "revision"


def test_jobs_deleted_by_a_person(stage: Stage) -> None:
    stage.declare()
    stage.reaches("Pending")
    stage.annotate(execution_allowed="true")
    pod = stage.starts(PLAN)
    lost = stage.run_id
    stage.delete_job(stage.run.plan_job)
    stage.reaches("Pending", "Interrupted")
    stage.removes(pod)
    stage.annotate(reconcile_request="again")  # recorded into the repetition, which begins at once then
    stage.until(lambda ws: ws.status.current_run is not None and ws.status.current_run.request == "again")
    assert stage.run_id != lost
    stage.plans()
    pod = stage.starts(APPLY)
    stage.delete_job(stage.run.apply_job)
    stage.until(lambda ws: "disappeared" in ws.status.message)
    stage.ends(APPLY, pod)
    stage.reaches("Applied", "ApplySucceeded")
    finished = stage.run_id
    for job in stage.jobs():
        stage.delete_job(job["metadata"]["name"])
    eventually(lambda: not stage.jobs())
    assert stage.run_id == finished


def test_a_lost_plan_is_repeated_by_itself_and_a_lost_apply_is_not_repeated_at_all(stage: Stage) -> None:
    stage.declare()
    stage.reaches("Pending")
    stage.annotate(execution_allowed="true")
    pod = stage.starts(PLAN)
    first, trigger = stage.run_id, stage.workspace.status.current_run_trigger
    stage.delete_job(stage.run.plan_job)
    stage.reaches("Pending", "Interrupted")
    stage.removes(pod)
    stage.triggered(str(trigger), first)
    stage.annotate(reconcile_request="now")  # cuts the pause short
    stage.plans()
    pod = stage.starts(APPLY)
    second = stage.run_id
    stage.delete_job(stage.run.apply_job)
    stage.until(lambda ws: "disappeared" in ws.status.message)
    stage.removes(pod)
    lost = stage.reaches("Failed", "RunLost")
    assert "outcome of the apply is unknown" in lost.status.message
    stage.annotate(execution_allowed="true")
    eventually(lambda: EXECUTION_ALLOWED not in annotations(stage))
    assert [job["metadata"]["labels"]["magosproject.io/job-type"] for job in stage.jobs()] == ["plan"]
    stage.annotate(reconcile_request="again")
    stage.triggered("manual", second)  # which plans anew
    stage.plans(has_changes=False)
    stage.reaches("Applied", "NoChanges")


def test_a_missing_project_is_told_and_its_deletion_starts_nothing(stage: Stage) -> None:
    stage.create("projects", "platform", {})
    stage.declare()
    stage.starts(PLAN)  # the Project grants
    stage.ends(PLAN)
    stage.applies()
    applied = stage.run_id
    stage.delete(stage._own("projects", "platform"))
    eventually(lambda: not stage.cluster.request("GET", stage._own("projects"))["items"])
    assert (stage.run_id, stage.workspace.status.phase) == (applied, "Applied")
    stage.annotate(reconcile_request="now")
    found = stage.reaches("Pending", "AwaitingRollout")
    assert "platform does not exist" in found.status.message
    assert "AwaitingRollout" in eventually(lambda: stage.events() & {"AwaitingRollout"})


def test_what_a_pod_with_the_labels_of_a_run_says_is_nobodys_word(stage: Stage) -> None:
    """Whoever may create pods in the namespace can neither apply nor approve what waits."""
    stage.declare(autoApply=False)
    stage.plans()
    stage.until(lambda ws: ws.status.awaiting_approval is not None)
    pod = stage.forges(APPLY)
    stage.annotate(tf_log_level="DEBUG")
    stage.annotate(reconcile_interval="1h")
    found = stage.until(lambda ws: ws.status.observed_reconcile_interval == "1h0m0s")
    assert (found.status.phase, found.status.observed_revision) == ("Planned", "")
    assert found.status.awaiting_approval is not None
    stage.removes(pod)
    stage.annotate(approved=stage.run_id)
    stage.applies()


# --- spec §6.2.8, §6.2.10 ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("discard", [False, True])
def test_a_commit_while_gated_is_served_after_the_run_or_discards_the_plan(stage: Stage, discard: bool) -> None:
    stage.declare(autoApply=False, discardStalePlan=discard)
    stage.plans()
    stage.until(lambda ws: ws.status.awaiting_approval is not None)
    first = stage.run_id
    stage.annotate(detected_revision=OTHER_SHA)
    if not discard:
        stage.annotate(approved=first)
        stage.starts(APPLY)
        stage.ends(APPLY)  # Applied is passed through: the commit's own run follows at once
        stage.until(lambda ws: ws.status.observed_revision == SHA)
    stage.triggered("revision", first)
    assert stage.run.revision == OTHER_SHA
    assert not [job for job in stage.jobs() if job["metadata"]["labels"]["magosproject.io/run-id"] != first]


def test_a_deletion_waits_for_the_apply_and_force_delete_does_not(stage: Stage) -> None:
    stage.declare()
    stage.plans()
    pod = stage.starts(APPLY)
    stage.delete(stage._own("workspaces", "ws"))
    found = stage.reaches("Deleting")
    assert stage.run_id in found.status.message
    assert len(stage.jobs()) == 2
    stage.annotate(force_delete="true")
    eventually(lambda: not stage.cluster.request("GET", stage._own("workspaces"))["items"])
    eventually(lambda: not stage.jobs(), within=120)  # the garbage collector looks for new kinds twice a minute
    stage.removes(pod)


# --- inputs -----------------------------------------------------------------------------------------------------------


def variables(secret: str) -> dict[str, Any]:
    return {"variables": [{"name": "a", "valueFrom": {"secretKeyRef": {"name": secret, "key": "k"}}}]}


def test_variables_are_waited_for_handed_on_and_a_rotation_starts_a_run(stage: Stage) -> None:
    stage.declare(variableSetRef=[{"name": "inputs"}])
    stage.create("projects", "platform", {})
    failed = stage.reaches("Failed", "UnresolvedVariables")
    assert "VariableSet inputs" in failed.status.message
    secrets = f"/api/v1/namespaces/{stage.namespace}/secrets"
    stage.cluster.request("POST", secrets, {"metadata": {"name": "db"}, "stringData": {"k": "hunter2-hunter2"}})
    stage.create("variablesets", "inputs", variables("db"))
    stage.starts(PLAN)
    [job] = stage.jobs()
    terraform = next(each for each in job["spec"]["template"]["spec"]["initContainers"] if each["name"] == "terraform")
    environment = {each["name"]: each for each in terraform["env"]}
    assert environment["TF_VAR_a"]["valueFrom"]["secretKeyRef"] == {"name": "db", "key": "k"}
    assert environment["MAGOS_REDACT_ENV"]["value"] == "TF_VAR_a"
    stage.ends(PLAN, has_changes=False)
    stage.reaches("Applied", "NoChanges")
    before, first = stage.run.variables_fingerprint, stage.run_id
    stage.cluster.request("PUT", f"{secrets}/db", {"metadata": {"name": "db"}, "stringData": {"k": "rotated-rotated"}})
    stage.triggered("variables", first)
    stage.starts(PLAN)
    assert stage.run.variables_fingerprint != before
    assert "hunter2" not in str(stage.workspace)


def test_selected_policies_reach_the_plan_by_a_config_map_of_its_workspace(stage: Stage, tmp_path: Path) -> None:
    content = {"kind": "Kustomization", "components": [os.path.relpath(_KYVERNO, tmp_path)]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(content))
    kubectl = stage.cluster.kubectl
    kubectl.run("apply", f"--kustomize={tmp_path}")
    kubectl.run("wait", "--for=condition=Established", "crd/validatingpolicies.policies.kyverno.io")
    meta = {"name": f"cost-{stage.namespace}", "labels": {"only": stage.namespace}}
    spec = {"evaluation": {"mode": "JSON"}, "validations": [{"expression": "true", "message": "m"}]}
    policies = "/apis/policies.kyverno.io/v1/validatingpolicies"
    body = {"apiVersion": "policies.kyverno.io/v1", "kind": "ValidatingPolicy", "metadata": meta, "spec": spec}
    eventually(lambda: stage.cluster.request("GET", policies)["kind"])
    stage.cluster.request("POST", policies, body)
    stage.declare(validation={"policySelector": {"matchLabels": {"only": stage.namespace}}})
    stage.reaches("Pending")
    stage.annotate(execution_allowed="true")
    stage.starts(PLAN)
    found = stage.cluster.request("GET", f"/api/v1/namespaces/{stage.namespace}/configmaps")["items"]
    [stored] = [each for each in found if each["metadata"]["name"].startswith("ws-policies-")]
    assert (list(stored["data"]), stored["immutable"]) == ([f"{meta['name']}.yaml"], True)
    assert stored["metadata"]["ownerReferences"][0]["name"] == "ws"
    [job] = stage.jobs()
    judge = job["spec"]["template"]["spec"]["containers"][0]
    assert "/policies" in {mount["mountPath"] for mount in judge["volumeMounts"]}
    stage.cluster.request("DELETE", f"{policies}/{meta['name']}")


def test_a_secret_whose_url_is_written_differently_is_asked_about(stage: Stage) -> None:
    url = "https://git.example.com/demo.git"
    body = {
        "metadata": {"name": "creds", "labels": {"magosproject.io/secret-type": "repository"}},
        "stringData": {"repoURL": f"{url}/", "password": "hunter2-hunter2"},
    }
    stage.cluster.request("POST", f"/api/v1/namespaces/{stage.namespace}/secrets", body)
    stage.declare()
    stage.reaches("Pending")
    stage.annotate(execution_allowed="true")
    stage.starts(PLAN)
    assert "InvalidRepositorySecret" in eventually(lambda: stage.events() & {"InvalidRepositorySecret"})
    stage.fails(PLAN, "GitAuthenticationFailed")
    failed = stage.reaches("Failed", "GitAuthenticationFailed")
    assert "did you mean Secret creds?" in failed.status.message
    assert "hunter2" not in str(failed)


def test_what_belongs_to_somebody_else_is_named_and_not_used(stage: Stage) -> None:
    claim = {
        "metadata": {"name": "ws-data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    stage.cluster.request("POST", f"/api/v1/namespaces/{stage.namespace}/persistentvolumeclaims", claim)
    stage.declare()
    stage.reaches("Pending")
    stage.annotate(execution_allowed="true")
    found = stage.reaches("Failed", "VolumeConflict")
    assert "ws-data" in found.status.message
    assert stage.jobs() == []


def test_a_deletion_tells_why_the_apply_it_waits_for_does_not_start(stage: Stage) -> None:
    stage.declare()
    stage.reaches("Pending")
    stage.annotate(execution_allowed="true")
    stage.starts(PLAN)
    stage.quota("full", pods="1")
    path = f"/api/v1/namespaces/{stage.namespace}/resourcequotas/full"
    made = stage.cluster.request("GET", path)
    stage.cluster.request("PUT", f"{path}/status", {**made, "status": {"hard": {"pods": "1"}, "used": {"pods": "1"}}})
    stage.ends(PLAN)
    stage.reaches("Applying")
    eventually(lambda: any(RELEASED in job["metadata"]["annotations"] for job in stage.jobs()))
    stage.delete(f"/apis/magosproject.io/v1alpha1/namespaces/{stage.namespace}/workspaces/ws")
    found = stage.until(lambda ws: ws.status.phase == "Deleting" and "exceeded quota: full" in ws.status.message)
    assert "magosproject.io/force-delete=true" in found.status.message
    stage.annotate(force_delete="true")


def test_a_quota_on_cpu_and_memory_accepts_the_pods_as_they_come(stage: Stage) -> None:
    stage.quota("compute", **{f"{kind}.{what}": "4Gi" for kind in ("requests", "limits") for what in ("cpu", "memory")})
    stage.declare()
    stage.plans()
    stage.applies()


def test_a_quota_that_is_used_up_is_told_while_the_pod_is_waited_for(stage: Stage) -> None:
    stage.quota("full", pods="0")
    stage.declare()
    stage.reaches("Pending")
    stage.annotate(execution_allowed="true")
    found = stage.until(lambda ws: "exceeded quota: full" in ws.status.message)
    assert found.status.phase == "Planning"


# --- logs -------------------------------------------------------------------------------------------------------------


def test_log_lines_about_a_workspace_name_its_run(stage: Stage, logs: Path) -> None:
    stage.declare()
    stage.plans()
    stage.reaches("Applying")
    written = f'"namespace":"{stage.namespace}"'
    lines = [json.loads(line) for line in (logs / "workspace.log").read_text().splitlines() if written in line]
    told = [line for line in lines if line["message"] == "reconciled" and line.get("phase")]
    assert {line["run_id"] for line in told} == {stage.run_id}
    assert {"Pending", "Planning", "Planned"} <= {line["phase"] for line in told}
    assert {(line["controller"], line["name"]) for line in told} == {("workspace", "ws")}
