"""Transport, configuration and informer against the real API server, over a network that fails on order."""

import asyncio
import random
import stat
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import msgspec
import pytest
import yaml
from msgspec import Struct, field

from magos.api.meta import Kind, ObjectMeta
from magos.runtime.cache import watcher
from magos.runtime.cache.informer import Informer
from magos.runtime.client import http
from magos.runtime.client.client import ApiClient
from magos.runtime.client.config import load_config
from magos.runtime.client.http import connect
from magos.runtime.clock import SystemClock
from tests.envtest.apiserver_under_test import CONFIG_MAPS, Bag
from tests.envtest.cluster import Cluster
from tests.envtest.tcpproxy import TcpProxy, proxy_to


class Review(Struct, frozen=True, kw_only=True):
    metadata: ObjectMeta
    status: Mapping[str, Any] = field(default_factory=dict)


WHO_AM_I = Kind(
    group="authentication.k8s.io",
    version="v1",
    plural="selfsubjectreviews",
    name="SelfSubjectReview",
    type=Review,
    namespaced=False,
)


def user_of(kubeconfig: Path) -> str:
    """Return who the API server says we are with this kubeconfig."""

    async def main() -> str:
        transport = connect(load_config(str(kubeconfig), environ={"PATH": "/usr/bin"}), user_agent="magos/test (who)")
        try:
            review = await ApiClient(transport).create(WHO_AM_I, {"metadata": {}})
        finally:
            await transport.aclose()
        return str(review.status["userInfo"]["username"])

    return asyncio.run(main())


def variant(cluster: Cluster, path: Path, user: Callable[[str], dict[str, Any]]) -> Path:
    """Write the administrator's kubeconfig with another kind of user; ``user`` gets the administrator's token."""
    content = yaml.safe_load(cluster.kubeconfig.read_text())
    content["users"][0]["user"] = user(content["users"][0]["user"]["token"])
    path.write_text(yaml.safe_dump(content))
    return path


def test_every_kind_of_credential_is_accepted_by_the_real_server(control_plane: Cluster, tmp_path: Path) -> None:
    def token_file(token: str) -> dict[str, Any]:
        (tmp_path / "token").write_text(token + "\n")
        return {"tokenFile": "token"}

    def exec_plugin(token: str) -> dict[str, Any]:
        answer = {"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": {"token": token}}
        script = tmp_path / "plugin"
        script.write_text(f"#!{sys.executable}\nprint({msgspec.json.encode(answer).decode()!r})\n")
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin"}}

    def certificate(_: str) -> dict[str, Any]:
        pair = control_plane.plane.authority.issue("somebody", "localhost", common_name="somebody")
        return {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}

    administrator = user_of(control_plane.kubeconfig)
    assert administrator != "system:anonymous"
    assert user_of(variant(control_plane, tmp_path / "file", token_file)) == administrator
    assert user_of(variant(control_plane, tmp_path / "exec", exec_plugin)) == administrator
    assert user_of(variant(control_plane, tmp_path / "certificate", certificate)) == "somebody"


class Followed:
    """An informer over the proxy, and a client past it."""

    def __init__(self, proxy: TcpProxy, direct: ApiClient, informer: Informer[Bag], namespace: str) -> None:
        self.proxy = proxy
        self.direct = direct
        self.informer = informer
        self.namespace = namespace

    async def put(self, name: str, value: str) -> None:
        metadata = {"name": name, "namespace": self.namespace, "labels": {"suite": "connection"}}
        await self.direct.create(CONFIG_MAPS, {"metadata": metadata, "data": {"v": value}})

    async def interrupted(self, within: float = 30.0) -> None:
        """Wait until the informer reports a problem."""
        with anyio.fail_after(within):
            failures = self.informer.stats.failures
            while self.informer.stats.failures == failures:  # noqa: ASYNC110 - the informer's totals are no event
                await asyncio.sleep(0.05)

    async def agrees(self, within: float = 30.0) -> None:
        """Wait until the cache equals what the server lists."""
        with anyio.fail_after(within):
            while True:
                page = await self.direct.list_all(CONFIG_MAPS, self.namespace, selector="suite=connection")
                if list(page.items) == list(self.informer.cache.list()):
                    return
                await asyncio.sleep(0.1)


@asynccontextmanager
async def followed(cluster: Cluster, namespace: str) -> AsyncIterator[Followed]:
    config = load_config(str(cluster.kubeconfig), environ={})
    address = urlsplit(config.server)
    assert address.hostname
    assert address.port
    rng = random.Random(1)
    async with proxy_to(address.hostname, address.port) as proxy:
        through = msgspec.structs.replace(config, server=f"https://127.0.0.1:{proxy.port}")
        direct = connect(config, user_agent="magos/test (direct)")
        proxied = connect(through, user_agent="magos/test (informer)", rng=rng)
        informer = Informer(
            ApiClient(proxied),
            CONFIG_MAPS,
            namespace=namespace,
            selector="suite=connection",
            clock=SystemClock(),
            rng=rng,
        )
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(informer.run)
                with anyio.fail_after(30):
                    await informer.wait_synced()
                yield Followed(proxy, ApiClient(direct), informer, namespace)
                tasks.cancel_scope.cancel()
        finally:
            await proxied.aclose()
            await direct.aclose()


def test_the_informer_survives_resets_and_silence_without_a_second_list(
    control_plane: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "INACTIVITY_SECONDS", 2.0)

    async def main() -> None:
        async with followed(control_plane, namespace) as world:
            await world.put("a", "1")
            await world.agrees()
            world.proxy.cut()
            await world.put("b", "2")
            await world.agrees()
            world.proxy.block()  # half-open: only the inactivity timer can notice
            await world.put("c", "3")
            await world.direct.delete(CONFIG_MAPS, namespace, "a")
            await world.interrupted()
            world.proxy.cut()
            world.proxy.unblock()
            await world.agrees()
            assert [item.metadata.name for item in world.informer.cache.list()] == ["b", "c"]
            assert world.informer.stats.lists == 1
            assert world.informer.stats.watches >= 3
            assert world.informer.stats.problem == ""

    asyncio.run(main())


def test_a_server_that_is_behind_our_version_is_silent_and_listed_anew(
    control_plane: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after the restore of a backup."""
    monkeypatch.setattr(http, "INACTIVITY_SECONDS", 2.0)
    monkeypatch.setattr(watcher, "QUIET", 1.0)

    async def main() -> None:
        async with followed(control_plane, namespace) as world:
            await world.put("a", "1")
            await world.agrees()
            lists = world.informer.stats.lists
            world.informer._watcher.resource_version = world.informer.cache._version = "9" * 15
            world.proxy.cut()
            await world.put("b", "2")
            await world.agrees()
            assert world.informer.stats.lists == lists + 1
            assert len(world.informer.cache.resource_version) < 15

    asyncio.run(main())
