"""What is written about a run becomes one row, in whatever order and however often it is written."""

import itertools
import random
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from magos.api.names import JobType
from magos.api.result import ViolationAction
from magos.api.triggers import Trigger
from magos.api.workspace import ApprovalKind, PlanSummary, PolicyViolation, RunRecord, RunResult, UsedVariable
from magos.history.model import PhaseRecord, PhaseResult
from magos.history.postgres import PostgresHistory
from magos.history.runs import Run
from magos.history.settings import PostgresSettings
from tests.e2e.history.server import Postgres, ended, phase, run_id, started, workspace

pytestmark = pytest.mark.anyio

WHOLE = RunRecord(
    run_id=run_id(1),
    trigger=Trigger.MANUAL,
    target_revision="main",
    revision="a" * 40,
    spec_hash="f" * 16,
    principal="ada",
    approved_by="grace",
    approval_kind=ApprovalKind.APPROVED,
    variables=(UsedVariable(name="region", source="VariableSet/base", version="abc"),),
    started_at="2026-01-02T00:01:01Z",
    finished_at="2026-01-02T00:02:00Z",
    result=RunResult.APPLIED,
    reason="Applied",
    message="3 resources",
)
PLAN = PhaseRecord(
    run_id=run_id(1),
    phase=JobType.PLAN,
    job="app-plan-1",
    pod="app-plan-1-x",
    started_at=datetime(2026, 1, 2, 0, 1, 2, tzinfo=UTC),
    finished_at=datetime(2026, 1, 2, 0, 1, 30, tzinfo=UTC),
    result=PhaseResult.FAILED,
    exit_code=2,
    reason="PlanFailed",
    plan_digest="sha256:" + "0" * 64,
    terraform_version="1.9.8",
    log_key="run-logs/team/app/x/plan.log.gz",
    log_bytes=5 << 30,
    log_error="cut",
    changes=PlanSummary(add=1, change=2, destroy=3, no_changes=False),
    violations=(PolicyViolation(policy="p", message="m", action=ViolationAction.DENY),),
    policies_evaluated=4,
)
_LATER = {"run_id", "phase", "job"}
_OF_THE_END = {"finished_at", "result", "reason", "message", "exit_code"}


def some_of(whole: Any, dice: random.Random, without: set[str]) -> Any:
    """Return ``whole`` with some of what it knows left out."""
    defaults = type(whole)(**{name: getattr(whole, name) for name in _LATER if hasattr(whole, name)})
    kept = {
        name: getattr(whole if name not in without and dice.random() < 0.7 else defaults, name)
        for name in whole.__struct_fields__
    }
    return type(whole)(**kept)


async def shown(history: PostgresHistory, uid: str) -> Run:
    run = await history.run("team", "app", run_id(1), uid=uid)
    assert run is not None
    return msgspec.structs.replace(run, workspace_uid="")


async def test_every_field_comes_back_as_it_was_written(history: PostgresHistory) -> None:
    await history.record_run(workspace(), WHOLE)
    await history.record_phase(workspace(), PLAN)
    run = await history.run("team", "app", run_id(1))
    assert run is not None
    assert msgspec.to_builtins(run) == {
        "runID": run_id(1),
        "workspaceUID": "uid-1",
        "project": "shop",
        "trigger": "manual",
        "targetRevision": "main",
        "observedRevision": "a" * 40,
        "startedAt": "2026-01-02T00:01:01Z",
        "finishedAt": "2026-01-02T00:02:00Z",
        "result": "Applied",
        "reason": "Applied",
        "message": "3 resources",
        "principal": "ada",
        "approvedBy": "grace",
        "approval": "approved",
        "variables": ({"name": "region", "source": "VariableSet/base", "version": "abc"},),
        "changes": {"add": 1, "change": 2, "destroy": 3, "noChanges": False},
        "violations": ({"policy": "p", "message": "m", "action": "Deny"},),
        "policiesEvaluated": 4,
        "planDigest": "sha256:" + "0" * 64,
        "terraformVersion": "1.9.8",
        "plan": {
            "jobName": "app-plan-1",
            "podName": "app-plan-1-x",
            "startedAt": "2026-01-02T00:01:02Z",
            "finishedAt": "2026-01-02T00:01:30Z",
            "result": "Failed",
            "exitCode": 2,
            "reason": "PlanFailed",
            "logKey": "run-logs/team/app/x/plan.log.gz",
            "logSizeBytes": 5 << 30,
            "logError": "cut",
        },
    }


@pytest.mark.parametrize("seed", range(6))
async def test_any_order_and_any_repetition_of_a_runs_writes_give_the_same_row(
    history: PostgresHistory, seed: int
) -> None:
    dice = random.Random(seed)
    # Before the end a run had another reason, and its revision may have been another one as well.
    before = msgspec.structs.replace(WHOLE, reason="PlanRunning", message="planning", revision="b" * 40)
    writes: list[Any] = [some_of(before, dice, {"finished_at", "result"}) for _ in range(2)]
    # Whoever writes an end knows that it is one.
    ends = [some_of(WHOLE, dice, set()) for _ in range(2)]
    writes += [msgspec.structs.replace(end, result=WHOLE.result) for end in ends]
    phase_before = msgspec.structs.replace(PLAN, reason="Running", exit_code=77, pod="another")
    writes += [some_of(phase_before, dice, {"finished_at", "result"}), some_of(PLAN, dice, set())]
    writes[-1] = msgspec.structs.replace(writes[-1], result=PLAN.result)
    rows = set()
    for attempt in range(40):
        key = workspace(uid=f"uid-{attempt}")
        order = writes + dice.sample(writes, 3)
        dice.shuffle(order)
        for write in order:
            await (history.record_run if isinstance(write, RunRecord) else history.record_phase)(key, write)
        rows.add(msgspec.json.encode(await shown(history, key.uid)))
    assert len(rows) == 1, rows
    run = msgspec.json.decode(rows.pop(), type=Run)
    assert (run.result, run.plan and run.plan.result) == (RunResult.APPLIED, PhaseResult.FAILED)
    assert run.reason in {"", "Applied"}


async def test_every_order_of_a_start_and_two_different_ends_keeps_the_first_end(history: PostgresHistory) -> None:
    first = ended(1, RunResult.FAILED, reason="PlanFailed", message="first")
    second = ended(1, RunResult.APPLIED, reason="Applied", message="second")
    for number, order in enumerate(itertools.permutations([started(1), first, second])):
        key = workspace(uid=f"uid-{number}")
        for record in order:
            await history.record_run(key, record)
        run = await shown(history, key.uid)
        kept = next(record for record in order if record.result is not None)
        assert (run.result, run.reason, run.message) == (kept.result, kept.reason, kept.message)


async def test_a_start_that_comes_late_neither_reopens_a_run_nor_takes_what_is_known(history: PostgresHistory) -> None:
    await history.record_run(workspace(), ended(1, reason="Applied", principal="ada"))
    await history.record_run(workspace(), started(1, reason="PlanRunning", principal="x", target_revision="main"))
    run = await shown(history, "uid-1")
    assert (run.result, run.reason, run.principal, run.target_revision) == (
        RunResult.APPLIED, "Applied", "ada", "main",
    )  # fmt: skip


async def test_a_phase_may_come_before_its_run(history: PostgresHistory) -> None:
    await history.record_phase(workspace(), phase(1))
    assert await history.run("team", "app", run_id(1)) is None
    await history.record_run(workspace(), started(1))
    run = await history.run("team", "app", run_id(1))
    assert run is not None
    assert run.plan is not None
    assert run.plan.job_name == "app-plan-1"
    assert run.apply is None


async def test_texts_and_numbers_that_postgresql_cannot_store_are_replaced(history: PostgresHistory) -> None:
    bad = "a\0b\ud800c\udfff"
    await history.record_run(
        workspace(),
        started(1, message=bad, started_at="yesterday", variables=(UsedVariable(name=bad, source=bad),)),
    )
    changes = PlanSummary(add=10**30, change=0, destroy=0, no_changes=False)
    violations = (PolicyViolation(policy=bad, message=bad),)
    await history.record_phase(
        workspace(), phase(1, log_error=bad, violations=violations, log_bytes=10**30, changes=changes)
    )
    run = await history.run("team", "app", run_id(1))
    assert run is not None
    good = "a\ufffdb\ufffdc\ufffd"
    assert run.message == run.variables[0].name == run.violations[0].message == good
    assert run.plan is not None
    assert run.plan.log_error == good
    assert run.plan.log_size_bytes == 2**63 - 1
    assert run.started_at is None
    assert await history.run(bad, bad, bad, uid=bad) is None


async def test_what_a_later_version_wrote_counts_as_unknown(
    history: PostgresHistory, postgres: Postgres, settings: PostgresSettings
) -> None:
    await history.record_run(workspace(), started(1))
    await history.record_phase(workspace(), phase(1))
    await postgres.ask(
        "UPDATE runs SET trigger = 'moon', result = 'Melted', variables = '5', approval_kind = 'nod'",
        """UPDATE run_phases SET result = 'Odd', changes = '{"add": "x"}', violations = '{}'""",
        "SELECT 1",
        database=settings.database,
    )
    run = await history.run("team", "app", run_id(1))
    assert run is not None
    assert (run.trigger, run.result, run.variables, run.changes) == (Trigger.UNKNOWN, None, (), None)
