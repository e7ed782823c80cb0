"""Prints what the simulation has done, once, at the end of a run."""

import pytest

from tests.sim.tally import TALLY

__all__ = ["pytest_terminal_summary"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the figures wherever a simulation took part."""
    if TALLY.histories:
        terminalreporter.write_line(TALLY.line())
