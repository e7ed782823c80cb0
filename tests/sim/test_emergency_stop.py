"""A stop in the middle of many grants ends them within a second, whoever gives them."""

import pytest

from tests.sim.stops import PROJECT_STOPS, ROLLOUT_STOPS, Stop, last_grant

LONGEST_AFTER_STOP = 1.0


@pytest.mark.parametrize("after", [1, 30, 200])
@pytest.mark.parametrize("stop", ROLLOUT_STOPS)
def test_a_rollout_that_is_stopped_grants_nobody_a_second_later(stop: Stop, after: int) -> None:
    assert last_grant("rollout", stop, after) <= LONGEST_AFTER_STOP


@pytest.mark.parametrize("after", [1, 30])
@pytest.mark.parametrize("stop", PROJECT_STOPS)
def test_a_project_that_is_stopped_grants_nobody_a_second_later(stop: Stop, after: int) -> None:
    assert last_grant("project", stop, after) <= LONGEST_AFTER_STOP
