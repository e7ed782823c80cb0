"""The promotion guarantee: a later step gets nothing that the earlier ones have not applied (spec §6.4, rule 8).

1. Commits: between Workspaces of the same repository and target revision, however each spells them. A member with
   others before it is not granted while its commit is unknown, or not recorded by its run yet: only a recorded commit
   takes permission with it when it is replaced (spec §6.2.4); an announced one that is overtaken would leave the
   permission to the next.
2. Variables: between Workspaces that use the same VariableSet, whatever their repository. What a run takes is recorded
   like its commit, and takes permission with it in the same way.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from magos.api.phases import GRANTABLE, WITH_PLAN, Phase
from magos.api.samesource import same_source
from magos.api.workspace import UsedVariableSet, Workspace
from magos.reconcilers.revisions import applied_revision, pending_revision, source_of


class Obstacle(Struct, frozen=True, kw_only=True):
    """Why a member must wait: for the earlier Workspaces ``behind`` to apply its commit, or a VariableSet if one is
    named. Without such Workspaces its own run has not recorded the commit (empty if unknown) yet.
    """

    member: Workspace
    revision: str
    variable_set: str = ""
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


def obstacle_of(member: Workspace, earlier: Sequence[Workspace]) -> Obstacle | None:
    """Return what stands against a grant to ``member``, None if nothing does."""
    source = member.spec.source
    before = [each for each in earlier if same_source(each.spec.source, source)]
    for revision in released_revisions(member):
        behind = tuple(each for each in before if not revision or applied_revision(each) != revision)
        if behind:
            return Obstacle(member=member, revision=revision, behind=behind)
    pending = pending_revision(member)
    unrecorded = before and member.status.phase not in WITH_PLAN and _recorded_revision(member) != pending
    if unrecorded or (member.status.phase is None and any(map(_has_variables, earlier))):
        return Obstacle(member=member, revision=pending, behind=())
    return _variables_before(member, earlier)


def _recorded_revision(member: Workspace) -> str:
    """The commit that the waiting run names, empty if there is no such run or it is of another source."""
    run = member.status.current_run
    waits = run is not None and member.status.phase is Phase.PENDING and run.source_key == source_of(member)
    return run.revision if run is not None and waits else ""


def _variables_before(member: Workspace, earlier: Iterable[Workspace]) -> Obstacle | None:
    """Return the first set of the waiting run that an earlier Workspace uses and has not applied in that form."""
    run = member.status.current_run if member.status.phase in GRANTABLE else None
    for used in run.variable_sets if run is not None else ():
        behind = tuple(each for each in earlier if _uses(each, used) and not _has_applied(each, used))
        if behind:
            return Obstacle(member=member, revision=pending_revision(member), variable_set=used.name, behind=behind)
    return None


def _uses(earlier: Workspace, used: UsedVariableSet) -> bool:
    """A set of the Project is everybody's, also where the workspace controller has not noticed it yet."""
    return used.inherited or any(reference.name == used.name for reference in earlier.spec.variable_set_ref)


def _has_applied(earlier: Workspace, used: UsedVariableSet) -> bool:
    """An Applied Workspace tells at its next pass what it has; another one that never told may never do so."""
    observed = earlier.status.observed_variables
    if observed is None:
        return earlier.status.phase is not Phase.APPLIED
    return any((each.name, each.digest) == (used.name, used.digest) for each in observed.sets)


def _has_variables(earlier: Workspace) -> bool:
    observed = earlier.status.observed_variables
    return bool(earlier.spec.variable_set_ref) or (observed is not None and bool(observed.sets))
