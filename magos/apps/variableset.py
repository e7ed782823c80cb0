"""Composition root of ``magos-variableset-controller``.

What it watches, and which change wakes which VariableSet (spec §6.5). All Secrets and ConfigMaps are watched, but as
metadata only and without their annotations; an index over the sets tells in one look whom a change concerns.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from magos.adapters.metrics.variableset import unresolved_references
from magos.adapters.sourcereader import SourceReader
from magos.api.kube import CONFIG_MAP_METADATA, SECRET_METADATA
from magos.api.meta import Resource
from magos.api.variableset import VARIABLESETS, SourceKind, ValueSourceKey, VariableSet
from magos.apps.controllers import Build, run_program
from magos.reconcilers.trouble import show_trouble
from magos.reconcilers.variableset.machine import reconcile
from magos.reconcilers.variableset.observation import BY_SOURCE, observe, source_index
from magos.reconcilers.variableset.valuesources import ContentCache, ValueSourceContent, wanted_keys
from magos.runtime.cache.cache import Change
from magos.runtime.cache.informer import Informer
from magos.runtime.controller.controller import ControllerSpec
from magos.runtime.controller.source import EventSource, own_key
from magos.runtime.controller.workqueue import Key
from magos.runtime.decision import Decision, Reconciler, Request, View
from magos.runtime.manager.assembly import Assembly


def main() -> None:
    """Run the variableset controller; ends the process with its exit code."""
    sys.exit(run_program("variableset", _prepare))


def _prepare(environ: Mapping[str, str]) -> Build:
    del environ  # nothing but the common settings
    return variableset_controller


def variableset_controller(assembly: Assembly) -> Sequence[ControllerSpec]:
    """Declare the informers and return the controller."""
    sets = assembly.informer(VARIABLESETS, indexers={BY_SOURCE: by_source})
    secrets = assembly.informer(SECRET_METADATA)
    config_maps = assembly.informer(CONFIG_MAP_METADATA)
    if assembly.metrics is not None and assembly.settings.metrics_per_object:
        assembly.metrics.collect(unresolved_references(sets.cache))
    return (
        ControllerSpec(
            name="variableset",
            kind=VARIABLESETS,
            reconcile=variableset_reconciler(),
            sources=(
                EventSource(sets, own_key),
                EventSource(secrets, _referring(sets, SourceKind.SECRET)),
                EventSource(config_maps, _referring(sets, SourceKind.CONFIG_MAP)),
            ),
            workers=assembly.settings.workers,
            queries={ValueSourceContent: SourceReader()},
        ),
    )


def variableset_reconciler() -> Reconciler:
    """Return the reconciler of one process, with a memory of its own; what decides is pure and gets it shown."""
    memory: dict[Key, ContentCache] = {}

    def decide(request: Request, view: View, now: datetime) -> Decision:
        key = Key(request.namespace, request.name)
        seen = observe(request, view, now, memory.get(key, {}))
        cache_after = seen.cache_after
        if cache_after:
            memory[key] = cache_after
        else:
            memory.pop(key, None)
        subject = view.get(VARIABLESETS, request.namespace, request.name)
        return show_trouble(reconcile(seen), VARIABLESETS, subject, view.trouble, now)

    return decide


def by_source(variable_set: VariableSet) -> Iterable[str]:
    """File a set under everything it refers to."""
    return tuple(source_index(variable_set.metadata.namespace, source) for source in wanted_keys(variable_set.spec))


def _referring(sets: Informer[VariableSet], kind: SourceKind) -> Callable[[Change[Resource]], Iterable[Key]]:
    def mapper(change: Change[Resource]) -> Iterable[Key]:
        source = change.new if change.new is not None else change.old
        if source is None or change.initial:  # at the start every set is looked at anyway
            return ()
        meta = source.metadata
        found = sets.cache.by_index(BY_SOURCE, source_index(meta.namespace, ValueSourceKey(kind, meta.name)))
        return tuple(Key(each.metadata.namespace, each.metadata.name) for each in found)

    return mapper
