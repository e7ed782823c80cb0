"""The Rollout controller: ordered promotion inside one Project (spec §6.4).

1. A terminating Rollout decides nothing any more.
2. Permission is given and taken only on live reads of the Rollout and of all members, made by the reconcile before, and
   on exactly the version of the member that was judged. Revocations go before grants.
3. Status reports a rejected write, which is tried again a minute later, revocations first: as long as one of them is
   due, no member is granted.
"""

from datetime import datetime

from magos.api.conditions import Abnormal, ConditionType, Standing, find
from magos.api.phases import Phase
from magos.api.reasons import Reason
from magos.api.rollout import ROLLOUTS, Rollout
from magos.reconcilers.events import EventBuilder
from magos.reconcilers.members import GRANTS_PER_JUDGEMENT, PERMISSION_EVENTS, grant, revoke, round_robin
from magos.reconcilers.rejections import RETRY_DELAY, rejection_text, retry_time
from magos.reconcilers.revisions import pending_revision
from magos.reconcilers.rollout import messages
from magos.reconcilers.rollout.evaluation import Evaluation, evaluate, stored_step
from magos.reconcilers.rollout.observation import Observation, live_queries
from magos.reconcilers.statuses import StatusBuilder
from magos.runtime.decision import Decision, Event, Outcome, StatusPatch, Unchanged

_EVENTS = EventBuilder(ROLLOUTS, "Promote")
_STATUS = StatusBuilder(ROLLOUTS, owned=frozenset({ConditionType.UNSELECTED_WORKSPACES}))
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
    evaluation = evaluate(rollout, seen.members)
    if seen.live or not (evaluation.grants or evaluation.revocations):
        return _carry_out(seen, rollout, evaluation)
    retry = _retry_time(rollout, seen.now)
    if seen.now < retry:
        return Decision(requeue_at=retry, outcome=Outcome.WAITING)
    return Decision(queries=queries, outcome=Outcome.WAITING)


def _carry_out(seen: Observation, rollout: Rollout, evaluation: Evaluation) -> Decision:
    """Write the status first, then revoke, then grant."""
    status = _status(seen, rollout, evaluation)
    name = rollout.metadata.name
    revoked = round_robin(evaluation.revocations, seen.now)
    # Many revocations take long: the grants behind them are judged anew.
    most = GRANTS_PER_JUDGEMENT if len(revoked) <= GRANTS_PER_JUDGEMENT else 0
    granted = round_robin(evaluation.grants, seen.now)[:most]
    meta = rollout.metadata
    still = Unchanged(kind=ROLLOUTS, namespace=meta.namespace, name=name, resource_version=meta.resource_version)
    why = f"step {evaluation.step} is active" if evaluation.step else "no step is active"
    taken = [
        PERMISSION_EVENTS.normal(each, "Revoked", f"Rollout {name} takes permission back: {why}.") for each in revoked
    ]
    given = [
        PERMISSION_EVENTS.normal(
            each,
            "Granted",
            f"Rollout {name} allows execution in step {evaluation.step}"
            f" with {pending_revision(each) or 'the revision that the runner resolves'}.",
        )
        for each in granted
    ]
    return Decision(
        status=status,
        effects=(*map(revoke, revoked), *(grant(member, (still,)) for member in granted)),
        events=(*_events(rollout, evaluation, status), *taken, *given),
        requeue_at=seen.now if len(granted) < len(evaluation.grants) else None,
        outcome=_outcome(evaluation),
    )


def _trouble(seen: Observation, rollout: Rollout) -> Decision:
    """Report the rejection, and try again a minute later."""
    evaluation = Evaluation(
        phase=Phase.FAILED,
        reason=Reason.RECONCILE_ERROR,
        message=rejection_text(seen.refusal, seen.failure, reads="The Rollout or its Workspaces", controller="rollout"),
        current_step=stored_step(rollout),
    )
    status = _status(seen, rollout, evaluation)
    return Decision(
        status=status,
        events=_events(rollout, evaluation, status),
        requeue_at=seen.now + RETRY_DELAY,
        outcome=Outcome.WAITING,
    )


def _retry_time(rollout: Rollout, now: datetime) -> datetime:
    status, generation = rollout.status, rollout.metadata.generation
    rejected = status.reason == Reason.RECONCILE_ERROR and status.observed_generation == generation
    return retry_time(status.last_reconcile_time, now, rejected=rejected)


def _outcome(evaluation: Evaluation) -> Outcome:
    if evaluation.reason is Reason.RECONCILE_ERROR:
        return Outcome.INVALID
    return Outcome.WAITING if evaluation.phase in (Phase.RECONCILING, Phase.FAILED) else Outcome.DONE


def _status(seen: Observation, rollout: Rollout, evaluation: Evaluation) -> StatusPatch | None:
    standing = Standing(
        phase=evaluation.phase,
        reason=evaluation.reason,
        message=evaluation.message,
        generation=rollout.metadata.generation,
    )
    unselected = None if evaluation.unselected is None else len(evaluation.unselected)
    return _STATUS.patch(
        rollout,
        standing,
        seen.now,
        _abnormal(evaluation),
        current_step=evaluation.current_step,
        unselected_workspaces=unselected,
    )


def _abnormal(evaluation: Evaluation) -> tuple[Abnormal, ...]:
    if not evaluation.unselected:
        return ()
    type_ = ConditionType.UNSELECTED_WORKSPACES
    return (Abnormal(type=type_, reason=str(type_), message=messages.unselected(evaluation.unselected)),)


def _events(rollout: Rollout, evaluation: Evaluation, status: StatusPatch | None) -> tuple[Event, ...]:
    """Return the Events about the Rollout that belong to the transition which the status write makes."""
    if status is None:
        return ()
    old = rollout.status
    events: list[Event] = []
    if old.phase is None:
        events.append(_EVENTS.normal(rollout, "RolloutBegun", messages.begun(rollout.metadata.name)))
    same_spec = old.observed_generation == rollout.metadata.generation
    if evaluation.left and same_spec and old.reason in _UNDER_WAY:
        events.append(_EVENTS.normal(rollout, "StepCompleted", f"Step {evaluation.left} is complete."))
    if old.reason != evaluation.reason:
        if evaluation.reason is Reason.ROLLOUT_COMPLETED:
            events.append(_EVENTS.normal(rollout, evaluation.reason, evaluation.message))
        elif evaluation.reason in _WARNINGS:
            events.append(_EVENTS.warning(rollout, evaluation.reason, evaluation.message))
    if find(old.conditions, ConditionType.UNSELECTED_WORKSPACES) is None:
        events += (_EVENTS.warning(rollout, each.type, each.message) for each in _abnormal(evaluation))
    return tuple(events)
