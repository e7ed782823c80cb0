"""Why a pod does not start, and why a Job ended without a result, read from what Kubernetes says (spec §6.2.9, §14.1).

The texts of scheduler, kubelet and Job controller are passed on as they are; only their reasons are mapped.
"""

import re
from collections.abc import Iterable

from msgspec import Struct

from magos.api.kube import ContainerStatus, Job, Pod
from magos.api.reasons import Reason
from magos.api.runnerpod import POD_VOLUMES, TERMINATED
from magos.reconcilers.effects import JobWarning

_IMAGE = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
_CONFIG = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "StartError"})
_VOLUME_EVENTS = frozenset({"FailedMount", "FailedAttachVolume", "FailedMapVolume", "VolumeFailedDelete"})
_VOLUME_WORDS = ("persistentvolumeclaim", "persistent volume", "volume node affinity", "unbound")
_BY_NODE = frozenset(
    {
        "Evicted",
        "NodeAffinity",
        "NodeLost",
        "NodeShutdown",
        "Preempting",
        "Shutdown",
        "Terminated",
        "UnexpectedAdmissionError",
    }
)
"""Reasons of a pod that its node has ended, or that the node would not take when it came."""

_NO_ROOM = "OutOf"
"""So begins the reason of a pod that came to a node without room for it: OutOfcpu, OutOfmemory, OutOfpods."""

_FORGOTTEN = frozenset({"ContainerStatusUnknown", "Unknown"})
"""Reasons of a container whose end nobody saw, because its node was started anew."""

_KILLED = 137

_QUOTA_TEXTS = ("exceeded quota", "failed quota")
"""A quota that is used up, and one that wants requests or limits which a container does not have."""

_VOLUME_LIMIT = re.compile(r'EmptyDir volume "([^"]+)" exceeds the limit')
_DISK_LIMIT = re.compile(
    r"Container (\S+) exceeded its local ephemeral storage limit|ephemeral local storage usage exceeds the total limit"
)
"""The texts of the kubelet's eviction manager for a pod that wrote more than it may, not for a node that is full."""

_HINTS = {
    Reason.SERVICE_ACCOUNT_NOT_FOUND: "Create the ServiceAccount in this namespace (component tenant).",
    Reason.IMAGE_PULL_FAILED: "Check MAGOS_JOB_IMAGE and the pull Secret.",
    Reason.POD_UNSCHEDULABLE: "Check nodes, taints and the requested resources.",
    Reason.VOLUME_UNAVAILABLE: "Check the StorageClass and the volume's node.",
    Reason.QUOTA_EXCEEDED: "Raise the quota or free resources; what it wants specified is set in MAGOS_JOB_POD_CONFIG.",
    Reason.POD_CONFIG_ERROR: "Check that the Secrets and keys the pod refers to exist.",
    Reason.JOB_START_FAILED: "Look at the Job's and the pod's Events.",
}


class StartProblem(Struct, frozen=True, kw_only=True):
    """Why no container has started: one of the reasons of spec §14.1 and a text that ends with what to do."""

    reason: Reason
    message: str


class EndCause(Struct, frozen=True, kw_only=True):
    """Why a Job ended, as Kubernetes tells it.

    ``interrupted``: a stage was asked to stop. ``decisive``: it explains more than a runner that was interrupted.
    """

    word: str
    text: str
    interrupted: bool = False
    decisive: bool = False


def start_problem(
    job: Job, pods: tuple[Pod, ...], warnings: tuple[JobWarning, ...], service_account: str
) -> StartProblem:
    """Return the most telling cause that is known; ``JobStartFailed`` if there is none."""
    for pod in pods:
        found = _unscheduled(pod) or _waiting(pod) or _from_events(warnings)
        if found is not None:
            return _hinted(*found)
    if not pods:
        return _hinted(*(_without_pod(warnings, service_account) or (Reason.JOB_START_FAILED, _no_pod(job))))
    return _hinted(Reason.JOB_START_FAILED, f"Pod {pods[0].metadata.name} has reported no container.")


def about_quota(text: str) -> bool:
    """Tell whether the API server refused something for a ResourceQuota."""
    return any(each in text.lower() for each in _QUOTA_TEXTS)


def end_cause(job: Job | None, pods: tuple[Pod, ...]) -> EndCause | None:
    """Return what Kubernetes says about the end of a Job: its deadline, an eviction, a container that was killed.

    Every disruption that Kubernetes knows of is infrastructure: it says so only where something else than the pod's own
    work ended it.
    """
    failed = job.failed if job is not None else None
    if failed is not None and failed.reason == "DeadlineExceeded":
        text = failed.message or "the Job was active longer than allowed"
        return EndCause(word="DeadlineExceeded", text=text, decisive=True)
    ended = next((found for pod in pods if (found := _pod_cause(pod)) is not None), None)
    if ended is not None:
        return ended
    cause = next((found for pod in pods if (found := _container_cause(pod)) is not None), None)
    if cause is not None:
        return cause
    if failed is not None and failed.reason not in ("", "BackoffLimitExceeded"):
        return EndCause(word=failed.reason, text=failed.message)
    return None


def _pod_cause(pod: Pod) -> EndCause | None:
    """What ended the pod as a whole. One that wrote more than it may was not taken away: it would do so again."""
    disrupted = next((c for c in pod.status.conditions if c.type == "DisruptionTarget" and c.status == "True"), None)
    if pod.status.reason:
        word, text = pod.status.reason, pod.status.message or f"pod {pod.metadata.name} was ended"
        taken = word in _BY_NODE or word.startswith(_NO_ROOM)
    elif disrupted is not None:
        stopped = _container_cause(pod)
        word, taken = disrupted.reason or "Disrupted", True
        text = "; ".join(filter(None, (disrupted.message, stopped.text if stopped is not None else "")))
    else:
        return None
    sized = _with_size_hint(text)
    if sized != text:
        return EndCause(word=word, text=sized, decisive=True)
    return EndCause(word=word, text=f"{text}{_where(pod)}", interrupted=taken, decisive=True)


def _container_cause(pod: Pod) -> EndCause | None:
    """The first container that ended badly decides; the later ones only follow."""
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        ended = status.state.terminated
        if ended is None or ended.exit_code == 0:
            continue
        if ended.reason == "OOMKilled":
            text = (
                f"container {status.name} exceeded its memory limit{_memory_limit(pod, status.name)} (exit code"
                f" {ended.exit_code}). Raise limits.memory in stageResources.{status.name} of the file of"
                " MAGOS_JOB_POD_CONFIG, or split the module"
            )
            return EndCause(word="OOMKilled", text=text, decisive=True)
        text = f"container {status.name} ended with exit code {ended.exit_code}"
        if ended.exit_code == TERMINATED:
            return EndCause(word="Interrupted", text=f"{text}: it was asked to stop{_where(pod)}", interrupted=True)
        if ended.exit_code == _KILLED and pod.metadata.deletion_timestamp is not None:
            return EndCause(
                word="Interrupted", text=f"{text}: pod {pod.metadata.name} was deleted{_where(pod)}", interrupted=True
            )
        if ended.reason in _FORGOTTEN:
            return EndCause(word="Interrupted", text=f"{text}: its node forgot it{_where(pod)}", interrupted=True)
        return EndCause(word=ended.reason or "Error", text=text)
    return None


def _memory_limit(pod: Pod, name: str) -> str:
    """The limit that the pod was created with; the settings of today may have another."""
    found = (each for each in (*pod.spec.init_containers, *pod.spec.containers) if each.name == name)
    limit = next((each.resources.limits.get("memory") for each in found), None)
    return f" of {limit}" if limit else ""


def _with_size_hint(text: str) -> str:
    """Add the next step to what the kubelet says of a pod that wrote more than it may; it names volume and limit."""
    volume = _VOLUME_LIMIT.search(text)
    container = _DISK_LIMIT.search(text)
    if volume is not None and volume[1] in POD_VOLUMES:
        field = f"volumeSizes.{volume[1]}"
    elif volume is not None:
        field = f"sizeLimit of the volume {volume[1]}"
    elif container is not None:
        whose = f"stageResources.{container[1]}" if container[1] else "stageResources"
        field = f"limits.ephemeral-storage in {whose}"
    else:
        return text
    return f"{text.rstrip('. ')}. Raise {field} in the file of MAGOS_JOB_POD_CONFIG, or let the module write less"


def _where(pod: Pod) -> str:
    return f" (node {pod.spec.node_name})" if pod.spec.node_name else ""


def _unscheduled(pod: Pod) -> tuple[Reason, str] | None:
    condition = next((c for c in pod.status.conditions if c.type == "PodScheduled" and c.status == "False"), None)
    if condition is None:
        return None
    about_volume = any(word in condition.message.lower() for word in _VOLUME_WORDS)
    reason = Reason.VOLUME_UNAVAILABLE if about_volume else Reason.POD_UNSCHEDULABLE
    return reason, f"{condition.reason}: {condition.message}"


def _waiting(pod: Pod) -> tuple[Reason, str] | None:
    for status in _statuses(pod):
        waiting = status.state.waiting
        if waiting is None:
            continue
        text = f"container {status.name}: {waiting.reason}: {waiting.message}"
        if waiting.reason in _IMAGE:
            return Reason.IMAGE_PULL_FAILED, text
        if waiting.reason in _CONFIG:
            return Reason.POD_CONFIG_ERROR, text
    return None


def _from_events(warnings: tuple[JobWarning, ...]) -> tuple[Reason, str] | None:
    for warning in reversed(warnings):
        text = f"{warning.reason}: {warning.note}"
        if warning.reason in _VOLUME_EVENTS:
            missing = "not found" in warning.note and any(w in warning.note.lower() for w in ("secret", "configmap"))
            return (Reason.POD_CONFIG_ERROR if missing else Reason.VOLUME_UNAVAILABLE), text
        if warning.reason == "FailedScheduling":
            return Reason.POD_UNSCHEDULABLE, text
    return None


def _without_pod(warnings: tuple[JobWarning, ...], service_account: str) -> tuple[Reason, str] | None:
    """The Job controller could not create the pod."""
    for warning in reversed(warnings):
        if warning.reason != "FailedCreate":
            continue
        note = warning.note
        if "serviceaccount" in note.lower() and "not found" in note.lower():
            return Reason.SERVICE_ACCOUNT_NOT_FOUND, f"ServiceAccount {service_account}: {note}"
        if about_quota(note):
            return Reason.QUOTA_EXCEEDED, note
        return Reason.JOB_START_FAILED, note
    return None


def _no_pod(job: Job) -> str:
    return f"No pod was created for Job {job.metadata.name}."


def _statuses(pod: Pod) -> Iterable[ContainerStatus]:
    return (*pod.status.init_container_statuses, *pod.status.container_statuses)


def _hinted(reason: Reason, text: str) -> StartProblem:
    return StartProblem(reason=reason, message=f"{text.rstrip('.')}. {_HINTS[reason]}")
