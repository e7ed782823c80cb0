"""I1 to I6 and I9: what a run may do."""

from collections.abc import Iterator

from magos.api.annotations import APPROVED, EXECUTION_GRANTED_FOR, force_delete
from magos.api.labels import FINALIZER
from magos.api.names import JobType
from magos.api.phases import Phase
from magos.api.result import Outcome, ViolationAction
from magos.api.workspace import Workspace
from tests.sim.history.records import (
    CONTROLLERS,
    JobCreated,
    JobDeleted,
    PodCreated,
    PodDeleted,
    Record,
    ToolStarted,
    WorkspaceWritten,
)
from tests.sim.history.state import Run, State, owner_of

__all__ = ["check_runs"]

Found = Iterator[tuple[str, str]]


def check_runs(record: Record, state: State) -> Found:
    """Yield (invariant, what is wrong) for one record that is about to become true."""
    match record:
        case JobCreated():
            yield from _job(record, state)
        case PodCreated():
            yield from _pod(record, state)
        case ToolStarted():
            yield from _tool(record, state)
        case WorkspaceWritten():
            yield from _pin(record, state)
            yield from _approval(record, state)
            yield from _release(record, state)
        case JobDeleted() | PodDeleted():
            # Of a Workspace that is gone, whatever is left would be collected, were it not for the archive.
            gone = isinstance(record, PodDeleted) and record.workspace not in state.workspaces
            if record.actor in CONTROLLERS and state.applying(record.workspace) and not gone:
                yield "I9", f"{record.actor} deletes a Job or pod of {record.workspace} while it applies"


def _pod(record: PodCreated, state: State) -> Found:
    others = state.pods.get(record.workspace) or set()
    if others:
        yield "I1", f"pod of run {record.run_id} starts while {sorted(others)} of {record.workspace} run"
    run = state.run(record.workspace, record.run_id)
    same = [pod for pod in run.pods if pod.job_type is record.job_type]
    if same and record.job_type not in run.deleted_by_people:
        yield "I2", f"the {record.job_type} of run {record.run_id} gets a second pod"


def _job(record: JobCreated, state: State) -> Found:
    asked = record.at if record.asked is None else record.asked
    lately = state.lately(record.at, record.workspace, since=asked)
    run = state.run(record.workspace, record.run_id)
    twice = any(job.job_type is record.job_type for job in run.jobs)
    if twice and record.job_type not in run.deleted_by_people:
        yield "I2", f"run {record.run_id} gets a second {record.job_type} Job"
    grants = state.grants_lately(record.at, record.workspace, since=asked)
    others = [_otherwise(record, state.workspaces.get(record.workspace), each) for each in grants]
    if not state.permitted_since(record.workspace, asked):
        yield "I4", f"{record.job_type} Job of {record.workspace} is created without permission"
    elif grants and not any(_names(record, each) for each in grants):
        name = grants[-1].metadata.annotations.get(EXECUTION_GRANTED_FOR)
        yield "I4", f"{record.job_type} Job of run {record.run_id} is created with the permission of {name}"
    elif others and all(others):
        yield "I4", f"{record.job_type} Job of run {record.run_id} is created with permission for {others[-1]}"
    if record.job_type is JobType.APPLY:
        yield from _apply(record, lately, run)


def _names(record: JobCreated, workspace: Workspace) -> bool:
    """Permission that names something names run and commit of the Job; that it names the spec, ``_otherwise`` tells."""
    name = workspace.metadata.annotations.get(EXECUTION_GRANTED_FOR)
    return name is None or name.startswith(f"{record.run_id}@{record.revision or 'unresolved'}#")


def _otherwise(record: JobCreated, live: Workspace | None, granted: Workspace) -> str:
    """Tell what else status spoke about when permission was given; empty if it spoke about this Job, or of no run."""
    then = granted.status.current_run
    if then is None or not granted.status.current_run_id:
        return ""
    if granted.status.current_run_id != record.run_id:
        return f"run {granted.status.current_run_id}"
    if then.revision not in ("", record.revision):
        return f"commit {then.revision}"
    now = live.status.current_run if live is not None and live.status.current_run_id == record.run_id else None
    return "another spec" if now is not None and now.spec_hash != then.spec_hash else ""


def _apply(record: JobCreated, lately: list[Workspace | None], run: Run) -> Found:
    end = run.end_of(JobType.PLAN)
    if end is None or end.result.result is not Outcome.SUCCEEDED:
        yield "I6", f"run {record.run_id} applies without a plan that succeeded"
        return
    blocking = [each for each in end.result.violations if each.action is not ViolationAction.AUDIT]
    if blocking:
        yield "I6", f"run {record.run_id} applies although {blocking[0].policy} blocks it"
    if (record.digest, record.revision) != (end.result.plan_digest, end.result.revision):
        yield "I2", f"run {record.run_id} is told to apply another plan than it made"
    manual = all(each is not None and not each.spec.auto_apply for each in lately)
    gate = run.gated_at is not None or bool(end.result.violations) or manual
    if gate and (run.approved_at is None or run.gated_at is None or run.approved_at < run.gated_at):
        yield "I5", f"run {record.run_id} applies without approval"


def _tool(record: ToolStarted, state: State) -> Found:
    run = state.run(record.workspace, record.run_id)
    if any(each.job_type is record.job_type for each in run.started):
        yield "I2", f"the tool runs twice for the {record.job_type} of run {record.run_id}"
    if any(each.revision != record.revision for each in run.started) or run.pin not in ("", record.revision):
        yield "I3", f"run {record.run_id} works on {record.revision}, but is pinned to another commit"
    if record.job_type is JobType.APPLY:
        plan = run.end_of(JobType.PLAN)
        if plan is None or plan.result.plan_digest != record.digest:
            yield "I2", f"run {record.run_id} applies a plan file that is not its own"


def _pin(record: WorkspaceWritten, state: State) -> Found:
    """The pin is the revision in status from Planning on; it names what the tool worked on, and never changes."""
    new = record.new
    if new is None or record.actor not in CONTROLLERS or new.status.current_run is None:
        return
    status, revision = new.status, new.status.current_run.revision
    run = state.run(owner_of(record), status.current_run_id)
    if status.phase not in (Phase.PENDING, Phase.FAILED, Phase.DELETING, None) and revision:
        if run.pin not in ("", revision):
            yield "I3", f"run {status.current_run_id} is relabelled from {run.pin} to {revision}"
        if any(each.revision != revision for each in run.started):
            yield "I3", f"run {status.current_run_id} says {revision} and worked on {run.started[0].revision}"
        run.pin = revision
    ends = status.phase is Phase.APPLIED and (record.old is None or record.old.status.phase is not Phase.APPLIED)
    if ends and run.started and status.observed_revision != run.started[-1].revision:
        yield "I3", f"run {status.current_run_id} observed {status.observed_revision}, it applied another commit"


def _approval(record: WorkspaceWritten, state: State) -> Found:
    new = record.new
    if new is None:
        return
    before = record.old.status.awaiting_approval if record.old is not None else None
    given = new.metadata.annotations.get(APPROVED)
    told = record.old.metadata.annotations.get(APPROVED) if record.old is not None else None
    if given and given != told and before is not None and given == before.run_id and record.actor not in CONTROLLERS:
        run = state.run(owner_of(record), given)
        run.approved_at = record.at if run.approved_at is None else run.approved_at
    after = new.status.current_run
    opened = new.status.awaiting_approval is None and after is not None and after.approval is not None
    if before is not None and opened and state.run(owner_of(record), before.run_id).approved_at is None:
        yield "I5", f"the gate of run {before.run_id} opens, nobody approved it"


def _release(record: WorkspaceWritten, state: State) -> Found:
    old, new = record.old, record.new
    if old is None or record.actor not in CONTROLLERS or FINALIZER not in old.metadata.finalizers:
        return
    kept = new is not None and FINALIZER in new.metadata.finalizers
    if not kept and state.applying(owner_of(record)) and not force_delete(old.metadata.annotations):
        yield "I9", f"{owner_of(record)} is let go while it applies"
