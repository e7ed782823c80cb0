"""Decides what callers may do: the admin everything, others what the cluster allows the accounts they act as."""

import asyncio
from collections.abc import Iterable

from magos.server.access import Grant, Right, Verb
from magos.server.auth.mappings import Mappings
from magos.server.auth.reviews import Reviews, user_of
from magos.server.identity import Caller, CallerKind, KubernetesUser
from magos.server.problems import Problem


class ReviewedAccess:
    """The ``Access`` of the server: see there. Nothing else makes grants (invariant I19)."""

    def __init__(self, mappings: Mappings, reviews: Reviews) -> None:
        self._mappings = mappings
        self._reviews = reviews

    async def require(self, caller: Caller, right: Right) -> Grant:
        """Return the grant, or raise ``Problem`` 403."""
        if not await self.allows(caller, right):
            raise Problem(403, f"{caller.username} may not {right}")
        return Grant(right=right, caller=caller)

    async def allows(self, caller: Caller, right: Right) -> bool:
        """Tell whether one of the accounts that the caller acts as has the right.

        An allow of one counts although another could not be asked; otherwise ``Problem`` 503 says that not all could.
        """
        if caller.kind is CallerKind.ADMIN:
            return True
        answers = await asyncio.gather(
            *(self._reviews.allowed(user, right) for user in self._users(caller, right.namespace)),
            return_exceptions=True,
        )
        if any(answer is True for answer in answers):
            return True
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return False

    async def visible(
        self, caller: Caller, verb: Verb, resource: str, namespaces: Iterable[str]
    ) -> frozenset[str] | None:
        """Ask for the cluster, then for each of the namespaces."""
        if await self.allows(caller, Right(verb=verb, resource=resource)):
            return None
        places = sorted(set(namespaces) - {""})
        rights = [Right(verb=verb, resource=resource, namespace=place) for place in places]
        answers = await asyncio.gather(*(self.allows(caller, right) for right in rights))
        return frozenset(place for place, allowed in zip(places, answers, strict=True) if allowed)

    def accounts(self, caller: Caller) -> tuple[str, ...]:
        """Return ``<namespace>/<name>`` of the accounts that the caller acts as wherever the request leads."""
        if caller.kind is CallerKind.OIDC:
            return tuple(str(account) for account in self._mappings.acted_as(caller.claims))
        if caller.user is not None:
            return (caller.user.username.removeprefix("system:serviceaccount:").replace(":", "/"),)
        return ()

    def _users(self, caller: Caller, namespace: str) -> tuple[KubernetesUser, ...]:
        if caller.kind is CallerKind.SERVICE_ACCOUNT:
            return (caller.user,) if caller.user is not None else ()
        if not self._mappings.synced:
            raise Problem(503, "the server is still reading who may do what, try again in a moment")
        return tuple(user_of(account) for account in self._mappings.acted_as(caller.claims, namespace))
