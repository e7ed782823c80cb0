"""Who may read the metrics, as a real API server answers (magos/runtime/manager/metricsauth.py)."""

import asyncio
from pathlib import Path

import pytest

from magos.runtime.client.client import ApiClient
from magos.runtime.client.config import load_config
from magos.runtime.client.http import connect
from magos.runtime.client.transport import HttpRequest, HttpResponse, Lane, TransportError
from magos.runtime.clock import SystemClock
from magos.runtime.manager.metricsauth import AccessDecision, MetricsAuth
from tests.envtest.cluster import Cluster, eventually


@pytest.fixture
def tokens(control_plane: Cluster, namespace: str) -> tuple[str, str]:
    """Tokens of two ServiceAccounts: one may read metrics, the other may not."""
    kubectl = control_plane.kubectl
    for name in ("reader", "nobody"):
        kubectl.run("create", "serviceaccount", name, f"--namespace={namespace}")
    role = f"metrics-{namespace}"
    kubectl.run("create", "clusterrole", role, "--verb=get", "--non-resource-url=/metrics")
    kubectl.run("create", "clusterrolebinding", role, f"--clusterrole={role}", f"--serviceaccount={namespace}:reader")
    reader, nobody = (
        kubectl.run("create", "token", name, f"--namespace={namespace}").strip() for name in ("reader", "nobody")
    )
    account = f"--as=system:serviceaccount:{namespace}:reader"
    eventually(lambda: "yes" in kubectl.run("auth", "can-i", "get", "/metrics", account, check=False))
    return reader, nobody


class Cut:
    """A transport to nowhere."""

    async def request(self, request: HttpRequest) -> HttpResponse:
        raise TransportError("unreachable", sent=request.lane is Lane.LEASE)


def test_access_is_what_the_cluster_says(kubeconfig: Path, tokens: tuple[str, str]) -> None:
    reader, nobody = tokens

    async def main() -> None:
        transport = connect(load_config(str(kubeconfig), environ={}), user_agent="magos/test (metrics)")
        try:
            auth = MetricsAuth(ApiClient(transport), SystemClock())
            assert await auth.judge(f"Bearer {reader}") is AccessDecision.ALLOWED
            assert await auth.judge(f"bearer {reader}") is AccessDecision.ALLOWED
            assert await auth.judge(f"Bearer {nobody}") is AccessDecision.FORBIDDEN
            assert await auth.judge("Bearer forged") is AccessDecision.UNAUTHENTICATED
            for header in ("", "Bearer", "Bearer ", f"Basic {reader}", reader):
                assert await auth.judge(header) is AccessDecision.UNAUTHENTICATED
            # What was said is remembered; what is not known yet is refused while nobody can be asked.
            auth._client = ApiClient(Cut())  # type: ignore[arg-type]
            assert await auth.judge(f"Bearer {reader}") is AccessDecision.ALLOWED
            assert await auth.judge("Bearer another") is AccessDecision.UNKNOWN
        finally:
            await transport.aclose()

    asyncio.run(main())
