"""The figures by name, each group measured once for all its names."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from tests.bench import (
    canary,
    crowd,
    exchanges,
    fleet,
    history,
    hostile,
    loglines,
    pages,
    pause,
    redaction,
    run,
    runner,
    simulation,
    startup,
    walk,
)

__all__ = ["NAMES", "measure"]

Figures: TypeAlias = Mapping[str, float]

_GROUPS: tuple[tuple[tuple[str, ...], Callable[[], Figures]], ...] = (
    (("startup.job_ratio", "startup.controller_ratio", "startup.cli_ratio"), startup.measure),
    (("run.api_writes", "run.api_requests", "idle.writes_per_minute"), run.measure),
    (("demo.warm_seconds",), walk.measure),
    (("canary.inputs", "canary.leaks"), canary.measure),
    (("history.runs", "history.records_lost", "history.logs_unequal"), history.measure),
    (("plan.exchanges_tried", "plan.exchanged"), exchanges.measure),
    (("hostile.attacks", "hostile.succeeded"), hostile.measure),
    (("runner.fetch_time_ratio", "runner.fetch_peak_mib"), runner.measure_fetch),
    (("runner.plan_overhead_seconds", "runner.apply_overhead_seconds"), runner.measure_overhead),
    (("pause.seconds_to_last_grant",), pause.measure),
    (("redaction.ms_per_line",), redaction.measure),
    (simulation.NAMES, simulation.measure),
    (fleet.NAMES, fleet.measure),
    (loglines.NAMES, loglines.measure),
    (crowd.NAMES, crowd.measure),
    (pages.NAMES, pages.measure),
)

NAMES = tuple(name for names, _ in _GROUPS for name in names)


def measure(wanted: Iterable[str]) -> dict[str, float]:
    """Return the wanted figures; ``KeyError`` names one that does not exist."""
    wanted = list(wanted) or list(NAMES)
    for name in wanted:
        if name not in NAMES:
            raise KeyError(name)
    result: dict[str, float] = {}
    for names, measured in _GROUPS:
        if any(name in wanted for name in names):
            result |= {name: value for name, value in measured().items() if name in wanted}
    return result
