"""I7 and I8: who gives permission to whom, judged anew from the objects alone.

A grant is judged on what its giver can have read: it is right if it was right at some moment of the recent past
(``State.slack``); permission itself is conditional on the exact version of the member, so that needs no slack.
"""

from collections.abc import Iterator, Mapping

from magos.api.annotations import (
    DETECTED_REVISION,
    DETECTED_SOURCE,
    RECONCILE_REQUEST,
)
from magos.api.names import source_key
from magos.api.phases import Phase
from magos.api.rollout import Rollout
from magos.api.samesource import same_source
from magos.api.selectors import compile_selector
from magos.api.triggers import Trigger
from magos.api.workspace import Workspace
from magos.ids import is_git_sha
from tests.sim.history.records import JobCreated, Owner, Record, WorkspaceWritten
from tests.sim.history.state import Snapshot, State, is_grant, owner_of

__all__ = ["check_orchestration", "pending_revision"]

Found = Iterator[tuple[str, str]]
_FAILED = (Phase.FAILED, Phase.VALIDATION_FAILED)


def check_orchestration(record: Record, state: State) -> Found:
    """Yield (invariant, what is wrong) for a grant that is about to become true."""
    if isinstance(record, JobCreated):
        yield from _started(record, state)
    if not isinstance(record, WorkspaceWritten) or not is_grant(record):
        return
    owner, member = owner_of(record), record.old
    if member is None or record.actor not in ("project", "rollout"):
        return
    key = (owner[0], member.spec.project_ref.name)
    past = state.recently(record.at)
    if record.actor == "project":
        if all(key in each.rollouts for each in past):
            yield "I8", f"the Project grants {owner} although Rollout {key} exists"
        return
    now = _objection(present := next(past), present.rollouts.get(key), member)
    if now is not None and all(_objection(each, each.rollouts.get(key), member) for each in past):
        yield "I7", f"Rollout {key} grants {owner}: {now}"


def _started(record: JobCreated, state: State) -> Found:
    """A run takes the sets that a Rollout has let through, or what it gave is no permission for it."""
    judged, member = state.granted.get(record.workspace), state.workspaces.get(record.workspace)
    if judged is None or member is None or judged[0] != record.run_id:
        return
    if _sets(member) != judged[1]:
        yield "I7", f"run {record.run_id} of {record.workspace} takes {_sets(member)}, it was granted for {judged[1]}"


def pending_revision(member: Workspace) -> str:
    """Return the commit the next or unfinished run will use (spec §6.2.3), empty if unknown."""
    target, status = member.spec.source.target_revision, member.status
    key = source_key(member.spec.source.repo_url, target)
    if is_git_sha(target):
        return target
    told = member.metadata.annotations.get(DETECTED_REVISION, "")
    if is_git_sha(told) and member.metadata.annotations.get(DETECTED_SOURCE, key) == key:
        return told
    run = status.current_run
    if run is not None and run.revision and run.source_key == key and status.phase is not Phase.APPLIED:
        return run.revision
    return status.observed_revision if status.observed_source == key else ""


def _unshared(earlier: list[Workspace], member: Workspace) -> str | None:
    """A set of the Project is everybody's; an earlier member that never told what it has is taken at its commit."""
    run = member.status.current_run
    for used in run.variable_sets if run is not None else ():
        for each in earlier:
            observed = each.status.observed_variables
            if observed is None or not (
                used.inherited or used.name in {ref.name for ref in each.spec.variable_set_ref}
            ):
                continue
            if used.digest not in {one.digest for one in observed.sets if one.name == used.name}:
                return f"{each.metadata.name} has not applied VariableSet {used.name} as it would take it"
    return None


def _sets(member: Workspace) -> dict[str, str]:
    run = member.status.current_run
    return {each.name: each.digest for each in run.variable_sets} if run is not None else {}


def _objection(snapshot: Snapshot, rollout: Rollout | None, member: Workspace) -> str | None:
    """Return what stands against this grant at that moment, None if nothing does."""
    if rollout is None:
        return "there is no such Rollout"
    members = _members(snapshot.workspaces, rollout)
    cohorts: list[list[Workspace]] = []
    taken: set[str] = set()
    for step in rollout.spec.strategy.steps:
        selector = compile_selector(step.selector)
        matched = [each for each in members if selector.matches(each.metadata.labels)]
        if not matched:
            return f"step {step.name} selects nobody"
        cohorts.append([each for each in matched if each.metadata.name not in taken])
        taken |= {each.metadata.name for each in matched}
    for index, cohort in enumerate(cohorts):
        if any(each.metadata.name == member.metadata.name for each in cohort):
            earlier = [each for group in cohorts[:index] for each in group]
            return (
                _unfinished(earlier)
                or _failed(cohort, member)
                or _unpromoted(earlier, member)
                or _unshared(earlier, member)
            )
    return "it is in no step"


def _members(workspaces: Mapping[Owner, Workspace], rollout: Rollout) -> list[Workspace]:
    namespace, project = rollout.metadata.namespace, rollout.spec.project_ref
    return [
        each
        for (where, _), each in sorted(workspaces.items())
        if where == namespace and each.spec.project_ref.name == project and each.metadata.deletion_timestamp is None
    ]


def _unfinished(earlier: list[Workspace]) -> str | None:
    for each in earlier:
        phase, trigger = each.status.phase, each.status.current_run_trigger
        name = each.metadata.name
        if phase in _FAILED:
            return f"{name} of an earlier step has failed"
        if phase is None or (phase is not Phase.APPLIED and trigger is not Trigger.SCHEDULED):
            return f"{name} of an earlier step is {phase or 'new'}"
        if each.status.observed_generation != each.metadata.generation:
            return f"{name} of an earlier step has been edited"
        request, run = each.metadata.annotations.get(RECONCILE_REQUEST), each.status.current_run
        if request and not (phase is Phase.APPLIED and run is not None and run.request == request):
            return f"{name} of an earlier step has a request"
    return None


def _failed(cohort: list[Workspace], member: Workspace) -> str | None:
    bad = [e.metadata.name for e in cohort if e.status.phase in _FAILED and e.metadata.name != member.metadata.name]
    return f"{bad[0]} of the same step has failed" if bad else None


def _unpromoted(earlier: list[Workspace], member: Workspace) -> str | None:
    wanted = pending_revision(member)
    for each in earlier:
        source = each.spec.source
        if not same_source(source, member.spec.source):
            continue
        key = source_key(source.repo_url, source.target_revision)
        has = each.status.observed_revision if each.status.observed_source == key else ""
        if not wanted or has != wanted:
            return f"{each.metadata.name} has {has or 'nothing'} applied, it would run {wanted or 'an unknown commit'}"
    return None
