"""The VariableSet controller: does every reference of a set have a value (spec §6.5)?

1. Value sources are read one by one, past every cache, and only when the cache shows a version that was not read yet.
   What may not be read is read again every minute, because a right that is granted sends no event.
2. Nothing but status is written: names, versions and reasons, never a value and never a digest of one.
3. A status write that the API server rejects only backs off; there are no other writes to reject.
4. A set has no finalizer: its deletion waits for nothing.
"""

from typing import Any

from msgspec.structs import replace

from magos.api.conditions import Standing, shorten
from magos.api.phases import Phase
from magos.api.reasons import Reason
from magos.api.variableset import VARIABLESETS, VariableSet
from magos.reconcilers.events import EventBuilder
from magos.reconcilers.rejections import RETRY_DELAY
from magos.reconcilers.statuses import StatusBuilder
from magos.reconcilers.variableset.observation import Observation, value_source_query
from magos.reconcilers.variableset.resolution import resolve
from magos.runtime.decision import Decision, Outcome, QueryFailure

_EVENTS = EventBuilder(VARIABLESETS, "Validate")
_STATUS = StatusBuilder(VARIABLESETS)


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
    return _report(seen, found)


def _report(seen: Observation, found: VariableSet) -> Decision:
    resolution = resolve(found, {source: seen.current[source] for source in seen.wanted})
    standing = Standing(
        phase=Phase.READY if resolution.good else Phase.FAILED,
        reason=Reason.ALL_REFERENCES_RESOLVED if resolution.good else Reason.UNRESOLVED_REFERENCES,
        message=resolution.message,
        generation=found.metadata.generation,
    )
    decision = _decision(
        seen,
        found,
        standing,
        resolved_variables=resolution.resolved,
        unresolved_references=resolution.unresolved,
        sources=resolution.sources,
    )
    if any(known.report.forbidden for known in seen.current.values()):
        return replace(decision, requeue_at=seen.now + RETRY_DELAY, outcome=Outcome.WAITING)
    return decision if resolution.good else replace(decision, outcome=Outcome.WAITING)


def _unreadable(seen: Observation, found: VariableSet, failure: QueryFailure) -> Decision:
    """Report a value source that answers with neither a value nor its absence; what status says of sources stays."""
    standing = Standing(
        phase=Phase.FAILED,
        reason=Reason.RECONCILE_ERROR,
        message=f"A value source cannot be read: {failure.message.rstrip('.')}. Correct it; the variableset controller"
        " reads it again every minute.",
        generation=found.metadata.generation,
    )
    decision = _decision(seen, found, standing)
    return replace(decision, requeue_at=seen.now + RETRY_DELAY, outcome=Outcome.WAITING)


def _decision(seen: Observation, found: VariableSet, standing: Standing, **fields: Any) -> Decision:
    """Write the status if it says anything new, and warn of a problem that it did not report before."""
    old = found.status
    status = _STATUS.patch(found, standing, seen.now, **fields)
    known = (old.reason, old.message) == (standing.reason, shorten(standing.message))
    if status is None or known or standing.phase is not Phase.FAILED:
        return Decision(status=status)
    return Decision(status=status, events=(_EVENTS.warning(found, standing.reason, shorten(standing.message)),))
