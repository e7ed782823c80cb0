"""Workspaces on a real API server: the controllers as processes under their own accounts, a user, and a kubelet.

The control plane's own Job controller and garbage collector do their work; what a kubelet would do (start a pod, end it
with a termination message, remove it) is played by ``Stage``.
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

from magos.api.kube import Pod
from magos.api.labels import JOB_SERVICE_ACCOUNT, JOB_TYPE, RUN_ID, RUNNER, WORKSPACE
from magos.api.names import JobType
from magos.api.result import Outcome, PlannedChanges, Result
from magos.api.workspace import CurrentRun, Workspace
from magos.errors import MagosError
from magos.ids import digest_of
from tests.envtest.cluster import Cluster, answered, eventually

BASE = Path(__file__).parents[2] / "deploy" / "kustomize" / "base"
SYSTEM = "magos-system"
NODE = "played"
SHA, OTHER_SHA = "a" * 40, "b" * 40
GROUP = "/apis/magosproject.io/v1alpha1"
_PATIENCE = 90.0

Json = dict[str, Any]


@contextmanager
def controllers(cluster: Cluster, folder: Path, *names: str) -> Iterator[None]:
    """Run these controllers around a block, each under the account that the base gives it; end them cleanly."""
    cluster.kubectl.run("apply", f"--kustomize={BASE}")
    with ExitStack() as running:
        for name in names:
            account = cluster.service_account_kubeconfig(SYSTEM, f"magos-{name}", folder / f"{name}.kubeconfig")
            running.enter_context(_process(name, account, folder / f"{name}.log"))
        yield


@contextmanager
def _process(name: str, kubeconfig: Path, log: Path) -> Iterator[None]:
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "POD_NAMESPACE": SYSTEM, "MAGOS_JOB_IMAGE": "magos-job"}
    command = [str(Path(sys.executable).parent / f"magos-{name}-controller"), "--health-probe-bind-address=0"]
    with log.open("w") as output:
        child = subprocess.Popen(command, env=environment, stdout=output, stderr=output, text=True)
        try:
            yield
            child.send_signal(signal.SIGTERM)
            assert child.wait(30) == 0
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()


class Stage:
    """One namespace with one Workspace ``ws``, its user and its kubelet."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.account(JOB_SERVICE_ACCOUNT, runner=True)

    # --- the user -------------------------------------------------------------------------------------------------

    def create(self, plural: str, name: str, spec: Mapping[str, Any], **metadata: Any) -> None:
        """Create an object of Magos' own kinds."""
        kinds = {"workspaces": "Workspace", "projects": "Project", "variablesets": "VariableSet", "rollouts": "Rollout"}
        body = {"apiVersion": "magosproject.io/v1alpha1", "kind": kinds[plural], "spec": spec}
        self.cluster.request("POST", self._own(plural), {**body, "metadata": {"name": name, **metadata}})

    def account(self, name: str, *, runner: bool) -> None:
        """Create a ServiceAccount, labelled for runs or not."""
        labels = {RUNNER: "true"} if runner else {}
        body = {"metadata": {"name": name, "labels": labels}}
        self.cluster.request("POST", f"/api/v1/namespaces/{self.namespace}/serviceaccounts", body)

    def quota(self, name: str, **hard: str) -> None:
        """Create a ResourceQuota of which nothing is used; the controller that would count is played, too."""
        path = f"/api/v1/namespaces/{self.namespace}/resourcequotas"
        made = self.cluster.request("POST", path, {"metadata": {"name": name}, "spec": {"hard": hard}})
        status = {"hard": hard, "used": dict.fromkeys(hard, "0")}
        self.cluster.request("PUT", f"{path}/{name}/status", {**made, "status": status})

    def declare(self, *, revision: str = SHA, **spec: Any) -> None:
        """Create the Workspace; the commit of its branch is known."""
        fields = {
            "projectRef": {"name": "platform"},
            "source": {"repoURL": "https://git.example.com/demo.git", "targetRevision": "main"},
            "terraform": {"version": "1.9.8"},
        }
        annotations = {"magosproject.io/detected-revision": revision} if revision else {}
        self.create("workspaces", "ws", {**fields, **spec}, annotations=annotations)

    def annotate(self, **values: str | None) -> None:
        """Set or remove Magos' annotations of the Workspace."""

        def change(item: Json) -> None:
            annotations = item["metadata"].setdefault("annotations", {})
            for key, value in values.items():
                name = f"magosproject.io/{key.replace('_', '-')}"
                if value is None:
                    annotations.pop(name, None)
                else:
                    annotations[name] = value

        self._change(self._own("workspaces", "ws"), change)

    def edit(self, **spec: Any) -> None:
        """Change the Workspace's spec."""
        self._change(self._own("workspaces", "ws"), lambda item: item["spec"].update(spec))

    def delete(self, path: str) -> None:
        self.cluster.request("DELETE", path, {"propagationPolicy": "Background"})

    def delete_job(self, name: str) -> None:
        self.delete(f"/apis/batch/v1/namespaces/{self.namespace}/jobs/{name}")

    # --- what is there --------------------------------------------------------------------------------------------

    @property
    def workspace(self) -> Workspace:
        return msgspec.convert(self.cluster.request("GET", self._own("workspaces", "ws")), type=Workspace)

    @property
    def run(self) -> CurrentRun:
        found = self.workspace.status.current_run
        assert found is not None
        return found

    @property
    def run_id(self) -> str:
        return self.workspace.status.current_run_id

    def jobs(self) -> list[Json]:
        found: list[Json] = self.cluster.request("GET", f"/apis/batch/v1/namespaces/{self.namespace}/jobs")["items"]
        return found

    def events(self) -> set[str]:
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        found = self.cluster.request("GET", path)["items"]
        return {each["reason"] for each in found if each["regarding"]["kind"] == "Workspace"}

    def until(self, holds: Callable[[Workspace], bool]) -> Workspace:
        """Wait until the Workspace's status speaks about its spec and ``holds``."""
        last: list[Workspace] = []

        def probe() -> bool:
            last[:] = [self.workspace]
            found = last[0]
            return found.status.observed_generation == found.metadata.generation and holds(found)

        try:
            eventually(probe, within=_PATIENCE)
        except AssertionError:
            raise AssertionError(f"never: {last[0].status}") from None
        return last[0]

    def reaches(self, phase: str, reason: str = "") -> Workspace:
        return self.until(lambda found: found.status.phase == phase and reason in ("", found.status.reason))

    def triggered(self, trigger: str, after: str) -> Workspace:
        """Wait for a run that is not ``after`` and exists because of ``trigger``."""
        return self.until(
            lambda found: (found.status.current_run_trigger, found.status.current_run_id != after) == (trigger, True)
        )

    # --- the kubelet ----------------------------------------------------------------------------------------------

    def pod(self, job_type: JobType) -> Pod:
        """Wait for the pod that the Job controller creates for the current run."""

        def probe() -> list[Json]:
            if not (run_id := self.run_id):
                return []
            label = f"{RUN_ID}%3D{run_id},{JOB_TYPE}%3D{job_type}"
            path = f"/api/v1/namespaces/{self.namespace}/pods?labelSelector={label}"
            found: list[Json] = self.cluster.request("GET", path)["items"]
            return found

        return msgspec.convert(eventually(probe, within=_PATIENCE)[0], type=Pod)

    def starts(self, job_type: JobType) -> Pod:
        """A pod is bound to a node and its first container runs."""
        pod = self.pod(job_type)
        binding = {"metadata": {"name": pod.metadata.name}, "target": {"kind": "Node", "name": NODE}}
        self.cluster.request("POST", f"{self._pod(pod)}/binding", binding)
        running = {**_container("fetch"), "state": {"running": {}}}
        self._set_status(pod, {"phase": "Running", "initContainerStatuses": [running]})
        self.reaches("Planning" if job_type is JobType.PLAN else "Applying", f"{_DOES[job_type]}")
        return pod

    def ends(self, job_type: JobType, pod: Pod | None = None, **changes: Any) -> None:
        """The pod leaves a result; by default a good one, of a plan with changes."""
        pod = pod or self.pod(job_type)
        result = self.result(job_type, **changes)
        message = msgspec.json.encode(result).decode()
        ended = {**_container("job"), "state": {"terminated": {"exitCode": result.exit_code, "message": message}}}
        phase = "Failed" if result.exit_code else "Succeeded"
        self._set_status(pod, {"phase": phase, "containerStatuses": [ended]})

    def result(self, job_type: JobType, **changes: Any) -> Result:
        plan = job_type is JobType.PLAN
        fields: Json = {
            "run_id": self.run_id,
            "phase": job_type,
            "result": Outcome.SUCCEEDED,
            "exit_code": 0,
            "revision": self.run.revision or SHA,
            "plan_digest": digest_of(self.run_id.encode()) if plan else "",
            "has_changes": plan,
            "changes": PlannedChanges(add=1) if plan else PlannedChanges(),
        }
        return Result(**{**fields, **changes})

    def forges(self, job_type: JobType) -> Pod:
        """Somebody creates a pod with the labels of the current run that claims to have ended it well."""
        labels = {WORKSPACE: "ws", JOB_TYPE: str(job_type), RUN_ID: self.run_id}
        container = {"name": "job", "image": "x"}
        body = {"metadata": {"name": "forged", "labels": labels}, "spec": {"containers": [container]}}
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        pod = msgspec.convert(self.cluster.request("POST", path, body), type=Pod)
        self.ends(job_type, pod)
        return pod

    def fails(self, job_type: JobType, reason: str) -> None:
        self.ends(job_type, result=Outcome.FAILED, exit_code=1, reason=reason, message="broken", has_changes=False)

    def removes(self, pod: Pod) -> None:
        """The kubelet is done with a pod that is being deleted."""
        try:
            self.cluster.request("DELETE", self._pod(pod), {"gracePeriodSeconds": 0})
        except MagosError as error:
            if not answered(error, 404):
                raise

    def plans(self, **changes: Any) -> None:
        """Grant, and play the plan to its end."""
        self.reaches("Pending")
        self.annotate(execution_allowed="true")
        self.starts(JobType.PLAN)
        self.ends(JobType.PLAN, **changes)

    def applies(self) -> None:
        """Play the apply to its end."""
        self.reaches("Applying")
        self.starts(JobType.APPLY)
        self.ends(JobType.APPLY)
        self.reaches("Applied", "ApplySucceeded")

    # --- requests -------------------------------------------------------------------------------------------------

    def _own(self, plural: str, name: str = "") -> str:
        return f"{GROUP}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def _pod(self, pod: Pod) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{pod.metadata.name}"

    def _set_status(self, pod: Pod, status: Mapping[str, Any]) -> None:
        self._change(self._pod(pod), lambda item: item["status"].update(status), subresource="/status")

    def _change(self, path: str, change: Callable[[Json], None], *, subresource: str = "") -> None:
        """Read, change, write; again if somebody else wrote in between."""
        while True:
            item = self.cluster.request("GET", path)
            change(item)
            try:
                self.cluster.request("PUT", path + subresource, item)
            except MagosError as error:
                if not answered(error, 409):
                    raise
            else:
                return


_DOES = {JobType.PLAN: "Planning", JobType.APPLY: "Applying"}


def _container(name: str) -> Json:
    return {"name": name, "image": "x", "imageID": "", "ready": False, "restartCount": 0}
