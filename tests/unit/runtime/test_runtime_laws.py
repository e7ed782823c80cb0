"""Laws over the source of magos/runtime and the types it caches that no single test of a module would notice."""

import ast
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

from msgspec import inspect

import magos.api
import magos.runtime
from magos.api.meta import Kind

MODULES = sorted(Path(magos.runtime.__path__[0]).rglob("*.py"))

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


def parts(info: inspect.Type) -> Iterator[inspect.Type]:
    """Yield the types directly inside of a type; what is untyped JSON ends there."""
    if isinstance(info, inspect.StructType):
        yield from (each.type for each in info.fields)
    elif isinstance(info, inspect.UnionType):
        yield from info.types
    elif isinstance(info, inspect.TupleType):
        yield from info.item_types
    elif isinstance(info, inspect.VarTupleType):
        yield info.item_type
    elif isinstance(info, inspect.DictType):
        yield info.value_type
    else:
        assert not isinstance(info, inspect.ListType | inspect.SetType), "a cached object is handed out as it is"


def test_cached_objects_are_frozen_and_hold_no_cycles_so_that_the_collector_may_pass_them_over() -> None:
    seen: set[type] = set()

    def walk(info: inspect.Type, path: tuple[type, ...]) -> None:
        if isinstance(info, inspect.StructType):
            assert info.cls not in path, f"{info.cls.__name__} may hold itself"
            if info.cls in seen:
                return
            seen.add(info.cls)
            path = (*path, info.cls)
            config = info.cls.__struct_config__
            assert config.frozen, info.cls
            assert not config.gc, info.cls
        for part in parts(info):
            walk(part, path)

    for found in pkgutil.walk_packages(magos.api.__path__, "magos.api."):
        for value in vars(importlib.import_module(found.name)).values():
            if isinstance(value, Kind):
                walk(inspect.type_info(value.type), ())
    assert len(seen) > 50
