"""A run that is over: applied, failed, or refused by a policy."""

from magos.api.explanations import explanations
from magos.api.phases import Phase
from magos.api.reasons import Reason
from magos.explain.account import Account, Attention, at, clause, command, path_of, plain, short, subject, time_of
from magos.explain.gates import command_of
from magos.explain.permission import Around


def applied(seen: Around, reason: Reason) -> Account:
    """Explain a run that ended well."""
    status = seen.workspace.status
    commit = f"commit {short(status.observed_revision)}" if status.observed_revision else "its configuration"
    found = "needs no changes for" if reason is Reason.NO_CHANGES else "has applied"
    return Account(
        attention=Attention.SETTLED,
        sentence=f"{subject(seen.workspace)} {found} {commit}{_next(seen, 'the next check for drift is due')}.",
        since=time_of(status.last_reconcile_time),
    )


def failed(seen: Around, reason: Reason) -> Account:
    """Explain a run that failed, with the way out of the reference page."""
    workspace = seen.workspace
    told = clause(workspace.status.message) or str(reason)
    what = "does not apply its plan" if workspace.status.phase is Phase.VALIDATION_FAILED else "has failed"
    first = command_of(workspace, reason)
    again = command("magos", "reconcile", path_of(workspace))
    return Account(
        attention=Attention.BROKEN,
        sentence=f"{subject(workspace)} {what} ({reason}): {told}{_next(seen, 'it is tried again')}.",
        since=time_of(workspace.status.last_reconcile_time),
        next_steps=(
            plain(explanations()[reason].fix),
            *(() if first == again else (f"then, not to wait for the next try: {again}",)),
        ),
        command=first,
    )


def _next(seen: Around, what: str) -> str:
    """Say when the schedule acts next; a time in the past says nothing."""
    due = time_of(seen.workspace.status.next_reconcile_time)
    return f"; {what} {at(due, seen.now)}" if due is not None and due > seen.now else ""
