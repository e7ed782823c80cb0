"""The Rollout controller: ordered promotion inside one Project (spec §6.4).

1. A terminating Rollout decides nothing any more.
2. Permission is given and taken only on live reads of the Rollout and of all members, made by the pass just before, and
   on exactly the version of the member that was judged. What must be taken goes before what is given.
3. A refused write is told in status and tried again a minute later, revocations first: until permission is where it
   belongs, none is given.
"""

from datetime import datetime, timedelta

from msgspec.structs import replace

from magos.api.conditions import Abnormal, ConditionType, Standing, find, shorten, standing_conditions
from magos.api.phases import Phase
from magos.api.reasons import Reason
from magos.api.rollout import ROLLOUTS, Rollout, RolloutStatus
from magos.api.timestamps import format_time, parse_time
from magos.reconcilers.members import GRANTS_PER_JUDGEMENT, grant, permission_event, refusal_text, revoke, rotated
from magos.reconcilers.revisions import pending_revision
from magos.reconcilers.rollout import messages
from magos.reconcilers.rollout.observation import Observation, live_queries
from magos.reconcilers.rollout.verdict import Verdict, judge, stored_step
from magos.runtime.decision import UNREADABLE, Decision, Event, EventType, Outcome, StatusPatch, Unchanged

__all__ = ["reconcile"]

_LOOK_AGAIN = timedelta(minutes=1)
_WARNINGS = frozenset({Reason.STEP_FAILED, Reason.NO_WORKSPACES_FOUND, Reason.RECONCILE_ERROR})
_UNDER_WAY = frozenset({Reason.LEVEL_PROGRESSING, Reason.STEP_FAILED})


def reconcile(seen: Observation) -> Decision:
    """Return the decision for one observation: total, deterministic and free of side effects."""
    rollout = seen.rollout
    if rollout is None or rollout.metadata.deletion_timestamp is not None:
        return Decision(outcome=Outcome.GONE)
    if seen.refusal is not None or seen.failure is not None:
        return _trouble(seen, rollout)
    queries = live_queries(rollout.metadata.namespace, rollout.metadata.name)
    if seen.stale:
        return Decision(queries=queries, outcome=Outcome.WAITING)
    verdict = judge(rollout, seen.members)
    if seen.live or not (verdict.grants or verdict.revocations):
        return _carry_out(seen, rollout, verdict)
    cooling = _cooling_until(rollout)
    if seen.now < cooling:
        return Decision(requeue_at=cooling, outcome=Outcome.WAITING)
    return Decision(queries=queries, outcome=Outcome.WAITING)


def _carry_out(seen: Observation, rollout: Rollout, verdict: Verdict) -> Decision:
    """The status first, then permission is taken, then given."""
    status = _status(seen, rollout, verdict)
    name = rollout.metadata.name
    revoked = rotated(verdict.revocations, seen.now)
    # Taking permission from many takes long: what is given behind it is judged anew.
    most = GRANTS_PER_JUDGEMENT if len(revoked) <= GRANTS_PER_JUDGEMENT else 0
    granted = rotated(verdict.grants, seen.now)[:most]
    meta = rollout.metadata
    still = Unchanged(kind=ROLLOUTS, namespace=meta.namespace, name=name, resource_version=meta.resource_version)
    why = f"step {verdict.step} is active" if verdict.step else "no step is active"
    taken = [permission_event(each, "Revoked", f"Rollout {name} takes permission back: {why}.") for each in revoked]
    given = [
        permission_event(
            each,
            "Granted",
            f"Rollout {name} allows execution in step {verdict.step}"
            f" with {pending_revision(each) or 'the revision that the runner resolves'}.",
        )
        for each in granted
    ]
    return Decision(
        status=status,
        effects=(*map(revoke, revoked), *(grant(member, (still,)) for member in granted)),
        events=(*_told(rollout, verdict, status), *taken, *given),
        requeue_at=seen.now if len(granted) < len(verdict.grants) else None,
        outcome=_outcome(verdict),
    )


def _trouble(seen: Observation, rollout: Rollout) -> Decision:
    """Say what was refused."""
    if seen.refusal is not None:
        text = refusal_text(seen.refusal)
    else:
        said = f"{seen.failure.reason}: {seen.failure.message}" if seen.failure is not None else "unknown"
        text = f"The Rollout or its Workspaces cannot be read: {said}."
    message = f"{text} Check the rights of the rollout controller and admission policies."
    if seen.refusal is None and seen.failure is not None and seen.failure.reason == UNREADABLE:
        message = f"{seen.failure.message}. Until then no permission is given or taken."
    verdict = Verdict(
        phase=Phase.FAILED,
        reason=Reason.RECONCILE_ERROR,
        message=message,
        current_step=stored_step(rollout),
    )
    status = _status(seen, rollout, verdict)
    return Decision(
        status=status,
        events=_told(rollout, verdict, status),
        requeue_at=seen.now + _LOOK_AGAIN,
        outcome=Outcome.WAITING,
    )


def _cooling_until(rollout: Rollout) -> datetime:
    """After a refusal the next try is a minute away: the status that tells of it must not bring it about at once."""
    status, meta = rollout.status, rollout.metadata
    try:
        told = parse_time(status.last_reconcile_time or "")
    except ValueError:
        return parse_time("1970-01-01T00:00:00Z")
    refused = status.reason == Reason.RECONCILE_ERROR and status.observed_generation == meta.generation
    return told + _LOOK_AGAIN if refused else told


def _outcome(verdict: Verdict) -> Outcome:
    if verdict.reason is Reason.RECONCILE_ERROR:
        return Outcome.INVALID
    return Outcome.WAITING if verdict.phase in (Phase.RECONCILING, Phase.FAILED) else Outcome.DONE


def _status(seen: Observation, rollout: Rollout, verdict: Verdict) -> StatusPatch | None:
    """Return the status write, None if it would say nothing new."""
    old, meta = rollout.status, rollout.metadata
    standing = Standing(phase=verdict.phase, reason=verdict.reason, message=verdict.message, generation=meta.generation)
    desired: RolloutStatus = replace(
        old,
        phase=verdict.phase,
        reason=str(verdict.reason),
        message=shorten(verdict.message),
        observed_generation=meta.generation,
        current_step=verdict.current_step,
        unselected_workspaces=None if verdict.unselected is None else len(verdict.unselected),
        conditions=standing_conditions(
            standing,
            old.conditions,
            seen.now,
            abnormal=_abnormal(verdict),
            owned=frozenset({ConditionType.UNSELECTED_WORKSPACES}),
        ),
    )
    if desired == old:
        return None
    return StatusPatch(
        kind=ROLLOUTS,
        namespace=meta.namespace,
        name=meta.name,
        resource_version=meta.resource_version,
        observed=old,
        desired=replace(desired, last_reconcile_time=format_time(seen.now)),
    )


def _abnormal(verdict: Verdict) -> tuple[Abnormal, ...]:
    if not verdict.unselected:
        return ()
    type_ = ConditionType.UNSELECTED_WORKSPACES
    return (Abnormal(type=type_, reason=str(type_), message=messages.unselected(verdict.unselected)),)


def _told(rollout: Rollout, verdict: Verdict, status: StatusPatch | None) -> tuple[Event, ...]:
    """Return the Events about the Rollout that belong to the transition which the status write makes."""
    if status is None:
        return ()
    old = rollout.status
    events: list[Event] = []
    same_spec = old.observed_generation == rollout.metadata.generation
    if verdict.left and same_spec and old.reason in _UNDER_WAY:
        events.append(_event(rollout, EventType.NORMAL, "StepCompleted", f"Step {verdict.left} is complete."))
    if old.reason != verdict.reason:
        if verdict.reason is Reason.ROLLOUT_COMPLETED:
            events.append(_event(rollout, EventType.NORMAL, str(verdict.reason), verdict.message))
        elif verdict.reason in _WARNINGS:
            events.append(_event(rollout, EventType.WARNING, str(verdict.reason), verdict.message))
    type_ = ConditionType.UNSELECTED_WORKSPACES
    if verdict.unselected and find(old.conditions, type_) is None:
        events.append(_event(rollout, EventType.WARNING, str(type_), messages.unselected(verdict.unselected)))
    return tuple(events)


def _event(rollout: Rollout, type_: EventType, reason: str, note: str) -> Event:
    meta = rollout.metadata
    return Event(
        regarding=ROLLOUTS.ref(meta.namespace, meta.name),
        uid=meta.uid,
        type=type_,
        reason=reason,
        action="Promote",
        note=note,
        api_version=ROLLOUTS.api_version,
        resource_version=meta.resource_version,
    )
