"""Every state of a Workspace has a sentence, and every state that asks for a person says what to do."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magos.api.annotations import RECONCILE_REQUEST
from magos.api.conditions import ConditionType
from magos.api.phases import Phase
from magos.api.project import Project
from magos.api.reasons import WORKSPACE_REASONS, Reason
from magos.api.rollout import Rollout
from magos.api.workspace import (
    Approval,
    ApprovalKind,
    AwaitingApproval,
    CurrentRun,
    GateReason,
    PlanSummary,
    PolicyViolation,
    Workspace,
)
from magos.explain import Account, Attention, explain
from tests.unit.explain.objects import COMMIT, NOW, RUN, condition, project, rollout, with_meta, workspace

NAMED = "Workspace team-a/prod "
PAIRS = [(phase, reason) for phase, reasons in WORKSPACE_REASONS.items() for reason in sorted(reasons, key=str)]
GATE = AwaitingApproval(run_id=RUN, reason=GateReason.MANUAL_APPROVAL, since="2026-05-01T11:59:30Z", revision=COMMIT)
HELD = {
    Reason.NAMESPACE_NOT_ALLOWED,
    Reason.SERVICE_ACCOUNT_NOT_ALLOWED,
    Reason.SERVICE_ACCOUNT_NOT_FOUND,
    Reason.VOLUME_CONFLICT,
}


def _expected(phase: Phase, reason: Reason) -> Attention:
    if phase in (Phase.FAILED, Phase.VALIDATION_FAILED):
        return Attention.BROKEN
    if phase in (Phase.PLANNED, Phase.PLANNED_WITH_VIOLATIONS) and reason in HELD:
        return Attention.BROKEN
    if phase is Phase.APPLIED:
        return Attention.SETTLED
    started = phase in (Phase.PLANNING, Phase.APPLYING)
    return Attention.RUNNING if started or (phase in _ABOUT and reason in _ABOUT[phase]) else Attention.WAITING


_ABOUT = {
    Phase.PLANNED: {Reason.PLAN_SUCCEEDED},
    Phase.PLANNED_WITH_VIOLATIONS: {Reason.AUDIT_POLICY_VIOLATION},
}


def _is_sound(account: Account) -> None:
    """Check what holds of every account."""
    assert account.sentence.startswith(NAMED)
    assert account.sentence.endswith(".")
    assert not any(mark in text for text in _texts(account) for mark in ("\n", "`", "](", "None"))
    if account.attention in (Attention.NEEDS_YOU, Attention.BROKEN):
        assert account.next_steps
    if account.command:
        assert account.next_steps
        assert account.command.startswith(("magos ", "kubectl "))


def _texts(account: Account) -> tuple[str, ...]:
    return (account.sentence, account.holder, account.command, *account.next_steps)


@pytest.mark.parametrize(("phase", "reason"), PAIRS, ids=str)
def test_every_pair_of_phase_and_reason_has_a_sentence_with_a_subject_and_a_way_out(
    phase: Phase, reason: Reason
) -> None:
    account = explain(workspace(phase, reason, "The cause is told."), project(), None, NOW)
    _is_sound(account)
    assert account.attention is _expected(phase, reason)
    if account.attention is Attention.BROKEN:
        assert "The cause is told." in account.sentence
        assert reason in account.sentence or phase in _ABOUT


@pytest.mark.parametrize(("phase", "reason"), PAIRS, ids=str)
def test_a_status_without_a_message_or_a_run_is_explained_too(phase: Phase, reason: Reason) -> None:
    bare = workspace(phase, reason, current_run=None, last_reconcile_time=None, last_run_started_at=None)
    _is_sound(explain(bare, None, None, NOW))


@given(
    phase=st.none() | st.sampled_from(Phase),
    reason=st.sampled_from([*map(str, Reason), "", "Unheard-of"]),
    message=st.text(),
    around=st.sampled_from([(None, None), (project(), None), (None, rollout(1, "dev", "prod")), (None, rollout(9))]),
    gate=st.none() | st.just(GATE),
    times=st.sampled_from(["2026-05-01T13:00:00Z", "soon", ""]),
)
def test_no_status_whatever_it_says_leads_to_an_error(
    phase: Phase | None,
    reason: str,
    message: str,
    around: tuple[Project | None, Rollout | None],
    gate: AwaitingApproval | None,
    times: str,
) -> None:
    odd = workspace(
        phase,
        reason,
        message,
        awaiting_approval=gate,
        next_reconcile_time=times,
        last_reconcile_time=times,
        current_run=CurrentRun(not_before=times),
        conditions=(condition(ConditionType.API_TROUBLE, message),),
    )
    account = explain(odd, *around, NOW)
    assert account.sentence.startswith(NAMED)
    assert not any("\n" in text for text in _texts(account))


def test_a_gate_names_the_run_the_counts_and_the_command() -> None:
    counted = PlanSummary(add=3, change=2, destroy=1, no_changes=False)
    gated = workspace(Phase.PLANNED, Reason.PLAN_SUCCEEDED, awaiting_approval=GATE, plan_summary=counted)
    assert explain(gated, project(), None, NOW) == Account(
        attention=Attention.NEEDS_YOU,
        sentence=f"Workspace team-a/prod waits for a person to approve run {RUN}: its plan of commit c0ffee0 destroys"
        " 1, changes 2 and adds 3.",
        holder="a person who may approve",
        since=datetime(2026, 5, 1, 11, 59, 30, tzinfo=UTC),
        next_steps=(
            "read the plan, then approve exactly this run",
            "or discard the plan: a reconcile request begins a new run",
        ),
        command=f"magos approve team-a/prod --run {RUN}",
    )


def test_a_gate_for_violations_asks_for_the_acknowledgement() -> None:
    gate = AwaitingApproval(run_id=RUN, reason=GateReason.AUDIT_VIOLATIONS, since="2026-05-01T11:59:30Z")
    found = (PolicyViolation(policy="no-public-bucket", message="bucket b is public"),)
    gated = workspace(
        Phase.PLANNED_WITH_VIOLATIONS, Reason.AUDIT_POLICY_VIOLATION, awaiting_approval=gate, policy_violations=found
    )
    account = explain(gated, project(), None, NOW)
    assert "violates 1 policy." in account.sentence
    assert account.command == f"magos approve team-a/prod --run {RUN} --acknowledge-warnings"


def test_a_run_id_that_is_shell_code_stays_one_word_of_the_command() -> None:
    gate = AwaitingApproval(run_id="x; rm -rf ~", reason=GateReason.MANUAL_APPROVAL, since="2026-05-01T11:59:30Z")
    account = explain(workspace(Phase.PLANNED, Reason.PLAN_SUCCEEDED, awaiting_approval=gate), None, None, NOW)
    assert account.command == "magos approve team-a/prod --run 'x; rm -rf ~'"


AWAITING = workspace(Phase.PENDING, Reason.AWAITING_ROLLOUT)
HALTED = "Step dev: dev Failed/PlanFailed. Fix the cause and commit it. Until then prod waits."
PROGRESS = "Step prod of 2: running eu; prod waits: revision abc not yet applied by dev (nothing applied)."


@pytest.mark.parametrize(
    ("rollout_", "attention", "words", "holder"),
    [
        (
            rollout(0, "dev", "prod", message="Step dev of 2: running dev."),
            Attention.WAITING,
            "Rollout shop: its step prod comes after the active step dev (1 of 2); Step dev of 2: running dev.",
            "Rollout shop, step dev",
        ),
        (
            rollout(1, "dev", "prod", message=PROGRESS),
            Attention.WAITING,
            "its step prod (2 of 2) is active; prod waits: revision abc not yet applied by dev (nothing applied).",
            "Rollout shop, step prod",
        ),
        (
            rollout(0, "dev", "prod", phase=Phase.FAILED, reason="StepFailed", message=HALTED),
            Attention.WAITING,
            "dev Failed/PlanFailed",
            "Rollout shop, step dev",
        ),
        (
            rollout(1, "prod", "late"),
            Attention.WAITING,
            "its step prod comes before the active step late",
            "Rollout shop, step late",
        ),
        (rollout(None, "dev", "prod"), Attention.WAITING, "has not said yet which step", "Rollout shop"),
        (rollout(0), Attention.BROKEN, "it has no steps and grants nothing", "Rollout shop"),
        (rollout(0, "dev"), Attention.BROKEN, "no step of it selects team-a/prod", "Rollout shop"),
        (
            rollout(0, "dev", "prod", phase=Phase.FAILED, reason="NoWorkspacesFound", message="Steps dev select none."),
            Attention.BROKEN,
            "Steps dev select none",
            "Rollout shop",
        ),
    ],
)
def test_who_waits_for_a_rollout_learns_which_step_holds_it(
    rollout_: Rollout, attention: Attention, words: str, holder: str
) -> None:
    account = explain(AWAITING, project(Reason.MANAGED_BY_ROLLOUT), rollout_, NOW)
    _is_sound(account)
    assert account.attention is attention
    assert words in account.sentence
    assert account.holder == holder


def test_who_waits_for_a_project_learns_whether_it_is_there() -> None:
    missing = explain(AWAITING, None, None, NOW)
    assert missing.attention is Attention.BROKEN
    assert "its Project shop does not exist" in missing.sentence
    left = explain(AWAITING, project(Reason.MANAGED_BY_ROLLOUT), None, NOW)
    assert left.attention is Attention.BROKEN
    assert "waits with run" in left.sentence
    assert "Rollout shop, which is not there any more" in left.sentence
    there = explain(AWAITING, project(), None, NOW)
    assert (there.attention, there.holder) == (Attention.WAITING, "Project shop")
    planned = explain(workspace(Phase.PLANNED, Reason.AWAITING_ROLLOUT), project(), None, NOW)
    assert f"waits with the apply of run {RUN}" in planned.sentence


def test_a_repetition_says_when_it_begins() -> None:
    run = CurrentRun(not_before="2026-05-01T12:00:45Z", interruptions=1)
    account = explain(workspace(Phase.PENDING, Reason.INTERRUPTED, current_run=run), project(), None, NOW)
    assert (
        f"repeats an interrupted plan as run {RUN}, which begins at 2026-05-01T12:00:45Z (in 45s)." in account.sentence
    )
    assert account.command == "magos reconcile team-a/prod"


def test_what_runs_says_since_when_and_in_which_job() -> None:
    planning = explain(workspace(Phase.PLANNING, Reason.PLANNING), project(), None, NOW)
    assert planning.sentence == f"Workspace team-a/prod plans commit c0ffee0 in run {RUN}."
    assert (planning.holder, planning.since) == ("Job prod-plan-1", datetime(2026, 5, 1, 11, 57, tzinfo=UTC))
    approval = Approval(kind=ApprovalKind.APPROVED, at="2026-05-01T11:59:00Z")
    run = CurrentRun(apply_job="prod-apply-1", approval=approval)
    applying = explain(workspace(Phase.APPLYING, Reason.APPLYING, current_run=run), project(), None, NOW)
    assert (applying.holder, applying.since) == ("Job prod-apply-1", datetime(2026, 5, 1, 11, 59, tzinfo=UTC))


def test_what_is_applied_says_when_it_is_looked_at_again() -> None:
    done = workspace(
        Phase.APPLIED, Reason.NO_CHANGES, observed_revision=COMMIT, next_reconcile_time="2026-05-01T12:03:00Z"
    )
    account = explain(done, project(), None, NOW)
    assert account.sentence == (
        "Workspace team-a/prod needs no changes for commit c0ffee0; the next check for drift is due at"
        " 2026-05-01T12:03:00Z (in 3m0s)."
    )
    past = workspace(Phase.APPLIED, Reason.APPLY_SUCCEEDED, next_reconcile_time="2026-05-01T11:00:00Z")
    assert "the next check" not in explain(past, project(), None, NOW).sentence


@pytest.mark.parametrize(
    ("reason", "command"),
    [
        (Reason.PLAN_FAILED, "magos logs team-a/prod --phase plan"),
        (Reason.APPLY_FAILED, "magos logs team-a/prod --phase apply"),
        (
            Reason.SERVICE_ACCOUNT_NOT_ALLOWED,
            "kubectl label serviceaccount magos-job --namespace=team-a magosproject.io/runner=true",
        ),
        (Reason.RESULT_MISSING, "magos reconcile team-a/prod"),
        (Reason.GIT_FAILED, ""),
    ],
)
def test_a_failure_has_the_fix_of_the_reference_and_its_command(reason: Reason, command: str) -> None:
    account = explain(workspace(Phase.FAILED, reason, "It broke."), project(), None, NOW)
    assert account.sentence == f"Workspace team-a/prod has failed ({reason}): It broke."
    assert account.command == command


def test_a_new_workspace_is_broken_once_nobody_has_looked_at_it_for_a_minute() -> None:
    late = explain(workspace(None), project(), None, NOW)
    assert (late.attention, late.next_steps) == (
        Attention.BROKEN,
        ("check whether the workspace controller runs",),
    )
    fresh = explain(with_meta(workspace(None), creation_timestamp="2026-05-01T11:59:30Z"), project(), None, NOW)
    assert (fresh.attention, fresh.next_steps) == (Attention.WAITING, ())


def test_what_the_controller_has_not_taken_up_yet_is_told_before_the_state() -> None:
    edited = with_meta(workspace(Phase.APPLIED, Reason.APPLY_SUCCEEDED), generation=3)
    assert "has been edited" in explain(edited, project(), None, NOW).sentence
    running = with_meta(workspace(Phase.PLANNING, Reason.PLANNING), generation=3)
    assert explain(running, project(), None, NOW).attention is Attention.RUNNING
    asked = with_meta(workspace(Phase.FAILED, Reason.PLAN_FAILED), annotations={RECONCILE_REQUEST: "now"})
    assert "reconcile request that has not been taken up" in explain(asked, project(), None, NOW).sentence
    answered = with_meta(
        workspace(Phase.FAILED, Reason.PLAN_FAILED, last_handled_reconcile_request="now"),
        annotations={RECONCILE_REQUEST: "now"},
    )
    assert explain(answered, project(), None, NOW).attention is Attention.BROKEN
    strange = explain(workspace(Phase.READY), project(), None, NOW)
    assert "in phase Ready, in which no Workspace can be" in strange.sentence


def test_a_deletion_is_told_first() -> None:
    leaving = with_meta(workspace(Phase.FAILED, Reason.PLAN_FAILED), deletion_timestamp="2026-05-01T11:59:00Z")
    account = explain(leaving, None, None, NOW)
    assert account.sentence == "Workspace team-a/prod is being deleted."
    told = explain(workspace(Phase.DELETING, Reason.DELETING, "Waiting for the apply."), None, None, NOW)
    assert told.sentence == "Workspace team-a/prod is being deleted: Waiting for the apply."


def _with(phase: Phase, reason: Reason, type_: str, status: str = "True", **fields: Any) -> Workspace:
    return workspace(phase, reason, conditions=(condition(type_, "It says so.", status),), **fields)


@pytest.mark.parametrize(
    ("type_", "worse"),
    [
        (ConditionType.API_TROUBLE, True),
        (ConditionType.SOURCE_UNREACHABLE, True),
        (ConditionType.INVALID_ANNOTATIONS, False),
        (ConditionType.HISTORY_BACKLOG, False),
    ],
)
def test_a_condition_is_told_and_has_its_own_step(type_: ConditionType, worse: bool) -> None:
    settled = explain(_with(Phase.APPLIED, Reason.APPLY_SUCCEEDED, type_), project(), None, NOW)
    _is_sound(settled)
    assert "It says so" in settled.sentence
    assert settled.attention is (Attention.BROKEN if worse else Attention.SETTLED)
    assert settled.next_steps
    failed = explain(_with(Phase.FAILED, Reason.PLAN_FAILED, type_), project(), None, NOW)
    assert failed.sentence.startswith("Workspace team-a/prod has failed")
    assert "Besides, " in failed.sentence
    over = explain(_with(Phase.APPLIED, Reason.APPLY_SUCCEEDED, type_, "False"), project(), None, NOW)
    assert "It says so" not in over.sentence


def test_trouble_does_not_hide_an_approval() -> None:
    gated = _with(Phase.PLANNED, Reason.PLAN_SUCCEEDED, ConditionType.API_TROUBLE, awaiting_approval=GATE)
    account = explain(gated, project(), None, NOW)
    assert account.attention is Attention.NEEDS_YOU
    assert account.command == f"magos approve team-a/prod --run {RUN}"
