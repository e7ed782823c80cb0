"""A Kubernetes control plane on loopback: etcd, kube-apiserver and kube-controller-manager.

What this module promises:

1. When the block is entered the API server is ready, the controllers of :mod:`.commandlines` run, and the ``default``
   namespace has its ServiceAccount, so pods can be created at once.
2. When the block is left, for whatever reason, the three processes have ended; if this process is killed, the kernel
   ends them.
3. Every server listens on 127.0.0.1, on a port that was free at the start, with TLS under an authority made for this
   control plane. Nothing outside the data folder is written.
4. A process that does not become ready is an error that carries the end of its log.

It has no scheduler, no kubelet and no cloud: pods stay Pending until a node binds and runs them.
"""

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
from magos.local.controlplane.commandlines import Layout, Ports
from magos.local.controlplane.credentials import ADMIN_USER, CONTROLLER_MANAGER_USER, Authority, kubeconfig_text
from magos.local.ports import free_ports
from magos.local.processes import ChildProcess, ProcessFailed, ProcessSpec, running
from magos.local.programs.assets import ControlPlaneAssets
from magos.privatefile import write_private

_STOP_GRACE_SECONDS: Final = 3.0
"""The API server waits up to a minute for open watches; killing it before loses nothing: etcd has the objects."""

_PROBE_SECONDS: Final = 3.0
"""A server that is starting may accept a connection and not answer it; the next probe then tries again."""

_REQUEST_SECONDS: Final = 30.0
_WATCH_SECONDS: Final = 0.5
_TOKEN_SECONDS: Final = 24 * 3600
"""Longer than anyone keeps a demo or a test running: nothing here renews a token."""

_ATTEMPTS: Final = 3
"""Starts, each on other ports: another program may take a free port before our process binds it."""

_AUDIT_POLICY: Final = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
"""
_T = TypeVar("_T")


class ControlPlane:
    """``async with ControlPlane(assets, folder) as plane:``; the promises are the module's.

    ``folder`` belongs to this control plane and is created if it does not exist; an old one still has the cluster's
    objects. ``patience`` bounds each wait for readiness, in seconds. ``serving`` is set as soon as the API server
    answers an administrator, a moment before the whole is ready: objects can be created, and no controller has seen
    them yet. If another program has taken a port, all three processes start again on other ports, with these objects.
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
    def audit_log(self) -> Path:
        """The API server's audit log: one JSON object a line for every request it answered (level Metadata)."""
        return self.folder / "audit.log"

    @property
    def authority(self) -> Authority:
        """The authority whose certificates the API server trusts, from clients and from a kubelet."""
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
        """Send a request as the administrator and return the decoded JSON answer.

        Raises ``MagosError`` with the server's message. Programs under test use their own client and account.
        """
        answer = await _started(self._client).request(method, path, json=body)
        if answer.is_error:
            raise MagosError(
                f"the local API server answered {method} {path} with {answer.status_code}: {answer.text.strip()}"
            )
        return answer.json()

    async def service_account_kubeconfig(
        self, namespace: str, name: str, path: Path, *, seconds: int = _TOKEN_SECONDS
    ) -> Path:
        """Write a kubeconfig that authenticates as the ServiceAccount, which must exist, and return ``path``.

        The token is valid for ``seconds``, at least 600 of them; RBAC decides what the account may do.
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
        """Raise ``ProcessFailed`` once one of the processes ends by itself; never returns.

        Run it in a task beside the work, so that the error names the process that ended and not its consequences.
        """
        while True:
            await self._raise_if_ended()
            await anyio.sleep(_WATCH_SECONDS)

    async def _raise_if_ended(self) -> None:
        for child in self._children:
            if child.returncode is not None:
                raise ProcessFailed(
                    f"{child.name} ended with status {child.returncode} though nothing stopped it; find the cause in "
                    f"its log {child.spec.log_file}, which ends with:\n{await child.tail()}"
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
                timeout=_REQUEST_SECONDS,
                trust_env=False,
            )
        )
        assets, ports = self._assets, self._ports
        # The API server waits for etcd by itself, so the two start side by side.
        await self._launch(stack, "etcd", commandlines.etcd(assets.etcd, layout, ports))
        apiserver = await self._launch(
            stack, "kube-apiserver", commandlines.apiserver(assets.kube_apiserver, layout, ports)
        )
        await apiserver.wait_until_ready(self._answers("/readyz"), self._patience)
        self.serving.set()
        manager = await self._launch(
            stack,
            "kube-controller-manager",
            commandlines.controller_manager(assets.kube_controller_manager, layout, ports),
        )
        default_account = "/api/v1/namespaces/default/serviceaccounts/default"
        await manager.wait_until_ready(self._answers(default_account), self._patience)

    def _prepare(self) -> tuple[Layout, dict[str, str]]:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        policy = self.folder / "audit-policy.yaml"
        policy.write_text(_AUDIT_POLICY)
        authority = self._authority = Authority(self.folder / "pki")
        token_file, tokens = authority.token_file()
        layout = Layout(
            folder=self.folder,
            authority=authority.certificate,
            server=authority.issue("server", "127.0.0.1", "localhost", "kubernetes.default.svc"),
            client=authority.issue("client", "127.0.0.1", common_name="kube-apiserver"),
            service_account_key=authority.service_account_key(),
            token_file=token_file,
            audit_policy=policy,
            audit_log=self.audit_log,
        )
        return layout, tokens

    async def _launch(self, stack: AsyncExitStack, name: str, argv: Sequence[str]) -> ChildProcess:
        spec = ProcessSpec(name=name, argv=argv, log_file=self.folder / f"{name}.log", cwd=self.folder)
        child = await stack.enter_async_context(running(spec, _STOP_GRACE_SECONDS))
        self._children.append(child)
        return child

    def _answers(self, path: str) -> Callable[[], Awaitable[bool]]:
        client = _started(self._client)

        async def probe() -> bool:
            await self._raise_if_ended()  # the API server waits for ever for an etcd that has ended
            try:
                return (await client.get(path, timeout=_PROBE_SECONDS)).is_success
            except httpx.TransportError:
                return False

        return probe

    async def _write_kubeconfig(self, path: Path, user: str, token: str, namespace: str = "default") -> None:
        text = kubeconfig_text(
            url=self.url, authority_pem=self.authority.certificate_pem, user=user, token=token, namespace=namespace
        )
        await anyio.to_thread.run_sync(write_private, path, text.encode())


def _started(value: _T | None) -> _T:
    if value is None:
        raise MagosError("the control plane has not started; use it inside its async with block")
    return value
