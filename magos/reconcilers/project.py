"""The Project controller: permission for all members at once, unless a Rollout manages them (spec §6.3).

1. A Rollout with the Project's name, whatever its state, means that no annotation of a member is touched (I8).
2. Otherwise every member that waits is granted. The read that finds no Rollout is live and of the pass just before, and
   good for a handful of grants only; each grant is conditional on the version of the member that was judged.
3. A grant is given at the earliest two seconds after creation of Project and member, so that a Rollout applied together
   with them is seen first. Creation times are whole seconds: one more second makes up for what was cut off.
"""

from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from magos.api.conditions import Standing, shorten, standing_conditions
from magos.api.labels import FINALIZER
from magos.api.phases import Phase
from magos.api.project import PROJECTS, Project, ProjectStatus
from magos.api.reasons import Reason
from magos.api.rollout import ROLLOUTS
from magos.api.timestamps import format_time, parse_time
from magos.api.workspace import WORKSPACES, Workspace
from magos.reconcilers.members import (
    BY_PROJECT,
    GRANTS_PER_JUDGEMENT,
    carries_permission,
    grant,
    members_of,
    permission_event,
    project_index,
    refusal_text,
    revoke,
    rotated,
    wants_grant,
)
from magos.runtime.decision import (
    UNREADABLE,
    AddFinalizer,
    Decision,
    Event,
    EventType,
    LiveGet,
    Outcome,
    QueryFailure,
    Refusal,
    RemoveFinalizer,
    Request,
    StatusPatch,
    Unchanged,
    Unreadable,
    View,
)

__all__ = ["GRACE", "Observation", "observe", "reconcile"]

GRACE = timedelta(seconds=3)
_LOOK_AGAIN = timedelta(minutes=1)
_SOON = timedelta(seconds=5)


class Observation(Struct, frozen=True, kw_only=True):
    """A Project, its members, and whether a Rollout of its name exists.

    ``rollout`` is what the cache says; ``rollout_live`` what the API server said just now, None if it was not asked.
    """

    now: datetime
    project: Project | None
    members: tuple[Workspace, ...] = ()
    rollout: bool = False
    rollout_live: bool | None = None
    stale: bool = False
    refusal: Refusal | None = None
    failure: QueryFailure | None = None

    @property
    def managed(self) -> bool:
        """True if a Rollout is known to exist; the live answer counts where there is one."""
        return self.rollout if self.rollout_live is None else self.rollout_live


def observe(request: Request, view: View, now: datetime) -> Observation:
    """Collect what the Project named by ``request`` is judged by."""
    namespace, name = request.namespace, request.name
    answer = view.answer(LiveGet(ROLLOUTS, namespace, name))
    answered = answer is not None and answer.failure is None
    failure = answer.failure if answer is not None else None
    members: tuple[Workspace, ...] = ()
    rollout = True  # one that cannot be read is there all the same
    try:
        members = view.by_index(WORKSPACES, BY_PROJECT, project_index(namespace, name))
        rollout = view.get(ROLLOUTS, namespace, name) is not None
    except Unreadable as error:
        failure = QueryFailure(reason=UNREADABLE, message=str(error))
    return Observation(
        now=now,
        project=view.get(PROJECTS, namespace, name),
        members=members_of(name, members),
        rollout=rollout,
        rollout_live=(answer.value is not None) if answer is not None and answered else None,
        stale=view.stale,
        refusal=view.refusal,
        failure=failure,
    )


def reconcile(seen: Observation) -> Decision:
    """Return the decision for one observation: total, deterministic and free of side effects."""
    project = seen.project
    if project is None:
        return Decision(outcome=Outcome.GONE)
    meta = project.metadata
    if meta.deletion_timestamp is not None:
        return _delete(seen, project)
    if FINALIZER not in meta.finalizers and seen.refusal is None:
        return Decision(
            effects=(
                AddFinalizer(
                    kind=PROJECTS,
                    namespace=meta.namespace,
                    name=meta.name,
                    resource_version=meta.resource_version,
                    finalizer=FINALIZER,
                ),
            )
        )
    if seen.refusal is not None or seen.failure is not None:
        return _trouble(seen, project, Phase.FAILED, Reason.RECONCILE_ERROR)
    if seen.managed:
        message = f"Rollout {meta.namespace}/{meta.name} gives permission to the members, step by step."
        return Decision(status=_status(seen, project, Phase.READY, Reason.MANAGED_BY_ROLLOUT, message))
    return _orchestrate(seen, project)


def _orchestrate(seen: Observation, project: Project) -> Decision:
    """DefaultParallel: grant whoever waits and is old enough."""
    cooling = _cooling_until(project)
    if seen.rollout_live is None and seen.now < cooling:
        status = _status(seen, project, Phase.FAILED, Reason.RECONCILE_ERROR, project.status.message)
        return Decision(status=status, requeue_at=cooling, outcome=Outcome.WAITING)
    message = f"All members may run in parallel; there is no Rollout {project.metadata.name}."
    status = _status(seen, project, Phase.READY, Reason.DEFAULT_PARALLEL, message)
    waiting = [member for member in seen.members if wants_grant(member)]
    ripe = [member for member in waiting if _ripe_at(project, member) <= seen.now]
    unripe = [_ripe_at(project, member) for member in waiting if member not in ripe]
    again = min(unripe, default=None)
    if seen.stale:
        return Decision(status=status, requeue_at=seen.now + _SOON, outcome=Outcome.WAITING)
    if not ripe:
        return Decision(status=status, requeue_at=again, outcome=Outcome.WAITING if waiting else Outcome.DONE)
    if seen.rollout_live is None:
        query = LiveGet(ROLLOUTS, project.metadata.namespace, project.metadata.name)
        return Decision(status=status, queries=(query,), requeue_at=again, outcome=Outcome.WAITING)
    granted = rotated(ripe, seen.now)[:GRANTS_PER_JUDGEMENT]
    meta = project.metadata
    still = (
        Unchanged(kind=PROJECTS, namespace=meta.namespace, name=meta.name, resource_version=meta.resource_version),
        Unchanged(kind=ROLLOUTS, namespace=meta.namespace, name=meta.name, resource_version=""),
    )
    return Decision(
        status=status,
        effects=tuple(grant(member, still) for member in granted),
        events=tuple(
            permission_event(member, "Granted", f"Project {project.metadata.name} allows execution.")
            for member in granted
        ),
        requeue_at=seen.now if len(granted) < len(ripe) else again,
    )


def _delete(seen: Observation, project: Project) -> Decision:
    """Take back permission that nobody else manages, then let the Project go; the members stay."""
    meta = project.metadata
    if FINALIZER not in meta.finalizers:
        return Decision(outcome=Outcome.GONE)
    if seen.refusal is not None or seen.failure is not None:
        return _trouble(seen, project, Phase.DELETING, Reason.DELETING)
    # What the last try was refused for stays in view: a message that comes and goes would bring about the next try.
    begun = project.status.phase is Phase.DELETING
    message = project.status.message if begun else "Permission is taken back; the members are kept."
    status = _status(seen, project, Phase.DELETING, Reason.DELETING, message)
    if seen.rollout_live is None or seen.stale:
        return Decision(status=status, queries=(LiveGet(ROLLOUTS, meta.namespace, meta.name),), outcome=Outcome.WAITING)
    if status is not None:  # the status first, the release in a pass that judges the version it leaves behind
        return Decision(status=status, queries=(LiveGet(ROLLOUTS, meta.namespace, meta.name),), outcome=Outcome.WAITING)
    granted = () if seen.managed else tuple(filter(carries_permission, seen.members))
    release = RemoveFinalizer(
        kind=PROJECTS,
        namespace=meta.namespace,
        name=meta.name,
        resource_version=meta.resource_version,
        finalizer=FINALIZER,
    )
    return Decision(
        effects=(*map(revoke, granted), release),
        events=tuple(
            permission_event(member, "Revoked", f"Project {meta.name} is being deleted.") for member in granted
        ),
    )


def _trouble(seen: Observation, project: Project, phase: Phase, reason: Reason) -> Decision:
    """Say what was refused. The other members' turn comes by itself: grants start with another member every second."""
    text = _refusal_text(seen)
    status = _status(seen, project, phase, reason, text)
    told = project.status.message == shorten(text)
    return Decision(
        status=status,
        events=() if told else (_warning(project, text),),
        requeue_at=seen.now + _LOOK_AGAIN,
        outcome=Outcome.WAITING,
    )


def _warning(project: Project, note: str) -> Event:
    meta = project.metadata
    return Event(
        regarding=PROJECTS.ref(meta.namespace, meta.name),
        uid=meta.uid,
        type=EventType.WARNING,
        reason=str(Reason.RECONCILE_ERROR),
        action="Permit",
        note=note,
        api_version=PROJECTS.api_version,
        resource_version=meta.resource_version,
    )


def _cooling_until(project: Project) -> datetime:
    """After a refusal the next try is a minute away: the status that tells of it must not bring it about at once."""
    if project.status.reason != Reason.RECONCILE_ERROR:
        return _created(None)
    return _created(project.status.last_reconcile_time) + _LOOK_AGAIN


def _refusal_text(seen: Observation) -> str:
    if seen.refusal is not None:
        text = refusal_text(seen.refusal)
    elif seen.failure is not None and seen.failure.reason == UNREADABLE:
        return f"{seen.failure.message}. Until then no permission is given or taken."
    else:
        reason = f"{seen.failure.reason}: {seen.failure.message}" if seen.failure is not None else "unknown"
        text = f"Rollouts cannot be read: {reason}."
    return f"{text} Check the rights of the project controller and admission policies."


def _status(seen: Observation, project: Project, phase: Phase, reason: Reason, message: str) -> StatusPatch | None:
    """Return the status write, None if it would say nothing new."""
    old, meta = project.status, project.metadata
    standing = Standing(phase=phase, reason=reason, message=message, generation=meta.generation)
    desired: ProjectStatus = replace(
        old,
        phase=phase,
        reason=str(reason),
        message=shorten(message),
        members=len(seen.members),
        observed_generation=meta.generation,
        conditions=standing_conditions(standing, old.conditions, seen.now),
    )
    if desired == old:
        return None
    return StatusPatch(
        kind=PROJECTS,
        namespace=meta.namespace,
        name=meta.name,
        resource_version=meta.resource_version,
        observed=old,
        desired=replace(desired, last_reconcile_time=format_time(seen.now)),
    )


def _ripe_at(project: Project, member: Workspace) -> datetime:
    """When both have existed long enough; without a readable creation time that is never before it is known."""
    return max(_created(project.metadata.creation_timestamp), _created(member.metadata.creation_timestamp)) + GRACE


def _created(text: str | None) -> datetime:
    try:
        return parse_time(text or "")
    except ValueError:
        return parse_time("1970-01-01T00:00:00Z")
