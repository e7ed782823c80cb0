"""Who may do what with the API, as a real API server answers (magos/server/auth)."""

import asyncio
import random
from pathlib import Path

from magos.api.kube.mappedaccounts import MAPPED_ACCOUNTS
from magos.runtime.cache.informer import Informer
from magos.runtime.client.client import ApiClient
from magos.runtime.client.config import load_config
from magos.runtime.client.http import connect
from magos.runtime.clock import SystemClock
from magos.server.access import Right, Verb
from magos.server.auth.access import ReviewedAccess
from magos.server.auth.accounts import AccountTokens
from magos.server.auth.mappings import Mappings
from magos.server.auth.memory import KEPT
from magos.server.auth.reviews import Reviews
from magos.server.identity import Caller, CallerKind
from tests.envtest.cluster import Cluster, eventually


class Ahead(SystemClock):
    """A clock that can be put forward."""

    by = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.by


def test_people_see_what_their_accounts_may_and_no_longer_than_that(
    control_plane: Cluster, kubeconfig: Path, namespace: str
) -> None:
    kubectl = control_plane.kubectl
    inside = f"--namespace={namespace}"
    kubectl.run("create", "serviceaccount", "viewer", inside)
    mapped = f'rbac.magosproject.io/claims={{"groups":["{namespace}"]}}'
    kubectl.run("annotate", "serviceaccount", "viewer", inside, mapped)
    resource = "--resource=workspaces.magosproject.io"
    kubectl.run("create", "role", "viewer", inside, "--verb=get,list", resource)
    kubectl.run("create", "rolebinding", "viewer", inside, "--role=viewer", f"--serviceaccount={namespace}:viewer")
    token = kubectl.run("create", "token", "viewer", inside).strip()
    may = ("auth", "can-i", "list", "workspaces.magosproject.io", inside)
    account = f"--as=system:serviceaccount:{namespace}:viewer"
    eventually(lambda: "yes" in kubectl.run(*may, account, check=False))
    ann = Caller(kind=CallerKind.OIDC, username="ann", subject="s", claims={"groups": (namespace,)})
    eve = Caller(kind=CallerKind.OIDC, username="eve", subject="e", claims={"groups": ("others",)})

    async def main() -> None:
        clock = Ahead()
        transport = connect(load_config(str(kubeconfig), environ={}), user_agent="magos/test (access)")
        client = ApiClient(transport)
        accounts = Informer(client, MAPPED_ACCOUNTS, clock=clock, rng=random.Random(1))
        access = ReviewedAccess(Mappings(accounts, "default", ()), Reviews(client, clock))
        running = asyncio.create_task(accounts.run())
        try:
            await asyncio.wait_for(accounts.wait_synced(), 20)
            itself = await AccountTokens(client, clock).caller(token)
            assert itself.username == f"system:serviceaccount:{namespace}:viewer"
            places = [namespace, "default"]
            change = Right(verb=Verb.PATCH, resource="workspaces", namespace=namespace)
            for caller in (ann, itself):
                assert await access.visible(caller, Verb.LIST, "workspaces", places) == frozenset({namespace})
                assert not await access.allows(caller, change)
            assert await access.visible(eve, Verb.LIST, "workspaces", places) == frozenset()
            await asyncio.to_thread(kubectl.run, "delete", "rolebinding", "viewer", inside)
            await asyncio.to_thread(
                eventually, lambda: "yes" not in kubectl.run(*may, account, check=False).splitlines()
            )
            clock.by += KEPT
            for caller in (ann, itself):
                assert await access.visible(caller, Verb.LIST, "workspaces", places) == frozenset()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await transport.aclose()

    asyncio.run(main())
