"""What kube-controller-manager clears away: dependents of deleted owners, finished namespaces, unused claims."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from magos.runtime.clock import Clock
from tests.sim.apiserver.resources import Json, ResourceType
from tests.sim.apiserver.store import Change, Key, Store
from tests.sim.apiserver.writes import Writer

__all__ = ["GarbageCollector"]

_CLAIM_FINALIZER = "kubernetes.io/pvc-protection"


@dataclass(frozen=True)
class GarbageCollector:
    """``sweep`` does at once all there is to do; ``run`` does so a moment after each change."""

    store: Store
    writer: Writer
    resources: tuple[ResourceType, ...]
    clock: Clock
    delay: float = 0.2

    async def run(self) -> None:
        """Sweep after changes, for ever."""
        changed = asyncio.Event()

        def note(_: Change) -> None:
            changed.set()

        end = self.store.subscribe(note)
        try:
            while True:
                self.sweep()
                changed.clear()
                await changed.wait()
                await asyncio.sleep(self.delay)
        finally:
            end()

    def sweep(self) -> None:
        """Collect until nothing is left to collect."""
        before = -1
        while before != self.store.version:
            before = self.store.version
            for resource, key in list(self._all()):
                item = self.store.get(resource, key)
                if item is not None:
                    self._owned(resource, key, item)
            for resource, key in list(self._all()):
                item = self.store.get(resource, key)
                if item is not None and "deletionTimestamp" in item["metadata"]:
                    self._ending(resource, key, item)

    def _all(self) -> Iterator[tuple[ResourceType, Key]]:
        for resource in self.resources:
            for item in self.store.items(resource):
                yield resource, (item["metadata"].get("namespace", ""), item["metadata"]["name"])

    def _owned(self, resource: ResourceType, key: Key, item: Json) -> None:
        owners = item["metadata"].get("ownerReferences") or []
        if not owners:
            return
        living = {owner["uid"] for owner in owners if self.store.of_uid(owner["uid"]) is not None}
        if not living:
            self._delete(resource, key, item)
        elif len(living) < len(owners):
            kept = [owner for owner in owners if owner["uid"] in living]
            self.writer.patch(resource, key, {"metadata": {"ownerReferences": kept}})

    def _ending(self, resource: ResourceType, key: Key, item: Json) -> None:
        finalizers = item["metadata"].get("finalizers") or []
        if "orphan" in finalizers:
            for child, child_key, dependent in self._dependents(item):
                owners = dependent["metadata"]["ownerReferences"]
                kept = [owner for owner in owners if owner["uid"] != item["metadata"]["uid"]]
                self.writer.patch(child, child_key, {"metadata": {"ownerReferences": kept}})
            self._release(resource, key, "orphan")
        elif "foregroundDeletion" in finalizers:
            dependents = list(self._dependents(item))
            for child, child_key, dependent in dependents:
                self._delete(child, child_key, dependent)
            if not any(self._blocks(dependent, item) for _, _, dependent in self._dependents(item)):
                self._release(resource, key, "foregroundDeletion")
        elif _CLAIM_FINALIZER in finalizers and not self._in_use(key):
            self._release(resource, key, _CLAIM_FINALIZER)
        elif resource.plural == "namespaces":
            self._end_namespace(resource, key)

    def _end_namespace(self, namespaces: ResourceType, key: Key) -> None:
        left = False
        for resource, child in list(self._all()):
            item = self.store.get(resource, child)
            if child[0] == key[1] and item is not None:
                left = True
                self._delete(resource, child, item)
        if not left:
            self.store.remove(namespaces, key)

    def _dependents(self, owner: Json) -> Iterator[tuple[ResourceType, Key, Json]]:
        uid = owner["metadata"]["uid"]
        for resource, key in list(self._all()):
            item = self.store.get(resource, key)
            if item is not None and any(o["uid"] == uid for o in item["metadata"].get("ownerReferences") or []):
                yield resource, key, item

    def _blocks(self, dependent: Json, owner: Json) -> bool:
        references = dependent["metadata"]["ownerReferences"]
        return any(o["uid"] == owner["metadata"]["uid"] and o.get("blockOwnerDeletion") for o in references)

    def _in_use(self, claim: Key) -> bool:
        pods = next((r for r in self.resources if r.resource == "pods"), None)
        for pod in self.store.items(pods, claim[0]) if pods else ():
            if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
                continue
            for volume in pod.get("spec", {}).get("volumes") or []:
                if (volume.get("persistentVolumeClaim") or {}).get("claimName") == claim[1]:
                    return True
        return False

    def _delete(self, resource: ResourceType, key: Key, item: Json) -> None:
        if "deletionTimestamp" not in item["metadata"]:
            options = {"propagationPolicy": "Background", "preconditions": {"uid": item["metadata"]["uid"]}}
            self.writer.delete(resource, key, options, self.clock.now())

    def _release(self, resource: ResourceType, key: Key, finalizer: str) -> None:
        item = self.store.get(resource, key)
        if item is not None:
            kept = [name for name in item["metadata"].get("finalizers") or [] if name != finalizer]
            self.writer.patch(resource, key, {"metadata": {"finalizers": kept}})
