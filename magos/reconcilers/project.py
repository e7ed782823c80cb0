"""The Project controller: permission for all members at once, unless a Rollout manages them (spec §6.3).

1. A Rollout with the Project's name, whatever its state, means that no annotation of a member is touched (I8).
2. Otherwise every member whose run waits is granted. The read that finds no Rollout is live, of the reconcile before,
   and good for a few grants only; each grant is conditional on the version of the member that was judged.
3. A grant is given at the earliest two seconds after creation of Project and member, so that a Rollout applied together
   with them is seen first, and five seconds after a Rollout has gone, so that one which is deleted and created anew
   leaves no gap. Stored times are whole seconds: one more second makes up for what is cut off.
4. Status holds the time from which on members may run, so that a restart neither forgets nor repeats the wait; no clock
   can make it longer than it is from now.
"""

from datetime import datetime, timedelta

from msgspec import Struct

from magos.api.conditions import Standing, shorten
from magos.api.labels import FINALIZER
from magos.api.phases import Phase
from magos.api.project import PROJECTS, Project
from magos.api.reasons import Reason
from magos.api.rollout import ROLLOUTS
from magos.api.timestamps import format_time, parse_time
from magos.api.workspace import WORKSPACES, Workspace
from magos.reconcilers.events import EventBuilder
from magos.reconcilers.members import (
    BY_PROJECT,
    GRANTS_PER_JUDGEMENT,
    PERMISSION_EVENTS,
    can_be_granted,
    carries_permission,
    grant,
    members_of,
    project_index,
    revoke,
    round_robin,
    wants_grant,
)
from magos.reconcilers.rejections import RETRY_DELAY, rejection_text, retry_time
from magos.reconcilers.statuses import StatusBuilder
from magos.reconcilers.storedtimes import due_at, read_time
from magos.runtime.decision import (
    UNREADABLE,
    AddFinalizer,
    Decision,
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

GRANT_DELAY = timedelta(seconds=3)
"""Between the creation of Project and member and the first grant (rule 3)."""

RETURN_DELAY = timedelta(seconds=6)
"""Between the moment a Project that was there before finds no Rollout, and its next grant (rule 3)."""

_STALE_DELAY = timedelta(seconds=5)
"""Until stale caches are looked at again if no watch event comes before."""

_DELETION = "The project controller revokes permission, then removes the finalizer; the Workspaces are kept."
_EVENTS = EventBuilder(PROJECTS, "Permit")
_STATUS = StatusBuilder(PROJECTS)


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
    failure = answer.failure if answer is not None else None
    members: tuple[Workspace, ...] = ()
    rollout = True  # a Rollout that cannot be read exists
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
        rollout_live=None if answer is None or answer.failure is not None else answer.value is not None,
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
        message = f"Rollout {meta.namespace}/{meta.name} permits the members step by step; see its status."
        return Decision(status=_status(seen, project, Phase.READY, Reason.MANAGED_BY_ROLLOUT, message))
    return _orchestrate(seen, project)


def _orchestrate(seen: Observation, project: Project) -> Decision:
    """DefaultParallel: grant every member that waits and is old enough."""
    old = project.status
    if seen.rollout_live is None and old.reason == Reason.MANAGED_BY_ROLLOUT:
        # A cache that lags is no proof that the Rollout is gone: status would be written to and fro.
        return Decision(queries=(_live_rollout(project),), outcome=Outcome.WAITING)
    retry = retry_time(old.last_reconcile_time, seen.now, rejected=old.reason == Reason.RECONCILE_ERROR)
    if seen.rollout_live is None and seen.now < retry:
        status = _status(seen, project, Phase.FAILED, Reason.RECONCILE_ERROR, old.message)
        return Decision(status=status, requeue_at=retry, outcome=Outcome.WAITING)
    start, name = _parallel_from(seen, project), project.metadata.name
    # It says the same when the time has come: status is not written again for that.
    message = f"All members may run in parallel from {format_time(start)} on, because there is no Rollout {name}."
    status = _status(seen, project, Phase.READY, Reason.DEFAULT_PARALLEL, message)
    if start > seen.now:
        return Decision(status=status, requeue_at=start, outcome=Outcome.WAITING)
    return _permit(seen, project, status)


def _permit(seen: Observation, project: Project, status: StatusPatch | None) -> Decision:
    """Grant a few of those that wait, once the server has said that there is no Rollout."""
    waiting = [member for member in seen.members if wants_grant(member)]
    eligible = [each for each in waiting if can_be_granted(each) and _eligible_at(each, seen.now) <= seen.now]
    later = [at for at in (_eligible_at(each, seen.now) for each in waiting) if at > seen.now]
    again = min(later, default=None)
    if seen.stale:
        return Decision(status=status, requeue_at=seen.now + _STALE_DELAY, outcome=Outcome.WAITING)
    if not eligible:
        return Decision(status=status, requeue_at=again, outcome=Outcome.WAITING if waiting else Outcome.DONE)
    if seen.rollout_live is None:
        return Decision(status=status, queries=(_live_rollout(project),), requeue_at=again, outcome=Outcome.WAITING)
    granted = round_robin(eligible, seen.now)[:GRANTS_PER_JUDGEMENT]
    meta = project.metadata
    still = (
        Unchanged(kind=PROJECTS, namespace=meta.namespace, name=meta.name, resource_version=meta.resource_version),
        Unchanged(kind=ROLLOUTS, namespace=meta.namespace, name=meta.name, resource_version=""),
    )
    return Decision(
        status=status,
        effects=tuple(grant(member, still) for member in granted),
        events=tuple(
            PERMISSION_EVENTS.normal(member, "Granted", f"Project {project.metadata.name} allows execution.")
            for member in granted
        ),
        requeue_at=seen.now if len(granted) < len(eligible) else again,
    )


def _delete(seen: Observation, project: Project) -> Decision:
    """Take back permission that no Rollout manages, then remove the finalizer; the members stay."""
    meta = project.metadata
    if FINALIZER not in meta.finalizers:
        return Decision(outcome=Outcome.GONE)
    if seen.refusal is not None or seen.failure is not None:
        return _trouble(seen, project, Phase.DELETING, Reason.DELETING)
    # The reason of the last rejection stays in the message: each change of it would bring about the next try.
    begun = project.status.phase is Phase.DELETING
    message = project.status.message if begun else _DELETION
    status = _status(seen, project, Phase.DELETING, Reason.DELETING, message)
    # The finalizer goes in a reconcile that judges the version which the status write makes.
    if seen.stale and seen.rollout_live is not None and status is None:
        return Decision(requeue_at=seen.now + _STALE_DELAY, outcome=Outcome.WAITING)  # no answer makes caches newer
    if seen.rollout_live is None or status is not None:
        return Decision(status=status, queries=(_live_rollout(project),), outcome=Outcome.WAITING)
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
            PERMISSION_EVENTS.normal(member, "Revoked", f"Project {meta.name} is being deleted.") for member in granted
        ),
    )


def _trouble(seen: Observation, project: Project, phase: Phase, reason: Reason) -> Decision:
    """Report the rejection. The other members get their turn: grants begin with another member every second."""
    text = rejection_text(seen.refusal, seen.failure, reads="Rollouts", controller="project")
    known = project.status.message == shorten(text)
    return Decision(
        status=_status(seen, project, phase, reason, text),
        events=() if known else (_EVENTS.warning(project, Reason.RECONCILE_ERROR, text),),
        requeue_at=seen.now + RETRY_DELAY,
        outcome=Outcome.WAITING,
    )


def _status(seen: Observation, project: Project, phase: Phase, reason: Reason, message: str) -> StatusPatch | None:
    standing = Standing(phase=phase, reason=reason, message=message, generation=project.metadata.generation)
    start = None if seen.managed else format_time(_parallel_from(seen, project))
    return _STATUS.patch(project, standing, seen.now, members=len(seen.members), parallel_from=start)


def _live_rollout(project: Project) -> LiveGet:
    return LiveGet(ROLLOUTS, project.metadata.namespace, project.metadata.name)


def _parallel_from(seen: Observation, project: Project) -> datetime:
    """Return from when on members may run: as stored, else after a delay from now, which no stored time exceeds."""
    latest = seen.now + (GRANT_DELAY if project.status.phase is None else RETURN_DELAY)
    stored = read_time(project.status.parallel_from)
    return parse_time(format_time(latest)) if stored is None else min(stored, latest)


def _eligible_at(member: Workspace, now: datetime) -> datetime:
    """Return when it has existed long enough."""
    return due_at(member.metadata.creation_timestamp, GRANT_DELAY, now)
