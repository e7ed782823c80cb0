"""A whole controller: every Greeting gets a ConfigMap with its text, and says in status when it has it."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from magos.api.kube import CONFIG_MAPS, ConfigMap
from magos.api.meta import Kind, ObjectMeta, OwnerReference
from magos.runtime.controller.controller import ControllerSpec
from magos.runtime.controller.source import EventSource, own_key, owner_key
from magos.runtime.decision import Create, Decision, Delete, Outcome, Request, StatusPatch, View
from magos.runtime.manager.assembly import Assembly


class GreetingSpec(Struct, frozen=True, gc=False):
    text: str = ""


class GreetingStatus(Struct, frozen=True, gc=False, omit_defaults=True):
    phase: str = ""


class Greeting(Struct, frozen=True, gc=False, kw_only=True):
    metadata: ObjectMeta
    spec: GreetingSpec = GreetingSpec()
    status: GreetingStatus = GreetingStatus()


GREETINGS = Kind(group="example.com", version="v1", plural="greetings", name="Greeting", type=Greeting)


def reconcile(request: Request, view: View, _now: datetime) -> Decision:
    """Decide about one Greeting: pure, so that a test needs no cluster."""
    greeting = view.get(GREETINGS, request.namespace, request.name)
    if greeting is None or greeting.metadata.deletion_timestamp is not None:
        return Decision(outcome=Outcome.GONE)  # the garbage collector takes the ConfigMap along
    meta, wanted = greeting.metadata, config_map(greeting)
    found = view.get(CONFIG_MAPS, meta.namespace, meta.name)
    if found is None:
        return Decision(status=status(greeting, "Writing"), effects=(Create(kind=CONFIG_MAPS, manifest=wanted),))
    if found.data != wanted.data:
        outdated = Delete(kind=CONFIG_MAPS, namespace=meta.namespace, name=meta.name, uid=found.metadata.uid)
        return Decision(status=status(greeting, "Writing"), effects=(outdated,))
    return Decision(status=status(greeting, "Ready"))


def config_map(greeting: Greeting) -> ConfigMap:
    """Return the ConfigMap that the Greeting wants; its owner makes a second creation find the first."""
    meta = greeting.metadata
    owner = OwnerReference(
        api_version=GREETINGS.api_version, kind=GREETINGS.name, name=meta.name, uid=meta.uid, controller=True
    )
    metadata = ObjectMeta(name=meta.name, namespace=meta.namespace, owner_references=(owner,))
    return ConfigMap(metadata=metadata, data={"text": greeting.spec.text})


def status(greeting: Greeting, phase: str) -> StatusPatch:
    """Return the status write; where nothing differs, nothing is sent."""
    meta, desired = greeting.metadata, replace(greeting.status, phase=phase)
    where = {"namespace": meta.namespace, "name": meta.name, "resource_version": meta.resource_version}
    return StatusPatch(kind=GREETINGS, observed=greeting.status, desired=desired, **where)


def build(assembly: Assembly) -> Sequence[ControllerSpec]:
    """Compose: what is watched, and which change wakes which Greeting."""
    greetings, config_maps = assembly.informer(GREETINGS), assembly.informer(CONFIG_MAPS)
    sources = (EventSource(greetings, own_key), EventSource(config_maps, owner_key(GREETINGS)))
    return (ControllerSpec(name="greeting", kind=GREETINGS, reconcile=reconcile, sources=sources),)
