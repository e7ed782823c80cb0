"""The programs of Magos as processes of the one-machine mode."""

import sys
from pathlib import Path
from typing import Any

import bcrypt
import pytest

from magos.local.deployment import CONTROLLERS, ApiServer, api_server, controller
from magos.local.ports import free_ports
from magos.local.processes import ProcessSpec
from magos.local.supervisor import Supervised

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class _Plane:
    """A control plane that only gives kubeconfigs."""

    async def service_account_kubeconfig(self, namespace: str, name: str, path: Path) -> Path:
        return path.with_name(f"{namespace}.{name}")


_PLANE: Any = _Plane()


@pytest.mark.parametrize("name", CONTROLLERS)
async def test_a_controller_runs_under_its_own_account(name: str, tmp_path: Path) -> None:
    spec = (await controller(name, _PLANE, tmp_path, {"MAGOS_POSTGRES_HOST": "h"}, "1s")).spec
    assert spec.env is not None
    assert spec.env["KUBECONFIG"] == str(tmp_path / f"magos-system.magos-{name}")
    assert (spec.env["POD_NAMESPACE"], spec.env["MAGOS_POSTGRES_HOST"]) == ("magos-system", "h")
    assert spec.argv[0] == str(Path(sys.executable).parent / f"magos-{name}-controller")


async def test_the_api_server_listens_on_loopback_alone_with_a_password_and_keys_of_its_own(tmp_path: Path) -> None:
    first, second = [await api_server(_PLANE, tmp_path, {"MAGOS_LOGS_ENABLED": "true"}) for _ in range(2)]
    env = first.process.spec.env
    assert env is not None
    assert env["KUBECONFIG"] == str(tmp_path / "magos-system.magos-api")
    assert env["MAGOS_LOGS_ENABLED"] == "true"
    assert "--address=127.0.0.1" in first.process.spec.argv
    assert first.url == env["MAGOS_BASE_URL"] == f"http://127.0.0.1:{env['PORT']}"
    assert bcrypt.checkpw(first.password.encode(), env["ADMIN_ACCOUNT_PASSWORD_HASH"].encode())
    assert not any(first.password in word for word in (*env.values(), *first.process.spec.argv))
    assert first.password != second.password
    keys = {each.process.spec.env["MAGOS_SESSION_SIGNING_KEY"] for each in (first, second) if each.process.spec.env}
    assert len(keys | {env["ADMIN_ACCOUNT_TOKEN_SIGNING_KEY"]}) == 3


async def test_an_api_server_that_nobody_started_is_not_waited_for_longer_than_asked(tmp_path: Path) -> None:
    [port] = free_ports(1)
    process = Supervised(ProcessSpec(name="magos-api", argv=["true"], log_file=tmp_path / "log"))
    api = ApiServer(url=f"http://127.0.0.1:{port}", password="x", process=process)
    assert not await api.wait_until_ready(0.05)
