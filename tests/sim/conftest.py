"""Prints what the simulation has done, once, at the end of a run, and begins nothing after the end of a soak.

Several processes may share the tests (``pytest -n``): each hands its counts to the one that prints.
"""

from dataclasses import asdict
from typing import Any

import pytest

from tests.sim.tally import TALLY, Tally, is_over

__all__ = [
    "pytest_collection_modifyitems",
    "pytest_runtest_protocol",
    "pytest_sessionfinish",
    "pytest_terminal_summary",
    "pytest_testnodedown",
]

_LONG = ("test_users_and_adversary", "test_crash_points")
_KEY = "magos_sim_tally"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, so that no processor is idle at the end."""
    items.sort(key=lambda item: item.path.stem not in _LONG)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Leave out what would begin after the end of a soak."""
    del item
    return True if is_over() else None


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the counts of a worker over."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_KEY] = asdict(TALLY)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Take the counts of a worker in; one that died has none, and its test has failed."""
    del error
    TALLY.add(Tally(**getattr(node, "workeroutput", {}).get(_KEY, {})))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the figures wherever a simulation took part."""
    if TALLY.histories:
        terminalreporter.write_line(TALLY.line())
