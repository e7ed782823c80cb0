"""Everything a Rollout is judged by, collected into one frozen value.

Where the pass before asked for live reads, Rollout and members are what the API server said, as a whole: a grant is
never half about the cache and half about the server.
"""

from datetime import datetime
from typing import Any

from msgspec import Struct

from magos.api.rollout import ROLLOUTS, Rollout
from magos.api.workspace import WORKSPACES, Workspace
from magos.reconcilers.members import BY_PROJECT, members_of, project_index
from magos.runtime.decision import (
    UNREADABLE,
    LiveGet,
    LiveList,
    Probe,
    ProbeFailure,
    Refusal,
    Request,
    Unreadable,
    View,
)

__all__ = ["Observation", "live_probes", "observe"]


class Observation(Struct, frozen=True, kw_only=True):
    """A Rollout and the members of the Project of its name, by name. ``live`` tells who said so."""

    now: datetime
    rollout: Rollout | None
    members: tuple[Workspace, ...] = ()
    live: bool = False
    stale: bool = False
    refusal: Refusal | None = None
    failure: ProbeFailure | None = None


def live_probes(namespace: str, name: str) -> tuple[Probe, ...]:
    """Return the reads that a grant or a revocation is decided on.

    The whole namespace is listed: API servers older than 1.31 cannot select by ``spec.projectRef.name``.
    """
    return (LiveGet(ROLLOUTS, namespace, name), LiveList(WORKSPACES, namespace))


def observe(request: Request, view: View, now: datetime) -> Observation:
    """Collect what the Rollout named by ``request`` is judged by."""
    namespace, name = request.namespace, request.name
    facts = [view.fact(probe) for probe in live_probes(namespace, name)]
    values: list[Any] = [fact.value for fact in facts if fact is not None and fact.failure is None]
    live = len(values) == len(facts)
    rollout = values[0] if live else view.get(ROLLOUTS, namespace, name)
    failure = next((fact.failure for fact in facts if fact is not None and fact.failure is not None), None)
    workspaces: tuple[Workspace, ...] = values[1] if live else ()
    if not live:
        try:
            workspaces = view.by_index(WORKSPACES, BY_PROJECT, project_index(namespace, name))
        except Unreadable as error:  # fewer members than there are would let a step pass for complete
            failure = failure or ProbeFailure(reason=UNREADABLE, message=str(error))
    return Observation(
        now=now,
        rollout=rollout,
        members=members_of(name, workspaces),
        live=live,
        stale=view.stale and not live,
        refusal=view.refusal,
        failure=failure,
    )
