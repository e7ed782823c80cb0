"""A toy kind with a reconciler that uses every effect: the smallest controller that shows the rules of the runtime.

A ``Widget`` wants one ConfigMap per generation of its spec, named after it. Its phases: Building (the child is named in
status), Ready (the child exists), Refused (the child was refused). Deleting a Widget removes its children, then its
finalizer.
"""

from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from magos.api.kube import CONFIG_MAPS, ConfigMap
from magos.api.meta import Kind, ObjectMeta, OwnerReference, controller_of
from magos.runtime.decision import (
    AddFinalizer,
    Create,
    Decision,
    Delete,
    Effect,
    Event,
    EventType,
    Outcome,
    PatchAnnotations,
    RemoveFinalizer,
    Request,
    StatusPatch,
    Unchanged,
    View,
)

GROUP = "toys.example.com"
FINALIZER = f"{GROUP}/children"
GENERATION = f"{GROUP}/generation"
SEEN = f"{GROUP}/seen"
RECHECK = timedelta(hours=1)


class WidgetSpec(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    size: int = 0


class WidgetStatus(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    phase: str = ""
    observed_generation: int = 0
    child: str = ""
    message: str | None = None


class Widget(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    metadata: ObjectMeta
    spec: WidgetSpec = WidgetSpec()
    status: WidgetStatus = WidgetStatus()


WIDGETS = Kind(group=GROUP, version="v1", plural="widgets", name="Widget", type=Widget)

CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"widgets.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 0}}},
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}


def reconcile(request: Request, view: View, now: datetime) -> Decision:
    """Decide about one Widget."""
    widget = view.get(WIDGETS, request.namespace, request.name)
    if widget is None:
        return Decision(outcome=Outcome.GONE)
    children = tuple(
        each
        for each in view.list(CONFIG_MAPS, request.namespace)
        if (owner := controller_of(each.metadata)) is not None and owner.uid == widget.metadata.uid
    )
    if widget.metadata.deletion_timestamp is not None:
        return _removal(widget, children, stale=view.stale)
    if FINALIZER not in widget.metadata.finalizers:
        return Decision(effects=(_finalizer(AddFinalizer, widget),))
    return _progress(widget, children, view, now)


def _progress(widget: Widget, children: tuple[ConfigMap, ...], view: View, now: datetime) -> Decision:
    meta = widget.metadata
    wanted = child_name(widget)
    status = replace(widget.status, observed_generation=meta.generation, child=wanted, message=None)
    outdated = tuple(each for each in children if each.metadata.name != wanted)
    if any(each.metadata.name == wanted for each in children):
        effects: tuple[Effect, ...] = () if view.stale else tuple(_delete(each) for each in outdated)
        seen = {SEEN: str(meta.generation)}
        if meta.annotations.get(SEEN) != seen[SEEN]:
            patch = PatchAnnotations(
                kind=WIDGETS, namespace=meta.namespace, name=meta.name, uid=meta.uid, annotations=seen
            )
            effects = (patch, *effects)
        status = replace(status, phase="Ready")
        return Decision(
            status=_status(widget, status), effects=effects, events=_events(widget, status), requeue_at=now + RECHECK
        )
    if view.refusal is not None:
        status = replace(status, phase="Refused", message=view.refusal.reason)
        return Decision(status=_status(widget, status), events=_events(widget, status), outcome=Outcome.INVALID)
    if (widget.status.phase, widget.status.child) != ("Building", wanted):
        if widget.status.phase == "Refused" and widget.status.child == wanted:
            return Decision(outcome=Outcome.INVALID)
        status = replace(status, phase="Building")
        return Decision(status=_status(widget, status), events=_events(widget, status))
    judged = Unchanged(kind=WIDGETS, namespace=meta.namespace, name=meta.name, resource_version=meta.resource_version)
    create = Create(kind=CONFIG_MAPS, manifest=child_of(widget), identity=(GENERATION,), unchanged=judged)
    return Decision(effects=(create,), outcome=Outcome.WAITING)


def _removal(widget: Widget, children: tuple[ConfigMap, ...], *, stale: bool) -> Decision:
    if stale:
        return Decision(outcome=Outcome.WAITING)
    if children:
        return Decision(effects=tuple(_delete(each) for each in children), outcome=Outcome.WAITING)
    if FINALIZER in widget.metadata.finalizers:
        return Decision(effects=(_finalizer(RemoveFinalizer, widget),))
    return Decision(outcome=Outcome.WAITING)


def child_name(widget: Widget) -> str:
    """Return the name of the child for the current generation."""
    return f"{widget.metadata.name}-g{widget.spec.size}"


def child_of(widget: Widget) -> ConfigMap:
    """Return the child as it is created."""
    meta = widget.metadata
    owner = OwnerReference(
        api_version=WIDGETS.api_version, kind=WIDGETS.name, name=meta.name, uid=meta.uid, controller=True
    )
    metadata = ObjectMeta(
        name=child_name(widget),
        namespace=meta.namespace,
        labels={GENERATION: str(widget.spec.size)},
        owner_references=(owner,),
    )
    return ConfigMap(metadata=metadata, data={"size": str(widget.spec.size)})


def _delete(child: ConfigMap) -> Delete:
    meta = child.metadata
    return Delete(kind=CONFIG_MAPS, namespace=meta.namespace, name=meta.name, uid=meta.uid)


def _finalizer(effect: Any, widget: Widget) -> Any:
    meta = widget.metadata
    return effect(
        kind=WIDGETS,
        namespace=meta.namespace,
        name=meta.name,
        resource_version=meta.resource_version,
        finalizer=FINALIZER,
    )


def _status(widget: Widget, desired: WidgetStatus) -> StatusPatch:
    meta = widget.metadata
    return StatusPatch(
        kind=WIDGETS,
        namespace=meta.namespace,
        name=meta.name,
        resource_version=meta.resource_version,
        observed=widget.status,
        desired=desired,
    )


def _events(widget: Widget, desired: WidgetStatus) -> tuple[Event, ...]:
    if widget.status.phase == desired.phase:
        return ()
    meta = widget.metadata
    event = Event(
        regarding=WIDGETS.ref(meta.namespace, meta.name),
        uid=meta.uid,
        type=EventType.NORMAL,
        reason=desired.phase,
        action="Reconcile",
        note=f"{widget.status.phase or 'new'} to {desired.phase}",
        api_version=WIDGETS.api_version,
    )
    return (event,)
