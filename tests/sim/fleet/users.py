"""People: they create, edit, annotate and delete; and one of them is an adversary.

Their writes are carried out at once and never fail: what is tested is Magos, not their tools.
"""

import base64
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from magos.api.kube import PODS, SECRETS, SERVICE_ACCOUNTS
from magos.api.labels import JOB_SERVICE_ACCOUNT, RUNNER
from magos.api.meta import Kind
from magos.api.project import PROJECTS
from magos.api.rollout import ROLLOUTS
from magos.api.validatingpolicy import VALIDATING_POLICIES
from magos.api.variableset import VARIABLESETS
from magos.api.workspace import WORKSPACES, Workspace
from tests.sim.apiserver import SimApiServer
from tests.sim.apiserver.problems import Problem
from tests.sim.apiserver.resources import Json

__all__ = ["NAMESPACE", "URL", "Users"]

NAMESPACE = "default"
URL = "https://git.example.com/infra.git"
PREFIX = "magosproject.io/"


class Users:
    """Acts as ``name`` on the server, in one namespace."""

    def __init__(self, server: SimApiServer, name: str = "user", namespace: str = NAMESPACE) -> None:
        self.server = server
        self.name = name
        self.namespace = namespace

    def create(self, kind: Kind[Any], name: str, **parts: Any) -> Json:
        """Create an object."""
        metadata = {"name": name, "namespace": self.namespace, **_mapping(parts.pop("metadata", {}))}
        with self._acting():
            return self.server.create(self.server.resource(kind), {"metadata": metadata, **parts})

    def patch(self, kind: Kind[Any], name: str, body: Json, subresource: str = "") -> None:
        """Merge ``body`` into an object; nothing happens if it is not there."""
        with self._acting():
            try:
                self.server.writer.patch(self.server.resource(kind), (self.namespace, name), body, subresource)
            except Problem as problem:
                if problem.code != 404:
                    raise

    def delete(self, kind: Kind[Any], name: str, *, grace: int | None = None) -> None:
        """Delete an object as ``kubectl`` does; nothing happens if it is not there."""
        with self._acting():
            try:
                options: Json = {"propagationPolicy": "Background"}
                if grace is not None:
                    options["gracePeriodSeconds"] = grace
                self.server.writer.delete(
                    self.server.resource(kind), (self.namespace, name), options, self.server.clock.now()
                )
            except Problem as problem:
                if problem.code != 404:
                    raise

    def delete_by_force(self, pod: Json) -> None:
        """Remove a pod from the API at once, finalizers too, wherever its containers are."""
        name = pod["metadata"]["name"]
        self.patch(PODS, name, {"metadata": {"finalizers": None}})
        self.delete(PODS, name, grace=0)
        self.delete(PODS, name, grace=0)  # the first one found it with a grace period

    def project(self, name: str = "platform", **spec: Any) -> None:
        """Create a Project."""
        self.create(PROJECTS, name, spec=spec)

    def workspace(
        self, name: str, *, labels: Mapping[str, str] | None = None, project: str = "platform", **spec: Any
    ) -> None:
        """Create a Workspace of the usual repository."""
        fields: Json = {
            "projectRef": {"name": project},
            "source": {"repoURL": URL, "targetRevision": "main"},
            "terraform": {"version": "1.9.8"},
        }
        self.create(WORKSPACES, name, metadata={"labels": dict(labels or {})}, spec={**fields, **spec})

    def rollout(self, *steps: tuple[str, Mapping[str, str]], name: str = "platform") -> None:
        """Create a Rollout with steps of (name, labels to match)."""
        listed = [{"name": step, "selector": {"matchLabels": dict(labels)}} for step, labels in steps]
        self.create(ROLLOUTS, name, spec={"projectRef": name, "strategy": {"steps": listed}})

    def variable_set(self, name: str, variables: list[Json]) -> None:
        """Create a VariableSet."""
        self.create(VARIABLESETS, name, spec={"variables": variables})

    def policy(self, name: str, action: str, **labels: str) -> None:
        """Create a policy of the cluster that every plan violates, or change it; ``""`` is one that all keep."""
        kind = self.server.resource(VALIDATING_POLICIES)
        body = {
            "metadata": {"name": name, "labels": labels},
            "spec": {"evaluation": {"mode": "JSON"}, "validationActions": [action] if action else []},
        }
        with self._acting():
            if self.server.store.get(kind, ("", name)) is None:
                self.server.create(kind, body)
            else:
                self.server.writer.patch(kind, ("", name), body)

    def account(self, *, runner: bool, name: str = JOB_SERVICE_ACCOUNT) -> None:
        """Create a ServiceAccount, or change whether it is labelled for runs."""
        label = {RUNNER: "true" if runner else None}
        if self.server.store.get(self.server.resource(SERVICE_ACCOUNTS), (self.namespace, name)) is None:
            self.create(SERVICE_ACCOUNTS, name, metadata={"labels": label if runner else {}})
        else:
            self.patch(SERVICE_ACCOUNTS, name, {"metadata": {"labels": label}})

    def secret(self, name: str, **data: str) -> None:
        """Create a Secret or change its keys."""
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
        if self.server.store.get(self.server.resource(SECRETS), (self.namespace, name)) is None:
            self.create(SECRETS, name, data=encoded)
        else:
            self.patch(SECRETS, name, {"data": encoded})

    def annotate(self, name: str, **values: str | None) -> None:
        """Set or remove Magos annotations of a Workspace: ``reconcile_request="x"``."""
        changed = {PREFIX + key.replace("_", "-"): value for key, value in values.items()}
        self.patch(WORKSPACES, name, {"metadata": {"annotations": changed}})

    def approve(self, name: str) -> None:
        """Approve what waits, if something does."""
        found = self.find(name)
        if found is not None and found.status.awaiting_approval is not None:
            self.annotate(name, approved=found.status.awaiting_approval.run_id)

    def edit(self, name: str, **spec: Any) -> None:
        """Change fields of a Workspace's spec."""
        self.patch(WORKSPACES, name, {"spec": dict(spec)})

    def find(self, name: str) -> Workspace | None:
        """Return the stored Workspace."""
        item = self.server.store.get(self.server.resource(WORKSPACES), (self.namespace, name))
        return None if item is None else msgspec.convert(item, Workspace)

    @contextmanager
    def _acting(self) -> Iterator[None]:
        self.server.acting = self.name
        try:
            yield
        finally:
            self.server.acting = ""


def _mapping(value: object) -> Json:
    return dict(value) if isinstance(value, Mapping) else {}
