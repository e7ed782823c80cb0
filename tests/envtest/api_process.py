"""``magos-api`` as a process in which a bearer token is the name of its caller, and everybody may do everything.

It stands in for login, which has tests of its own: here it is the server itself that is tested.
"""

import os
import sys
from collections.abc import Iterable, Mapping

from starlette.requests import Request

from magos.apps.server import run_api
from magos.apps.serverparts import Parts
from magos.runtime.client.client import ApiClient
from magos.runtime.clock import Clock
from magos.server.access import Grant, Right, Verb
from magos.server.identity import Caller, CallerKind
from magos.server.problems import unauthenticated
from magos.server.settings import ServerSettings

__all__ = ["everybody"]


class _Everybody:
    async def caller(self, request: Request) -> Caller:
        name = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not name:
            raise unauthenticated()
        return Caller(kind=CallerKind.OIDC, username=name, subject=name)

    async def require(self, caller: Caller, right: Right) -> Grant:
        return Grant(right=right, caller=caller)

    async def allows(self, caller: Caller, right: Right) -> bool:
        del caller, right
        return True

    async def visible(self, caller: Caller, verb: Verb, resource: str, namespaces: Iterable[str]) -> None:
        del caller, verb, resource, namespaces


def everybody(environ: Mapping[str, str], settings: ServerSettings, client: ApiClient, clock: Clock) -> Parts:
    """Join login and rights as the module says."""
    del environ, settings, client, clock
    open_to_all = _Everybody()
    return Parts(access=open_to_all, authenticator=open_to_all)


if __name__ == "__main__":
    sys.exit(run_api(sys.argv[1:], dict(os.environ), everybody))
