"""The programs of Magos as processes: what the Deployments of ``deploy/kustomize/base`` are on a cluster.

Each runs under its own ServiceAccount with the rights that the base gives it.
"""

import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import anyio
import bcrypt
import httpx
from msgspec import Struct

from magos.local.controlplane.plane import ControlPlane
from magos.local.ports import free_ports
from magos.local.processes import ProcessSpec
from magos.local.supervisor import Supervised

SYSTEM_NAMESPACE = "magos-system"
CONTROLLERS = ("workspace", "project", "rollout", "variableset", "refwatcher")
"""All controllers; each is a program ``magos-<name>-controller`` with the ServiceAccount ``magos-<name>``."""

_API: Final = "magos-api"
_BCRYPT_ROUNDS: Final = 10
_PROBE_SECONDS: Final = 0.2


async def controller(
    name: str, plane: ControlPlane, folder: Path, environ: Mapping[str, str], poll_interval: str
) -> Supervised:
    """Return a controller, not started yet, that gets ``environ``."""
    account = f"magos-{name}"
    [health_port] = free_ports(1)
    options = ["--leader-elect", f"--health-probe-bind-address=127.0.0.1:{health_port}"]
    if name == "refwatcher":
        options.append(f"--default-poll-interval={poll_interval}")
    return await _program(account, [f"{account}-controller", *options], plane, folder, environ)


class ApiServer(Struct, frozen=True, kw_only=True):
    """The API server and web UI of the one-machine mode, with the password of its administrator ``admin``."""

    url: str
    password: str
    process: Supervised

    async def wait_until_ready(self, within: float) -> bool:
        """Tell whether it answers that it is ready, at the latest after ``within`` seconds."""
        with anyio.move_on_after(within):
            async with httpx.AsyncClient(trust_env=False) as client:
                while not await self._is_ready(client):  # noqa: ASYNC110  # another process, which announces nothing
                    await anyio.sleep(_PROBE_SECONDS)
                return True
        return False

    async def _is_ready(self, client: httpx.AsyncClient) -> bool:
        try:
            return (await client.get(f"{self.url}/readyz")).is_success
        except httpx.TransportError:
            return False  # it does not listen yet


async def api_server(plane: ControlPlane, folder: Path, environ: Mapping[str, str]) -> ApiServer:
    """Return the API server, not started yet, with keys and a password of its own; it gets ``environ`` besides."""
    [port] = free_ports(1)
    url, password = f"http://127.0.0.1:{port}", secrets.token_urlsafe(12)
    salt = bcrypt.gensalt(_BCRYPT_ROUNDS)
    hashed = await anyio.to_thread.run_sync(bcrypt.hashpw, password.encode(), salt)
    settings = {
        "PORT": str(port),
        "MAGOS_BASE_URL": url,
        "ADMIN_ACCOUNT_PASSWORD_HASH": hashed.decode(),
        "ADMIN_ACCOUNT_TOKEN_SIGNING_KEY": secrets.token_hex(32),
        "MAGOS_SESSION_SIGNING_KEY": secrets.token_hex(32),
    }
    process = await _program(_API, [_API, "--address=127.0.0.1"], plane, folder, {**environ, **settings})
    return ApiServer(url=url, password=password, process=process)


async def _program(
    account: str, command: list[str], plane: ControlPlane, folder: Path, environ: Mapping[str, str]
) -> Supervised:
    program, *options = command
    path = folder / f"{account}.kubeconfig"
    kubeconfig = await plane.service_account_kubeconfig(SYSTEM_NAMESPACE, account, path)
    return Supervised(
        ProcessSpec(
            name=program,
            argv=[str(Path(sys.executable).parent / program), *options],
            log_file=folder / "logs" / f"{program}.log",
            env={**environ, "POD_NAMESPACE": SYSTEM_NAMESPACE, "KUBECONFIG": str(kubeconfig)},
        )
    )
