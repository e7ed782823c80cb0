"""The environment of the stages: what is missing or malformed is named, what is secret is never shown."""

import pytest

from magos.api.names import JobType
from magos.api.reasons import Reason
from magos.runner.config import load_fetch, load_job, load_render, load_terraform
from magos.runner.outcome import StageFailed

RUN = "20260101T000000-00000001"
ENV = {
    "REPO_URL": "https://example.com/r.git",
    "TARGET_REVISION": "main",
    "TF_VERSION": "1.9.5",
    "PROJECT_REF": "shop",
    "TF_PATH": "live/prod",
    "MAGOS_TF_DISTRIBUTION": "opentofu",
    "MAGOS_JOB_TYPE": "plan",
    "MAGOS_RUN_ID": RUN,
    "MAGOS_NAMESPACE": "team",
    "MAGOS_WORKSPACE": "net",
    "MAGOS_PLAN_FILE": f"/workspace-data/runs/{RUN}/run.tfplan",
    "MAGOS_TERMINATION_GRACE_SECONDS": "300",
}
APPLY = {"MAGOS_JOB_TYPE": "apply", "MAGOS_REVISION": "a" * 40, "MAGOS_PLAN_DIGEST": f"sha256:{'0' * 64}"}


def refusal(environment: dict[str, str]) -> str:
    with pytest.raises(StageFailed) as caught:
        load_render(environment)
    assert caught.value.reason is Reason.INVALID_CONFIGURATION
    return caught.value.message


@pytest.mark.parametrize("name", sorted(set(ENV) - {"TF_PATH"}))
@pytest.mark.parametrize("value", [None, ""])
def test_each_required_variable_is_named_if_it_is_missing(name: str, value: str | None) -> None:
    environment = {key: text for key, text in ENV.items() if key != name}
    if value is not None:
        environment[name] = value
    assert f"environment variable {name} is not set" in refusal(environment)


@pytest.mark.parametrize("name", ["MAGOS_REVISION", "MAGOS_PLAN_DIGEST"])
def test_an_apply_needs_revision_and_digest(name: str) -> None:
    environment = {key: text for key, text in (ENV | APPLY).items() if key != name}
    assert name in refusal(environment)
    assert load_render(ENV).run.revision is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("TF_VERSION", text) for text in ("1.11", "v1.11.4", ">= 1.5", "01.2.3", "1.2.3\n", "1.2.3-" + "a" * 80)],
        ("MAGOS_JOB_TYPE", "destroy"),
        ("MAGOS_TF_DISTRIBUTION", "pulumi"),
        ("MAGOS_RUN_ID", "run-1"),
        ("MAGOS_REVISION", "abc"),
        ("TF_PATH", "/etc"),
        ("MAGOS_TFVARS_FILE", "/proc/self/environ"),
        ("MAGOS_PLAN_FILE", "/workspace-data/runs/other/run.tfplan"),
        ("MAGOS_PLAN_FILE", f"/workspace-data/runs/{RUN}/"),
        ("MAGOS_PLAN_FILE", f"/workspace-data/runs/{RUN}/.."),
        ("MAGOS_TERMINATION_GRACE_SECONDS", "10"),
        ("MAGOS_TERMINATION_GRACE_SECONDS", "²"),
        ("MAGOS_TERMINATION_GRACE_SECONDS", "-300"),
    ],
)
def test_each_malformed_variable_is_named(name: str, value: str) -> None:
    assert f"environment variable {name} is" in refusal(ENV | {name: value})


@pytest.mark.parametrize("name", ["MAGOS_VERIFY_SIGNATURES", "MAGOS_ALLOW_EPHEMERAL_STATE"])
def test_a_switch_is_true_or_false(name: str) -> None:
    load = load_fetch if name == "MAGOS_VERIFY_SIGNATURES" else load_terraform
    with pytest.raises(StageFailed, match=name):
        load(ENV | {name: "no"})


def test_a_tool_inherits_neither_credentials_nor_variables_nor_our_own_settings() -> None:
    extra = {"GIT_PASSWORD": "p", "TF_VAR_a": "v", "AWS_REGION": "r", "HTTPS_PROXY": "p", "TF_CLI_CONFIG_FILE": "f"}
    inherited = load_terraform(ENV | extra).run.environment
    assert inherited == {"AWS_REGION": "r", "HTTPS_PROXY": "p", "TF_CLI_CONFIG_FILE": "f"}


def test_credentials_and_named_variables_are_redacted() -> None:
    fetch = load_fetch(ENV | {"GIT_PASSWORD": "hunter2", "GIT_USERNAME": "deploy"})
    assert {b"hunter2", b"deploy"} <= set(fetch.secret_forms)
    assert "hunter2" not in repr(fetch.credentials)
    terraform = load_terraform(
        ENV | {"TF_VAR_a": "secret", "TF_VAR_b": "public", "MAGOS_REDACT_ENV": "TF_VAR_a, TF_VAR_gone"}
    )
    assert b"secret" in terraform.secret_forms
    assert b"public" not in terraform.secret_forms


def test_every_key_of_a_secret_that_an_administrator_added_is_redacted_and_not_inherited_twice() -> None:
    added = {"CLOUD_TOKEN": "one-secret", "CLOUD_KEY": "two-secret", "REGION": "somewhere"}
    copies = {"MAGOS_SECRET_CLOUD_KEY": "two-secret", "MAGOS_REDACT_ENV": "CLOUD_TOKEN"}
    config = load_terraform(ENV | added | copies)
    assert {b"one-secret", b"two-secret"} <= set(config.secret_forms)
    assert b"somewhere" not in config.secret_forms
    assert {name: config.run.environment[name] for name in added} == added
    assert not [name for name in config.run.environment if name.startswith("MAGOS_")]


def test_variables_reach_the_stage_as_they_were_written() -> None:
    literal = ' {"a": 1}\n'
    assert load_terraform(ENV | {"TF_VAR_x": literal}).variables == {"TF_VAR_x": literal}


def test_defaults_and_lists() -> None:
    fetch = load_fetch(ENV)
    assert fetch.allowed_schemes == ("https", "http", "ssh")
    assert fetch.verify_signatures
    assert fetch.mirror is None
    mirrored = load_fetch(ENV | {"MAGOS_OPENTOFU_MIRROR": "u", "MAGOS_ALLOWED_GIT_SCHEMES": " HTTPS , file,"})
    assert (mirrored.mirror, mirrored.allowed_schemes) == ("u", ("https", "file"))
    assert load_fetch(ENV | {"GIT_INSECURE_IGNORE_HOST_KEY": "yes"}).credentials.insecure_ignore_host_key is False
    assert load_job(ENV | APPLY).run.phase is JobType.APPLY
    assert load_render(ENV | {"TF_PATH": ""}).run.path == "."


def test_denied_and_allowed_peers_are_networks() -> None:
    peers = load_fetch(ENV | {"MAGOS_DENIED_PEERS": "10.0.0.0/8", "MAGOS_ALLOWED_PEERS": "10.1.2.3"}).peers
    assert [peers.permits(address) for address in ("10.1.2.3", "10.1.2.4", "127.0.0.1")] == [True, False, True]
    with pytest.raises(StageFailed, match="MAGOS_DENIED_PEERS"):
        load_fetch(ENV | {"MAGOS_DENIED_PEERS": "git.example.com"})
