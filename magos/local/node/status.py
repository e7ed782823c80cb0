"""The status of a pod as a kubelet reports it, computed from what its containers are doing. Pure."""

from collections.abc import Mapping

from msgspec import Struct

from magos.api.kube import (
    Container,
    ContainerState,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    PodCondition,
    PodManifest,
    PodStatus,
)

__all__ = ["Progress", "pod_status"]

_OURS = frozenset({"PodScheduled", "Initialized", "ContainersReady", "Ready"})
_INITIALIZING = ContainerState(waiting=ContainerStateWaiting(reason="PodInitializing"))


class Progress(Struct, frozen=True, kw_only=True):
    """How far a pod came. ``states`` holds the containers that were started or have something to say.

    ``ended`` is set once nothing runs or will run; ``reason`` and ``message`` then say why, where it was not simply the
    containers' end. ``noted`` are conditions that others wrote, an eviction's for one: they stay.
    """

    started_at: str
    states: Mapping[str, ContainerState]
    ended: bool = False
    reason: str = ""
    message: str = ""
    noted: tuple[PodCondition, ...] = ()


def pod_status(pod: PodManifest, progress: Progress) -> PodStatus:
    """Return the whole status. Phase, conditions and container states always agree."""
    init = tuple(_container(entry, progress) for entry in pod.spec.init_containers)
    main = tuple(_container(entry, progress) for entry in pod.spec.containers)
    initialized = all(_succeeded(status.state) for status in init)
    running = bool(main) and all(status.state.running is not None for status in main)
    phase = _phase(progress, (*init, *main), main)
    return PodStatus(
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


def _container(container: Container, progress: Progress) -> ContainerStatus:
    state = progress.states.get(container.name, _INITIALIZING)
    return ContainerStatus(
        name=container.name,
        state=state,
        ready=state.running is not None or _succeeded(state),
        started=state.running is not None,
        image=container.image,
    )


def _phase(progress: Progress, everything: tuple[ContainerStatus, ...], main: tuple[ContainerStatus, ...]) -> str:
    if progress.ended:
        well = not progress.reason and all(_succeeded(status.state) for status in everything)
        return "Succeeded" if well else "Failed"
    begun = any(status.state.running or status.state.terminated for status in main)
    return "Running" if begun else "Pending"


def _succeeded(state: ContainerState) -> bool:
    ended: ContainerStateTerminated | None = state.terminated
    return ended is not None and ended.exit_code == 0


def _condition(name: str, *, holds: bool, at: str) -> PodCondition:
    return PodCondition(type=name, status="True" if holds else "False", last_transition_time=at)
