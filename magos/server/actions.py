"""The routes that write: reconcile and approve (spec §9.2)."""

import msgspec
from msgspec import Struct, field
from starlette.responses import Response

from magos.api.workspace import WORKSPACES, Workspace
from magos.ids import parse_run_id
from magos.server import writes
from magos.server.encoding import JSON, resource
from magos.server.problems import Problem
from magos.server.resources import BASE, NAME, NAMESPACE
from magos.server.table import Answer, Call, Operation


class ApprovalRequest(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Which run is approved, and whether the warnings were read."""

    run_id: str = field(name="runID")
    """ID of the run whose plan was looked at."""

    acknowledge_warnings: bool = False
    """True if the violations of policies were read, and the plan is to be applied all the same."""


def operations() -> list[Operation]:
    """Return the operations that write."""
    one = f"{BASE}/{WORKSPACES.plural}/{{namespace}}/{{name}}"
    return [
        Operation(
            method="POST",
            path=f"{one}/reconcile",
            handler=_reconcile,
            summary="Ask for a run",
            description="A plan that waits for approval is discarded by it.",
            parameters=(NAMESPACE, NAME),
            answer=Answer(description="The Workspace with the request.", type=Workspace),
            refusals=(400, 403, 404, 409),
        ),
        Operation(
            method="POST",
            path=f"{one}/approve",
            handler=_approve,
            summary="Approve the plan of a run",
            description="409 if no plan waits or that of another run; 422 if warnings are to be acknowledged. Both name"
            " the run that waits as `runID`.",
            parameters=(NAMESPACE, NAME),
            body=ApprovalRequest,
            answer=Answer(description="The Workspace with the approval.", type=Workspace),
            refusals=(400, 403, 404, 409, 413, 422),
        ),
    ]


async def _reconcile(call: Call) -> Response:
    right = writes.right_to_reconcile(call.namespace, call.name)
    grant = await call.context.access.require(call.caller, right)
    found = await writes.reconcile(call.context.client, grant, call.context.clock.now())
    return Response(resource(WORKSPACES, found), media_type=JSON)


async def _approve(call: Call) -> Response:
    right = writes.right_to_approve(call.namespace, call.name)
    grant = await call.context.access.require(call.caller, right)
    wanted = await _request(call)
    found = await writes.approve(
        call.context.client, grant, wanted.run_id, acknowledge_warnings=wanted.acknowledge_warnings
    )
    return Response(resource(WORKSPACES, found), media_type=JSON)


async def _request(call: Call) -> ApprovalRequest:
    try:
        wanted = msgspec.json.decode(await call.request.body(), type=ApprovalRequest)
        parse_run_id(wanted.run_id)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Problem(
            400, f'the body must be like {{"runID": "...", "acknowledgeWarnings": false}}: {error}'
        ) from error
    return wanted
