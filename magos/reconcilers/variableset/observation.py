"""The observation of a VariableSet: itself, its value sources as just read, and what the process cached of them."""

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct, field

from magos.api.kube import CONFIG_MAP_METADATA, SECRET_METADATA
from magos.api.variableset import VARIABLESETS, SourceKind, ValueSourceKey, VariableSet
from magos.reconcilers.variableset.valuesources import (
    CachedContent,
    ContentCache,
    ValueSourceContent,
    ValueSourceReport,
    recognise,
    wanted_keys,
)
from magos.runtime.decision import QueryFailure, Request, Unreadable, View

BY_SOURCE = "source"
"""Index of VariableSets that the app must provide: one ``source_index`` for each source a set refers to."""


def source_index(namespace: str, source: ValueSourceKey) -> str:
    """Return the index value under which the sets that refer to ``source`` are filed."""
    return f"{namespace}/{source.kind}/{source.name}"


class Observation(Struct, frozen=True, kw_only=True):
    """One VariableSet and its sources.

    ``wanted`` are the sources and keys of its spec. ``current`` are those whose state is known now: read just before
    this pass, or remembered for exactly the version that the cache shows. ``remembered`` is the memory as it was.
    """

    now: datetime
    variable_set: VariableSet | None
    wanted: Mapping[ValueSourceKey, tuple[str, ...]] = field(default_factory=dict)
    current: ContentCache = field(default_factory=dict)
    remembered: ContentCache = field(default_factory=dict)
    failure: QueryFailure | None = None

    @property
    def unread(self) -> tuple[ValueSourceKey, ...]:
        """The sources that have to be read before the set can be judged."""
        return tuple(source for source in self.wanted if source not in self.current)

    @property
    def cache_after(self) -> ContentCache:
        """What the process should remember after this pass: only what the set still refers to."""
        return {source: known for source, known in {**self.remembered, **self.current}.items() if source in self.wanted}


def value_source_query(namespace: str, source: ValueSourceKey, keys: tuple[str, ...]) -> ValueSourceContent:
    """Return the question for one source."""
    return ValueSourceContent(namespace, source.kind, source.name, keys)


def observe(request: Request, view: View, now: datetime, remembered: ContentCache) -> Observation:
    """Collect what the VariableSet named by ``request`` is judged by."""
    found = view.get(VARIABLESETS, request.namespace, request.name)
    if found is None:
        return Observation(now=now, variable_set=None)
    wanted = wanted_keys(found.spec)
    current: dict[ValueSourceKey, CachedContent] = {}
    failure = None
    for source, keys in wanted.items():
        before = remembered.get(source)
        answer = view.answer(value_source_query(request.namespace, source, keys))
        if answer is not None and answer.failure is not None:
            failure = failure or answer.failure
        elif answer is not None:
            current[source] = recognise(answer.value, before, _version_in_status(found, source, answer.value))
        elif before is not None and _still_so(view, request.namespace, source, keys, before.report):
            current[source] = before
    return Observation(
        now=now,
        variable_set=found,
        wanted=wanted,
        current=current,
        remembered=remembered,
        failure=failure,
    )


def _still_so(
    view: View, namespace: str, source: ValueSourceKey, keys: tuple[str, ...], report: ValueSourceReport
) -> bool:
    """Tell whether the cache shows the version that was read, and every key was asked for then.

    What the cache cannot show is read live, and the answer says why.
    """
    if report.forbidden or not all(key in report.contents for key in keys):
        return False
    try:
        return _cached_version(view, namespace, source) == report.resource_version
    except Unreadable:
        return False


def _cached_version(view: View, namespace: str, source: ValueSourceKey) -> str:
    if source.kind is SourceKind.SECRET:
        secret = view.get(SECRET_METADATA, namespace, source.name)
        return secret.metadata.resource_version if secret is not None else ""
    config_map = view.get(CONFIG_MAP_METADATA, namespace, source.name)
    return config_map.metadata.resource_version if config_map is not None else ""


def _version_in_status(found: VariableSet, source: ValueSourceKey, report: ValueSourceReport) -> str:
    """Return the content version that status has for this very state of set and source, else an empty text."""
    if found.status.observed_generation != found.metadata.generation:
        return ""  # the keys that status speaks about may be others
    for each in found.status.sources:
        if (each.kind, each.name, each.resource_version) == (source.kind, source.name, report.resource_version):
            return each.content_version
    return ""
