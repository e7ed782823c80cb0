"""Laws over the source of magos/runtime that no single test of a module would notice."""

import ast
from collections.abc import Iterator
from pathlib import Path

import magos.runtime

MODULES = sorted(Path(magos.runtime.__path__[0]).glob("*.py"))

CLOCKS = {
    "datetime.datetime": {"now", "today", "utcnow"},
    "datetime": {"now", "today", "utcnow"},
    "date": {"today"},
    "time": {"time", "monotonic", "perf_counter", "time_ns", "monotonic_ns", "clock_gettime", "sleep", "localtime"},
}
UNSEEDED = {"random", "uniform", "randint", "choice", "shuffle", "sample", "getrandbits", "randrange", "seed"}


def calls(module: Path) -> Iterator[tuple[str, str, int]]:
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield ast.unparse(node.func.value), node.func.attr, node.lineno


ALLOWED = {"clock": ["time.clock_gettime", "datetime.now"], "logs": ["datetime.now"]}
"""The clock itself; and a line of the log is stamped for people, outside of anything that decides."""


def test_only_the_clock_reads_a_clock_and_only_given_generators_draw() -> None:
    """Or virtual time would not be the time of everything, and a seed would not bring a failure back."""
    found: dict[str, list[str]] = {}
    for module in MODULES:
        for owner, name, _ in calls(module):
            if name in CLOCKS.get(owner, ()) or (owner == "random" and name in UNSEEDED):
                found.setdefault(module.stem, []).append(f"{owner}.{name}")
    assert found == ALLOWED


def test_no_task_is_left_without_an_owner() -> None:
    """A task that nobody holds may be collected while it runs, and nobody hears of its death."""
    bare = {"create_task", "ensure_future", "run_coroutine_threadsafe"}
    found = [f"{module.stem}:{line}" for module in MODULES for _, name, line in calls(module) if name in bare]
    assert found == []
