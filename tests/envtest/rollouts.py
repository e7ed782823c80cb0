"""A Project's members and their Rollout on a real API server, and whoever plays the Workspace controller.

The rollout and the project controller run as processes under their own ServiceAccounts; the administrator is the user
and the Workspace controller. A member's state is written as one PUT of its status, so nobody sees half of it.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from magos.api.phases import Phase
from magos.api.project import Project
from magos.api.rollout import Rollout, RolloutStep
from magos.api.status import API_VERSION, NameReference
from magos.api.workspace import Workspace, WorkspaceStatus
from magos.errors import MagosError
from magos.reconcilers.members import members_of
from magos.reconcilers.permission import permitted
from magos.reconcilers.rollout.cohorts import divide
from tests.envtest.audit import WRITE_VERBS, Request
from tests.envtest.cluster import Cluster, answered, eventually
from tests.unit.reconcilers.fleet import PROJECT, member, rollout

__all__ = ["ACCOUNTS", "Fleet", "Seen", "controllers"]

_BASE = Path(__file__).parents[2] / "deploy" / "kustomize" / "base"
_SYSTEM = "magos-system"
ACCOUNTS = {name: f"system:serviceaccount:{_SYSTEM}:magos-{name}" for name in ("rollout", "project")}

Seen = tuple[Phase | None, str, int | None, bool, set[str]]
"""Phase, reason and step of the Rollout, whether its message says what it should, and who has permission."""


class Fleet:
    """One namespace with the members of a Project and the Rollout of its name."""

    def __init__(self, cluster: Cluster, namespace: str, name: str = PROJECT) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.name = name

    # --- what a user does

    def create(self, *members: Workspace) -> None:
        """Create Workspaces with labels, annotations and finalizers as given, and put them into their state."""
        for each in members:
            meta = each.metadata
            metadata = {
                "name": meta.name,
                "labels": dict(meta.labels),
                "annotations": dict(meta.annotations),
                "finalizers": list(meta.finalizers),
            }
            self._create("workspaces", "Workspace", metadata, msgspec.to_builtins(each.spec))
            if each.status.phase is not None:
                self.enter(each)

    def direct(self, *steps: RolloutStep | str, finalizers: tuple[str, ...] = ()) -> None:
        """Create the Rollout."""
        metadata = {"name": self.name, "finalizers": list(finalizers)}
        self._create("rollouts", "Rollout", metadata, self.spec(*steps))

    def spec(self, *steps: RolloutStep | str) -> dict[str, Any]:
        """Return a Rollout's spec as a user writes it."""
        written: dict[str, Any] = msgspec.to_builtins(rollout(*steps, project=self.name).spec)
        return written

    def edit_steps(self, *steps: RolloutStep | str) -> None:
        self._edit("rollouts", self.name, lambda found: found.update(spec=self.spec(*steps)))

    def put_selector(self, selector: dict[str, Any]) -> None:
        """Give the first step another selector, however nonsensical."""
        self._edit("rollouts", self.name, lambda found: found["spec"]["strategy"]["steps"][0].update(selector=selector))

    def gather(self) -> None:
        """Create the Project."""
        self._create("projects", "Project", {"name": self.name}, {})

    def edit_spec(self, name: str, **fields: Any) -> None:
        """Change a member's spec; its status stays behind."""
        self._edit("workspaces", name, lambda found: found["spec"].update(fields))

    def relabel(self, name: str, stage: str) -> None:
        self._edit("workspaces", name, lambda found: found["metadata"].update(labels={"stage": stage}))

    def annotate(self, name: str, key: str, value: str | None) -> None:
        def change(found: dict[str, Any]) -> None:
            values = {**found["metadata"].get("annotations", {}), key: value}
            found["metadata"]["annotations"] = {k: v for k, v in values.items() if v is not None}

        self._edit("workspaces", name, change)

    def delete(self, plural: str, name: str) -> None:
        self.cluster.request("DELETE", self._path(plural, name))

    def release(self, plural: str, name: str) -> None:
        """Remove all finalizers."""
        self._edit(plural, name, lambda found: found["metadata"].update(finalizers=[]))

    # --- what the Workspace controller does

    def enter(self, state: Workspace) -> None:
        """Let a member be in another state; labels, annotations and permission stay as they are."""
        status = state.status
        if status.awaiting_approval is not None:
            gate = replace(status.awaiting_approval, since="2026-01-01T00:00:00Z")
            status = replace(status, awaiting_approval=gate)

        def change(found: dict[str, Any]) -> None:
            written: WorkspaceStatus = replace(status, observed_generation=found["metadata"]["generation"])
            found["status"] = msgspec.to_builtins(written)

        self._edit("workspaces", state.metadata.name, change, "/status")

    # --- what everybody sees

    @property
    def rollout(self) -> Rollout:
        return msgspec.convert(self.cluster.request("GET", self._path("rollouts", self.name)), type=Rollout)

    @property
    def project(self) -> Project:
        return msgspec.convert(self.cluster.request("GET", self._path("projects", self.name)), type=Project)

    @property
    def members(self) -> tuple[Workspace, ...]:
        """The Project's Workspaces, terminating ones included."""
        items = self.cluster.request("GET", self._path("workspaces"))["items"]
        found = (msgspec.convert(each, type=Workspace) for each in items)
        return tuple(each for each in found if each.spec.project_ref.name == self.name)

    @property
    def allowed(self) -> set[str]:
        """Who has permission."""
        return {each.metadata.name for each in self.members if permitted(each)}

    def reaches(self, phase: Phase, reason: str, step: int, allowed: set[str], *, says: str = "") -> None:
        """Wait for this state, then prove that it stays: two later passes of the controller change nothing of it."""
        self.comes_to(phase, reason, step, allowed, says=says)
        self.judged_again()
        assert self._seen(says) == (phase, reason, step, True, allowed), self.rollout.status.message

    def comes_to(self, phase: Phase, reason: str, step: int, allowed: set[str], *, says: str = "") -> None:
        """Wait for this state."""
        wanted: Seen = (phase, reason, step, True, allowed)
        try:
            eventually(lambda: self._seen(says) == wanted)
        except AssertionError:
            assert self._seen(says) == wanted, self.rollout.status.message
            raise

    def judged_again(self) -> None:
        """Return after a pass that knows all that was written until now, and whose own writes are done.

        A stray comes and goes. The pass that counts it follows on everything written before it; the pass that misses
        it begins after the first one's last write, because passes over one object never overlap.
        """
        self.create(member("stray", project_ref=NameReference(name=self.name)))
        self._counted()
        self.delete("workspaces", "stray")
        self._counted()

    def events(self) -> set[tuple[str, str, str]]:
        """Return object, type and reason of every Event."""
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        found = self.cluster.request("GET", path)["items"]
        return {(each["regarding"]["name"], each["type"], each["reason"]) for each in found}

    def writes(self, account: str, resource: str, since: int = 0) -> list[Request]:
        """Return what the controller has written to this resource in the namespace."""
        return [
            each
            for each in self.cluster.audit.requests(since)
            if (each.user, each.namespace, each.resource) == (ACCOUNTS[account], self.namespace, resource)
            and each.verb in WRITE_VERBS
        ]

    def _counted(self) -> None:
        wanted = divide(self.rollout.spec.strategy.steps, members_of(self.name, self.members)).unselected
        eventually(lambda: self.rollout.status.unselected_workspaces == len(wanted))

    def _seen(self, says: str) -> Seen | None:
        found = self.rollout
        status = found.status
        if status.observed_generation != found.metadata.generation:
            return None
        return status.phase, status.reason, status.current_step, says in status.message, self.allowed

    def _path(self, plural: str, name: str = "") -> str:
        return f"/apis/{API_VERSION}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def _create(self, plural: str, kind: str, metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> None:
        body = {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
        self.cluster.request("POST", self._path(plural), body)

    def _edit(self, plural: str, name: str, change: Callable[[dict[str, Any]], None], part: str = "") -> None:
        """Read, change and write back; again if somebody else wrote meanwhile."""
        while True:
            found = self.cluster.request("GET", self._path(plural, name))
            change(found)
            try:
                self.cluster.request("PUT", self._path(plural, name) + part, found)
            except MagosError as error:
                if not answered(error, 409):
                    raise
            else:
                return


@contextmanager
def controllers(cluster: Cluster, folder: Path) -> Iterator[None]:
    """Run both controllers, elected, with exactly the rights that the base gives their accounts."""
    cluster.kubectl.run("apply", f"--kustomize={_BASE}")
    with ExitStack() as stack:
        for name in ACCOUNTS:
            kubeconfig = cluster.service_account_kubeconfig(_SYSTEM, f"magos-{name}", folder / f"{name}.kubeconfig")
            stack.enter_context(_process(name, kubeconfig, folder / f"{name}.log"))
        yield


@contextmanager
def _process(name: str, kubeconfig: Path, log: Path) -> Iterator[None]:
    program = Path(sys.executable).parent / f"magos-{name}-controller"
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "POD_NAMESPACE": _SYSTEM}
    command = [str(program), "--leader-elect", "--health-probe-bind-address=0", "--log-level=debug"]
    with log.open("w") as output:
        child = subprocess.Popen(command, env=environment, stdout=output, stderr=output, text=True)
        try:
            yield
            child.send_signal(signal.SIGTERM)
            assert child.wait(30) == 0, log.read_text()
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
