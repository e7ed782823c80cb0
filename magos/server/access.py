"""What a caller may do: rights, and grants that only a review gives (spec §9.4, invariant I19).

A write needs a ``Grant`` as a value. Nothing but ``Access.require`` makes one, so that no write path can be called
without a granted review.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from magos.server.identity import Caller


class Verb(StrEnum):
    """Verbs of Kubernetes that rights are asked with."""

    GET = "get"
    LIST = "list"
    WATCH = "watch"
    PATCH = "patch"


class Right(Struct, frozen=True, kw_only=True):
    """One right on resources of group magosproject.io. An empty ``namespace`` means all of them."""

    verb: Verb
    resource: str
    """Plural, such as ``workspaces``."""
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        what = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        where = f"in {self.namespace}" if self.namespace else "in the cluster"
        return f"{self.verb} {what} {where}"


class Grant(Struct, frozen=True, kw_only=True):
    """Proof that a review has granted ``right`` to ``caller``. Made by ``Access`` alone."""

    right: Right
    caller: Caller


class Access(Protocol):
    """Decides what callers may do. A decision is kept for at most 15 s. Raises ``Problem`` 403 and 503."""

    async def require(self, caller: Caller, right: Right) -> Grant:
        """Return the grant, or raise a ``Problem`` 403 ``<user> may not <verb> <resource> in <namespace>``."""
        ...

    async def allows(self, caller: Caller, right: Right) -> bool:
        """Tell whether ``require`` would grant it."""
        ...

    async def visible(
        self, caller: Caller, verb: Verb, resource: str, namespaces: Iterable[str]
    ) -> "frozenset[str] | None":
        """Return those of ``namespaces`` in which the caller may read the resource; None means all, now and later."""
        ...
