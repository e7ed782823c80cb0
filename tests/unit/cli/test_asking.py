"""What a person asks for on the command line reaches exactly the version that was judged."""

from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from magos.api.annotations import APPROVED, RECONCILE_REQUEST
from magos.api.phases import Phase
from magos.api.project import PROJECTS
from magos.api.rollout import ROLLOUTS
from magos.api.workspace import AwaitingApproval, GateReason, PlanSummary, PolicyViolation, Workspace
from magos.terminal import shown
from tests.unit.cli.shop import HOSTILE, Shop
from tests.unit.explain.objects import COMMIT, RUN, project, rollout, with_meta, workspace

REQUEST = "2026-05-01T12:00:00.000000000Z"


def gated(reason: GateReason = GateReason.MANUAL_APPROVAL, **status: Any) -> Workspace:
    gate = AwaitingApproval(run_id=RUN, reason=reason, since="2026-05-01T11:59:30Z", revision=COMMIT)
    summary = PlanSummary(add=3, change=2, destroy=1, no_changes=False)
    return workspace(Phase.PLANNED, "PlanSucceeded", awaiting_approval=gate, plan_summary=summary, **status)


VIOLATED = gated(GateReason.AUDIT_VIOLATIONS, policy_violations=(PolicyViolation(policy="no-public", message=HOSTILE),))


def _writes(shop: Shop) -> int:
    return shop.server.counts()["patch"]


def test_a_reconcile_request_is_written_and_told(shop: Shop) -> None:
    shop.has(workspace(Phase.APPLIED, "ApplySucceeded"))
    ended = shop("reconcile", "prod")
    assert (ended.code, ended.out) == (0, "Asked for a run of Workspace team-a/prod.\n")
    assert shop.annotations()[RECONCILE_REQUEST] == REQUEST


def test_a_request_is_judged_anew_if_the_workspace_changes_in_between(shop: Shop) -> None:
    shop.has(workspace(Phase.APPLIED, "ApplySucceeded"))
    handle = shop.server.handle
    changed: list[Any] = []

    def change_first(request: Any, user: str = "") -> Any:
        if request.method == "PATCH" and len(changed) < 2:
            changed.append(request)
            shop.has(workspace(Phase.APPLIED, "NoChanges", f"look {len(changed)}"))
        return handle(request, user)

    shop.server.handle = change_first  # type: ignore[method-assign]
    assert shop("reconcile", "prod").code == 0
    assert _writes(shop) == 3


def _controller(shop: Shop, *steps: Workspace) -> Callable[[], Coroutine[Any, Any, None]]:
    async def meanwhile() -> None:
        await anyio.sleep(1)
        for step in steps:
            shop.has(with_meta(step, annotations=shop.annotations()))
            await anyio.sleep(1)

    return meanwhile


PENDING = workspace(Phase.PENDING, "AwaitingRollout")
PLANNING = workspace(Phase.PLANNING, "Planning")
DONE = workspace(Phase.APPLIED, "ApplySucceeded", observed_revision=COMMIT, last_handled_reconcile_request=REQUEST)
BROKEN = workspace(Phase.FAILED, "PlanFailed", HOSTILE, last_handled_reconcile_request=REQUEST)


def test_whoever_waits_for_a_run_is_told_each_reason_once_and_its_end(shop: Shop) -> None:
    shop.put(PROJECTS, project())
    shop.has(workspace(Phase.APPLIED, "ApplySucceeded"))
    shop.meanwhile = _controller(shop, PENDING, PLANNING, replace(PLANNING, spec=PLANNING.spec), DONE)
    ended = shop("reconcile", "prod", "--wait")
    assert ended.code == 0
    assert ended.out.splitlines()[-1] == "Workspace team-a/prod has applied commit c0ffee0."
    reasons = ended.err.splitlines()
    assert "reconcile request that has not been taken up" in reasons[0]
    assert "the permission of Project shop" in reasons[1]
    assert reasons[2] == f"Workspace team-a/prod plans commit c0ffee0 in run {RUN}."
    assert len(reasons) == 3


def test_a_run_that_fails_ends_the_wait_with_1_and_its_explanation_through_the_door(shop: Shop) -> None:
    shop.has(workspace(Phase.APPLIED, "ApplySucceeded"))
    shop.meanwhile = _controller(shop, BROKEN)
    ended = shop("reconcile", "prod", "--wait")
    assert ended.code == 1
    assert ended.err.splitlines()[-1].startswith("magos: Workspace team-a/prod has failed (PlanFailed): x\\x1b[2J")
    assert shown(ended.err) == ended.err


def test_a_wait_that_is_too_long_ends_with_5_and_the_last_reason(shop: Shop) -> None:
    shop.put(PROJECTS, project())
    shop.has(workspace(Phase.APPLIED, "ApplySucceeded"))
    shop.meanwhile = _controller(shop, PLANNING)
    ended = shop("reconcile", "prod", "--wait", "--timeout", "90s")
    assert ended.code == 5
    assert ended.err.splitlines()[-1].startswith(
        f"magos: gave up after 1m30s: Workspace team-a/prod plans commit c0ffee0 in run {RUN}"
    )
    assert shop("reconcile", "prod", "--wait", "--timeout", "soon").code == 2


def test_a_workspace_that_is_deleted_ends_the_wait_with_3(shop: Shop) -> None:
    shop.has(workspace(Phase.APPLIED, "ApplySucceeded"))

    async def remove() -> None:
        await anyio.sleep(1)
        resource = next(each for each in shop.server.resources if each.plural == "workspaces")
        shop.server.store.remove(resource, ("team-a", "prod"))

    shop.meanwhile = remove
    ended = shop("reconcile", "prod", "--wait")
    assert (ended.code, "was deleted while it was waited for" in ended.err) == (3, True)


def test_a_later_request_of_somebody_else_serves_the_wait_as_well(shop: Shop) -> None:
    shop.has(workspace(Phase.APPLIED, "ApplySucceeded"))

    async def meanwhile() -> None:
        await anyio.sleep(1)
        shop.has(with_meta(PENDING, annotations={RECONCILE_REQUEST: "theirs"}))
        await anyio.sleep(1)
        shop.has(workspace(Phase.APPLIED, "NoChanges", last_handled_reconcile_request="theirs"))

    shop.meanwhile = meanwhile
    assert shop("reconcile", "prod", "--wait", "--timeout", "1h").code == 0


def test_who_waits_for_a_rollout_hears_of_its_progress_although_the_workspace_does_not_change(shop: Shop) -> None:
    shop.put(ROLLOUTS, rollout(0, "dev", "prod", message="Step dev of 2: running dev."))
    shop.has(PENDING)

    async def meanwhile() -> None:
        await anyio.sleep(30)
        shop.put(ROLLOUTS, rollout(1, "dev", "prod", message="Step prod of 2: waiting prod."))
        await anyio.sleep(30)
        shop.has(DONE)

    shop.meanwhile = meanwhile
    ended = shop("reconcile", "prod", "--wait")
    assert "after the active step dev (1 of 2)" in ended.err
    assert "its step prod (2 of 2) is active" in ended.err


def test_an_approval_names_its_run(shop: Shop) -> None:
    shop.has(gated())
    ended = shop("approve", "team-a/prod", "--run", RUN)
    assert (ended.code, ended.out) == (0, f"Approved run {RUN} of Workspace team-a/prod; the apply follows.\n")
    assert shop.annotations()[APPROVED] == RUN


def test_another_run_or_none_that_waits_is_refused_without_a_write(shop: Shop) -> None:
    shop.has(gated(), with_meta(workspace(Phase.APPLIED, "NoChanges"), name="calm"))
    other = shop("approve", "prod", "--run", "20250101T000000-00000000")
    assert (other.code, f"waits for the approval of run {RUN}" in other.err) == (1, True)
    for arguments in (("--run", RUN), ()):
        calm = shop("approve", "calm", *arguments)
        assert (calm.code, "has no plan that waits for approval" in calm.err) == (1, True)
    assert _writes(shop) == 0


def test_violations_are_approved_only_with_the_acknowledgement(shop: Shop) -> None:
    shop.has(VIOLATED)
    assert shop("approve", "prod", "--run", RUN).code == 1
    assert _writes(shop) == 0
    assert shop("approve", "prod", "--run", RUN, "--acknowledge-warnings").code == 0


def test_without_a_terminal_the_run_has_to_be_named(shop: Shop) -> None:
    shop.has(gated())
    ended = shop("approve", "prod", given="y\n")
    assert (ended.code, f"run {RUN} of Workspace team-a/prod waits" in ended.err) == (2, True)
    assert _writes(shop) == 0


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), (f"{RUN}\n", 0), ("n\n", 1), ("\n", 1), ("Y es\n", 1)])
def test_on_a_terminal_the_plan_is_shown_with_what_is_lost_first_and_asked_about(
    shop: Shop, typed: str, code: int
) -> None:
    shop.has(gated())
    ended = shop("approve", "prod", typed=typed)
    assert ended.code == code
    assert ended.out.splitlines()[:4] == [
        "Workspace team-a/prod waits for approval since 2026-05-01T11:59:30Z.",
        f"  run      {RUN}",
        f"  commit   {COMMIT}",
        "  changes  1 to destroy, 2 to change, 3 to add",
    ]
    assert (APPROVED in shop.annotations()) is (code == 0)


@pytest.mark.parametrize(("typed", "code"), [("y\n", 1), (f"{RUN}\n", 0)])
def test_violations_are_shown_through_the_door_and_need_the_whole_run_id(shop: Shop, typed: str, code: int) -> None:
    shop.has(VIOLATED)
    ended = shop("approve", "prod", typed=typed)
    assert ended.code == code
    assert "    no-public: x\\x1b[2J" in ended.out
    assert shown(ended.out) == ended.out


def test_what_changes_while_a_person_reads_is_not_approved(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.has(gated())

    def slow_reader(*_: object, **__: object) -> str:
        shop.has(
            replace(
                gated(),
                status=replace(gated().status, plan_summary=PlanSummary(add=9, change=9, destroy=9, no_changes=False)),
            )
        )
        return "y"

    monkeypatch.setattr("click.prompt", slow_reader)
    ended = shop("approve", "prod", typed="y\n")
    assert (ended.code, "has changed since it was shown" in ended.err) == (1, True)
    assert APPROVED not in shop.annotations()


def test_to_discard_says_what_is_given_up_and_needs_a_plan_that_waits(shop: Shop) -> None:
    shop.has(gated(), with_meta(workspace(Phase.APPLIED, "NoChanges"), name="calm"))
    ended = shop("discard", "prod")
    assert ended.out.splitlines() == [
        f"Discarded the plan of run {RUN} of commit c0ffee0 (1 to destroy, 2 to change, 3 to add).",
        "A new run of Workspace team-a/prod follows.",
    ]
    assert shop.annotations()[RECONCILE_REQUEST] == REQUEST
    calm = shop("discard", "calm")
    assert (calm.code, "there is nothing to discard" in calm.err) == (1, True)
    shop.has(with_meta(gated(), name="other"))
    assert shop("reconcile", "other").out.startswith(f"Discarded the plan of run {RUN}")
