"""The two writes of the API: ask for a run, approve a run (spec §9.2, invariants I10 and I12).

Each takes a ``Grant`` and acts on exactly what the grant is for, in the name of the caller whom it was given to: there
is no other way to say which Workspace is meant. Each is judged by the Workspace as it is now and written on the version
that it was judged by; what has changed in between is read again once and judged anew.
"""

from collections.abc import Callable
from datetime import datetime

import structlog

from magos import actions
from magos.api.annotations import APPROVED
from magos.api.workspace import WORKSPACES, Workspace
from magos.errors import InvariantViolation
from magos.runtime.client.client import ApiClient
from magos.runtime.client.errors import ApiError
from magos.server.access import Grant, Right, Verb
from magos.server.problems import Problem

Judge = Callable[[Workspace], actions.Patch | None]
"""Returns what to write on this version of the Workspace, None if what is wanted is there already."""

_TRIES = 2

_log = structlog.get_logger(__name__)


def right_to_reconcile(namespace: str, name: str) -> Right:
    """Return the right that asking for a run needs."""
    return Right(verb=Verb.PATCH, resource=WORKSPACES.plural, namespace=namespace, name=name)


def right_to_approve(namespace: str, name: str) -> Right:
    """Return the right that approving a run needs."""
    return Right(verb=Verb.PATCH, resource=WORKSPACES.plural, subresource="status", namespace=namespace, name=name)


async def reconcile(client: ApiClient, grant: Grant, now: datetime) -> Workspace:
    """Ask for a run and return the Workspace as it is then. A plan that waits is discarded by it.

    Raises ``Problem`` 404, 409 (it is being deleted, or changes all the time) and 503.
    """
    _check(grant, right_to_reconcile)
    principal = grant.caller.username
    written = await _write(client, grant, lambda found: actions.reconcile(found, now, principal))
    _note("asked for a run", grant)
    return written


async def approve(client: ApiClient, grant: Grant, run_id: str, *, acknowledge_warnings: bool = False) -> Workspace:
    """Approve exactly the run ``run_id`` and return the Workspace as it is then.

    Approving what is approved already changes nothing, and who approved first stays on record. Raises ``Problem`` 404,
    409 (no plan waits, another run waits, or it changes all the time), 422 (warnings not acknowledged) and 503.
    """
    _check(grant, right_to_approve)

    def judge(found: Workspace) -> actions.Patch | None:
        if _approved(found, run_id):
            return None
        principal = grant.caller.username
        return actions.approve(found, run_id, acknowledge_warnings=acknowledge_warnings, principal=principal)

    written = await _write(client, grant, judge)
    _note("approved a run", grant, run_id)
    return written


def _check(grant: Grant, wanted: Callable[[str, str], Right]) -> None:
    """Refuse a grant for anything else: an error of the program, never of the caller."""
    right = grant.right
    if not (right.namespace and right.name) or right != wanted(right.namespace, right.name):
        raise InvariantViolation(f"a grant to {right} does not cover {wanted('its namespace', 'its name')}")


def _approved(found: Workspace, run_id: str) -> bool:
    """Tell whether this run's gate is open already, or about to be opened by an approval that is on its way."""
    status = found.status
    if found.metadata.deletion_timestamp or status.current_run_id != run_id:
        return False
    if status.awaiting_approval is not None:
        return found.metadata.annotations.get(APPROVED) == run_id
    return status.current_run is not None and status.current_run.approval is not None


async def _write(client: ApiClient, grant: Grant, judge: Judge) -> Workspace:
    namespace, name = grant.right.namespace, grant.right.name
    for _ in range(_TRIES):
        try:
            found = await client.get(WORKSPACES, namespace, name)
            patch = _judged(judge, found)
            return found if patch is None else await client.patch(WORKSPACES, namespace, name, patch)
        except ApiError as error:
            if error.not_found:
                raise Problem(404, f"there is no {WORKSPACES.ref(namespace, name)}") from error
            if not error.conflict:
                raise
    where = WORKSPACES.ref(namespace, name)
    raise Problem(409, f"{where} has been changed at the same moment, twice: look at it and try again")


def _judged(judge: Judge, found: Workspace) -> actions.Patch | None:
    waiting = found.status.awaiting_approval
    run_id = waiting.run_id if waiting is not None else ""
    try:
        return judge(found)
    except actions.UnacknowledgedWarnings as error:
        raise Problem(422, str(error), run_id=run_id) from error
    except (actions.NotGated, actions.AnotherRun, actions.BeingDeleted) as error:
        raise Problem(409, str(error), run_id=run_id) from error


def _note(what: str, grant: Grant, run_id: str = "") -> None:
    right, caller = grant.right, grant.caller
    fields = {"namespace": right.namespace, "workspace": right.name, "run_id": run_id}
    _log.info(what, caller=caller.username, caller_kind=str(caller.kind), **{k: v for k, v in fields.items() if v})
