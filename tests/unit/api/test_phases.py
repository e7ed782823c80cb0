"""The tables of phases and reasons hang together."""

import pytest

from magos.api.phases import GRANTABLE, RUNNING, TERMINAL, WITH_PLAN, WORKSPACE_TRANSITIONS, Phase, may_follow
from magos.api.reasons import WORKSPACE_REASONS, Reason


def test_the_phase_table_is_closed() -> None:
    reachable: set[Phase] = set()
    pending: list[Phase | None] = [None]
    while pending:
        for after in WORKSPACE_TRANSITIONS[pending.pop()] - reachable:
            reachable.add(after)
            pending.append(after)
    assert reachable == set(WORKSPACE_TRANSITIONS) - {None}
    assert reachable == set(WORKSPACE_REASONS)
    assert reachable == set(Phase) - {Phase.IDLE, Phase.READY, Phase.RECONCILING}


@pytest.mark.parametrize("before", [phase for phase in WORKSPACE_TRANSITIONS if phase not in RUNNING])
def test_no_apply_without_a_plan_and_no_plan_without_a_reset(before: Phase | None) -> None:
    assert not may_follow(before, Phase.APPLYING) or before in WITH_PLAN
    assert not may_follow(before, Phase.PLANNING) or before is Phase.PENDING
    assert may_follow(before, Phase.DELETING)


def test_the_groups_of_phases_do_not_overlap() -> None:
    assert not RUNNING & TERMINAL
    assert not WITH_PLAN & (RUNNING | TERMINAL)
    assert frozenset({None, Phase.PENDING}) | WITH_PLAN == GRANTABLE


def test_reasons_are_camel_case_and_unique() -> None:
    assert all(reason.isalnum() and reason[0].isupper() for reason in Reason)
    assert len(set(Reason)) == len(Reason.__members__)
