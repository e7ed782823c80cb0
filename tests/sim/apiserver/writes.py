"""Create, update, patch and delete with the rules of the API server's registry."""

import random
import string
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tests.sim.apiserver import problems
from tests.sim.apiserver.resources import Json, ResourceType
from tests.sim.apiserver.store import Key, Store, copy_of

__all__ = ["Writer", "merge_patch"]

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SERVER_OWNED = ("uid", "creationTimestamp", "namespace", "name", "deletionTimestamp", "deletionGracePeriodSeconds")


@dataclass(frozen=True)
class Writer:
    """Carries out writes on the store; ``now`` is given with each call, so that the caller owns the clock."""

    store: Store
    rng: random.Random

    def create(self, resource: ResourceType, namespace: str, body: Json, now: datetime) -> Json:
        """Create the object and return it as stored."""
        new = copy_of(body)
        metadata = new.setdefault("metadata", {})
        if metadata.get("namespace", namespace) != namespace:
            raise problems.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        name = self._name(resource, metadata)
        if resource.namespaced:
            metadata["namespace"] = namespace
        if self.store.get(resource, (namespace, name)) is not None:
            raise problems.already_exists(resource.resource, name)
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "resourceVersion"):
            metadata.pop(field, None)
        metadata["uid"] = str(uuid.UUID(int=self.rng.getrandbits(128), version=4))
        metadata["creationTimestamp"] = _text(now)
        if resource.has_generation:
            metadata["generation"] = 1
        if resource.has_status:
            new.pop("status", None)
        new.update(apiVersion=resource.api_version, kind=resource.kind)
        self._admit(resource, new, None)
        return self.store.put(resource, (namespace, name), _tidy(new))

    def update(self, resource: ResourceType, key: Key, body: Json, subresource: str = "") -> Json:
        """Replace the object (or its status) and return it as stored; an unchanged object is not written."""
        old = self._existing(resource, key)
        new = copy_of(body)
        metadata = new.setdefault("metadata", {})
        if metadata.get("name", key[1]) != key[1]:
            raise problems.bad_request(
                f"the name of the object ({metadata['name']}) does not match the name on the URL ({key[1]})"
            )
        version = metadata.get("resourceVersion", "")
        if resource.custom and not version:
            causes = [("metadata.resourceVersion", "Invalid value: 0: must be specified for an update")]
            raise problems.invalid(resource.kind, key[1], causes, resource.group)
        return self._store(resource, old, new, subresource)

    def patch(self, resource: ResourceType, key: Key, patch: Json, subresource: str = "") -> Json:
        """Apply a merge patch to the object (or its status) and return it as stored."""
        old = self._existing(resource, key)
        new: Json = merge_patch(old, copy_of(patch))
        uid = new["metadata"].get("uid")
        if uid and uid != old["metadata"]["uid"]:
            causes = [("metadata.uid", f'Invalid value: "{uid}": field is immutable')]
            raise problems.invalid(resource.kind, key[1], causes, resource.group)
        return self._store(resource, old, new, subresource)

    def delete(self, resource: ResourceType, key: Key, options: Json, now: datetime) -> Json | None:
        """Delete the object, or mark it where finalizers or grace keep it: then it is returned, else None."""
        old = self._existing(resource, key)
        metadata = old["metadata"]
        self._preconditions(resource, old, options.get("preconditions") or {})
        new = {**old, "metadata": dict(metadata)}
        finalizers = list(metadata.get("finalizers") or [])
        for added in _propagation_finalizers(resource, options):
            if added not in finalizers:
                finalizers.append(added)
        grace = _grace(resource, old, options)
        # A namespace is held by its content; the collector ends it when that is gone.
        if not finalizers and not grace and resource.plural != "namespaces":
            self.store.remove(resource, key)
            return None
        if "deletionTimestamp" in metadata:
            if not grace and metadata.get("deletionGracePeriodSeconds"):
                new["metadata"]["deletionGracePeriodSeconds"] = 0
                return self.store.put(resource, key, new)
            return old
        new["metadata"]["deletionTimestamp"] = _text(datetime.fromtimestamp(now.timestamp() + grace, UTC))
        new["metadata"]["deletionGracePeriodSeconds"] = grace
        if finalizers:
            new["metadata"]["finalizers"] = finalizers
        if new["metadata"].get("generation"):
            new["metadata"]["generation"] += 1
        return self.store.put(resource, key, new)

    def _existing(self, resource: ResourceType, key: Key) -> Json:
        found = self.store.get(resource, key)
        if found is None:
            raise problems.not_found(resource.resource, key[1])
        return found

    def _store(self, resource: ResourceType, old: Json, new: Json, subresource: str) -> Json:
        key = (old["metadata"].get("namespace", ""), old["metadata"]["name"])
        new = {**new, "metadata": dict(new["metadata"])}  # the parts below are still the old object's
        metadata, before = new["metadata"], old["metadata"]
        self._preconditions(
            resource, old, {"uid": metadata.get("uid"), "resourceVersion": metadata.get("resourceVersion")}
        )
        _keep_server_owned(metadata, before)
        if subresource == "status":
            new = _status_only(resource, old, new)
        elif resource.has_status:
            new.pop("status", None)
            if "status" in old:
                new["status"] = old["status"]
        self._check_metadata(resource, new, old)
        if subresource != "status":
            self._admit(resource, new, old)
        new = _tidy(new)
        metadata = new["metadata"]
        if resource.has_generation:
            metadata["generation"] = before.get("generation", 1) + (_desired(new) != _desired(old))
        metadata["resourceVersion"] = before["resourceVersion"]
        if new == old:
            return old
        ending = "deletionTimestamp" in metadata and not metadata.get("finalizers") and resource.plural != "namespaces"
        if ending and not metadata.get("deletionGracePeriodSeconds"):
            self.store.remove(resource, key)
            return new
        return self.store.put(resource, key, new)

    def _preconditions(self, resource: ResourceType, old: Json, wanted: Json) -> None:
        metadata = old["metadata"]
        if wanted.get("uid") and wanted["uid"] != metadata["uid"]:
            raise problems.uid_mismatch(resource.resource, metadata["name"], wanted["uid"], metadata["uid"])
        if wanted.get("resourceVersion") and wanted["resourceVersion"] != metadata["resourceVersion"]:
            raise problems.conflict(resource.resource, metadata["name"])

    def _check_metadata(self, resource: ResourceType, new: Json, old: Json) -> None:
        name = new["metadata"]["name"]
        before = set(old["metadata"].get("finalizers") or [])
        added = [f for f in new["metadata"].get("finalizers") or [] if f not in before]
        if added and "deletionTimestamp" in old["metadata"]:
            words = ", ".join(f'"{item}"' for item in added)
            why = (
                "Forbidden: no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{words}}}"
            )
            raise problems.invalid(resource.kind, name, [("metadata.finalizers", why)], resource.group)

    def _admit(self, resource: ResourceType, new: Json, old: Json | None) -> None:
        name = new["metadata"]["name"]
        controllers = [o for o in new["metadata"].get("ownerReferences") or [] if o.get("controller")]
        if len(controllers) > 1:
            why = "Invalid value: Only one reference can have Controller set to true"
            raise problems.invalid(resource.kind, name, [("metadata.ownerReferences", why)], resource.group)
        causes = resource.admission(new, old) if resource.admission else []
        if causes:
            raise problems.invalid(resource.kind, name, causes, resource.group)

    def _name(self, resource: ResourceType, metadata: Json) -> str:
        name: str = metadata.get("name", "")
        if not name and metadata.get("generateName"):
            name = metadata["generateName"] + "".join(self.rng.choice(_ALPHABET) for _ in range(5))
        if not name:
            causes = [("metadata.name", "Required value: name or generateName is required")]
            raise problems.invalid(resource.kind, "", causes, resource.group)
        allowed = set(string.ascii_lowercase + string.digits + "-.")
        if len(name) > 253 or not set(name) <= allowed or not (name[0] + name[-1]).isalnum():
            why = f'Invalid value: "{name}": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric'
            raise problems.invalid(resource.kind, name, [("metadata.name", why)], resource.group)
        metadata["name"] = name
        return name


def merge_patch(target: Any, patch: Any) -> Any:
    """Apply RFC 7386; what the patch does not mention is shared with ``target``, which stays as it was."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def _keep_server_owned(metadata: Json, before: Json) -> None:
    for field in _SERVER_OWNED:
        metadata.pop(field, None)
        if field in before:
            metadata[field] = before[field]
    metadata.pop("managedFields", None)


def _status_only(resource: ResourceType, old: Json, new: Json) -> Json:
    kept = {**old, "metadata": dict(old["metadata"])}
    if "status" in new:
        kept["status"] = new["status"]
    else:
        kept.pop("status", None)
    if not resource.custom:
        # The built-in strategies put only the spec back: metadata may change with a status.
        owners = kept["metadata"].get("ownerReferences")
        kept["metadata"] = new["metadata"]
        if resource.kind == "Pod":
            kept["metadata"].pop("ownerReferences", None)
            if owners:
                kept["metadata"]["ownerReferences"] = owners
    return kept


def _desired(item: Json) -> Json:
    return {name: value for name, value in item.items() if name not in ("metadata", "status")}


def _tidy(item: Json) -> Json:
    metadata = item["metadata"]
    for field in ("labels", "annotations", "finalizers", "ownerReferences"):
        if not metadata.get(field):
            metadata.pop(field, None)
    return item


def _propagation_finalizers(resource: ResourceType, options: Json) -> list[str]:
    policy = options.get("propagationPolicy") or ("Orphan" if resource.orphans_by_default else "Background")
    return {"Foreground": ["foregroundDeletion"], "Orphan": ["orphan"]}.get(policy, [])


def _grace(resource: ResourceType, item: Json, options: Json) -> int:
    if not resource.graceful:
        return 0
    finished = (item.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    if finished or not item.get("spec", {}).get("nodeName"):
        return 0
    wanted = options.get("gracePeriodSeconds")
    return int(item["spec"].get("terminationGracePeriodSeconds", 30) if wanted is None else wanted)


def _text(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
