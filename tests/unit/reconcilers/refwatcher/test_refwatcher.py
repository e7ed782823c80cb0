"""What a poll means for a Workspace, and what is polled for it (spec §6.7, §5.1)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from magos.api.annotations import DETECTED_REVISION, DETECTED_SOURCE, GIT_POLL_INTERVAL
from magos.api.meta import Condition, ObjectMeta
from magos.api.names import source_key
from magos.api.status import NameReference
from magos.api.workspace import Source as GitSource
from magos.api.workspace import Terraform, Workspace, WorkspaceSpec, WorkspaceStatus
from magos.reconcilers.refwatcher.machine import (
    Failure,
    Observation,
    PollAnswer,
    PollResult,
    compare,
    reconcile,
    told_reason,
)
from magos.reconcilers.refwatcher.watch import poll_interval
from magos.runtime.decision import Decision, PatchAnnotations

NOW = datetime(2026, 1, 1, tzinfo=UTC)
A, B = "a" * 40, "b" * 40
URL = "https://git.example.com/r.git"
KEY = source_key(URL, "main")
SHAS = st.sampled_from([A, B])
THEIRS = Condition(
    type="Ready", status="True", reason="Applied", message="", last_transition_time="2026-01-01T00:00:00Z"
)
FAILURE = Failure("GitFailed", "connection refused")


def workspace(annotations: dict[str, str] | None = None, target: str = "main", **status: Any) -> Workspace:
    return Workspace(
        metadata=ObjectMeta(name="a", namespace="n", uid="1", resource_version="7", annotations=annotations or {}),
        spec=WorkspaceSpec(
            project_ref=NameReference(name="p"),
            source=GitSource(repo_url=URL, target_revision=target),
            terraform=Terraform(version="1.9.8"),
        ),
        status=WorkspaceStatus(**status),
    )


def decide(subject: Workspace, answer: PollAnswer | None, *, polled: bool = True) -> Decision:
    return reconcile(Observation(now=NOW, workspace=subject, polled=polled, answer=answer))


def announced(decision: Decision) -> str | None:
    """Return the commit that is written; nothing but the two annotations ever is."""
    if not decision.effects:
        return None
    [patch] = decision.effects
    assert isinstance(patch, PatchAnnotations)
    assert set(patch.annotations) == {DETECTED_REVISION, DETECTED_SOURCE}
    assert patch.annotations[DETECTED_SOURCE] == KEY
    assert (patch.uid, patch.resource_version) == ("1", "7")
    return patch.annotations[DETECTED_REVISION]


@pytest.mark.parametrize(
    ("subject", "result"),
    [
        (workspace(), PollResult.SEEDED),
        (workspace({DETECTED_REVISION: A, DETECTED_SOURCE: KEY}), PollResult.UNCHANGED),
        (workspace({DETECTED_REVISION: A}), PollResult.UNCHANGED),
        (workspace({DETECTED_REVISION: B, DETECTED_SOURCE: KEY}), PollResult.CHANGED),
        (workspace({DETECTED_REVISION: A, DETECTED_SOURCE: "0" * 16}), PollResult.SEEDED),
        (workspace({DETECTED_REVISION: "main"}), PollResult.SEEDED),
        (workspace(observed_revision=A, observed_source=KEY), PollResult.UNCHANGED),
        (workspace(observed_revision=B, observed_source=KEY), PollResult.CHANGED),
        (workspace(observed_revision=A, observed_source="0" * 16), PollResult.SEEDED),
        (workspace({DETECTED_REVISION: B}, observed_revision=A, observed_source=KEY), PollResult.CHANGED),
    ],
)
def test_a_valid_announcement_is_known_otherwise_the_applied_commit_of_this_source(
    subject: Workspace, result: PollResult
) -> None:
    answer = PollAnswer(sha=A)
    assert compare(subject, answer) is result
    decision = decide(subject, answer)
    wanted = result in (PollResult.CHANGED, PollResult.SEEDED)
    assert announced(decision) == (A if wanted else None)
    assert [event.reason for event in decision.events] == (["RevisionDetected"] if wanted else [])


@given(known=SHAS, found=SHAS)
def test_after_the_write_there_is_nothing_left_to_write(known: str, found: str) -> None:
    subject = workspace({DETECTED_REVISION: known, DETECTED_SOURCE: KEY})
    decision = decide(subject, PollAnswer(sha=found))
    assert (announced(decision) is None) == (known == found)
    for effect in decision.effects:
        assert isinstance(effect, PatchAnnotations)
        after = replace(subject, metadata=replace(subject.metadata, annotations=dict(effect.annotations)))
        assert decide(after, PollAnswer(sha=found)) == Decision()


def test_without_news_nothing_is_decided() -> None:
    assert decide(workspace(conditions=(THEIRS,)), None) == Decision()


@pytest.mark.parametrize("errors", [1, 2])
def test_two_errors_are_not_worth_a_condition(errors: int) -> None:
    assert decide(workspace(), PollAnswer(failure=FAILURE, errors=errors)) == Decision()


def unreachable(subject: Workspace, errors: int = 3, failure: Failure = FAILURE) -> tuple[Condition, ...] | None:
    decision = decide(subject, PollAnswer(failure=failure, errors=errors))
    assert not decision.effects
    if decision.status is None:
        return None
    assert replace(decision.status.desired, conditions=()) == replace(subject.status, conditions=())
    conditions: tuple[Condition, ...] = decision.status.desired.conditions
    return conditions


@given(st.integers(3, 1000))
def test_from_the_third_on_it_says_why_beside_the_conditions_of_others(errors: int) -> None:
    conditions = unreachable(workspace(conditions=(THEIRS,)), errors)
    assert conditions is not None
    assert conditions[0] == THEIRS
    assert (conditions[1].type, conditions[1].status) == ("SourceUnreachable", "True")
    assert (conditions[1].reason, conditions[1].message) == ("GitFailed", "connection refused")
    again = workspace(conditions=conditions)
    assert decide(again, PollAnswer(failure=FAILURE, errors=errors + 1)) == Decision()


@pytest.mark.parametrize(("reason", "asked"), [("GitAuthenticationFailed", True), ("RevisionNotFound", False)])
def test_where_credentials_matter_the_secret_of_another_spelling_is_asked_about(reason: str, asked: bool) -> None:
    answer = PollAnswer(failure=Failure(reason, "refused"), errors=3)
    decision = reconcile(Observation(now=NOW, workspace=workspace(), answer=answer, similar=("creds",)))
    assert decision.status is not None
    [condition] = decision.status.desired.conditions
    assert condition.message.startswith("refused")
    assert ("did you mean Secret creds?" in condition.message) is asked


def test_a_new_cause_is_told_without_a_transition_and_without_another_event() -> None:
    conditions = unreachable(workspace())
    assert conditions is not None
    subject = workspace(conditions=conditions)
    other = PollAnswer(failure=Failure("RevisionNotFound", "no main"), errors=4)
    decision = decide(subject, other)
    assert decision.status is not None
    [condition] = decision.status.desired.conditions
    assert condition.reason == "RevisionNotFound"
    assert condition.last_transition_time == conditions[0].last_transition_time
    assert decision.events == ()


def test_a_reason_that_was_told_lately_is_not_told_again_whatever_was_told_since() -> None:
    conditions = unreachable(workspace())
    assert conditions is not None
    subject = workspace(conditions=conditions)
    other = PollAnswer(failure=replace(FAILURE, message="another address refused"), errors=4)
    seen = Observation(now=NOW, workspace=subject, answer=other)
    assert reconcile(seen).status is not None
    assert reconcile(replace(seen, told=frozenset({FAILURE.reason}))) == Decision()
    assert reconcile(replace(seen, told=frozenset({"RevisionNotFound"}))).status is not None
    gone = replace(seen, workspace=workspace(), told=frozenset({FAILURE.reason}))
    assert reconcile(gone).status is not None, "what is not there has to be told"


def test_only_what_the_workspace_tells_exactly_counts_as_told() -> None:
    conditions = unreachable(workspace())
    assert conditions is not None
    seen = Observation(now=NOW, workspace=workspace(conditions=conditions), answer=PollAnswer(failure=FAILURE))
    assert told_reason(seen) == FAILURE.reason
    other = PollAnswer(failure=replace(FAILURE, message="another address refused"))
    assert told_reason(replace(seen, answer=other)) == ""
    assert told_reason(replace(seen, workspace=workspace())) == ""
    assert told_reason(replace(seen, answer=PollAnswer(sha=A))) == ""


shas = st.sampled_from([A, B, "a" * 64, A.upper(), ""])
anything = st.builds(
    Condition,
    type=st.sampled_from(["SourceUnreachable", "Ready"]),
    status=st.sampled_from(["True", "False", "Unknown"]),
    reason=st.sampled_from([FAILURE.reason, "X"]),
    message=st.sampled_from([FAILURE.message, "y"]),
    last_transition_time=st.just("2026-01-01T00:00:00Z"),
    observed_generation=st.sampled_from([None, 0, 1]),
)
failures = st.builds(
    Failure, st.sampled_from([FAILURE.reason, "X"]), st.sampled_from([FAILURE.message, "y", "z" * 2000])
)
answers = (
    st.none() | st.builds(PollAnswer, sha=shas) | st.builds(PollAnswer, failure=failures, errors=st.integers(1, 5))
)


@given(
    annotations=st.fixed_dictionaries(
        {}, optional={DETECTED_REVISION: shas, DETECTED_SOURCE: st.sampled_from([KEY, "0" * 16, ""])}
    ),
    conditions=st.lists(anything, max_size=2, unique_by=lambda each: each.type).map(tuple),
    answer=answers,
    polled=st.booleans(),
    target=st.sampled_from(["main", A]),
)
def test_what_is_written_differs_from_what_stands_there_and_is_written_once(
    annotations: dict[str, str],
    conditions: tuple[Condition, ...],
    answer: PollAnswer | None,
    polled: bool,
    target: str,
) -> None:
    subject = workspace(annotations, target, conditions=conditions, observed_revision=A, observed_source=KEY)
    decision = decide(subject, answer, polled=polled)
    after = subject
    if decision.status is not None:
        assert list(map(said, decision.status.desired.conditions)) != list(map(said, conditions))
        after = replace(after, status=decision.status.desired)
    for effect in decision.effects:
        assert isinstance(effect, PatchAnnotations)
        written = {key: value for key, value in effect.annotations.items() if value is not None}
        assert {**annotations, **written} != annotations
        after = replace(after, metadata=replace(after.metadata, annotations={**annotations, **written}))
    assert decide(after, answer, polled=polled) == Decision()


def said(condition: Condition) -> tuple[str, ...]:
    return condition.type, condition.status, condition.reason, condition.message


def test_the_event_comes_with_the_condition() -> None:
    decision = decide(workspace(), PollAnswer(failure=FAILURE, errors=3))
    assert [(event.type, event.reason) for event in decision.events] == [("Warning", "SourceUnreachable")]


@pytest.mark.parametrize(("answer", "polled"), [(PollAnswer(sha=A), True), (None, False), (PollAnswer(sha=B), False)])
def test_a_success_and_the_end_of_polling_remove_the_condition_alone(answer: PollAnswer | None, polled: bool) -> None:
    conditions = unreachable(workspace(conditions=(THEIRS,)))
    assert conditions is not None
    decision = decide(workspace({DETECTED_REVISION: A}, conditions=conditions), answer, polled=polled)
    assert decision.status is not None
    assert decision.status.desired.conditions == (THEIRS,)
    assert not decision.effects


def test_after_a_restart_the_condition_stays_until_there_is_an_answer() -> None:
    conditions = unreachable(workspace())
    assert conditions is not None
    subject = workspace(conditions=conditions)
    assert decide(subject, None) == Decision()
    assert decide(subject, PollAnswer(failure=FAILURE, errors=1)) == Decision()


DEFAULT = timedelta(seconds=30)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, 30), ("1h30m", 5400), ("1.5h", 5400), ("90s", 90), ("5s", 5), ("4.9s", 5), ("1ms", 5),
        ("0s", 30), ("-1m", 30), ("5", 30), ("1d", 30), ("", 30), ("abc", 30),
    ],
)  # fmt: skip
def test_the_interval_annotation_is_read_like_any_duration_and_has_a_floor(text: str | None, seconds: float) -> None:
    values = {} if text is None else {GIT_POLL_INTERVAL: text}
    assert poll_interval(values, DEFAULT) == timedelta(seconds=seconds)


@given(st.text(max_size=20))
def test_no_annotation_gives_an_interval_below_the_floor(text: str) -> None:
    assert poll_interval({GIT_POLL_INTERVAL: text}, DEFAULT) >= timedelta(seconds=5)
