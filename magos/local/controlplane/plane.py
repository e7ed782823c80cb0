"""A Kubernetes control plane on loopback: etcd, kube-apiserver and kube-controller-manager.

What this module promises:

1. When the block is entered the API server is ready, the controllers named below run, and the ``default`` namespace
   has its ServiceAccount, so pods can be created at once.
2. When the block is left, however it is left, the three processes have ended; if this process is killed, the kernel
   ends them.
3. Everything listens on 127.0.0.1 on ports of the moment; every connection is TLS under an authority made for this
   control plane; nothing outside the data folder is written.
4. A process that does not become ready is an error that carries the end of its log.

There is no scheduler, no kubelet and no cloud: pods stay Pending until somebody plays the node.
"""

import itertools
import random
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import anyio
import httpx

from magos.errors import MagosError
from magos.local.controlplane import commandlines
from magos.local.controlplane.audit import POLICY, AuditLog
from magos.local.controlplane.commandlines import Layout, Ports
from magos.local.controlplane.credentials import (
    ADMIN_USER,
    CONTROLLER_MANAGER_USER,
    Authority,
    kubeconfig_text,
    write_private,
)
from magos.local.processes import ChildProcess, ProcessFailed, ProcessSpec, running, wait_until_ready
from magos.local.programs.assets import ControlPlaneAssets

__all__ = ["ControlPlane", "free_ports"]

_STOP_GRACE: Final = 3.0  # the API server lingers while watches are open; nothing of it outlives the data folder
_PROBE_SECONDS: Final = 3.0
_ATTEMPTS: Final = 3
_LOWEST_PORT: Final = 10_000
_OUTGOING: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_TOKEN_SECONDS: Final = 24 * 3600
_T = TypeVar("_T")


def free_ports(count: int) -> list[int]:
    """TCP ports that are free on 127.0.0.1 now; nothing keeps another program from listening on them meanwhile.

    Where that leaves room, they lie below the range from which the kernel takes the ports of outgoing connections
    (ip(7), ``ip_local_port_range``): a control plane opens hundreds of these before its last process listens.
    """
    first_outgoing = int(_OUTGOING.read_text().split()[0]) if _OUTGOING.exists() else 32768
    ports = range(_LOWEST_PORT, max(first_outgoing, 2 * _LOWEST_PORT))
    found = list(itertools.islice(filter(_is_free, random.sample(ports, 1_000)), count))
    if len(found) < count:
        raise MagosError(
            f"there are no {count} free ports from {ports.start} to {ports.stop} on 127.0.0.1; end what listens there"
        )
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class ControlPlane:
    """``async with ControlPlane(assets, folder) as plane:``; the promises are the module's.

    ``folder`` is created if need be and belongs to this control plane; with an old one the cluster's content is still
    there. ``patience`` bounds each wait for readiness, in seconds. ``serving`` is set as soon as the API server answers
    an administrator, a moment before the whole is ready: objects can be created, no controller has seen them yet. If a
    port was taken meanwhile, everything begins anew on others after that, with what was created.
    """

    def __init__(self, assets: ControlPlaneAssets, folder: Path, *, patience: float = 120.0) -> None:
        self.folder = folder.absolute()
        self._assets = assets
        self.serving = anyio.Event()
        self._patience = patience
        self._stack = AsyncExitStack()
        self._children: list[ChildProcess] = []
        self._ports = Ports(*free_ports(4))
        self._authority: Authority | None = None
        self._client: httpx.AsyncClient | None = None

    @property
    def url(self) -> str:
        """Base address of the API server."""
        return f"https://127.0.0.1:{self._ports.apiserver}"

    @property
    def admin_kubeconfig(self) -> Path:
        """Kubeconfig of the user ``magos-admin`` in ``system:masters``."""
        return self.folder / "admin.kubeconfig"

    @property
    def audit(self) -> AuditLog:
        """Every request that the API server answered."""
        return AuditLog(self.folder / "audit.log")

    @property
    def authority(self) -> Authority:
        """Issues certificates that the API server trusts (a kubelet's serving certificate, client certificates)."""
        return _started(self._authority)

    @property
    def processes(self) -> Sequence[ChildProcess]:
        """The running processes, in the order in which they were started."""
        return tuple(self._children)

    async def __aenter__(self) -> Self:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                async with AsyncExitStack() as stack:
                    await self._start(stack)
                    self._stack = stack.pop_all()
            except ProcessFailed as error:
                self._children.clear()
                # A free port was taken by somebody else before our process could bind it.
                if attempt == _ATTEMPTS or "address already in use" not in str(error):
                    raise
                self._ports = Ports(*free_ports(4))
            else:
                break
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()
        self._children.clear()

    async def request(self, method: str, path: str, body: object = None) -> Any:
        """An administrator's request, for setting things up; returns the decoded JSON answer.

        MagosError carries the server's message. Programs under test use their own client and account.
        """
        answer = await _started(self._client).request(method, path, json=body)
        if answer.is_error:
            raise MagosError(f"{method} {path} on the local control plane: {answer.status_code} {answer.text.strip()}")
        return answer.json()

    async def service_account_kubeconfig(
        self, namespace: str, name: str, path: Path, *, seconds: int = _TOKEN_SECONDS
    ) -> Path:
        """Write a kubeconfig that acts as the ServiceAccount, with a token of at least ten minutes; returns ``path``.

        The account must exist; its rights are what RBAC gives it.
        """
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds},
        }
        answer = await self.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", request)
        user = f"system:serviceaccount:{namespace}:{name}"
        await self._write_kubeconfig(path, user, str(answer["status"]["token"]), namespace)
        return path

    async def watch_processes(self) -> None:
        """Wait until one of the processes ends although nobody stopped it, then raise ProcessFailed; never returns.

        For a task beside the work, so that a dead control plane is reported as what it is.
        """
        while True:
            await self._raise_if_ended()
            await anyio.sleep(0.5)

    async def _raise_if_ended(self) -> None:
        for child in self._children:
            if child.returncode is not None:
                raise ProcessFailed(
                    f"{child.name} ended with status {child.returncode} though nobody stopped it; the end of its log "
                    f"{child.spec.log_file}:\n{await child.tail()}"
                )

    async def _start(self, stack: AsyncExitStack) -> None:
        layout, tokens = await anyio.to_thread.run_sync(self._prepare)
        await self._write_kubeconfig(self.admin_kubeconfig, ADMIN_USER, tokens[ADMIN_USER])
        await self._write_kubeconfig(
            layout.controller_manager_kubeconfig, CONTROLLER_MANAGER_USER, tokens[CONTROLLER_MANAGER_USER]
        )
        trust = ssl.create_default_context(cadata=self.authority.certificate_pem.decode("ascii"))
        self._client = await stack.enter_async_context(
            httpx.AsyncClient(
                base_url=self.url,
                verify=trust,
                headers={"Authorization": f"Bearer {tokens[ADMIN_USER]}"},
                timeout=30.0,
                trust_env=False,
            )
        )
        assets, ports = self._assets, self._ports
        # The API server waits for etcd by itself, so the two start side by side.
        await self._launch(stack, "etcd", commandlines.etcd(assets.etcd, layout, ports))
        apiserver = await self._launch(
            stack, "kube-apiserver", commandlines.apiserver(assets.kube_apiserver, layout, ports)
        )
        await wait_until_ready(apiserver, self._answers("/readyz"), self._patience)
        self.serving.set()
        manager = await self._launch(
            stack,
            "kube-controller-manager",
            commandlines.controller_manager(assets.kube_controller_manager, layout, ports),
        )
        default_account = "/api/v1/namespaces/default/serviceaccounts/default"
        await wait_until_ready(manager, self._answers(default_account), self._patience)

    def _prepare(self) -> tuple[Layout, dict[str, str]]:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        authority = self._authority = Authority(self.folder / "pki")
        token_file, tokens = authority.token_file()
        layout = Layout(
            folder=self.folder,
            authority=authority.certificate,
            server=authority.issue("server", "127.0.0.1", "localhost", "kubernetes.default.svc"),
            client=authority.issue("client", "127.0.0.1", common_name="kube-apiserver"),
            service_account_key=authority.service_account_key(),
            token_file=token_file,
            audit_policy=write_private(self.folder / "audit-policy.yaml", POLICY),
        )
        return layout, tokens

    async def _launch(self, stack: AsyncExitStack, name: str, argv: Sequence[str]) -> ChildProcess:
        spec = ProcessSpec(name=name, argv=argv, log_file=self.folder / f"{name}.log", cwd=self.folder)
        child = await stack.enter_async_context(running(spec, _STOP_GRACE))
        self._children.append(child)
        return child

    def _answers(self, path: str) -> Callable[[], Awaitable[bool]]:
        client = _started(self._client)

        async def probe() -> bool:
            await self._raise_if_ended()  # with a dead etcd the API server would wait in vain
            try:
                return (await client.get(path, timeout=_PROBE_SECONDS)).is_success
            except httpx.TransportError:
                return False

        return probe

    async def _write_kubeconfig(self, path: Path, user: str, token: str, namespace: str = "default") -> None:
        text = kubeconfig_text(
            url=self.url, authority_pem=self.authority.certificate_pem, user=user, token=token, namespace=namespace
        )
        await anyio.to_thread.run_sync(write_private, path, text)


def _started(value: _T | None) -> _T:
    if value is None:
        raise MagosError("the control plane is not started; use it inside its async with block")
    return value
