"""The status of a pod as a kubelet reports it, computed from the states of its containers. Pure."""

from collections.abc import Mapping

from msgspec import Struct

from magos.api import kube

_OURS = frozenset({"PodScheduled", "Initialized", "ContainersReady", "Ready"})
_INITIALIZING = kube.ContainerState(waiting=kube.ContainerStateWaiting(reason="PodInitializing"))


class Progress(Struct, frozen=True, kw_only=True):
    """How far a pod has come. ``states`` holds the containers that were started or that wait for a reason.

    ``ended`` is set once no container runs or will run. ``reason`` and ``message`` then say why, unless the containers
    simply ended. ``noted`` are conditions that others wrote, for example the eviction API: they stay in the status.
    """

    started_at: str
    states: Mapping[str, kube.ContainerState]
    ended: bool = False
    reason: str = ""
    message: str = ""
    noted: tuple[kube.PodCondition, ...] = ()


def pod_status(pod: kube.PodManifest, progress: Progress) -> kube.PodStatus:
    """Return the whole status; its phase, conditions and container states always agree."""
    init = tuple(_container(entry, progress) for entry in pod.spec.init_containers)
    main = tuple(_container(entry, progress) for entry in pod.spec.containers)
    initialized = all(_succeeded(status.state) for status in init)
    running = bool(main) and all(status.state.running is not None for status in main)
    phase = _phase(progress, (*init, *main), main)
    return kube.PodStatus(
        phase=phase,
        reason=progress.reason,
        message=progress.message,
        conditions=(
            _condition("PodScheduled", holds=True, at=progress.started_at),
            _condition("Initialized", holds=initialized, at=progress.started_at),
            _condition("ContainersReady", holds=running, at=progress.started_at),
            _condition("Ready", holds=running, at=progress.started_at),
            *(each for each in progress.noted if each.type not in _OURS),
        ),
        init_container_statuses=init,
        container_statuses=main,
        start_time=progress.started_at,
        host_ip="127.0.0.1",
    )


def _container(container: kube.Container, progress: Progress) -> kube.ContainerStatus:
    state = progress.states.get(container.name, _INITIALIZING)
    return kube.ContainerStatus(
        name=container.name,
        state=state,
        ready=state.running is not None or _succeeded(state),
        started=state.running is not None,
        image=container.image,
    )


def _phase(
    progress: Progress, everything: tuple[kube.ContainerStatus, ...], main: tuple[kube.ContainerStatus, ...]
) -> str:
    if progress.ended:
        well = not progress.reason and all(_succeeded(status.state) for status in everything)
        return "Succeeded" if well else "Failed"
    begun = any(status.state.running or status.state.terminated for status in main)
    return "Running" if begun else "Pending"


def _succeeded(state: kube.ContainerState) -> bool:
    ended: kube.ContainerStateTerminated | None = state.terminated
    return ended is not None and ended.exit_code == 0


def _condition(name: str, *, holds: bool, at: str) -> kube.PodCondition:
    return kube.PodCondition(type=name, status="True" if holds else "False", last_transition_time=at)
