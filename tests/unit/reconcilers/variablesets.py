"""A VariableSet, its sources, and the controller's passes over them, as one pure bench."""

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from magos.api.kube import CONFIG_MAP_METADATA, SECRET_METADATA, ConfigMapMetadata, SecretMetadata
from magos.api.kube.config import MetaWithoutAnnotations
from magos.api.meta import Kind, ObjectMeta
from magos.api.variableset import (
    VARIABLESETS,
    KeyReference,
    SourceKind,
    ValueFrom,
    Variable,
    VariableSet,
    VariableSetSpec,
    VariableSetStatus,
)
from magos.reconcilers.variableset.machine import reconcile
from magos.reconcilers.variableset.observation import observe
from magos.reconcilers.variableset.valuesources import Content, ContentCache, ValueSourceContent, ValueSourceReport
from magos.runtime.decision import Decision, Event, Query, QueryAnswer, QueryFailure, Refusal, Request, Trouble

NAMESPACE = "team-a"
START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def literal(name: str, value: str) -> Variable:
    return Variable(name=name, value=value)


def secret(name: str, source: str, key: str, *, optional: bool = False) -> Variable:
    reference = KeyReference(name=source, key=key, optional=optional)
    return Variable(name=name, value_from=ValueFrom(secret_key_ref=reference))


def config_map(name: str, source: str, key: str, *, optional: bool = False) -> Variable:
    reference = KeyReference(name=source, key=key, optional=optional)
    return Variable(name=name, value_from=ValueFrom(config_map_key_ref=reference))


class Stored:
    """One Secret or ConfigMap."""

    def __init__(self, values: dict[str, bytes], version: int) -> None:
        self.values = values
        self.version = version


class Bench:
    """The set ``inputs``, what it refers to, and one process of the controller."""

    def __init__(self, *variables: Variable) -> None:
        self.now = START
        self.versions = 100
        self.sources: dict[tuple[SourceKind, str], Stored] = {}
        self.forbidden: set[str] = set()
        self.failures: dict[str, QueryFailure] = {}
        self.lagging: set[str] = set()
        self.events: list[Event] = []
        self.reads: list[str] = []
        self.writes = 0
        self.memory: ContentCache = {}
        self.found: VariableSet | None = VariableSet(
            metadata=ObjectMeta(name="inputs", namespace=NAMESPACE, uid="u", generation=1, resource_version="1"),
            spec=VariableSetSpec(variables=variables),
        )

    # --- what users do ---------------------------------------------------------------------------------------------

    def put(self, kind: SourceKind, name: str, **values: bytes | str) -> str:
        """Store a source whole; return its new version."""
        self.versions += 1
        encoded = {k: v.encode() if isinstance(v, str) else v for k, v in values.items()}
        self.sources[kind, name] = Stored(encoded, self.versions)
        return str(self.versions)

    def relabel(self, kind: SourceKind, name: str) -> str:
        """A new version with the same content."""
        self.versions += 1
        self.sources[kind, name].version = self.versions
        return str(self.versions)

    def edit(self, *variables: Variable) -> None:
        assert self.found is not None
        meta = replace(self.found.metadata, generation=self.found.metadata.generation + 1)
        self.found = replace(self.found, metadata=meta, spec=VariableSetSpec(variables=variables))

    def restart(self) -> None:
        self.memory = {}

    # --- the controller --------------------------------------------------------------------------------------------

    @property
    def status(self) -> VariableSetStatus:
        assert self.found is not None
        return self.found.status

    def settle(self) -> Decision:
        """Pass until the controller asks for nothing more; two rounds at most, or it would be hot."""
        for _ in range(6):
            decision = self.step({})
            if decision.queries:
                decision = self.step({query: self._answer(query) for query in decision.queries})
                assert not decision.queries
            if decision.status is None:
                return decision
        raise AssertionError("the controller does not come to rest")

    def step(self, answers: dict[Query, QueryAnswer]) -> Decision:
        seen = observe(Request(namespace=NAMESPACE, name="inputs"), _View(self, answers), self.now, self.memory)
        self.memory = seen.cache_after
        decision = reconcile(seen)
        assert decision == reconcile(seen)
        if decision.status is not None and self.found is not None:
            assert decision.status.observed == self.found.status
            self.writes += 1
            self.found = replace(self.found, status=decision.status.desired)
        self.events += decision.events
        return decision

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def version_of(self, name: str) -> tuple[str, str]:
        """Return (resourceVersion, contentVersion) that status tells of a source."""
        [found] = [each for each in self.status.sources if each.name == name]
        return found.resource_version, found.content_version

    def _answer(self, query: Query) -> QueryAnswer:
        assert isinstance(query, ValueSourceContent)
        self.reads.append(query.name)
        if query.name in self.failures:
            return QueryAnswer(failure=self.failures[query.name], at=self.now)
        stored = self.sources.get((query.kind, query.name))
        if query.name in self.forbidden or stored is None:
            nothing = dict.fromkeys(query.keys)
            return QueryAnswer(
                value=ValueSourceReport(forbidden=query.name in self.forbidden, contents=nothing), at=self.now
            )
        contents = {key: _content(stored.values[key]) if key in stored.values else None for key in query.keys}
        return QueryAnswer(
            value=ValueSourceReport(resource_version=str(stored.version), contents=contents), at=self.now
        )


def _content(value: bytes) -> Content:
    return Content(digest=hashlib.sha256(b"k" + value).digest(), size=len(value), text=b"\0" not in value)


class _View:
    stale = False
    refusal: Refusal | None = None
    trouble: Trouble | None = None

    def __init__(self, bench: Bench, answers: dict[Query, QueryAnswer]) -> None:
        self._bench = bench
        self._answers = answers

    def get(self, kind: Kind[Any], namespace: str, name: str) -> Any:
        assert namespace == NAMESPACE
        if kind is VARIABLESETS:
            return self._bench.found
        stored = self._bench.sources.get((SourceKind(kind.name), name))
        if stored is None or name in self._bench.lagging:
            return None
        meta = MetaWithoutAnnotations(name=name, namespace=namespace, resource_version=str(stored.version))
        assert kind in (SECRET_METADATA, CONFIG_MAP_METADATA)
        return SecretMetadata(metadata=meta) if kind is SECRET_METADATA else ConfigMapMetadata(metadata=meta)

    def list(self, kind: Kind[Any], namespace: str | None = None) -> tuple[Any, ...]:
        raise AssertionError((kind, namespace))

    def by_index(self, kind: Kind[Any], index: str, value: str) -> tuple[Any, ...]:
        raise AssertionError((kind, index, value))

    def answer(self, query: Query) -> QueryAnswer | None:
        return self._answers.get(query)
