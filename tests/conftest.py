"""What holds for all tiers: in CI nothing that can run is skipped, and no property fails because a machine is slow."""

import os

import pytest
from hypothesis import settings

__all__ = ["pytest_sessionfinish", "pytest_terminal_summary"]

settings.register_profile("magos", deadline=None)
settings.load_profile("magos")


def _skipped(config: pytest.Config) -> list[pytest.TestReport]:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    reports: list[pytest.TestReport] = [] if reporter is None else reporter.stats.get("skipped", [])
    return reports if os.environ.get("CI") == "true" else []


def pytest_sessionfinish(session: pytest.Session, exitstatus: int | pytest.ExitCode) -> None:
    """Fail a run in CI that skipped a test: a silent skip would read as proof."""
    if exitstatus == pytest.ExitCode.OK and _skipped(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say why such a run failed."""
    for report in _skipped(terminalreporter.config):
        terminalreporter.write_line(f"skipped in CI, which counts as a failure: {report.nodeid}", red=True)
