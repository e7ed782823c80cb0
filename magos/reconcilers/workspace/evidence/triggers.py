"""Why a run begins (spec §6.2.3, §6.2.4): the rows of the trigger table in their order, and the revision a run gets.

1. The first row that holds names the run; everything else that is pending is served by the same run.
2. A run that waits in Pending is amended instead: the higher trigger wins, request, spec and revision follow the
object."""

from msgspec import Struct

from magos.api.phases import TERMINAL, WITH_PLAN, Phase
from magos.api.reasons import Reason
from magos.api.triggers import Trigger
from magos.reconcilers.permission import permitted
from magos.reconcilers.revisions import detected_revision, pending_revision
from magos.reconcilers.workspace.inputs.annotated import read_annotations
from magos.reconcilers.workspace.inputs.schedule import schedule_of
from magos.reconcilers.workspace.inputs.specification import same_specification
from magos.reconcilers.workspace.inputs.variables import sets_changed, variables_changed
from magos.reconcilers.workspace.observation import Observation

REASONS = {
    Trigger.CONFIGURATION: Reason.CONFIGURATION_CHANGED,
    Trigger.REVISION: Reason.NEW_REVISION_DETECTED,
    Trigger.MANUAL: Reason.MANUAL_RECONCILE_REQUESTED,
    Trigger.VARIABLES: Reason.VARIABLES_CHANGED,
    Trigger.RETRY: Reason.RETRY_PLAN,
    Trigger.SCHEDULED: Reason.SCHEDULED_RECONCILE,
    Trigger.UNKNOWN: Reason.SCHEDULED_RECONCILE,
}
"""The reason a reset shows; a retry after a failed apply shows RetryApply instead."""

JUDGED_AGAIN = frozenset(
    {
        Reason.NAMESPACE_NOT_ALLOWED,
        Reason.SERVICE_ACCOUNT_NOT_ALLOWED,
        Reason.SERVICE_ACCOUNT_NOT_FOUND,
        Reason.SCHEME_NOT_ALLOWED,
        Reason.INVALID_CONFIGURATION,
        Reason.INVALID_REPOSITORY_SECRET,
        Reason.INVALID_POLICY_SELECTOR,
        Reason.POLICY_EVALUATION_FAILED,
        Reason.UNRESOLVED_VARIABLES,
        Reason.VOLUME_CONFLICT,
    }
)
"""Refusals that every pass may judge again, because nothing has to be created to find out."""

_ORDER = tuple(Trigger)


class Cause(Struct, frozen=True, kw_only=True):
    """Why a run begins."""

    trigger: Trigger
    reason: Reason


def named_cause(trigger: Trigger) -> Cause:
    """Return the cause of a run that this trigger begins."""
    return Cause(trigger=trigger, reason=REASONS[trigger])


def higher(one: Trigger | None, other: Trigger) -> Trigger:
    """Return the trigger of higher precedence."""
    return other if one is None else min(one, other, key=_ORDER.index)


def refused_start(seen: Observation) -> bool:
    """True if the last start was refused: Failed without a plan Job was never a run."""
    return seen.phase is Phase.FAILED and not seen.run.plan_job


def unconfirmed(seen: Observation, trigger: Trigger) -> bool:
    """True if the cause stands in other objects than the Workspace and they were only seen in the caches.

    A cache may show a Project or a VariableSet older than the one the run was started with; that is no change.
    """
    if seen.inputs_live or not seen.has_run:
        return False
    if trigger is Trigger.CONFIGURATION:
        return seen.project is not None and same_specification(seen.run.spec_hash, seen.subject, None)
    return trigger is Trigger.VARIABLES or (trigger is Trigger.UNKNOWN and _sets_changed(seen))


def undecidable(seen: Observation, trigger: Trigger) -> bool:
    """True if the cause is unconfirmed and cannot be confirmed: a refusal is shown to this pass alone.

    The same cause is found and confirmed in the phase that follows, before anything else begins there.
    """
    return seen.refusal is not None and unconfirmed(seen, trigger)


def find_cause(seen: Observation) -> Cause | None:
    """Return why a run begins now, in any phase that is neither Pending nor running; None if nothing calls for one."""
    rows = (
        (Trigger.CONFIGURATION, not seen.has_run or _configuration_changed(seen)),
        (Trigger.REVISION, _new_revision(seen)),
        (Trigger.MANUAL, _requested(seen)),
        (Trigger.VARIABLES, _new_variables(seen)),
    )
    first = next((trigger for trigger, holds in rows if holds), None)
    if first is not None:
        return named_cause(first)
    return _on_tick(seen)


def decidable_cause(seen: Observation) -> Cause | None:
    """Return the cause of a run, None also if it cannot be decided in this pass whether it is one."""
    cause = find_cause(seen)
    return None if cause is not None and undecidable(seen, cause.trigger) else cause


def _on_tick(seen: Observation) -> Cause | None:
    if seen.phase not in TERMINAL or not schedule_of(seen.subject, seen.now).due:
        return None
    if seen.phase is Phase.APPLIED:
        return named_cause(Trigger.SCHEDULED)
    if seen.run.apply_job:
        return Cause(trigger=Trigger.RETRY, reason=Reason.RETRY_APPLY)
    return named_cause(Trigger.RETRY)


def amendment_cause(seen: Observation) -> Cause | None:
    """Return why a waiting run is amended, None if it is not.

    With ``UNKNOWN`` if a revision only fills the gap, or a set has changed in nothing that is taken from it.
    """
    revision = pending_revision(seen.subject)
    if _configuration_changed(seen):
        return named_cause(Trigger.CONFIGURATION)
    if seen.run.revision and revision != seen.run.revision:
        return named_cause(Trigger.REVISION)
    if _requested(seen):
        return named_cause(Trigger.MANUAL)
    if _variables_changed(seen):
        return named_cause(Trigger.VARIABLES)
    fills_in = revision != seen.run.revision or _sets_changed(seen)
    return named_cause(Trigger.UNKNOWN) if fills_in else None


def _configuration_changed(seen: Observation) -> bool:
    return not same_specification(seen.run.spec_hash, seen.subject, seen.project)


def _new_revision(seen: Observation) -> bool:
    workspace = seen.subject
    detected = detected_revision(workspace)
    attempted = seen.run.revision if refused_start(seen) else workspace.status.last_attempted_revision
    if not detected or detected == attempted:
        return False
    if seen.phase in WITH_PLAN:
        if seen.gated:
            return workspace.spec.discard_stale_plan
        return not permitted(workspace)
    return True


def _new_variables(seen: Observation) -> bool:
    """Changed inputs, where they call for a new run: a plan that a person approved, or may still approve, is kept."""
    if not _variables_changed(seen):
        return False
    if seen.phase in WITH_PLAN:
        return seen.subject.spec.discard_stale_plan if seen.gated else seen.run.approval is None
    return True


def _variables_changed(seen: Observation) -> bool:
    return variables_changed(seen.inputs, seen.run.variables_fingerprint, project_known=seen.project is not None)


def _sets_changed(seen: Observation) -> bool:
    return sets_changed(seen.inputs, seen.run.variable_sets, project_known=seen.project is not None)


def _requested(seen: Observation) -> bool:
    request = read_annotations(seen.subject.metadata.annotations).request
    return bool(request) and request != seen.run.request
