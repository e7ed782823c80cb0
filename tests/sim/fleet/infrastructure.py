"""The ways a cluster takes a pod away: evictions, drains, preemption, pressure, shutdown, and nodes that are gone."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from magos.api.labels import JOB_TYPE, WORKSPACE
from magos.api.names import JobType
from tests.sim.apiserver.resources import Json
from tests.sim.fleet.cluster import Fleet
from tests.sim.fleet.jobcontroller import TRACKING

__all__ = ["ENDS", "End", "runner_pods"]

End = Callable[[Fleet, Json], None]
"""Ends one pod."""


def runner_pods(fleet: Fleet, name: str, half: JobType) -> list[Json]:
    """Return the pods of one half of a run of the Workspace that still work."""
    labels = {WORKSPACE: name, JOB_TYPE: str(half)}
    return [
        pod
        for pod in fleet.items("pods")
        if labels.items() <= (pod["metadata"].get("labels") or {}).items()
        and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
    ]


def evicted(fleet: Fleet, pod: Json) -> None:
    """An API eviction, as a drain makes them: the runner is asked to stop."""
    _disrupt(fleet, pod, "EvictionByEvictionAPI", "Eviction API: evicting")
    fleet.kubelet.delete("pods", pod)


def preempted(fleet: Fleet, pod: Json) -> None:
    """The scheduler wants the place for a pod of higher priority."""
    _disrupt(fleet, pod, "PreemptionByScheduler", "default-scheduler: preempting to accommodate a higher priority pod")
    fleet.kubelet.delete("pods", pod)


def killed(fleet: Fleet, pod: Json) -> None:
    """The pod is deleted and does not stop in time: no result is left."""
    fleet.kubelet.delete("pods", pod)
    _end(fleet, pod, {"phase": "Failed", "initContainerStatuses": [_terminated("terraform", 137)]})


def pressed(fleet: Fleet, pod: Json) -> None:
    """The kubelet ends the pod because the node is short of something."""
    _end(fleet, pod, {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."})


def shut_down(fleet: Fleet, pod: Json) -> None:
    """The node is shut down in good order."""
    text = "Pod was terminated in response to imminent node shutdown."
    _end(fleet, pod, {"phase": "Failed", "reason": "Terminated", "message": text})


def lost(fleet: Fleet, pod: Json) -> None:
    """The node is gone for good: the pod is removed without any word of it."""
    _disrupt(fleet, pod, "DeletionByPodGC", "PodGC: node no longer exists")
    _end(fleet, pod, {"phase": "Failed"})
    fleet.kubelet.delete("pods", pod, grace=0)


def vanished(fleet: Fleet, pod: Json) -> None:
    """The pod is removed by force, and the finalizer of the Job controller with it: nothing tells of it any more."""
    kept = [each for each in pod["metadata"].get("finalizers") or [] if each != TRACKING]
    fleet.kubelet.delete("pods", pod, grace=0)
    fleet.jobs.patch("pods", pod, {"metadata": {"finalizers": kept}})


def _disrupt(fleet: Fleet, pod: Json, reason: str, message: str) -> None:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
    fleet.kubelet.patch("pods", pod, {"status": {"conditions": [condition]}}, "status")


def _end(fleet: Fleet, pod: Json, status: Json) -> None:
    fleet.kubelet.kill(pod)
    fleet.kubelet.patch("pods", pod, {"status": status}, "status")


def _terminated(name: str, code: int) -> Json:
    state = {"terminated": {"exitCode": code, "reason": "Error"}}
    return {"name": name, "state": state, "ready": False, "restartCount": 0, "image": "x", "imageID": ""}


ENDS: Mapping[str, End] = MappingProxyType(
    {each.__name__: each for each in (evicted, preempted, killed, pressed, shut_down, lost, vanished)}
)
"""By name."""
