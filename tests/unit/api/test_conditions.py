"""Conditions follow from phase and reason, and nobody else's are touched."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magos.api.conditions import (
    KSTATUS,
    LONGEST_MESSAGE,
    MEANINGS,
    Abnormal,
    ConditionType,
    Standing,
    find,
    kstatus,
    shorten,
    standing_conditions,
)
from magos.api.meta import Condition
from magos.api.phases import Phase
from magos.api.reasons import HEALING, Reason
from magos.api.schema.crd import DEFINITIONS
from magos.api.schema.pages import kind_page
from magos.errors import InvariantViolation

_NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
_WRITTEN = [phase for phase in Phase if phase is not Phase.IDLE]
_STANDINGS = st.builds(
    Standing,
    phase=st.sampled_from(_WRITTEN),
    reason=st.sampled_from(Reason),
    message=st.text(max_size=30),
    generation=st.integers(1, 5),
    gated=st.booleans(),
)
_FOREIGN = st.sampled_from(["SourceUnreachable", "example.com/Custom"])
_OTHERS = st.lists(
    st.builds(
        Condition,
        type=_FOREIGN,
        status=st.sampled_from(["True", "False"]),
        reason=st.just("Theirs"),
        message=st.text(max_size=5),
        last_transition_time=st.just("2020-01-01T00:00:00Z"),
        observed_generation=st.integers(0, 3),
    ),
    unique_by=lambda condition: condition.type,
).map(tuple)

READY = [
    (Phase.PENDING, Reason.AWAITING_ROLLOUT, False, "Unknown", "Reconciling"),
    (Phase.PLANNING, Reason.PLANNING, False, "Unknown", "Reconciling"),
    (Phase.PLANNED, Reason.PLAN_SUCCEEDED, False, "Unknown", "Reconciling"),
    (Phase.PLANNED, Reason.PLAN_SUCCEEDED, True, "Unknown", None),
    (Phase.PLANNED_WITH_VIOLATIONS, Reason.AUDIT_POLICY_VIOLATION, True, "Unknown", None),
    (Phase.APPLYING, Reason.APPLYING, False, "Unknown", "Reconciling"),
    (Phase.APPLIED, Reason.APPLY_SUCCEEDED, False, "True", None),
    (Phase.APPLIED, Reason.NO_CHANGES, False, "True", None),
    (Phase.FAILED, Reason.PLAN_FAILED, False, "False", "Stalled"),
    (Phase.FAILED, Reason.UNRESOLVED_VARIABLES, False, "False", None),
    (Phase.VALIDATION_FAILED, Reason.POLICY_VIOLATION, False, "False", "Stalled"),
    (Phase.DELETING, Reason.DELETING, False, "False", "Reconciling"),
    (Phase.READY, Reason.DEFAULT_PARALLEL, False, "True", None),
    (Phase.READY, Reason.MANAGED_BY_ROLLOUT, False, "True", None),
    (Phase.READY, Reason.NO_STEPS, False, "True", None),
    (Phase.READY, Reason.ALL_REFERENCES_RESOLVED, False, "True", None),
    (Phase.RECONCILING, Reason.LEVEL_PROGRESSING, False, "Unknown", "Reconciling"),
    (Phase.APPLIED, Reason.ROLLOUT_COMPLETED, False, "True", None),
    (Phase.FAILED, Reason.RECONCILE_ERROR, False, "False", "Stalled"),
    (Phase.FAILED, Reason.STEP_FAILED, False, "False", "Stalled"),
    (Phase.FAILED, Reason.NO_WORKSPACES_FOUND, False, "False", None),
    (Phase.FAILED, Reason.UNRESOLVED_REFERENCES, False, "False", None),
]


@pytest.mark.parametrize(("phase", "reason", "gated", "ready", "companion"), READY)
def test_kstatus_of_every_state(phase: Phase, reason: Reason, gated: bool, ready: str, companion: str | None) -> None:
    assert kstatus(phase, reason, gated=gated) == (ready, companion)


def test_the_reserved_phase_is_never_written() -> None:
    with pytest.raises(InvariantViolation):
        kstatus(Phase.IDLE, Reason.DELETING)


@given(standing=_STANDINGS, others=_OTHERS)
def test_ready_is_there_and_mirrors_status(standing: Standing, others: tuple[Condition, ...]) -> None:
    conditions = standing_conditions(standing, others, _NOW)
    ready = find(conditions, "Ready")
    assert ready is not None
    assert (ready.reason, ready.message) == (standing.reason, standing.message)
    assert ready.observed_generation == standing.generation


@given(standing=_STANDINGS, others=_OTHERS)
def test_conditions_of_others_are_kept_as_they_are(standing: Standing, others: tuple[Condition, ...]) -> None:
    conditions = standing_conditions(standing, others, _NOW)
    assert tuple(condition for condition in conditions if condition.type not in KSTATUS) == others


@given(standing=_STANDINGS, others=_OTHERS)
def test_everything_but_ready_is_abnormal_true(standing: Standing, others: tuple[Condition, ...]) -> None:
    conditions = standing_conditions(standing, others, _NOW)
    mine = [condition for condition in conditions if condition.type in KSTATUS - {ConditionType.READY}]
    assert all(condition.status == "True" for condition in mine)
    assert len(mine) <= 1
    stalled = find(conditions, "Stalled")
    assert stalled is None or (standing.phase in (Phase.FAILED, Phase.VALIDATION_FAILED))
    assert stalled is None or standing.reason not in HEALING


@given(standing=_STANDINGS, others=_OTHERS)
def test_a_second_pass_changes_nothing(standing: Standing, others: tuple[Condition, ...]) -> None:
    once = standing_conditions(standing, others, _NOW)
    assert standing_conditions(standing, once, _NOW + timedelta(hours=1)) == once


@given(first=_STANDINGS, second=_STANDINGS, others=_OTHERS)
def test_the_transition_time_moves_only_with_the_status(
    first: Standing, second: Standing, others: tuple[Condition, ...]
) -> None:
    before = standing_conditions(first, others, _NOW)
    after = standing_conditions(second, before, _NOW + timedelta(seconds=61))
    for condition in after:
        old = find(before, condition.type)
        kept = old is not None and old.status == condition.status
        expected = old.last_transition_time if old is not None and kept else "2026-03-04T05:07:08Z"
        assert condition.last_transition_time == expected
    assert len({condition.type for condition in after}) == len(after)


def test_an_owned_condition_that_no_longer_holds_is_removed() -> None:
    standing = Standing(phase=Phase.APPLIED, reason=Reason.NO_CHANGES, message="", generation=1)
    wrong = Abnormal(type=ConditionType.INVALID_ANNOTATIONS, reason="InvalidAnnotation", message="m" * 2000)
    owned = frozenset({ConditionType.INVALID_ANNOTATIONS})
    with_it = standing_conditions(standing, (), _NOW, abnormal=(wrong,), owned=owned)
    held = find(with_it, "InvalidAnnotations")
    assert held is not None
    assert (held.status, len(held.message)) == ("True", LONGEST_MESSAGE)
    without = standing_conditions(standing, with_it, _NOW, owned=owned)
    assert find(without, "InvalidAnnotations") is None
    assert find(standing_conditions(standing, with_it, _NOW), "InvalidAnnotations") == held


@given(message=st.text(max_size=3000))
def test_bound_status_message(message: str) -> None:
    short = shorten(message)
    assert len(short) <= LONGEST_MESSAGE
    assert short == message or (short.endswith("…") and message.startswith(short[:-1]))


def test_every_condition_that_is_written_is_explained_on_the_page_of_its_kind() -> None:
    assert {each for kind in MEANINGS.values() for each in kind} == set(ConditionType) - KSTATUS
    assert {definition.kind.name for definition in DEFINITIONS} == MEANINGS.keys()
    for definition in DEFINITIONS:
        page = kind_page(definition)
        assert [each for each in MEANINGS[definition.kind.name] if f"| `{each}` | " not in page] == []
        assert ConditionType.API_TROUBLE in MEANINGS[definition.kind.name]
