"""Reconcile and approve: who may, what is written, and what is refused."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from magos.api.annotations import APPROVED, APPROVED_BY, RECONCILE_REQUEST, REQUESTED_BY
from magos.errors import InvariantViolation
from magos.server import writes
from magos.server.access import Grant, Right, Verb
from magos.server.identity import Caller, CallerKind
from tests.sim.apiserver.faults import Lose, Rule
from tests.unit.server.asgi import Answer
from tests.unit.server.world import API, World, in_world

RUN, OTHER = "20260101T000000-00000000", "20260101T000000-11111111"
ONE = f"{API}/workspaces/default/a"
ANN = Caller(kind=CallerKind.OIDC, username="ann", subject="ann")


def gate(reason: str = "ManualApproval", run_id: str = RUN) -> Mapping[str, Any]:
    """Return the status of a Workspace whose plan waits."""
    return {
        "phase": "Planned",
        "currentRunID": run_id,
        "awaitingApproval": {"runID": run_id, "reason": reason, "since": "2026-01-01T00:00:00Z"},
    }


async def gated(world: World, reason: str = "ManualApproval") -> None:
    """Create Workspace ``a`` with a plan that waits."""
    world.workspace("a")
    await world.set_status("a", gate(reason))
    await world.settled()


async def approve(world: World, run_id: str = RUN, token: str = "ann", **more: object) -> Answer:  # noqa: S107
    """Approve a run."""
    body = msgspec.json.encode({"runID": run_id, **more})
    return await world.ask(f"{ONE}/approve", method="POST", body=body, token=token)


def test_reconcile_leaves_a_request_in_the_name_of_the_caller() -> None:
    async def scene(world: World) -> None:
        world.workspace("a")
        answer = await world.ask(f"{ONE}/reconcile", method="POST")
        assert answer.status == 200
        written = await world.annotations("a")
        assert answer.json["metadata"]["annotations"] == written
        assert answer.json["kind"] == "Workspace"
        by = msgspec.json.decode(written[REQUESTED_BY])
        assert by == {"request": written[RECONCILE_REQUEST], "principal": "ann"}
        assert world.access.asked == [Right(verb=Verb.PATCH, resource="workspaces", namespace="default", name="a")]

    in_world(scene)


def test_approve_leaves_the_run_and_the_caller() -> None:
    async def scene(world: World) -> None:
        await gated(world)
        answer = await approve(world)
        assert answer.status == 200
        written = await world.annotations("a")
        assert written[APPROVED] == RUN
        assert msgspec.json.decode(written[APPROVED_BY]) == {"runID": RUN, "principal": "ann"}
        right = Right(verb=Verb.PATCH, resource="workspaces", subresource="status", namespace="default", name="a")
        assert world.access.asked == [right]

    in_world(scene)


def test_two_equal_approvals_are_one_and_the_first_stays_on_record() -> None:
    async def scene(world: World) -> None:
        await gated(world)
        first, second = await approve(world), await approve(world, token="bob")
        assert (first.status, second.status) == (200, 200)
        assert first.json["metadata"]["resourceVersion"] == second.json["metadata"]["resourceVersion"]
        assert msgspec.json.decode((await world.annotations("a"))[APPROVED_BY])["principal"] == "ann"

    in_world(scene)


def test_an_approval_that_has_taken_effect_already_is_no_conflict() -> None:
    async def scene(world: World) -> None:
        await gated(world)
        taken = {"kind": "approved", "at": "2026-01-01T00:00:00Z"}
        status = {"phase": "Applying", "awaitingApproval": None, "currentRun": {"approval": taken}}
        await world.set_status("a", status)
        assert (await approve(world)).status == 200
        assert APPROVED not in await world.annotations("a")

    in_world(scene)


def test_approving_another_run_than_the_one_that_waits_is_409_and_names_it() -> None:
    async def scene(world: World) -> None:
        await gated(world)
        answer = await approve(world, OTHER)
        assert answer.status == 409
        assert answer.json["runID"] == RUN
        assert APPROVED not in await world.annotations("a")

    in_world(scene)


def test_approving_what_waits_for_nothing_is_409() -> None:
    async def scene(world: World) -> None:
        world.workspace("a")
        answer = await approve(world)
        assert answer.status == 409
        assert "no plan that waits" in answer.error

    in_world(scene)


def test_warnings_have_to_be_acknowledged() -> None:
    async def scene(world: World) -> None:
        await gated(world, "AuditViolations")
        refused = await approve(world)
        assert (refused.status, refused.json["runID"]) == (422, RUN)
        assert (await approve(world, acknowledgeWarnings=True)).status == 200

    in_world(scene)


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"[]", b'{"runID": 5}', b'{"runID": "x"}', b'{"runID": "%b", "acknowledgewarnings": true}', b"\xff"],
)
def test_a_body_that_is_wrong_is_400_and_nothing_is_written(body: bytes) -> None:
    async def scene(world: World) -> None:
        await gated(world)
        answer = await world.ask(f"{ONE}/approve", method="POST", body=body.replace(b"%b", RUN.encode()))
        assert answer.status == 400
        assert APPROVED not in await world.annotations("a")

    in_world(scene)


@pytest.mark.parametrize("action", ["reconcile", "approve"])
def test_whoever_may_not_is_refused_before_anything_is_read_or_written(action: str) -> None:
    async def scene(world: World) -> None:
        await gated(world)
        world.access.rule = lambda _caller, right: right.verb is not Verb.PATCH
        before = world.api.counts("")
        answer = await world.ask(f"{ONE}/{action}", method="POST", body=b'{"runID": "x"}')
        assert answer.status == 403
        assert world.api.counts("") == before

    in_world(scene)


@pytest.mark.parametrize("action", ["reconcile", "approve"])
def test_an_action_on_nothing_is_404(action: str) -> None:
    async def scene(world: World) -> None:
        body = msgspec.json.encode({"runID": RUN})
        answer = await world.ask(f"{API}/workspaces/default/no/{action}", method="POST", body=body)
        assert answer.status == 404

    in_world(scene)


def test_a_change_in_between_is_read_again_and_judged_anew() -> None:
    async def scene(world: World) -> None:
        await gated(world)
        world.before_patch(lambda: world.set_status("a", gate(run_id=OTHER)))
        answer = await approve(world)
        assert (answer.status, answer.json["runID"]) == (409, OTHER)
        assert APPROVED not in await world.annotations("a")

    in_world(scene)


def test_a_conflict_that_concerns_nothing_judged_is_not_shown() -> None:
    async def scene(world: World) -> None:
        await gated(world)
        world.before_patch(lambda: world.set_status("a", {"message": "changed"}))
        assert (await approve(world)).status == 200
        assert (await world.annotations("a"))[APPROVED] == RUN

    in_world(scene)


def test_a_write_without_an_answer_says_that_its_outcome_is_not_known() -> None:
    async def scene(world: World) -> None:
        world.workspace("a")
        world.api.faults.add(Rule(fault=Lose(effect=True), methods=frozenset({"PATCH"})))
        answer = await world.ask(f"{ONE}/reconcile", method="POST")
        assert answer.status == 503
        assert "look whether it was done" in answer.error

    in_world(scene)


@pytest.mark.parametrize(
    "right",
    [
        Right(verb=Verb.GET, resource="workspaces", subresource="status", namespace="default", name="a"),
        Right(verb=Verb.PATCH, resource="workspaces", namespace="default", name="a"),
        Right(verb=Verb.PATCH, resource="projects", subresource="status", namespace="default", name="a"),
        Right(verb=Verb.PATCH, resource="workspaces", subresource="status", namespace="default"),
        Right(verb=Verb.PATCH, resource="workspaces", subresource="status", name="a"),
    ],
)
def test_a_grant_for_anything_else_approves_nothing(right: Right) -> None:
    async def scene(world: World) -> None:
        await gated(world)
        with pytest.raises(InvariantViolation):
            await writes.approve(world.user, Grant(right=right, caller=ANN), RUN)
        assert APPROVED not in await world.annotations("a")

    in_world(scene)


def test_a_grant_to_approve_does_not_ask_for_a_run() -> None:
    async def scene(world: World) -> None:
        world.workspace("a")
        grant = Grant(right=writes.right_to_approve("default", "a"), caller=ANN)
        with pytest.raises(InvariantViolation):
            await writes.reconcile(world.user, grant, world.clock.now())
        assert RECONCILE_REQUEST not in await world.annotations("a")

    in_world(scene)
