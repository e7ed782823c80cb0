"""The environment of the workspace controller (spec §13.2): defaults, and one line for each mistake."""

from pathlib import Path

import pytest

from magos.adapters.workspacesettings import load_workspace_settings
from magos.errors import ConfigurationError

IMAGE = {"MAGOS_JOB_IMAGE": "magos-job:1"}


def test_the_defaults_are_those_of_the_specification() -> None:
    settings = load_workspace_settings(IMAGE)
    assert settings.start_timeout.total_seconds() == 600
    assert (settings.pvc_size, settings.pvc_storage_class) == ("1Gi", None)
    assert settings.image_pull_policy == "IfNotPresent"
    assert settings.allowed_schemes == ("https", "http", "ssh")
    assert settings.runner_environment == ()


def test_the_own_namespace_is_refused_unless_it_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "namespace").write_text("from-the-pod\n")
    told = {**IMAGE, "POD_NAMESPACE": "magos-system"}
    allowed = {**told, "MAGOS_ALLOW_CONTROLLER_NAMESPACE": "true"}
    assert load_workspace_settings(told, tmp_path).refused_namespace == "magos-system"
    assert load_workspace_settings(IMAGE, tmp_path).refused_namespace == "from-the-pod"
    assert load_workspace_settings(IMAGE, tmp_path / "outside-of-a-pod").refused_namespace == ""
    assert load_workspace_settings(allowed, tmp_path).refused_namespace == ""


def test_principals_are_believed_only_where_that_is_switched_on() -> None:
    assert not load_workspace_settings(IMAGE).verified_principals
    assert load_workspace_settings({**IMAGE, "MAGOS_VERIFIED_PRINCIPALS": "true"}).verified_principals


def test_what_the_runner_needs_is_handed_on_and_nothing_else() -> None:
    environ = {
        **IMAGE,
        "MAGOS_OPENTOFU_MIRROR": "http://mirror",
        "MAGOS_ALLOWED_GIT_SCHEMES": "https, file",
        "MAGOS_VERIFY_SIGNATURES": "true",
        "MAGOS_DENIED_PEERS": "10.0.0.0/8",
        "MAGOS_ALLOWED_PEERS": "10.1.2.3",
        "MAGOS_POSTGRES_PASSWORD": "secret",
        "PATH": "/bin",
    }
    settings = load_workspace_settings(environ)
    assert settings.allowed_schemes == ("https", "file")
    assert settings.runner_environment == (
        ("MAGOS_ALLOWED_GIT_SCHEMES", "https, file"),
        ("MAGOS_ALLOWED_PEERS", "10.1.2.3"),
        ("MAGOS_DENIED_PEERS", "10.0.0.0/8"),
        ("MAGOS_OPENTOFU_MIRROR", "http://mirror"),
        ("MAGOS_VERIFY_SIGNATURES", "true"),
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MAGOS_JOB_IMAGE", ""),
        ("MAGOS_JOB_IMAGE_PULL_POLICY", "always"),
        ("MAGOS_JOB_START_TIMEOUT", "10"),
        ("MAGOS_JOB_START_TIMEOUT", "-1m"),
        ("MAGOS_PVC_SIZE", "big"),
        ("MAGOS_PVC_SIZE", "0"),
        ("MAGOS_PVC_SIZE", "-1Gi"),
        ("MAGOS_ALLOWED_GIT_SCHEMES", "https,ftp"),
        ("MAGOS_VERIFY_SIGNATURES", "yes"),
        ("MAGOS_MINIMUM_TERRAFORM_VERSION", "1.9"),
        ("MAGOS_MINIMUM_OPENTOFU_VERSION", "1.9.0\n"),
        ("MAGOS_DENIED_PEERS", "10.0.0.0/40"),
        ("MAGOS_ALLOWED_PEERS", "git.example.com"),
        ("MAGOS_ALLOW_EPHEMERAL_STATE", "1"),
        ("MAGOS_ALLOW_CONTROLLER_NAMESPACE", "yes"),
        ("MAGOS_VERIFIED_PRINCIPALS", "yes"),
        ("MAGOS_JOB_POD_CONFIG", "/nonexistent/pod.yaml"),
    ],
)
def test_a_wrong_variable_is_named_in_one_line(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=name) as caught:
        load_workspace_settings({**IMAGE, name: value})
    assert "\n" not in str(caught.value)


def test_the_pod_configuration_is_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text("nodeSelector: {disk: ssd}\n")
    settings = load_workspace_settings({**IMAGE, "MAGOS_JOB_POD_CONFIG": str(path)})
    assert settings.pod.node_selector == {"disk": "ssd"}
