"""The promotion guarantee: a later step receives a commit only after all earlier steps applied it (spec §6.4, rule 8).

It holds between Workspaces of the same repository and target revision, however each spells them. A member with others
before it is not granted while its commit is unknown, or not recorded by its run yet: only a recorded commit takes
permission with it when it is replaced (spec §6.2.4); an announced one that is overtaken would leave the permission to
the next.
"""

from collections.abc import Iterable

from msgspec import Struct

from magos.api.phases import WITH_PLAN, Phase
from magos.api.samesource import same_source
from magos.api.workspace import Workspace
from magos.reconcilers.revisions import applied_revision, pending_revision, source_of

__all__ = ["Obstacle", "obstacle_of", "released_revisions"]


class Obstacle(Struct, frozen=True, kw_only=True):
    """Why a member must wait: its commit (empty if unknown) and the earlier Workspaces that have not applied it.

    Without such Workspaces its own run has not recorded the commit yet.
    """

    member: Workspace
    revision: str
    behind: tuple[Workspace, ...]


def released_revisions(member: Workspace) -> tuple[str, ...]:
    """Return every commit that a grant could let through now.

    That is the pending revision; and, where there is a plan already, the commit of that plan: a newer commit does not
    replace it as long as an approval can still carry it on.
    """
    pending, run = pending_revision(member), member.status.current_run
    if member.status.phase not in WITH_PLAN:
        return (pending,)
    pinned = run.revision if run is not None else ""
    return (pending,) if pinned == pending else (pending, pinned)


def obstacle_of(member: Workspace, earlier: Iterable[Workspace]) -> Obstacle | None:
    """Return what stands against a grant to ``member``, None if nothing does."""
    source = member.spec.source
    before = [each for each in earlier if same_source(each.spec.source, source)]
    for revision in released_revisions(member):
        behind = tuple(each for each in before if not revision or applied_revision(each) != revision)
        if behind:
            return Obstacle(member=member, revision=revision, behind=behind)
    pending = pending_revision(member)
    if before and member.status.phase not in WITH_PLAN and _recorded_revision(member) != pending:
        return Obstacle(member=member, revision=pending, behind=())
    return None


def _recorded_revision(member: Workspace) -> str:
    """The commit that the waiting run names, empty if there is no such run or it is of another source."""
    run = member.status.current_run
    waits = run is not None and member.status.phase is Phase.PENDING and run.source_key == source_of(member)
    return run.revision if run is not None and waits else ""
