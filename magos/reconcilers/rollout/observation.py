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
    Query,
    QueryFailure,
    Refusal,
    Request,
    Unreadable,
    View,
)


class Observation(Struct, frozen=True, kw_only=True):
    """A Rollout and the members of the Project of its name, by name. ``live`` tells who said so."""

    now: datetime
    rollout: Rollout | None
    members: tuple[Workspace, ...] = ()
    live: bool = False
    stale: bool = False
    refusal: Refusal | None = None
    failure: QueryFailure | None = None


def live_queries(namespace: str, name: str) -> tuple[Query, ...]:
    """Return the reads that a grant or a revocation is decided on.

    The whole namespace is listed: API servers older than 1.31 cannot select by ``spec.projectRef.name``.
    """
    return (LiveGet(ROLLOUTS, namespace, name), LiveList(WORKSPACES, namespace))


def observe(request: Request, view: View, now: datetime) -> Observation:
    """Collect what the Rollout named by ``request`` is judged by."""
    namespace, name = request.namespace, request.name
    answers = [view.answer(query) for query in live_queries(namespace, name)]
    values: list[Any] = [answer.value for answer in answers if answer is not None and answer.failure is None]
    live = len(values) == len(answers)
    rollout = values[0] if live else view.get(ROLLOUTS, namespace, name)
    failure = next((answer.failure for answer in answers if answer is not None and answer.failure is not None), None)
    workspaces: tuple[Workspace, ...] = values[1] if live else ()
    if not live:
        try:
            workspaces = view.by_index(WORKSPACES, BY_PROJECT, project_index(namespace, name))
        except Unreadable as error:  # fewer members than there are would let a step pass for complete
            failure = failure or QueryFailure(reason=UNREADABLE, message=str(error))
    return Observation(
        now=now,
        rollout=rollout,
        members=members_of(name, workspaces),
        live=live,
        stale=view.stale and not live,
        refusal=view.refusal,
        failure=failure,
    )
