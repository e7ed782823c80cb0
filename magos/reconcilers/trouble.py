"""The condition ``ApiTrouble``: requests of a controller about the object have failed for a while (invariant I17).

It is added to every decision last, because it says nothing about the object itself: whatever the decision wants, people
must see why it is not carried out.
"""

from datetime import datetime
from typing import Any

from msgspec.structs import replace

from magos.api.conditions import Abnormal, ConditionType, merge_abnormal
from magos.api.meta import Kind
from magos.api.timestamps import format_time
from magos.reconcilers.statuses import status_patch
from magos.runtime.decision import Decision, Trouble

_REASON = "RequestFailing"


def show_trouble(decision: Decision, kind: Kind[Any], subject: Any, trouble: Trouble | None, now: datetime) -> Decision:
    """Return the decision with the condition set or removed in the status of ``subject``, the reconciled object."""
    if subject is None:
        return decision
    status = subject.status if decision.status is None else decision.status.desired
    wanted = () if trouble is None else (_condition(trouble),)
    generation = subject.metadata.generation
    conditions = merge_abnormal(status.conditions, wanted, ConditionType.API_TROUBLE, generation=generation, now=now)
    if conditions == status.conditions:
        return decision
    desired = replace(status, conditions=conditions, last_reconcile_time=format_time(now))
    if decision.status is not None:  # the version that was judged stays: it may be newer than the cached subject
        return replace(decision, status=replace(decision.status, desired=desired))
    return replace(decision, status=status_patch(kind, subject, desired))


def _condition(trouble: Trouble) -> Abnormal:
    message = (
        f"Since {format_time(trouble.since)} this request keeps failing: {trouble.message.rstrip('.')}."
        " Magos repeats it with growing pauses. Check admission webhooks, quotas and the API server itself."
    )
    return Abnormal(type=ConditionType.API_TROUBLE, reason=_REASON, message=message)
