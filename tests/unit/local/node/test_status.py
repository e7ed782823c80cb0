"""The pod runner reports what a kubelet would report."""

from hypothesis import given
from hypothesis import strategies as st

from magos.api.kube import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    PodCondition,
    PodManifest,
    PodSpec,
)
from magos.api.meta import ObjectMeta
from magos.local.node.status import Progress, pod_status

POD = PodManifest(
    metadata=ObjectMeta(namespace="ns", name="pod", uid="u"),
    spec=PodSpec(
        init_containers=(Container(name="first", image="i"), Container(name="second", image="i")),
        containers=(Container(name="main", image="i"),),
    ),
)
AT = "2026-01-01T00:00:00Z"
RUNNING = ContainerState(running=ContainerStateRunning(started_at=AT))


def ended(code: int) -> ContainerState:
    return ContainerState(terminated=ContainerStateTerminated(exit_code=code))


def conditions(progress: Progress) -> dict[str, str]:
    return {condition.type: condition.status for condition in pod_status(POD, progress).conditions}


def test_a_pod_is_pending_while_init_containers_run() -> None:
    progress = Progress(started_at=AT, states={"first": ended(0), "second": RUNNING})
    status = pod_status(POD, progress)
    assert status.phase == "Pending"
    assert conditions(progress)["Initialized"] == "False"
    waiting = status.container_statuses[0].state.waiting
    assert waiting is not None
    assert waiting.reason == "PodInitializing"


def test_a_pod_is_running_and_ready_once_its_containers_run() -> None:
    progress = Progress(started_at=AT, states={"first": ended(0), "second": ended(0), "main": RUNNING})
    assert pod_status(POD, progress).phase == "Running"
    assert conditions(progress) == {
        "PodScheduled": "True",
        "Initialized": "True",
        "ContainersReady": "True",
        "Ready": "True",
    }


def test_only_a_pod_whose_every_container_succeeded_is_succeeded() -> None:
    all_well = {"first": ended(0), "second": ended(0), "main": ended(0)}
    assert pod_status(POD, Progress(started_at=AT, states=all_well, ended=True)).phase == "Succeeded"
    for name in all_well:
        states = all_well | {name: ended(1)}
        assert pod_status(POD, Progress(started_at=AT, states=states, ended=True)).phase == "Failed"


def test_a_pod_that_its_deadline_ended_is_failed_even_if_every_container_succeeded() -> None:
    states = {"first": ended(0), "second": ended(0), "main": ended(0)}
    status = pod_status(POD, Progress(started_at=AT, states=states, ended=True, reason="DeadlineExceeded"))
    assert (status.phase, status.reason) == ("Failed", "DeadlineExceeded")


STATES = st.dictionaries(
    st.sampled_from(["first", "second", "main"]), st.one_of(st.just(RUNNING), st.integers(0, 255).map(ended))
)


@given(states=STATES, over=st.booleans())
def test_phase_and_container_states_never_contradict(states: dict[str, ContainerState], over: bool) -> None:
    status = pod_status(POD, Progress(started_at=AT, states=states, ended=over))
    everything = (*status.init_container_statuses, *status.container_statuses)
    assert [entry.name for entry in everything] == ["first", "second", "main"]
    assert (status.phase in ("Succeeded", "Failed")) == over
    if status.phase == "Succeeded":
        assert all(entry.state.terminated and entry.state.terminated.exit_code == 0 for entry in everything)
    for entry in everything:
        assert not (entry.started and entry.state.running is None)


def test_a_condition_of_another_writer_stays_and_ours_appears_once() -> None:
    evicted = PodCondition(type="DisruptionTarget", status="True", reason="EvictionByEvictionAPI")
    old = PodCondition(type="Ready", status="True")
    progress = Progress(started_at=AT, states={}, noted=(old, evicted))
    found = pod_status(POD, progress).conditions
    assert evicted in found
    assert [each.status for each in found if each.type == "Ready"] == ["False"]
