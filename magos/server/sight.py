"""What the caller of an open stream may see, judged anew while the stream is open (spec §9.4)."""

from collections.abc import Callable, Iterable

from magos.server.access import Access, Right, Verb
from magos.server.identity import Caller


class Sight:
    """The namespaces in which a caller may watch a resource; made by ``opened``.

    With ``namespace`` it is that one alone. Methods raise the ``Problem`` of ``Access``.
    """

    def __init__(self, access: Access, caller: Caller, right: Right, namespaces: Callable[[], Iterable[str]]) -> None:
        self._access = access
        self._caller = caller
        self._right = right
        self._namespaces = namespaces
        self._judged: set[str] = set()
        self._visible: frozenset[str] | None = frozenset()

    async def look(self) -> bool:
        """Judge again everything that was judged; return False if less or more may be seen than before.

        Where a namespace was named and may not be seen (any more), it raises a ``Problem`` 403.
        """
        if self._right.namespace:
            await self._access.require(self._caller, self._right)
            self._visible = None
            return True
        before, judged = self._visible, frozenset(self._judged)
        self._judged |= frozenset(self._namespaces())
        self._visible = await self._ask(self._judged)
        if before is None or self._visible is None:
            return before is self._visible
        return self._visible & judged == before & judged

    async def sees(self, namespace: str) -> bool:
        """Tell whether what is in ``namespace`` may be shown; one that is new is judged now."""
        if self._visible is None:
            return True
        if namespace not in self._judged:
            found = await self._ask((namespace,))
            self._judged.add(namespace)
            if found is None or namespace in found:
                self._visible |= {namespace}
        return namespace in self._visible

    async def _ask(self, namespaces: Iterable[str]) -> frozenset[str] | None:
        return await self._access.visible(self._caller, self._right.verb, self._right.resource, namespaces)


def watching(resource: str, namespace: str) -> Right:
    """Return the right to watch a resource in a namespace, of all if empty."""
    return Right(verb=Verb.WATCH, resource=resource, namespace=namespace)
