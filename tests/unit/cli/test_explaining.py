"""``magos explain``: the account of a Workspace on a terminal and for programs."""

import json

from magos.api.phases import Phase
from magos.api.project import PROJECTS
from magos.terminal import shown
from tests.unit.cli.shop import HOSTILE, Shop
from tests.unit.cli.test_asking import gated
from tests.unit.explain.objects import RUN, project, workspace


def test_the_account_has_holder_time_steps_and_the_command_under_the_name_of_the_program(shop: Shop) -> None:
    shop.put(PROJECTS, project())
    shop.has(gated())
    shop.program = "kubectl magos"
    assert shop("explain", "prod").out.splitlines() == [
        (
            f"Workspace team-a/prod waits for a person to approve run {RUN}: its plan of commit c0ffee0 destroys 1,"
            " changes 2 and adds 3."
        ),
        "  held by  a person who may approve",
        "  since    2026-05-01T11:59:30Z (30s ago)",
        "  next     read the plan, then approve exactly this run",
        f"           $ kubectl magos approve team-a/prod --run {RUN}",
        "           or discard the plan: a reconcile request begins a new run",
    ]


def test_a_project_that_may_not_be_read_is_not_called_missing(shop: Shop) -> None:
    shop.has(workspace(Phase.PENDING, "AwaitingRollout"))
    assert "its Project shop does not exist" in shop("explain", "prod").out
    handle = shop.server.handle

    def forbidden(request: object, user: str = "") -> object:
        answer = handle(request, user)  # type: ignore[arg-type]
        if "/projects/" in getattr(request, "path", ""):
            return type(answer)(status=403, headers={}, body=b'{"message":"no"}')
        return answer

    shop.server.handle = forbidden  # type: ignore[assignment,method-assign]
    assert "waits with run" in shop("explain", "prod").out


def test_the_account_is_exact_for_programs_and_escaped_for_terminals(shop: Shop) -> None:
    shop.has(workspace(Phase.FAILED, "PlanFailed", HOSTILE))
    exact = json.loads(shop("explain", "prod", "-o", "json").out)
    assert exact["attention"] == "broken"
    assert "\x1b[2J" in exact["sentence"]
    printed = shop("explain", "prod").out
    assert shown(printed) == printed
    assert "\nmagos: all is well" not in printed


def test_who_is_not_there_is_not_explained(shop: Shop) -> None:
    assert shop("explain", "prod").code == 3
