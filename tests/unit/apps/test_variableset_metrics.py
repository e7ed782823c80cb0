"""The gauge of unresolved references follows the cache."""

from magos.adapters.metrics.variableset import unresolved_references
from magos.api.meta import ObjectMeta
from magos.api.phases import Phase
from magos.api.reasons import ReferenceProblem
from magos.api.variableset import (
    VARIABLESETS,
    SourceKind,
    UnresolvedReference,
    VariableSet,
    VariableSetSpec,
    VariableSetStatus,
)
from magos.runtime.cache.cache import Cache
from magos.runtime.manager.metrics import Sample


def _set(name: str, phase: Phase | None, missing: int) -> VariableSet:
    references = tuple(
        UnresolvedReference(kind=SourceKind.SECRET, name=f"s{n}", key="k", reason=ReferenceProblem.RESOURCE_NOT_FOUND)
        for n in range(missing)
    )
    status = VariableSetStatus(phase=phase, unresolved_references=references)
    return VariableSet(
        metadata=ObjectMeta(namespace="n", name=name, uid=name), spec=VariableSetSpec(variables=()), status=status
    )


def test_each_judged_set_has_one_series_for_as_long_as_it_exists() -> None:
    cache: Cache[VariableSet] = Cache(VARIABLESETS)
    collect = unresolved_references(cache)
    sets = [_set("a", Phase.FAILED, 2), _set("b", Phase.READY, 0), _set("new", None, 0)]
    cache.replace(sets, (), "1")
    [family] = collect()
    assert family.name == "variableset_unresolved_references"
    assert family.labels == ("namespace", "name")
    assert list(family.samples) == [Sample(("n", "a"), 2.0), Sample(("n", "b"), 0.0)]
    cache.replace(sets[1:], (), "2")
    [family] = collect()
    assert list(family.samples) == [Sample(("n", "b"), 0.0)]
