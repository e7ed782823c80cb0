"""The variableset controller as a process under an account, and a user of VariableSets, on a real API server."""

import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from magos.api.reasons import Reason
from magos.api.variableset import VariableSet
from magos.errors import MagosError
from tests.envtest.cluster import Cluster, eventually

BASE = Path(__file__).parents[2] / "deploy" / "kustomize" / "base"
SYSTEM = "magos-system"
ACCOUNT = "magos-variableset"
PROGRAM = Path(sys.executable).parent / "magos-variableset-controller"
CANARY = "canary-3f9c1d"
"""Part of every value here. It must be found nowhere but in the Secret or ConfigMap itself."""


class Namespace:
    """One namespace and a user in it."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.name = name

    def path(self, plural: str, name: str = "") -> str:
        group = "/apis/magosproject.io/v1alpha1" if plural == "variablesets" else "/api/v1"
        return f"{group}/namespaces/{self.name}/{plural}" + (f"/{name}" if name else "")

    def declare(self, name: str, *variables: Mapping[str, Any]) -> None:
        """Create a VariableSet."""
        body = {
            "apiVersion": "magosproject.io/v1alpha1",
            "kind": "VariableSet",
            "metadata": {"name": name},
            "spec": {"variables": list(variables)},
        }
        self.cluster.request("POST", self.path("variablesets"), body)

    def put(self, plural: str, name: str, **values: str) -> str:
        """Create or replace a Secret or ConfigMap with these values; return its version."""
        secret = plural == "secrets"
        data = {key: base64.b64encode(value.encode()).decode() if secret else value for key, value in values.items()}
        body = {"apiVersion": "v1", "kind": "Secret" if secret else "ConfigMap", "metadata": {"name": name}}
        try:
            stored = self.cluster.request("PUT", self.path(plural, name), {**body, "data": data})
        except MagosError:
            stored = self.cluster.request("POST", self.path(plural), {**body, "data": data})
        return str(stored["metadata"]["resourceVersion"])

    def label(self, kind: str, name: str, value: str) -> str:
        """Set a label; return the new version."""
        self.cluster.kubectl.run("label", "--overwrite", f"--namespace={self.name}", kind, name, f"touched={value}")
        return str(self.cluster.request("GET", self.path(f"{kind}s", name))["metadata"]["resourceVersion"])

    def found(self, name: str) -> VariableSet:
        return msgspec.convert(self.cluster.request("GET", self.path("variablesets", name)), type=VariableSet)

    def until(self, name: str, holds: Callable[[VariableSet], bool]) -> VariableSet:
        """Wait until the set's status speaks about its spec and ``holds``."""

        def probe() -> VariableSet | None:
            found = self.found(name)
            return found if found.status.observed_generation == found.metadata.generation and holds(found) else None

        found = eventually(probe, within=60)
        assert found is not None
        return found

    def failed(self, name: str) -> VariableSet:
        return self.until(name, lambda found: found.status.reason == Reason.UNRESOLVED_REFERENCES)

    def ready(self, name: str) -> VariableSet:
        return self.until(name, lambda found: found.status.reason == Reason.ALL_REFERENCES_RESOLVED)

    def everything(self) -> str:
        """All sets and Events of the namespace as text."""
        events = self.cluster.request("GET", f"/apis/events.k8s.io/v1/namespaces/{self.name}/events")
        return json.dumps([self.cluster.request("GET", self.path("variablesets")), events])


def secret(name: str, source: str, key: str, **more: bool) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": source, "key": key, **more}}}


def config_map(name: str, source: str, key: str, **more: bool) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"configMapKeyRef": {"name": source, "key": key, **more}}}


@contextmanager
def controller(kubeconfig: Path, log: Path, *flags: str) -> Iterator["subprocess.Popen[str]"]:
    """Run the program around a block and end it cleanly."""
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "POD_NAMESPACE": SYSTEM}
    command = [str(PROGRAM), "--health-probe-bind-address=0", "--log-level=debug", *flags]
    with log.open("w") as output:
        child = subprocess.Popen(command, env=environment, stdout=output, stderr=output, text=True)
        try:
            yield child
            child.send_signal(signal.SIGTERM)
            assert child.wait(30) == 0
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()


def own_account(cluster: Cluster, folder: Path) -> Path:
    """Return the kubeconfig of the controller's own ServiceAccount, with what the base gives it."""
    cluster.kubectl.run("apply", f"--kustomize={BASE}")
    return cluster.service_account_kubeconfig(SYSTEM, ACCOUNT, folder / "kubeconfig")
