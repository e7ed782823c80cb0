"""Get and list, pages included."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.sim.apiserver import problems
from tests.sim.apiserver.resources import Json, ResourceType
from tests.sim.apiserver.selectors import matcher
from tests.sim.apiserver.store import Key, Store

__all__ = ["Reader", "partial_object"]


def partial_object(item: Json) -> Json:
    """Return the ``PartialObjectMetadata`` of an object."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": item["metadata"]}


@dataclass(frozen=True)
class _Rest:
    version: int
    items: list[Json]


@dataclass
class Reader:
    """Reads from the store; a paged list is a snapshot of its first page's version until the history is compacted."""

    store: Store
    _pages: dict[str, _Rest] = field(default_factory=dict)

    def get(self, resource: ResourceType, key: Key) -> Json:
        """Return one object or raise 404."""
        found = self.store.get(resource, key)
        if found is None:
            raise problems.not_found(resource.resource, key[1])
        return found

    def list(self, resource: ResourceType, namespace: str, query: Mapping[str, str]) -> Json:
        """Return a list object for the query of the request."""
        token, limit = query.get("continue", ""), int(query.get("limit", "0"))
        if token:
            rest = self._resume(token)
        else:
            self._check_version(query.get("resourceVersion", ""))
            wanted = matcher(query.get("labelSelector", ""), query.get("fieldSelector", ""))
            rest = _Rest(self.store.version, [i for i in self.store.items(resource, namespace) if wanted(i)])
        page = rest.items[:limit] if limit else rest.items
        metadata: Json = {"resourceVersion": str(rest.version)}
        if len(page) < len(rest.items):
            metadata["continue"] = f"{rest.version}:{len(self._pages)}"
            metadata["remainingItemCount"] = len(rest.items) - len(page)
            self._pages[metadata["continue"]] = _Rest(rest.version, rest.items[limit:])
        return {
            "kind": f"{resource.kind}List",
            "apiVersion": resource.api_version,
            "metadata": metadata,
            "items": page,
        }

    def _resume(self, token: str) -> _Rest:
        rest = self._pages.get(token)
        if rest is None:
            raise problems.bad_request("continue key is not valid")
        if rest.version < self.store.compacted:
            raise problems.expired("The provided continue parameter is too old to display a consistent list result.")
        return rest

    def _check_version(self, version: str) -> None:
        if version and not version.isdecimal():
            raise problems.bad_request(f"resourceVersion: Invalid value: {version!r}: invalid")
        if version and int(version) > self.store.version:
            raise problems.too_large_resource_version(int(version), self.store.version)
