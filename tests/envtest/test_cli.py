"""The command line as a process against a real API server: what it reads, waits for, writes and may not do."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from magos.api.annotations import APPROVED, RECONCILE_REQUEST
from magos.local.controlplane.kubectl import find_kubectl
from tests.envtest.cluster import Cluster, eventually

RUN = "20260501T115900-0a1b2c3d"
_PROGRAMS = Path(sys.executable).parent
_RBAC = "/apis/rbac.authorization.k8s.io/v1"

Json = dict[str, Any]


class Caller:
    """Calls the program with one kubeconfig, in one namespace."""

    def __init__(self, cluster: Cluster, namespace: str, kubeconfig: Path) -> None:
        self.cluster = cluster
        self.path = f"/apis/magosproject.io/v1alpha1/namespaces/{namespace}/workspaces"
        self.environ = {"KUBECONFIG": str(kubeconfig), "PATH": f"{_PROGRAMS}:{os.defpath}"}
        self._namespace = namespace

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(_PROGRAMS / "magos"), *arguments, "-n", self._namespace]
        return subprocess.run(
            command, env=self.environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60
        )

    @contextmanager
    def going(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """Start the program, and interrupt it at the end of the block if it goes on."""
        command = [str(_PROGRAMS / "magos"), *arguments, "-n", self._namespace]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, env=self.environ, stdout=pipe, stderr=pipe, text=True) as process:
            try:
                yield process
            finally:
                process.send_signal(signal.SIGINT)
                process.wait(30)

    def create(self, name: str, status: Mapping[str, Any]) -> None:
        """Create a Workspace with this status."""
        spec = {
            "projectRef": {"name": "shop"},
            "source": {"repoURL": "https://git.example.com/demo.git", "targetRevision": "main"},
            "terraform": {"version": "1.9.8"},
        }
        body = {"apiVersion": "magosproject.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name}, "spec": spec}
        self.cluster.request("POST", self.path, body)
        self.report(name, status)

    def read(self, name: str) -> Json:
        """Return the Workspace."""
        found: Json = self.cluster.request("GET", f"{self.path}/{name}")
        return found

    def report(self, name: str, status: Mapping[str, Any]) -> None:
        """Write a status as the controller would."""
        now = self.read(name)
        told = {**status, "observedGeneration": now["metadata"]["generation"]}
        self.cluster.request("PUT", f"{self.path}/{name}/status", {**now, "status": told})


@pytest.fixture
def magos(control_plane: Cluster, namespace: str, kubeconfig: Path) -> Caller:
    """The program of an administrator."""
    return Caller(control_plane, namespace, kubeconfig)


GATED = {
    "phase": "Planned",
    "reason": "PlanSucceeded",
    "message": "One to add.",
    "currentRunID": RUN,
    "awaitingApproval": {"runID": RUN, "reason": "ManualApproval", "since": "2026-05-01T11:59:30Z"},
}
APPLIED = {"phase": "Applied", "reason": "ApplySucceeded", "message": "Done."}


def test_json_is_what_the_api_server_has_and_a_name_that_is_missing_ends_with_3(magos: Caller) -> None:
    magos.create("prod", APPLIED)
    printed = magos("get", "ws", "prod", "-o", "json")
    assert json.loads(printed.stdout) == magos.read("prod")
    listed = json.loads(magos("get", "ws", "-o", "json").stdout)
    assert [each["metadata"]["name"] for each in listed["items"]] == ["prod"]
    missing = magos("get", "ws", "other")
    assert (missing.returncode, missing.stderr.count("\n")) == (3, 1)


def test_a_watch_prints_changes_as_they_come_and_ends_with_ctrl_c(magos: Caller) -> None:
    magos.create("prod", APPLIED)
    with magos.going("get", "ws", "-w") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("NAME")
        assert "ApplySucceeded" in process.stdout.readline()
        magos.report("prod", GATED)
        assert "PlanSucceeded" in process.stdout.readline()
    assert process.returncode == 1


def test_only_the_run_that_waits_is_approved(magos: Caller) -> None:
    magos.create("prod", GATED)
    other = magos("approve", "prod", "--run", "20250101T000000-00000000")
    assert (other.returncode, f"approval of run {RUN}" in other.stderr) == (1, True)
    assert APPROVED not in magos.read("prod")["metadata"].get("annotations", {})
    assert magos("approve", "prod").returncode == 2
    assert magos("approve", "prod", "--run", RUN).returncode == 0
    assert magos.read("prod")["metadata"]["annotations"][APPROVED] == RUN


def test_a_wait_ends_with_the_run_and_with_5_if_that_takes_too_long(magos: Caller) -> None:
    magos.create("prod", APPLIED)
    late = magos("reconcile", "prod", "--wait", "--timeout", "1s")
    assert (late.returncode, "gave up after 1s" in late.stderr) == (5, True)
    before = magos.read("prod")["metadata"]["annotations"][RECONCILE_REQUEST]

    def request() -> str:
        asked = str(magos.read("prod")["metadata"]["annotations"][RECONCILE_REQUEST])
        return asked if asked != before else ""

    with magos.going("reconcile", "prod", "--wait") as process:
        answered = eventually(request)
        magos.report("prod", {**APPLIED, "lastHandledReconcileRequest": answered})
        out, _ = process.communicate(timeout=30)
    assert (process.returncode, "Workspace" in out) == (0, True)


def test_who_may_only_read_is_told_so_with_4(
    control_plane: Cluster, magos: Caller, namespace: str, tmp_path: Path
) -> None:
    magos.create("prod", GATED)
    control_plane.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "reader"}})
    rule = {"apiGroups": ["magosproject.io"], "resources": ["workspaces"], "verbs": ["get", "list", "watch"]}
    role, subject = {"metadata": {"name": "reader"}, "rules": [rule]}, {"kind": "ServiceAccount", "name": "reader"}
    binding = {
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{**subject, "namespace": namespace}],
    }
    control_plane.request("POST", f"{_RBAC}/namespaces/{namespace}/roles", role)
    control_plane.request("POST", f"{_RBAC}/namespaces/{namespace}/rolebindings", binding)
    path = control_plane.service_account_kubeconfig(namespace, "reader", tmp_path / "reader.kubeconfig")
    reader = Caller(control_plane, namespace, path)
    eventually(lambda: reader("get", "ws", "prod").returncode == 0)
    assert RUN in reader("explain", "prod").stdout, "a Project that may not be read is no error"
    for command in (("reconcile", "prod"), ("approve", "prod", "--run", RUN), ("discard", "prod")):
        ended = reader(*command)
        assert (ended.returncode, "Forbidden" in ended.stderr) == (4, True), command
    assert reader("get", "mro").returncode == 4


def test_kubectl_finds_the_program_as_its_plugin(magos: Caller) -> None:
    kubectl = find_kubectl()
    answer = subprocess.run(
        [str(kubectl), "magos", "approve", "--help"], env=magos.environ, capture_output=True, text=True, check=True
    )
    assert answer.stdout.startswith("Usage: kubectl magos approve ")
    assert shutil.which("kubectl-magos", path=magos.environ["PATH"])
