"""The status that a controller writes to an object: phase, reason, message, conditions and what follows from them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from magos.api.conditions import Abnormal, ConditionType, Standing, shorten, standing_conditions
from magos.api.meta import Kind
from magos.api.timestamps import format_time
from magos.runtime.decision import StatusPatch


class StatusBuilder(Struct, frozen=True):
    """Builds status writes for objects of ``kind``; ``owned`` are the abnormal conditions that the controller owns."""

    kind: Kind[Any]
    owned: frozenset[ConditionType] = frozenset()

    def patch(
        self, subject: Any, standing: Standing, now: datetime, abnormal: Sequence[Abnormal] = (), **fields: Any
    ) -> StatusPatch | None:
        """Return the write that makes status say ``standing`` and ``fields``, None if it says so already."""
        old = subject.status
        desired = replace(
            old,
            phase=standing.phase,
            reason=str(standing.reason),
            message=shorten(standing.message),
            observed_generation=standing.generation,
            conditions=standing_conditions(standing, old.conditions, now, abnormal=abnormal, owned=self.owned),
            **fields,
        )
        if desired == old:
            return None
        return status_patch(self.kind, subject, replace(desired, last_reconcile_time=format_time(now)))


def status_patch(kind: Kind[Any], subject: Any, desired: Any) -> StatusPatch:
    """Return the write of ``desired``, conditional on the version of ``subject`` that was judged."""
    meta = subject.metadata
    return StatusPatch(
        kind=kind,
        namespace=meta.namespace,
        name=meta.name,
        resource_version=meta.resource_version,
        observed=subject.status,
        desired=desired,
    )
