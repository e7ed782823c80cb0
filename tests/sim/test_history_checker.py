"""The checker itself: a good history passes, and for each invariant there is one that breaks it and is found out.

Histories are written by hand, from a good run of one Workspace; each bad one differs from it in a single fact.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as with_fields

from magos.api.annotations import (
    APPROVED,
    DETECTED_REVISION,
    EXECUTION_ALLOWED,
    EXECUTION_GRANTED_FOR,
    RECONCILE_REQUEST,
)
from magos.api.labels import FINALIZER
from magos.api.meta import Condition, ObjectMeta
from magos.api.names import JobType, source_key
from magos.api.phases import Phase
from magos.api.result import Outcome, Result, Violation, ViolationAction
from magos.api.rollout import Rollout, RolloutSpec, RolloutStep, RolloutStrategy
from magos.api.selectors import LabelSelector
from magos.api.status import NameReference
from magos.api.triggers import Trigger
from magos.api.workspace import (
    Approval,
    ApprovalKind,
    AwaitingApproval,
    CurrentRun,
    GateReason,
    Source,
    Terraform,
    Workspace,
    WorkspaceSpec,
    WorkspaceStatus,
)
from magos.ids import digest_of
from tests.sim.history.checker import violations
from tests.sim.history.outcome import differences
from tests.sim.history.records import (
    JobCreated,
    JobDeleted,
    PodCreated,
    PodDeleted,
    PodEnded,
    Record,
    RolloutWritten,
    ToolEnded,
    ToolStarted,
    WorkspaceWritten,
)

URL = "https://git.example.com/infra.git"
A, B = "a" * 40, "b" * 40
RUN, NEXT = "20260101T000000-00000001", "20260101T000100-00000002"
DIGEST, OTHER = digest_of(b"plan"), digest_of(b"other")
OWNER = ("default", "a")
KEY = source_key(URL, "main")
PLAN, APPLY = JobType.PLAN, JobType.APPLY


def condition(**fields: Any) -> Condition:
    return Condition(last_transition_time="2026-01-01T00:00:00Z", **fields)


def workspace(
    name: str = "a", *, annotations: dict[str, str] | None = None, auto: bool = True, **status: Any
) -> Workspace:
    """A Workspace whose conditions mirror its status."""
    made = WorkspaceStatus(**status)
    ready = condition(type="Ready", status="Unknown", reason=made.reason, message=made.message)
    return Workspace(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            uid=f"uid-{name}",
            labels={"step": name},
            annotations=annotations or {},
            finalizers=(FINALIZER,),
            generation=1,
        ),
        spec=WorkspaceSpec(
            project_ref=NameReference(name="platform"),
            source=Source(repo_url=URL, target_revision="main"),
            terraform=Terraform(version="1.9.8"),
            auto_apply=auto,
        ),
        status=with_fields(made, conditions=(ready,) if made.phase else ()),
    )


def run_of(revision: str = A, **fields: Any) -> CurrentRun:
    return CurrentRun(revision=revision, source_key=KEY, **fields)


def status(phase: Phase, reason: str, **fields: Any) -> dict[str, Any]:
    """A status of run ``RUN`` that says why."""
    base = {
        "observed_generation": 1,
        "current_run_id": RUN,
        "current_run_trigger": Trigger.REVISION,
        "current_run": run_of(),
    }
    return {**base, "phase": phase, "reason": reason, "message": "as it should be", **fields}


def result(job_type: JobType, **fields: Any) -> Result:
    made: dict[str, Any] = {
        "run_id": RUN,
        "phase": job_type,
        "result": Outcome.SUCCEEDED,
        "exit_code": 0,
        "revision": A,
        "plan_digest": DIGEST if job_type is PLAN else "",
        "has_changes": job_type is PLAN,
    }
    return Result(**{**made, **fields})


def states(*workspaces: Workspace, actor: str = "workspace", start: float = 0.0) -> list[WorkspaceWritten]:
    """One write after the other, a second apart."""
    before = (None, *workspaces)
    return [
        WorkspaceWritten(at=start + at, actor=actor, old=old, new=new)
        for at, (old, new) in enumerate(zip(before, workspaces, strict=False))
    ]


ALLOWED = {EXECUTION_ALLOWED: "true", DETECTED_REVISION: A}
BORN = workspace()
TOLD = workspace(annotations={DETECTED_REVISION: A})
PENDING = workspace(annotations={DETECTED_REVISION: A}, **status(Phase.PENDING, "NewRevisionDetected"))
GRANTED = workspace(annotations=ALLOWED, **status(Phase.PENDING, "NewRevisionDetected"))
PLANNING = workspace(annotations=ALLOWED, **status(Phase.PLANNING, "PlanJobCreated"))
PLANNED = workspace(annotations=ALLOWED, **status(Phase.PLANNED, "PlanSucceeded"))
APPLYING = workspace(annotations=ALLOWED, **status(Phase.APPLYING, "ApplyJobCreated"))
APPLIED = workspace(
    annotations=ALLOWED, **status(Phase.APPLIED, "ApplySucceeded", observed_revision=A, observed_source=KEY)
)


def wrote(at: float, actor: str, old: Workspace | None, new: Workspace | None) -> WorkspaceWritten:
    return WorkspaceWritten(at=at, actor=actor, old=old, new=new)


GOOD: tuple[Record, ...] = (
    wrote(0, "user", None, BORN),
    wrote(1, "hook", BORN, TOLD),
    wrote(2, "workspace", TOLD, PENDING),
    wrote(3, "project", PENDING, GRANTED),
    JobCreated(at=4, actor="workspace", workspace=OWNER, uid="j1", run_id=RUN, job_type=PLAN, revision=A),
    wrote(5, "workspace", GRANTED, PLANNING),
    PodCreated(at=6, actor="job-controller", workspace=OWNER, pod="p1", run_id=RUN, job_type=PLAN),
    ToolStarted(at=7, workspace=OWNER, run_id=RUN, job_type=PLAN, revision=A),
    ToolEnded(at=8, workspace=OWNER, run_id=RUN, job_type=PLAN, result=result(PLAN)),
    PodEnded(at=9, actor="kubelet", workspace=OWNER, pod="p1"),
    wrote(10, "workspace", PLANNING, PLANNED),
    JobCreated(
        at=11, actor="workspace", workspace=OWNER, uid="j2", run_id=RUN, job_type=APPLY, revision=A, digest=DIGEST
    ),
    wrote(12, "workspace", PLANNED, APPLYING),
    PodCreated(at=13, actor="job-controller", workspace=OWNER, pod="p2", run_id=RUN, job_type=APPLY),
    ToolStarted(at=14, workspace=OWNER, run_id=RUN, job_type=APPLY, revision=A, digest=DIGEST),
    ToolEnded(at=15, workspace=OWNER, run_id=RUN, job_type=APPLY, result=result(APPLY)),
    PodEnded(at=16, actor="kubelet", workspace=OWNER, pod="p2"),
    wrote(17, "workspace", APPLYING, APPLIED),
)

# Where the facts stand in GOOD.
PLAN_JOB, PLAN_POD_ENDED, PLAN_ENDED, PLANNED_AT, APPLY_JOB, APPLY_STARTED, APPLY_ENDED, DONE = (
    4,
    9,
    8,
    10,
    11,
    14,
    15,
    17,
)


def put(at: int, *records: Record) -> list[Record]:
    """GOOD with records instead of the one at this place."""
    return [*GOOD[:at], *records, *GOOD[at + 1 :]]


def before(at: int, *records: Record) -> list[Record]:
    """GOOD with records before this place."""
    return [*GOOD[:at], *records, *GOOD[at:]]


def rollout(*names: str) -> Rollout:
    steps = tuple(RolloutStep(name=name, selector=LabelSelector(match_labels={"step": name})) for name in names)
    return Rollout(
        metadata=ObjectMeta(name="platform", namespace="default", uid="uid-rollout"),
        spec=RolloutSpec(project_ref="platform", strategy=RolloutStrategy(steps=steps)),
    )


def _job(index: int, **fields: Any) -> JobCreated:
    record = GOOD[index]
    assert isinstance(record, JobCreated)
    return replace(record, **fields)


def amended(**fields: Any) -> list[Record]:
    """GOOD to its first Job; the run changes after permission was given, and nobody takes it."""
    other = workspace(annotations=ALLOWED, **{**status(Phase.PENDING, "NewRevisionDetected"), **fields})
    made = other.status.current_run
    assert made is not None
    job = _job(PLAN_JOB, revision=made.revision, run_id=other.status.current_run_id)
    return [*GOOD[:PLAN_JOB], wrote(3.5, "workspace", GRANTED, other), job]


def named(name: str) -> list[Record]:
    """GOOD to its first Job; permission says what it is for."""
    annotations = {**ALLOWED, EXECUTION_GRANTED_FOR: name}
    granted = workspace(annotations=annotations, **status(Phase.PENDING, "NewRevisionDetected"))
    return [*GOOD[:3], wrote(3, "project", PENDING, granted), GOOD[PLAN_JOB]]


def _tool(index: int, **fields: Any) -> ToolStarted:
    record = GOOD[index]
    assert isinstance(record, ToolStarted)
    return replace(record, **fields)


def _end(index: int, **fields: Any) -> ToolEnded:
    record = GOOD[index]
    assert isinstance(record, ToolEnded)
    return replace(record, result=result(record.job_type, **fields))


GATE = AwaitingApproval(run_id=RUN, reason=GateReason.MANUAL_APPROVAL, since="2026-01-01T00:00:10Z")
GATED = workspace(annotations=ALLOWED, **status(Phase.PLANNED, "PlanSucceeded", awaiting_approval=GATE))
YES = workspace(
    annotations={**ALLOWED, APPROVED: RUN}, **status(Phase.PLANNED, "PlanSucceeded", awaiting_approval=GATE)
)
OPEN = workspace(
    annotations={**ALLOWED, APPROVED: RUN},
    **status(
        Phase.PLANNED,
        "PlanSucceeded",
        current_run=run_of(approval=Approval(kind=ApprovalKind.APPROVED, at="2026-01-01T00:00:11Z")),
    ),
)
APPLYING_APPROVED = workspace(annotations={**ALLOWED, APPROVED: RUN}, **status(Phase.APPLYING, "ApplyJobCreated"))


def gated(*middle: Record) -> list[Record]:
    """GOOD, but its plan is gated; ``middle`` is what happens until the apply Job."""
    return [*GOOD[:PLANNED_AT], wrote(10, "workspace", PLANNING, GATED), *middle, *GOOD[APPLY_JOB : APPLY_JOB + 1]]


def promotion(dev: Workspace, actor: str = "rollout") -> list[Record]:
    """A Rollout dev → a, in which ``a`` is granted while ``dev`` stands as given."""
    made = rollout("dev", "a")
    return [
        RolloutWritten(at=0, actor="user", old=None, new=made),
        wrote(0, "user", None, dev),
        *GOOD[:3],
        wrote(30, actor, PENDING, GRANTED),
    ]


DEV_DONE = workspace("dev", **status(Phase.APPLIED, "ApplySucceeded", observed_revision=A, observed_source=KEY))
DEV_BEHIND = workspace("dev", **status(Phase.APPLIED, "ApplySucceeded", observed_revision=B, observed_source=KEY))
DEV_FAILED = workspace("dev", **status(Phase.FAILED, "PlanFailed", observed_revision=A, observed_source=KEY))
DEV_BUSY = workspace("dev", **status(Phase.PLANNING, "Planning", observed_revision=A, observed_source=KEY))


DEV_EDITED = with_fields(DEV_DONE, metadata=with_fields(DEV_DONE.metadata, generation=2))
DEV_REQUESTED = with_fields(DEV_DONE, metadata=with_fields(DEV_DONE.metadata, annotations={RECONCILE_REQUEST: "x"}))
DEV_BESIDE = with_fields(DEV_FAILED, metadata=with_fields(DEV_FAILED.metadata, labels={"step": "a"}))
DELETED = PodDeleted(at=14.5, actor="workspace", workspace=OWNER, pod="p2", run_id=RUN, job_type=APPLY)


def early_approval() -> list[Record]:
    """Somebody approves while the plan is made; the gate takes that for an approval of it."""
    early = with_fields(PLANNING, metadata=with_fields(PLANNING.metadata, annotations={**ALLOWED, APPROVED: RUN}))
    return [
        *GOOD[:PLANNED_AT],
        wrote(9.5, "user", PLANNING, early),
        wrote(10, "workspace", early, YES),
        wrote(10.5, "workspace", YES, OPEN),
    ]


def ticks(first: str, second: str) -> list[Record]:
    return [
        *GOOD,
        wrote(18, "workspace", APPLIED, (one := ticked(first))),
        wrote(19, "workspace", one, ticked(second)),
    ]


def ticked(when: str) -> Workspace:
    return with_fields(
        APPLIED,
        status=with_fields(APPLIED.status, next_reconcile_time=when, observed_reconcile_interval="3m"),
    )


def flood(actor: str) -> list[Record]:
    marks = [with_fields(APPLIED, metadata=with_fields(APPLIED.metadata, resource_version=str(n))) for n in range(200)]
    pairs = zip([APPLIED, *marks], marks, strict=False)
    return [*GOOD, *(wrote(20 + n / 10, actor, old, new) for n, (old, new) in enumerate(pairs))]


def second_run() -> list[Record]:
    again = workspace(
        annotations={EXECUTION_ALLOWED: "true"},
        **{**status(Phase.PENDING, "NewRevisionDetected"), "current_run_id": NEXT},
    )
    bare = workspace(**status(Phase.APPLIED, "ApplySucceeded", observed_revision=A, observed_source=KEY))
    return [
        *GOOD,
        wrote(18, "workspace", APPLIED, bare),
        wrote(19, "user", bare, again),
        JobCreated(at=20, actor="workspace", workspace=OWNER, uid="j3", run_id=NEXT, job_type=PLAN, revision=A),
    ]


def hasty() -> list[Record]:
    """A tick every six seconds."""
    first = {**status(Phase.PENDING, "ScheduledReconcile"), "current_run_trigger": Trigger.SCHEDULED}
    one = workspace(annotations=ALLOWED, **first)
    runs = [f"20260101T000000-{number:08x}" for number in range(11)]
    return [
        wrote(0, "user", None, one),
        *(
            JobCreated(at=1 + 6 * n, actor="workspace", workspace=OWNER, uid=run, run_id=run, job_type=PLAN)
            for n, run in enumerate(runs)
        ),
    ]


def foreign(**meta: Any) -> list[Record]:
    return [
        *GOOD,
        wrote(18, "workspace", APPLIED, with_fields(APPLIED, metadata=with_fields(APPLIED.metadata, **meta))),
    ]


def says(**fields: Any) -> list[Record]:
    return put(
        DONE, wrote(17, "workspace", APPLYING, with_fields(APPLIED, status=with_fields(APPLIED.status, **fields)))
    )


PERMITTED_AGAIN = [
    *GOOD[:3],
    RolloutWritten(at=2.5, actor="user", old=None, new=rollout("a")),
    wrote(30, "project", PENDING, GRANTED),
]

BROKEN: Sequence[tuple[str, str, Sequence[Record]]] = (
    ("I1", "two pods at once", [*GOOD[:PLAN_POD_ENDED], *GOOD[PLAN_POD_ENDED + 1 :]]),
    ("I2", "a second Job of one half", before(APPLY_JOB, _job(PLAN_JOB, uid="j9"))),
    ("I2", "told to apply another plan", put(APPLY_JOB, _job(APPLY_JOB, digest=OTHER))),
    ("I2", "applies another file", put(APPLY_STARTED, _tool(APPLY_STARTED, digest=OTHER))),
    (
        "I2",
        "a second pod of one half",
        before(PLANNED_AT, PodCreated(at=9.5, actor="", workspace=OWNER, pod="p9", run_id=RUN, job_type=PLAN)),
    ),
    ("I2", "a plan is applied twice", before(APPLY_ENDED, _tool(APPLY_STARTED))),
    ("I3", "applies another commit", put(APPLY_STARTED, _tool(APPLY_STARTED, revision=B))),
    ("I3", "observes another commit", says(observed_revision=B)),
    ("I3", "is relabelled", says(current_run=run_of(B), observed_revision=A)),
    ("I4", "planned without permission", [*GOOD[:3], GOOD[PLAN_JOB]]),
    ("I4", "permission was given for another commit", amended(current_run=run_of(B))),
    ("I4", "permission was given for another spec", amended(current_run=run_of(spec_hash="other"))),
    ("I4", "permission was given for another run", amended(current_run_id=NEXT)),
    ("I4", "permission names another run", named(f"{NEXT}@{A}#0")),
    ("I4", "permission names another commit", named(f"{RUN}@{B}#0")),
    ("I4", "permission names no commit", named(f"{RUN}@unresolved#0")),
    (
        "I4",
        "permission is not exactly true",
        put(
            3,
            wrote(
                3,
                "user",
                PENDING,
                with_fields(
                    GRANTED,
                    metadata=with_fields(
                        GRANTED.metadata, annotations={EXECUTION_ALLOWED: "True", DETECTED_REVISION: A}
                    ),
                ),
            ),
        )[: PLAN_JOB + 1],
    ),
    ("I5", "applied without approval", gated(wrote(10.5, "workspace", GATED, PLANNED))),
    ("I5", "the gate opens by itself", gated(wrote(10.5, "workspace", GATED, OPEN))[:-1]),
    ("I5", "approved in advance", early_approval()),
    ("I5", "approved by a controller", gated(wrote(10.4, "project", GATED, YES), wrote(10.5, "workspace", YES, OPEN))),
    (
        "I5",
        "audit violations without a gate",
        put(PLAN_ENDED, _end(PLAN_ENDED, violations=(Violation("p", "m", ViolationAction.AUDIT),))),
    ),
    (
        "I6",
        "a denied plan is applied",
        put(PLAN_ENDED, _end(PLAN_ENDED, violations=(Violation("p", "m", ViolationAction.DENY),))),
    ),
    ("I6", "a failed plan is applied", put(PLAN_ENDED, _end(PLAN_ENDED, result=Outcome.FAILED, exit_code=1))),
    ("I6", "applied before the plan has ended", [*GOOD[:PLAN_ENDED], *GOOD[PLAN_ENDED + 1 :]]),
    ("I7", "an earlier step has failed", promotion(DEV_FAILED)),
    ("I7", "an earlier step is busy", promotion(DEV_BUSY)),
    ("I7", "an earlier step has another commit", promotion(DEV_BEHIND)),
    ("I7", "an earlier step is edited", promotion(DEV_EDITED)),
    ("I7", "an earlier step is asked to run", promotion(DEV_REQUESTED)),
    (
        "I7",
        "a member of the same step has failed",
        [
            RolloutWritten(at=0, actor="user", old=None, new=rollout("a")),
            wrote(0, "user", None, DEV_BESIDE),
            *GOOD[:3],
            wrote(30, "rollout", PENDING, GRANTED),
        ],
    ),
    (
        "I7",
        "a step is empty",
        [
            RolloutWritten(at=0, actor="user", old=None, new=rollout("nobody", "a")),
            *GOOD[:3],
            wrote(30, "rollout", PENDING, GRANTED),
        ],
    ),
    (
        "I7",
        "in no step",
        [
            RolloutWritten(at=0, actor="user", old=None, new=rollout("dev")),
            wrote(0, "user", None, DEV_DONE),
            *GOOD[:3],
            wrote(30, "rollout", PENDING, GRANTED),
        ],
    ),
    ("I8", "the Project grants beside a Rollout", PERMITTED_AGAIN),
    (
        "I9",
        "the Job of an apply is deleted",
        before(APPLY_ENDED, JobDeleted(at=14.5, actor="workspace", workspace=OWNER, run_id=RUN, job_type=APPLY)),
    ),
    ("I9", "the pod of an apply is deleted", before(APPLY_ENDED, DELETED)),
    ("I9", "let go while it applies", before(APPLY_ENDED, wrote(14.5, "workspace", APPLYING, None))),
    ("I15", "a second run of one commit", second_run()),
    ("I15", "a hot loop", flood("workspace")),
    ("I16", "the tick moves too early", ticks("2026-01-01T00:03:00Z", "2026-01-01T00:05:00Z")),
    ("I17", "no reason", says(reason="")),
    ("I17", "no message", says(message="")),
    ("I17", "a message that the API server refuses", says(message="x" * 1025)),
    ("I17", "an unknown reason", says(reason="Whatever")),
    ("I17", "Ready says something else", says(message="something else")),
    ("I17", "a phase that cannot follow", [*GOOD[:3], wrote(3, "workspace", PENDING, APPLYING)]),
    ("I21", "ticks below the floor", hasty()),
    (
        "I22",
        "somebody's annotation is removed",
        [
            *GOOD,
            wrote(
                18,
                "workspace",
                with_fields(APPLIED, metadata=with_fields(APPLIED.metadata, annotations={"team": "x"})),
                with_fields(APPLIED, metadata=with_fields(APPLIED.metadata, annotations={})),
            ),
        ],
    ),
    (
        "I22",
        "the spec is changed",
        [
            *GOOD,
            wrote(18, "workspace", APPLIED, with_fields(APPLIED, spec=with_fields(APPLIED.spec, auto_apply=False))),
        ],
    ),
    ("I22", "labels are changed", foreign(labels={})),
    ("I22", "a finalizer of somebody else goes", foreign(finalizers=(FINALIZER, "other/one"))),
    ("I22", "the controller permits itself", [*GOOD[:3], wrote(3, "workspace", PENDING, GRANTED)]),
    ("I22", "the Project writes status", [*GOOD[:2], wrote(2, "project", TOLD, PENDING)]),
    (
        "I22",
        "somebody's condition goes",
        [
            *GOOD,
            wrote(
                18,
                "workspace",
                with_fields(
                    APPLIED,
                    status=with_fields(
                        APPLIED.status,
                        conditions=(
                            *APPLIED.status.conditions,
                            condition(type="SourceUnreachable", status="True", reason="GitFailed", message="m"),
                        ),
                    ),
                ),
                APPLIED,
            ),
        ],
    ),
)


def test_a_good_history_passes() -> None:
    assert violations(GOOD) == []


def test_permission_that_names_what_starts_passes() -> None:
    assert violations(named(f"{RUN}@{A}#0")) == []


def test_permission_for_a_run_that_learns_its_commit_later_passes() -> None:
    unknown = workspace(
        annotations=ALLOWED, **{**status(Phase.PENDING, "NewRevisionDetected"), "current_run": run_of("")}
    )
    history = [*GOOD[:3], wrote(3, "user", PENDING, unknown), wrote(3.5, "workspace", unknown, GRANTED), GOOD[PLAN_JOB]]
    assert violations(history) == []


def test_a_good_approval_passes() -> None:
    history = gated(wrote(10.4, "user", GATED, YES), wrote(10.5, "workspace", YES, OPEN))
    assert violations(history) == []


def test_a_good_promotion_passes() -> None:
    assert violations(promotion(DEV_DONE)) == []


def test_a_person_may_end_an_apply() -> None:
    assert violations(before(APPLY_ENDED, replace(DELETED, actor="user"))) == []


@pytest.mark.parametrize(
    "invariant", ["I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I9", "I15", "I16", "I17", "I21", "I22"]
)
def test_every_invariant_has_a_history_that_breaks_it(invariant: str) -> None:
    assert any(broken == invariant for broken, _, _ in BROKEN)


@pytest.mark.parametrize(("invariant", "history"), [pytest.param(i, h, id=f"{i}-{what}") for i, what, h in BROKEN])
def test_a_broken_history_is_found_out(invariant: str, history: Sequence[Record]) -> None:
    assert invariant in {each.invariant for each in violations(history)}


def test_two_ends_that_differ_are_told_apart() -> None:
    """I14."""
    end = {"workspace a": {"phase": "Applied"}, "runs": {"a": ["plan", "apply"]}}
    assert differences(end, dict(end)) == []
    assert differences(end, {**end, "runs": {"a": ["plan", "apply", "plan", "apply"]}})
    assert differences(end, {**end, "workspace a": {"phase": "Failed"}})
    assert differences(end, {"runs": end["runs"]})
