"""The ``View`` of one pass: the caches of all informers, the answers it asked for, and a refusal if there was one.

A reconciler is synchronous and runs on the loop that alone changes the caches, so what it reads through a view belongs
to one instant, over all kinds. Reading a kind that no informer of the process holds is a programming error, never an
empty answer. An object that cannot be decoded is neither shown nor left out: where an answer would have to tell of it,
or may have to, ``Unreadable`` is raised.
"""

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from magos.api.meta import Kind, Resource
from magos.errors import InvariantViolation
from magos.runtime.cache.cache import Cache
from magos.runtime.client.watchevents import Undecodable
from magos.runtime.decision import Query, QueryAnswer, Refusal, Trouble

R = TypeVar("R", bound=Resource)


class Caches:
    """All caches of the process, by kind."""

    def __init__(self, caches: Mapping[Kind[Any], Cache[Any]]) -> None:
        self._caches = dict(caches)
        self._resources = {kind.resource: cache for kind, cache in caches.items()}

    def find(self, resource: str) -> Cache[Any] | None:
        """Return the cache of a resource, of whole objects or of their metadata; None if the process has neither."""
        return self._resources.get(resource)

    def of(self, kind: Kind[R]) -> Cache[R]:
        """Return the cache of a kind; raise ``InvariantViolation`` if the process does not hold it."""
        cache = cast("Cache[R] | None", self._caches.get(kind))
        if cache is None:
            held = ", ".join(sorted(each.resource for each in self._caches)) or "none"
            raise InvariantViolation(
                f"{kind.resource} was read from the cache, but this process watches only: {held}; "
                "declare an informer for it"
            )
        return cache


class CacheView:
    """What one pass sees; see ``decision.View``."""

    __slots__ = ("_answers", "_caches", "_refusal", "_stale", "_trouble")

    def __init__(
        self,
        caches: Caches,
        *,
        answers: Mapping[Query, QueryAnswer] | None = None,
        refusal: Refusal | None = None,
        stale: bool = False,
        trouble: Trouble | None = None,
    ) -> None:
        self._caches = caches
        self._answers = answers or {}
        self._refusal = refusal
        self._stale = stale
        self._trouble = trouble

    @property
    def stale(self) -> bool:
        """True if the caches may lack this key's own last writes."""
        return self._stale

    @property
    def refusal(self) -> Refusal | None:
        """The lasting refusal of the pass just before."""
        return self._refusal

    @property
    def trouble(self) -> Trouble | None:
        """Why no pass of this key has come to its end for a while."""
        return self._trouble

    def get(self, kind: Kind[R], namespace: str, name: str) -> R | None:
        """Return the cached object or None."""
        cache = self._caches.of(kind)
        _refuse(kind, cache.quarantine.named(namespace, name))
        return cache.get(namespace, name)

    def list(self, kind: Kind[R], namespace: str | None = None) -> tuple[R, ...]:
        """Return the cached objects in the order of their keys."""
        cache = self._caches.of(kind)
        _refuse(kind, cache.quarantine.within(namespace))
        return cache.list(namespace)

    def by_index(self, kind: Kind[R], index: str, value: str) -> tuple[R, ...]:
        """Return the cached objects filed under ``value``, in the order of their keys."""
        cache = self._caches.of(kind)
        found = cache.by_index(index, value)
        if cache.undecodable:
            shown = ((each.metadata.namespace, each.metadata.name) for each in found)
            _refuse(kind, cache.quarantine.filed(index, value, shown))
        return found

    def answer(self, query: Query) -> QueryAnswer | None:
        """Return the answer to a query asked by the pass just before."""
        return self._answers.get(query)


def _refuse(kind: Kind[Any], bad: Undecodable | None) -> None:
    if bad is not None:
        raise bad.unreadable(kind)
