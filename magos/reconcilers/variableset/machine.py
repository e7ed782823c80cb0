"""The VariableSet controller: does every reference of a set have a value (spec §6.5)?

1. Sources are read one by one, past every cache, and only when the cache shows a version that was not read yet. What
   may not be read is asked for again every minute, because a right that is granted sends no event.
2. Nothing but status is written: names, versions and reasons, never a value and never a digest of one.
3. No object is ever written, so nothing can be refused but the status, and that only backs off.
4. A set has no finalizer: its deletion waits for nobody.
"""

from datetime import timedelta

from msgspec.structs import replace

from magos.api.conditions import Standing, shorten, standing_conditions
from magos.api.phases import Phase
from magos.api.reasons import Reason
from magos.api.timestamps import format_time
from magos.api.variableset import VARIABLESETS, VariableSet, VariableSetStatus
from magos.reconcilers.variableset.observation import Observation, value_source_query
from magos.reconcilers.variableset.verdict import judge
from magos.runtime.decision import Decision, Event, EventType, Outcome, QueryFailure, StatusPatch

__all__ = ["LOOK_AGAIN", "reconcile"]

LOOK_AGAIN = timedelta(minutes=1)


def reconcile(seen: Observation) -> Decision:
    """Return the decision for one observation: total, deterministic and free of side effects."""
    found = seen.variable_set
    if found is None:
        return Decision(outcome=Outcome.GONE)
    if seen.failure is not None:
        return _unreadable(seen, found, seen.failure)
    if seen.unread:
        queries = tuple(value_source_query(found.metadata.namespace, each, seen.wanted[each]) for each in seen.unread)
        return Decision(queries=queries, outcome=Outcome.WAITING)
    return _judge(seen, found)


def _judge(seen: Observation, found: VariableSet) -> Decision:
    verdict = judge(found, {source: seen.current[source] for source in seen.wanted})
    desired = replace(
        found.status,
        phase=Phase.READY if verdict.good else Phase.FAILED,
        reason=str(Reason.ALL_REFERENCES_RESOLVED if verdict.good else Reason.UNRESOLVED_REFERENCES),
        message=verdict.message,
        resolved_variables=verdict.resolved,
        unresolved_references=verdict.unresolved,
        sources=verdict.sources,
    )
    closed = any(known.report.forbidden for known in seen.current.values())
    decision = _decision(seen, found, desired)
    if closed:
        return replace(decision, requeue_at=seen.now + LOOK_AGAIN, outcome=Outcome.WAITING)
    return decision if verdict.good else replace(decision, outcome=Outcome.WAITING)


def _unreadable(seen: Observation, found: VariableSet, failure: QueryFailure) -> Decision:
    """A source answers in a way that is neither a value nor a plain no; what status knew of the sources stays."""
    message = f"A source cannot be read: {failure.message.rstrip('.')}. Correct it; it is read again every minute."
    desired = replace(found.status, phase=Phase.FAILED, reason=str(Reason.RECONCILE_ERROR), message=message)
    decision = _decision(seen, found, desired)
    return replace(decision, requeue_at=seen.now + LOOK_AGAIN, outcome=Outcome.WAITING)


def _decision(seen: Observation, found: VariableSet, desired: VariableSetStatus) -> Decision:
    """Write the status if it says anything new, and warn if a problem is new or another one."""
    old, meta = found.status, found.metadata
    if desired.phase is None:
        return Decision()
    reason = Reason(desired.reason)
    message = shorten(desired.message)
    standing = Standing(phase=desired.phase, reason=reason, message=message, generation=meta.generation)
    desired = replace(
        desired,
        message=message,
        observed_generation=meta.generation,
        conditions=standing_conditions(standing, old.conditions, seen.now),
    )
    if desired == old:
        return Decision()
    status = StatusPatch(
        kind=VARIABLESETS,
        namespace=meta.namespace,
        name=meta.name,
        resource_version=meta.resource_version,
        observed=old,
        desired=replace(desired, last_reconcile_time=format_time(seen.now)),
    )
    told = (old.reason, old.message) == (desired.reason, desired.message)
    new_problem = desired.phase is Phase.FAILED and not told
    return Decision(status=status, events=(_warning(found, reason, message),) if new_problem else ())


def _warning(found: VariableSet, reason: Reason, note: str) -> Event:
    meta = found.metadata
    return Event(
        regarding=VARIABLESETS.ref(meta.namespace, meta.name),
        uid=meta.uid,
        type=EventType.WARNING,
        reason=str(reason),
        action="Validate",
        note=note,
        api_version=VARIABLESETS.api_version,
        resource_version=meta.resource_version,
    )
