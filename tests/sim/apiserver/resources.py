"""The resources that the simulated API server serves, and in what they differ."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["BUILT_IN", "CUSTOM", "Admission", "Json", "ResourceType", "custom_resource"]

Json = dict[str, Any]

Admission = Callable[[Json, Json | None], list[tuple[str, str]]]
"""Defaults ``new`` in place and returns what is invalid as (field, message); ``old`` is None on creation."""


@dataclass(frozen=True, kw_only=True)
class ResourceType:
    """One served resource; the flags are properties of the real server's registry strategies."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    has_status: bool = True
    has_generation: bool = True
    custom: bool = False
    graceful: bool = False
    orphans_by_default: bool = False
    admission: Admission | None = None

    @property
    def api_version(self) -> str:
        """``apiVersion`` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """``<plural>.<group>``, as in messages."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


def custom_resource(group: str, version: str, plural: str, kind: str) -> ResourceType:
    """Return a namespaced custom resource with the status subresource."""
    return ResourceType(group=group, version=version, plural=plural, kind=kind, custom=True)


def _core(plural: str, kind: str, **flags: Any) -> ResourceType:
    return ResourceType(group="", version="v1", plural=plural, kind=kind, **flags)


def _admit_pod(new: Json, old: Json | None) -> list[tuple[str, str]]:
    if old is None:
        new["spec"].setdefault("terminationGracePeriodSeconds", 30)
        new["status"] = {"phase": "Pending"}
    return []


def _admit_claim(new: Json, old: Json | None) -> list[tuple[str, str]]:
    if old is None:
        new["status"] = {"phase": "Pending"}
        new["metadata"].setdefault("finalizers", []).append("kubernetes.io/pvc-protection")
    return []


def _admit_job(new: Json, old: Json | None) -> list[tuple[str, str]]:
    spec = new.setdefault("spec", {})
    if old is None:
        spec.setdefault("parallelism", 1)
        spec.setdefault("completions", 1)
        spec.setdefault("backoffLimit", 6)
        spec.setdefault("suspend", False)
        return []
    if spec.get("template") != old["spec"].get("template"):
        return [("spec.template", "Invalid value: field is immutable")]
    return []


BUILT_IN: tuple[ResourceType, ...] = (
    _core("namespaces", "Namespace", namespaced=False, has_generation=False),
    _core("nodes", "Node", namespaced=False, has_generation=False),
    _core("pods", "Pod", graceful=True, admission=_admit_pod),
    _core("persistentvolumeclaims", "PersistentVolumeClaim", has_generation=False, admission=_admit_claim),
    _core("secrets", "Secret", has_status=False, has_generation=False),
    _core("configmaps", "ConfigMap", has_status=False, has_generation=False),
    _core("serviceaccounts", "ServiceAccount", has_status=False, has_generation=False),
    ResourceType(group="batch", version="v1", plural="jobs", kind="Job", orphans_by_default=True, admission=_admit_job),
    ResourceType(
        group="coordination.k8s.io",
        version="v1",
        plural="leases",
        kind="Lease",
        has_status=False,
        has_generation=False,
    ),
    ResourceType(
        group="events.k8s.io", version="v1", plural="events", kind="Event", has_status=False, has_generation=False
    ),
)
"""What every real server brings along, as far as we use it."""

CUSTOM: tuple[ResourceType, ...] = tuple(
    custom_resource("magosproject.io", "v1alpha1", plural, kind)
    for plural, kind in (
        ("workspaces", "Workspace"),
        ("projects", "Project"),
        ("rollouts", "Rollout"),
        ("variablesets", "VariableSet"),
    )
)
