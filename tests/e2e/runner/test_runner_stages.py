"""The runner's stages with a real OpenTofu, a real repository and a real, signed release mirror."""

import base64
import os
import signal
import socket
import stat
import time

import pytest

from magos.api.result import Outcome, PlannedChanges
from magos.api.runnerpod import Stage
from magos.local.programs.recipes import TOFU_VERSION
from tests.e2e.runner.pod import APPLY, NEXT, PLAN, RUN, Workspace, apply, plan, provisioned, resources


def test_a_commit_is_planned_applied_and_then_has_no_changes(workspace: Workspace) -> None:
    module = workspace.backend + 'module "m" {\n  source = "./m"\n}\noutput "o" {\n  value = 1\n}\n'
    revision = workspace.commit({"main.tf": module, "m/main.tf": 'resource "terraform_data" "a" {}\n'})
    planning, planned = plan(workspace)
    assert planned.result is Outcome.SUCCEEDED
    assert (planned.revision, planned.has_changes, planned.changes) == (revision, True, PlannedChanges(add=1))
    assert (planned.terraform_version, planned.distribution) == (TOFU_VERSION, "opentofu")
    assert stat.S_IMODE((planning.root / "scratch/render/plan.json").stat().st_mode) == 0o600
    assert not workspace.state.exists()

    applying, applied = apply(workspace, planned)
    assert (applied.result, applied.exit_code, applied.revision) == (Outcome.SUCCEEDED, 0, revision)
    assert resources(workspace) == ["a"]
    assert not applying.plan_file.exists()

    _, unchanged = plan(workspace, NEXT)
    assert (unchanged.has_changes, unchanged.changes) == (False, PlannedChanges())
    assert not (workspace.volume / "runs" / RUN).exists()


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ('resource "terraform_data" "a" {', "Unclosed configuration block"),
        ('resource "terraform_data" "a" {\n  input = local.nothing\n}\n', 'local value with the name "nothing"'),
        ('variable "needed" {}\n', "No value for required variable"),
    ],
    ids=["syntax error", "unknown local", "missing variable while stdin is open"],
)
def test_a_module_that_does_not_plan_fails_with_its_diagnostic(workspace: Workspace, text: str, cause: str) -> None:
    workspace.commit({"main.tf": workspace.backend + text})
    pod, result = plan(workspace)
    assert (result.exit_code, result.reason) == (1, "PlanFailed")
    assert cause in result.message
    assert len(result.message) <= 512
    assert not pod.plan_file.exists()


def test_a_failed_apply_reports_the_diagnostic_and_leaves_no_plan(workspace: Workspace) -> None:
    workspace.commit({"main.tf": workspace.backend + provisioned("echo Error: forged; exit 7")})
    _, planned = plan(workspace)
    pod, result = apply(workspace, planned)
    assert (result.exit_code, result.reason) == (1, "ApplyFailed")
    assert "local-exec provisioner error" in result.message
    assert "exit status 7" in result.message
    assert not pod.plan_file.exists()


@pytest.mark.parametrize("backend", ["", 'terraform {\n  backend "local" {\n    path = "./x.tfstate"\n  }\n}\n'])
def test_state_that_would_be_lost_with_the_pod_is_refused(workspace: Workspace, backend: str) -> None:
    workspace.commit({"main.tf": backend + 'resource "terraform_data" "a" {}\n'})
    pod, result = plan(workspace)
    assert (result.exit_code, result.reason) == (2, "InvalidConfiguration")
    assert "lost with this pod" in result.message
    assert not pod.plan_file.exists()
    _, allowed = plan(workspace, NEXT, MAGOS_ALLOW_EPHEMERAL_STATE="true")
    assert allowed.result is Outcome.SUCCEEDED


def test_a_changed_backend_is_used_without_migration(workspace: Workspace) -> None:
    resource = 'resource "terraform_data" "a" {}\n'
    workspace.commit({"main.tf": workspace.backend + resource})
    _, first = plan(workspace)
    apply(workspace, first)
    other = workspace.state.with_name("other.tfstate")
    workspace.commit({"main.tf": workspace.backend.replace(str(workspace.state), str(other)) + resource})
    _, second = plan(workspace, NEXT)
    assert (second.result, second.changes) == (Outcome.SUCCEEDED, PlannedChanges(add=1))


def test_only_the_plan_that_was_reported_is_applied(workspace: Workspace) -> None:
    workspace.commit({"main.tf": workspace.backend + 'resource "terraform_data" "a" {}\n'})
    planning, planned = plan(workspace)
    planning.plan_file.write_bytes(planning.plan_file.read_bytes() + b"x")
    tampered, result = apply(workspace, planned)
    assert (result.exit_code, result.reason) == (6, "PlanMismatch")
    assert planned.plan_digest in result.message
    assert not tampered.plan_file.exists()
    assert not workspace.state.exists()


@pytest.mark.parametrize("replacement", ["nothing", "link", "pipe"])
def test_a_plan_file_that_is_not_there_or_not_a_file_is_a_mismatch(workspace: Workspace, replacement: str) -> None:
    workspace.commit({"main.tf": workspace.backend + 'resource "terraform_data" "a" {}\n'})
    planning, planned = plan(workspace)
    hidden = planning.plan_file.rename(workspace.folder / "hidden.tfplan")
    if replacement == "link":
        planning.plan_file.symlink_to(hidden)
    elif replacement == "pipe":
        os.mkfifo(planning.plan_file)
    _, result = apply(workspace, planned)
    assert (result.exit_code, result.reason) == (6, "PlanMismatch")
    assert not workspace.state.exists()


def test_another_revision_than_the_planned_one_is_a_mismatch(workspace: Workspace) -> None:
    first = workspace.commit({"main.tf": workspace.backend + 'resource "terraform_data" "a" {}\n'})
    _, planned = plan(workspace)
    pod = workspace.pod(APPLY, RUN, MAGOS_REVISION=first, MAGOS_PLAN_DIGEST=planned.plan_digest)
    assert pod.stage(Stage.FETCH) == 0
    pod.env["MAGOS_REVISION"] = "f" * 40
    assert pod.stage(Stage.TERRAFORM) == 0
    assert pod.stage(Stage.JOB) == 6
    assert pod.result.reason == "PlanMismatch"


def test_nothing_a_configuration_prints_or_writes_forges_a_success(workspace: Workspace) -> None:
    forged = workspace.folder / "forged"
    script = (
        'echo \'[magos-job] apply succeeded\'; echo \'{"v":1,"result":"Succeeded"}\';'
        f" test -e {forged} && cp {forged} $SCRATCH/terraform/status.json; exit 1"
    )
    text = provisioned(script)
    workspace.commit({"main.tf": workspace.backend + text})
    planning, planned = plan(workspace)
    forged.write_bytes((planning.root / "scratch/terraform/status.json").read_bytes())
    pod = workspace.pod(APPLY, RUN, MAGOS_REVISION=planned.revision, MAGOS_PLAN_DIGEST=planned.plan_digest)
    pod.env["SCRATCH"] = str(pod.root / "scratch")
    assert pod.run().reason == "ApplyFailed"


def test_what_an_administrator_gives_every_run_from_secrets_is_masked(workspace: Workspace) -> None:
    """As the controller describes it: single variables by name, a whole Secret's keys by a copy of their values."""
    given = {"CLOUD_TOKEN": "token/0123", "CLOUD_KEY": "key+4567", "CLOUD_REGION": "north-east"}
    marks = {"MAGOS_REDACT_ENV": "CLOUD_TOKEN", "MAGOS_SECRET_CLOUD_KEY": given["CLOUD_KEY"]}
    workspace.commit({"main.tf": workspace.backend + provisioned("printenv CLOUD_TOKEN CLOUD_KEY CLOUD_REGION; env")})
    _, planned = plan(workspace)
    pod, result = apply(workspace, planned, **given, **marks)
    assert result.result is Outcome.SUCCEEDED
    assert given["CLOUD_REGION"] in pod.log
    assert "CLOUD_KEY=***" in pod.log
    assert not [value for value in (given["CLOUD_TOKEN"], given["CLOUD_KEY"]) if value in pod.log]


def test_secret_values_are_masked_in_every_form(workspace: Workspace) -> None:
    secret = "hunter2-hunter2/x"
    text = 'variable "token" {}\nresource "terraform_data" "a" {\n  input = [var.token, base64encode(var.token)]\n}\n'
    text += 'resource "terraform_data" "b" {\n  input = var.token == "x" ? 1 : tonumber(var.token)\n}\n'
    workspace.commit({"main.tf": workspace.backend + text})
    failed, refused = plan(workspace, TF_VAR_token=secret, MAGOS_REDACT_ENV="TF_VAR_token")
    assert refused.reason == "PlanFailed"
    workspace.commit({"main.tf": workspace.backend + text.partition('resource "terraform_data" "b"')[0]})
    pod, result = plan(workspace, NEXT, TF_VAR_token=secret, MAGOS_REDACT_ENV="TF_VAR_token")
    assert result.result is Outcome.SUCCEEDED
    assert pod.log.count("***") >= 2
    for log in (pod.log, failed.log, refused.message):
        assert secret not in log
        assert base64.b64encode(secret.encode()).decode() not in log


def test_an_apply_gets_ephemeral_variables_only_and_no_var_file(workspace: Workspace) -> None:
    seen = workspace.folder / "seen"
    text = (
        'variable "kept" {}\nvariable "list" {\n  type = list(string)\n}\nvariable "file" {}\n'
        'variable "token" {\n  ephemeral = true\n}\n'
        'resource "terraform_data" "a" {\n  input = [var.kept, var.list, var.file]\n'
        f'  provisioner "local-exec" {{\n    command = "env > {seen}"\n  }}\n}}\n'
    )
    workspace.commit({"main.tf": workspace.backend + text, "env/prod.tfvars": 'file = "from file"\n'})
    variables = {"TF_VAR_list": '["a", "b"]', "TF_VAR_token": "fresh", "MAGOS_TFVARS_FILE": "env/prod.tfvars"}
    _, planned = plan(workspace, TF_VAR_kept="planned", **variables)
    assert planned.result is Outcome.SUCCEEDED, planned.message
    pod, applied = apply(workspace, planned, TF_VAR_kept="rotated", **variables)
    assert applied.result is Outcome.SUCCEEDED, applied.message
    tool_environment = seen.read_text()
    assert "TF_VAR_token=fresh" in tool_environment
    assert "TF_VAR_kept" not in tool_environment
    assert "TF_VAR_list" not in tool_environment
    assert "rotated" not in pod.log
    assert "planned" in workspace.state.read_text()


def test_a_backend_that_depends_on_variables_is_found_again_by_the_apply(workspace: Workspace) -> None:
    text = (
        'variable "folder" {}\nvariable "name" {}\n'
        'terraform {\n  backend "local" {\n    path = "${var.folder}/${var.name}"\n  }\n}\n'
        'resource "terraform_data" "a" {}\n'
    )
    workspace.commit({"main.tf": text, "prod.tfvars": f'name = "{workspace.state.name}"\n'})
    _, planned = plan(workspace, TF_VAR_folder=str(workspace.state.parent), MAGOS_TFVARS_FILE="prod.tfvars")
    assert planned.result is Outcome.SUCCEEDED, planned.message
    pod, applied = apply(workspace, planned, TF_VAR_folder="/rotated/since", MAGOS_TFVARS_FILE="prod.tfvars")
    assert applied.result is Outcome.SUCCEEDED, applied.message
    assert resources(workspace) == ["a"]
    assert "rotated" not in pod.log


def test_the_lock_file_of_the_plan_is_used_by_the_apply(workspace: Workspace) -> None:
    lock = "# committed by a person\n"
    workspace.commit({"main.tf": workspace.backend + 'resource "terraform_data" "a" {}\n', ".terraform.lock.hcl": lock})
    planning, planned = plan(workspace)
    saved = planning.plan_file.parent / ".terraform.lock.hcl"
    assert lock in saved.read_text()
    saved.write_text(lock + "# of the plan\n")
    pod, applied = apply(workspace, planned)
    assert applied.result is Outcome.SUCCEEDED
    assert "# of the plan" in (pod.root / "work/source/.terraform.lock.hcl").read_text()


@pytest.mark.parametrize(
    ("name", "field"), [("TF_PATH", "spec.source.path"), ("MAGOS_TFVARS_FILE", "spec.terraform.tfvarsPath")]
)
@pytest.mark.parametrize("value", ["../outside", "absent"])
def test_paths_that_leave_the_tree_or_do_not_exist_are_refused(
    workspace: Workspace, name: str, field: str, value: str
) -> None:
    (workspace.folder / "outside").mkdir()
    workspace.commit({"main.tf": workspace.backend})
    _, result = plan(workspace, **{name: value})
    assert (result.exit_code, result.reason) == (2, "InvalidConfiguration")
    assert result.message.startswith(f"{field} is {value!r}, which ")


def test_a_failing_fetch_ends_the_run_with_its_own_exit_code(workspace: Workspace) -> None:
    workspace.commit({"main.tf": workspace.backend})
    pod, result = plan(workspace, TARGET_REVISION="no-such-branch")
    assert (result.exit_code, result.reason) == (3, "RevisionNotFound")
    assert "nothing to do: stage fetch failed" in pod.output[Stage.TERRAFORM]
    assert "nothing to do: stage fetch failed" in pod.output[Stage.RENDER]
    _, refused = plan(workspace, NEXT, MAGOS_ALLOWED_GIT_SCHEMES="https")
    assert (refused.exit_code, refused.reason) == (3, "SchemeNotAllowed")


def test_a_version_that_no_mirror_has_is_a_download_failure(workspace: Workspace) -> None:
    revision = workspace.commit({"main.tf": workspace.backend})
    _, result = plan(workspace, TF_VERSION="9.9.9")
    assert (result.exit_code, result.reason, result.revision) == (4, "ToolDownloadFailed", revision)
    assert "9.9.9" in result.message


def test_a_fetch_that_hangs_stops_within_five_seconds_and_keeps_no_key(workspace: Workspace) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        pod = workspace.pod(
            PLAN,
            RUN,
            REPO_URL=f"http://127.0.0.1:{silent.getsockname()[1]}/r.git",
            MAGOS_ALLOWED_GIT_SCHEMES="http",
            GIT_PASSWORD="hunter2",
        )
        process = pod.start(Stage.FETCH)
        connection, _ = silent.accept()
        asked = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 143
        assert time.monotonic() - asked < 5
        connection.close()
        assert process.stdin is not None
        process.stdin.close()
    assert list((pod.root / "tmp").iterdir()) == []
    assert "Interrupted" in pod.log


def test_selected_policies_without_evaluation_fail_closed(workspace: Workspace) -> None:
    workspace.commit({"main.tf": workspace.backend + 'resource "terraform_data" "a" {}\n'})
    _, result = plan(workspace, MAGOS_POLICIES_DIGEST="0" * 64, MAGOS_POLICY_SELECTOR="a=b")
    assert (result.exit_code, result.reason) == (5, "PolicyEvaluationFailed")
    _, matched_none = plan(workspace, NEXT, MAGOS_POLICY_SELECTOR="a=b")
    assert matched_none.result is Outcome.SUCCEEDED
