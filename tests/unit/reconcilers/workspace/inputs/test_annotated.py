"""Annotations as people write them (spec §5.1)."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from magos.api.annotations import GIT_POLL_INTERVAL, RECONCILE_INTERVAL, REQUESTED_BY, TF_LOG_LEVEL
from magos.api.workspace import WORKSPACES
from magos.reconcilers.refwatcher.watch import poll_interval
from magos.reconcilers.workspace.inputs.annotated import principal_of, read_annotations
from tests.unit.reconcilers.cluster import Cluster
from tests.unit.reconcilers.results import reasons


@pytest.mark.parametrize(("text", "seconds"), [("1h30m", 5400), ("1.5h", 5400), ("90s", 90), ("10s", 10)])
def test_a_duration_is_taken_as_written(text: str, seconds: int) -> None:
    read = read_annotations({RECONCILE_INTERVAL: text})
    assert (read.interval, read.problems) == (timedelta(seconds=seconds), ())


@pytest.mark.parametrize(
    ("text", "seconds"), [("0s", 180), ("-1m", 180), ("5", 180), ("1d", 180), ("", 180), ("1s", 10), ("9.9s", 10)]
)
def test_a_wrong_or_too_small_duration_is_replaced_and_named(text: str, seconds: int) -> None:
    read = read_annotations({RECONCILE_INTERVAL: text})
    assert read.interval == timedelta(seconds=seconds)
    [problem] = read.problems
    assert RECONCILE_INTERVAL in problem
    assert repr(text) in problem


LONGEST = timedelta(hours=876_000)


@pytest.mark.parametrize("text", ["876001h", "99999999h", "23999999976h"])
def test_an_interval_beyond_all_calendars_is_bounded_and_does_not_stop_the_controller(text: str) -> None:
    """A next time behind the year 9999 cannot even be computed."""
    model = Cluster()
    model.to_applied()
    model.annotate(reconcile_interval=text, git_poll_interval=text)
    model.settle()
    status = model.workspace.status
    assert status.observed_reconcile_interval == "876000h0m0s"
    message = next(each.message for each in status.conditions if each.type == "InvalidAnnotations")
    assert message.count("is above the maximum; 876000h0m0s is used") == 2
    assert poll_interval({GIT_POLL_INTERVAL: text}, LONGEST) == LONGEST


@pytest.mark.parametrize("stored", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00Z", "x"])
def test_a_stored_tick_at_the_end_of_time_does_not_stop_the_controller(stored: str) -> None:
    model = Cluster()
    model.to_applied()
    found = model.workspace
    status = replace(found.status, next_reconcile_time=stored, observed_reconcile_interval="7m")
    model.put(WORKSPACES, replace(found, status=status))
    model.settle()
    assert model.workspace.status.observed_reconcile_interval == "3m0s"


def test_what_refwatcher_uses_instead_is_left_to_refwatcher() -> None:
    """Its default is a flag of another process: no number that is said here could be relied on."""
    [problem] = read_annotations({GIT_POLL_INTERVAL: "soon"}).problems
    assert (
        problem == f"{GIT_POLL_INTERVAL}: 'soon' is not a duration such as 90s or 1h30m; RefWatcher's default is used"
    )


def test_every_wrong_annotation_is_named() -> None:
    read = read_annotations({RECONCILE_INTERVAL: "x", GIT_POLL_INTERVAL: "1s", TF_LOG_LEVEL: "LOUD"})
    assert [problem.partition(":")[0] for problem in read.problems] == [
        RECONCILE_INTERVAL,
        GIT_POLL_INTERVAL,
        TF_LOG_LEVEL,
    ]
    assert read.log_level == ""


@given(st.dictionaries(st.sampled_from([RECONCILE_INTERVAL, GIT_POLL_INTERVAL, TF_LOG_LEVEL, REQUESTED_BY]), st.text()))
def test_no_text_breaks_the_reader(values: dict[str, str]) -> None:
    read = read_annotations(values)
    assert read.interval >= timedelta(seconds=10)
    principal_of(values, "request")


def test_a_wrong_annotation_is_a_condition_and_one_event_until_it_is_corrected() -> None:
    model = Cluster()
    model.to_applied()
    model.annotate(reconcile_interval="soon")
    model.settle()
    assert [c.type for c in model.workspace.status.conditions] == ["Ready", "InvalidAnnotations"]
    assert reasons(model.events).count("InvalidAnnotation") == 1
    model.settle()
    model.annotate(reconcile_interval=None)
    model.settle()
    assert [c.type for c in model.workspace.status.conditions] == ["Ready"]
    assert reasons(model.events).count("InvalidAnnotation") == 1


def test_a_shorter_interval_acts_at_once_and_starts_no_run_by_itself() -> None:
    model = Cluster()
    model.to_applied()
    run = model.workspace.status.current_run_id
    model.annotate(reconcile_interval="1h")
    model.settle()
    assert model.workspace.status.observed_reconcile_interval == "1h0m0s"
    assert model.workspace.status.current_run_id == run
    model.annotate(reconcile_interval="20s")
    model.settle()
    assert model.workspace.status.observed_reconcile_interval == "20s"
    assert model.workspace.status.current_run_id == run
