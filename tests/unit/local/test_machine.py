"""The composition of the one-machine mode."""

from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from magos.local import machine
from magos.local.controlplane.credentials import Authority, kubeconfig_text
from magos.runtime.client.client import ApiClient

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_connections_are_closed_also_when_ctrl_c_cancels_the_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []

    async def aclose(_: object) -> None:
        await anyio.lowlevel.checkpoint()
        closed.append("client")

    monkeypatch.setattr(ApiClient, "aclose", aclose)
    pem = Authority(tmp_path / "pki").certificate_pem
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(kubeconfig_text(url="https://127.0.0.1:9", authority_pem=pem, user="u", token="t"))
    with anyio.CancelScope() as scope:
        async with machine._api_client(kubeconfig):
            scope.cancel()
            await anyio.sleep_forever()
    assert closed == ["client"]
