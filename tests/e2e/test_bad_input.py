"""Every kind of bad input ends in its own reason, with a message that names object, cause and next step."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from magos.api.phases import Phase
from magos.api.tool import Distribution
from magos.local.ports import free_ports
from magos.local.programs.recipes import TOFU_VERSION
from magos.local.servers.gitserver import git_server
from magos.toolchain.releases import architecture, release
from tests.e2e.git.servers import SSHServer, ssh_server
from tests.e2e.onemachine import OneMachine

_TAMPERED, _RESIGNED, _ABSENT = "1.12.98", "1.12.99", "9.9.9"


def secret(namespace: str, name: str, **values: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"magosproject.io/secret-type": "repository"},
        },
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in values.items()},
    }


@pytest.fixture(scope="module")
def private_url(here: OneMachine) -> Iterator[str]:
    """The sample repository behind a login."""
    folder = here.here.repository.path.parent
    with git_server(folder, login=("robot", "right-password")) as server:
        yield server.clone_url(here.here.repository.path.name)


@pytest.fixture(scope="module")
def ssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SSHServer]:
    """A real sshd whose host key nobody knows yet."""
    with ssh_server(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture(scope="module")
def crowd(here: OneMachine, private_url: str, ssh: SSHServer) -> str:
    """A namespace in which all the faulty Workspaces were created at once; each test looks at its own."""
    namespace = here.namespace()
    mirror, repository = here.here.mirror, here.here.repository
    _publish_faulty(here)
    repository.commit({"environments/stateless/main.tf": 'resource "terraform_data" "x" {}\n'}, "No backend")
    [closed] = free_ports(1)
    ssh_url = ssh.url(repository.path)

    def faulty(name: str, **overrides: Any) -> dict[str, Any]:
        return here.workspace_document(namespace, name, **overrides)

    def tool(version: str) -> dict[str, str]:
        return {"version": version, "distribution": "opentofu"}

    here.apply(
        secret(namespace, "wrong", repoURL=private_url, username="robot", password="wrong-password"),
        secret(namespace, "half", repoURL=f"{here.here.repo_url}?half", username="robot"),
        secret(namespace, "stranger", repoURL=ssh_url, sshPrivateKey=ssh.private_key),
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "squatted-data", "namespace": namespace},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        },
        faulty("unreachable", source={"repoURL": f"http://127.0.0.1:{closed}/x.git"}),
        faulty("no-branch", source={"targetRevision": "no-such-branch"}),
        faulty("short-sha", source={"targetRevision": here.revision[:7]}),
        faulty("wrong-login", source={"repoURL": private_url}),
        faulty("stranger", source={"repoURL": ssh_url}),
        faulty("half-secret", source={"repoURL": f"{here.here.repo_url}?half"}),
        faulty("scheme", source={"repoURL": "git://127.0.0.1/x.git"}),
        faulty("no-tool", terraform=tool(_ABSENT)),
        faulty("tampered", terraform=tool(_TAMPERED)),
        faulty("resigned", terraform=tool(_RESIGNED)),
        faulty("no-path", source={"path": "environments/nowhere"}),
        faulty("stateless", source={"path": "environments/stateless"}),
        faulty("no-account", serviceAccountName="nobody"),
        faulty("squatted"),
    )
    assert mirror.url
    return namespace


def _publish_faulty(here: OneMachine) -> None:
    mirror = here.here.mirror
    program = here.here.folder / "not-a-tool"
    program.write_bytes(b"#!/bin/sh\nexit 0\n")
    layout = release(Distribution.OPENTOFU, _TAMPERED, architecture())
    folder = mirror.publish(program, _TAMPERED)
    _change_last_byte(folder / layout.archive)
    layout = release(Distribution.OPENTOFU, _RESIGNED, architecture())
    folder = mirror.publish(program, _RESIGNED)
    _change_last_byte(folder / layout.checksums)


def _change_last_byte(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


CASES = [
    ("unreachable", "GitFailed", ["127.0.0.1"]),
    ("no-branch", "RevisionNotFound", ["no-such-branch", "demo.git"]),
    ("short-sha", "RevisionNotFound", ["full"]),
    ("wrong-login", "GitAuthenticationFailed", ["127.0.0.1", "Secret"]),
    ("stranger", "UnknownHostKey", ["127.0.0.1", "ssh-ed25519", "SHA256:", "known_hosts"]),
    ("half-secret", "InvalidRepositorySecret", ["half", "password"]),
    ("scheme", "SchemeNotAllowed", ["git", "MAGOS_ALLOWED_GIT_SCHEMES"]),
    ("no-tool", "ToolDownloadFailed", [_ABSENT]),
    ("tampered", "ChecksumMismatch", [_TAMPERED]),
    ("resigned", "SignatureInvalid", [_RESIGNED]),
    ("no-path", "InvalidConfiguration", ["environments/nowhere"]),
    ("stateless", "InvalidConfiguration", ["backend"]),
    ("no-account", "ServiceAccountNotFound", ["nobody"]),
    ("squatted", "VolumeConflict", ["squatted-data"]),
]


@pytest.mark.parametrize(("name", "reason", "words"), CASES, ids=[case[0] for case in CASES])
def test_bad_input_ends_in_its_own_reason(
    here: OneMachine, crowd: str, name: str, reason: str, words: list[str]
) -> None:
    found = here.wait(crowd, name, lambda w: w.status.phase is Phase.FAILED, within=240)
    status = found.status
    print(f"{status.reason}: {status.message}")
    assert status.reason == reason, status.message
    for word in words:
        assert word in status.message
    assert "right-password" not in status.message
    assert "wrong-password" not in status.message
    ready = next(condition for condition in status.conditions if condition.type == "Ready")
    assert (ready.status, ready.reason, ready.message) == ("False", reason, status.message)


def test_a_known_host_key_lets_the_same_repository_be_applied(here: OneMachine, namespace: str, ssh: SSHServer) -> None:
    url = ssh.url(here.here.repository.path)
    here.apply(
        secret(namespace, "friend", repoURL=url, sshPrivateKey=ssh.private_key, known_hosts=ssh.host_key),
        here.workspace_document(namespace, "friend", source={"repoURL": url}),
    )
    here.wait_applied(namespace, "friend", here.revision)


def test_a_failed_workspace_starts_no_run_by_itself_before_its_tick(here: OneMachine, crowd: str) -> None:
    failed = here.wait(crowd, "no-branch", lambda w: w.status.phase is Phase.FAILED)
    # Another Workspace of the namespace runs meanwhile; this one stays as it is.
    here.apply(
        here.workspace_document(crowd, "neighbour", terraform={"version": TOFU_VERSION, "distribution": "opentofu"})
    )
    here.wait_settled(crowd, "neighbour")
    assert here.workspace(crowd, "no-branch").status.current_run_id == failed.status.current_run_id


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("source", {"repoURL": "https://user:secret@example.com/r.git"}, "secret-type=repository"),
        ("source", {"path": "../outside"}, "must be a relative path inside the repository"),
        ("terraform", {"version": "1.11"}, "exact version"),
    ],
)
def test_what_can_be_known_at_once_is_rejected_at_once(
    here: OneMachine, namespace: str, field: str, value: dict[str, str], message: str
) -> None:
    with pytest.raises(Exception, match=message):
        here.apply(here.workspace_document(namespace, "rejected", **{field: value}))
