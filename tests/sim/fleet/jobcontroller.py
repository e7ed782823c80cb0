"""The Job controller of Kubernetes, for Jobs with one pod that is never restarted (``backoffLimit: 0``).

1. A pod per Job, under a name of its own, held by the finalizer ``batch.kubernetes.io/job-tracking`` until counted.
2. The counters move before the conditions: only ``Complete`` and ``Failed`` say that a Job ended, and they come when
   the pod has really ended (``podReplacementPolicy: Failed``). A pod that is deleted counts as failed.
3. ``activeDeadlineSeconds`` deletes the pod gracefully, the condition follows when it has stopped.
"""

from datetime import UTC, datetime
from typing import ClassVar

from tests.sim.apiserver.resources import Json
from tests.sim.fleet.actor import Actor, key_of

__all__ = ["TRACKING", "JobController"]

TRACKING = "batch.kubernetes.io/job-tracking"


class JobController(Actor):
    """See the module."""

    name: ClassVar[str] = "job-controller"
    resources: ClassVar[tuple[str, ...]] = ("jobs.batch", "pods")

    def act(self) -> float | None:
        """Bring every Job one step further."""
        pods = self.items("pods")
        jobs = {job["metadata"]["uid"]: job for job in self.items("jobs.batch")}
        deadlines = [self._job(job, _of(pods, job)) for job in jobs.values()]
        for pod in pods:
            owner = next((o["uid"] for o in pod["metadata"].get("ownerReferences") or [] if o.get("controller")), "")
            if owner not in jobs:
                self._release(pod)
        return min((each for each in deadlines if each is not None), default=None)

    def _job(self, job: Json, pods: list[Json]) -> float | None:
        status = job.get("status") or {}
        if job["spec"].get("suspend"):
            return None
        if "deletionTimestamp" in job["metadata"]:
            for pod in pods:
                self._release(pod)
            return None
        conditions = {each["type"]: each for each in status.get("conditions") or []}
        if "Complete" in conditions or "Failed" in conditions:
            for pod in pods:
                self._release(pod)
            return None
        if not pods and not status.get("startTime"):
            self._start(job)
            return None
        return self._watch(job, pods, conditions)

    def _start(self, job: Json) -> None:
        self.patch("jobs.batch", job, {"status": {"startTime": self._text(), "active": 1}}, "status")
        template, meta = job["spec"]["template"], job["metadata"]
        owner = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": meta["name"],
            "uid": meta["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        body = {
            "metadata": {
                **template.get("metadata", {}),
                "name": f"{meta['name']}-{self.rng.getrandbits(20):05x}",
                "namespace": meta["namespace"],
                "ownerReferences": [owner],
                "finalizers": [TRACKING],
            },
            "spec": template["spec"],
        }
        with self.acting():
            self.server.create(self.type("pods"), body)

    def _watch(self, job: Json, pods: list[Json], conditions: dict[str, Json]) -> float | None:
        ended = all(_phase(pod) in ("Succeeded", "Failed") for pod in pods)
        succeeded = any(_phase(pod) == "Succeeded" for pod in pods)
        if "FailureTarget" in conditions and ended:
            self._finish(job, "Failed", conditions["FailureTarget"].get("reason", ""))
        elif "FailureTarget" in conditions:
            return None
        elif not ended:
            return self._deadline(job, pods)
        elif succeeded:
            self._finish(job, "Complete", "CompletionsReached")
        else:
            self.patch("jobs.batch", job, {"status": {"active": 0, "failed": 1}}, "status")
            self._condition(job, "FailureTarget", "BackoffLimitExceeded")
        return None

    def _deadline(self, job: Json, pods: list[Json]) -> float | None:
        seconds = job["spec"].get("activeDeadlineSeconds")
        if seconds is None:
            return None
        began = datetime.fromisoformat(job["status"]["startTime"])
        left = seconds - (self.server.clock.now() - began).total_seconds()
        if left > 0:
            return self.now() + float(left) + 0.01
        self._condition(job, "FailureTarget", "DeadlineExceeded")
        for pod in pods:
            self.delete("pods", pod)
        return None

    def _finish(self, job: Json, condition: str, reason: str) -> None:
        counted = {"active": 0, "succeeded": int(condition == "Complete"), "failed": int(condition == "Failed")}
        self.patch("jobs.batch", job, {"status": counted}, "status")
        self._condition(job, condition, reason)

    def _condition(self, job: Json, kind: str, reason: str) -> None:
        current = self.server.store.get(self.type("jobs.batch"), key_of(job))
        if current is None:
            return
        old = (current.get("status") or {}).get("conditions") or []
        new = {"type": kind, "status": "True", "reason": reason, "message": f"the Job is {kind}: {reason}"}
        self.patch("jobs.batch", job, {"status": {"conditions": [*old, new]}}, "status")

    def _release(self, pod: Json) -> None:
        finalizers = pod["metadata"].get("finalizers") or []
        if TRACKING in finalizers:
            kept = [each for each in finalizers if each != TRACKING]
            self.patch("pods", pod, {"metadata": {"finalizers": kept}})

    def _text(self) -> str:
        return f"{self.server.clock.now().astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _of(pods: list[Json], job: Json) -> list[Json]:
    uid = job["metadata"]["uid"]
    return [pod for pod in pods if any(o["uid"] == uid for o in pod["metadata"].get("ownerReferences") or [])]


def _phase(pod: Json) -> str:
    phase: str = (pod.get("status") or {}).get("phase", "")
    return phase
