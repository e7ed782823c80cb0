"""One scenario, two servers: what the conformance suite runs on the simulated and on the real API server."""

import asyncio
import random
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio
import msgspec
import pytest
from msgspec import Struct, field

from magos.api.meta import Kind, ObjectMeta
from magos.runtime.client.client import ApiClient
from magos.runtime.client.config import load_config
from magos.runtime.client.errors import ApiError
from magos.runtime.client.http import connect
from magos.runtime.client.transport import Transport
from tests.envtest.cluster import Cluster
from tests.sim.apiserver import SimApiServer
from tests.sim.apiserver.resources import custom_resource
from tests.sim.virtualtime import VirtualClock, run_virtual

__all__ = ["CONFIG_MAPS", "PARTIAL_SECRETS", "SECRETS", "THINGS", "Bag", "Loose", "Server", "Thing", "loose_kind"]

T = TypeVar("T")


class Bag(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A ConfigMap or Secret."""

    metadata: ObjectMeta
    data: Mapping[str, str] = field(default_factory=dict)


class Thing(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A custom resource of the suite's own."""

    metadata: ObjectMeta
    spec: Mapping[str, Any] = field(default_factory=dict)
    status: Mapping[str, Any] = field(default_factory=dict)


class Loose(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Any object; only its metadata and the two usual parts are read."""

    metadata: ObjectMeta
    spec: Mapping[str, Any] = field(default_factory=dict)
    status: Mapping[str, Any] = field(default_factory=dict)


CONFIG_MAPS = Kind(group="", version="v1", plural="configmaps", name="ConfigMap", type=Bag)
SECRETS = Kind(group="", version="v1", plural="secrets", name="Secret", type=Bag)
PARTIAL_SECRETS = Kind(group="", version="v1", plural="secrets", name="Secret", type=Bag, metadata_only=True)
THINGS = Kind(group="conformance.magosproject.io", version="v1", plural="things", name="Thing", type=Thing)


def loose_kind(plural: str, name: str, group: str = "", *, namespaced: bool = True) -> Kind[Loose]:
    """Return a built-in kind of version v1."""
    return Kind(group=group, version="v1", plural=plural, name=name, type=Loose, namespaced=namespaced)


_DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.conformance.magosproject.io"},
    "spec": {
        "group": "conformance.magosproject.io",
        "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}
_DEFINITIONS = loose_kind(
    "customresourcedefinitions", "CustomResourceDefinition", "apiextensions.k8s.io", namespaced=False
)
_NAMESPACES = loose_kind("namespaces", "Namespace", namespaced=False)


@dataclass(frozen=True)
class Server:
    """A server with a namespace of the scenario's own."""

    client: ApiClient
    transport: Transport
    namespace: str

    def meta(self, name: str, **more: Any) -> ObjectMeta:
        """Return metadata in the scenario's namespace."""
        return ObjectMeta(name=name, namespace=self.namespace, **more)

    async def eventually(self, probe: Callable[[], Awaitable[T]], within: float = 60.0) -> T:
        """Return the first truthy answer of ``probe``, asked again and again; on a virtual loop this takes no time."""
        with anyio.fail_after(within):
            while True:
                answer = await probe()
                if answer:
                    return answer
                await asyncio.sleep(0.1)

    async def gone(self, kind: Kind[Any], name: str) -> bool:
        """Tell whether an object does not exist."""
        try:
            await self.client.get(kind, self.namespace, name)
        except ApiError as error:
            if error.not_found:
                return True
            raise
        return False


Scenario = Callable[[Server], Awaitable[None]]


def run_simulated(scenario: Scenario) -> None:
    """Run the scenario in virtual time against the simulated server and its collectors."""

    async def main() -> None:
        things = custom_resource("conformance.magosproject.io", "v1", "things", "Thing")
        server = SimApiServer(VirtualClock(), random.Random(1), resources=(things,), namespaces=("default", "suite"))
        transport = server.transport()
        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.collector.run)
            try:
                await scenario(Server(ApiClient(transport), transport, "suite"))
            except Exception as error:  # noqa: BLE001 - raised below, outside of the exception group
                failure = error
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure

    run_virtual(main, seed=1)


def run_real(cluster: Cluster, scenario: Scenario) -> None:
    """Run the scenario against the real server in a namespace that is deleted afterwards."""

    async def main() -> None:
        config = load_config(str(cluster.kubeconfig), environ={})
        transport = connect(config, user_agent="magos/test (conformance)")
        try:
            client = ApiClient(transport)
            await _define(client)
            name = f"suite-{secrets.token_hex(4)}"
            await client.create(_NAMESPACES, {"metadata": {"name": name}})
            server = Server(client, transport, name)
            accounts = loose_kind("serviceaccounts", "ServiceAccount")
            await server.eventually(lambda: _exists(server, accounts, "default"))
            try:
                await scenario(server)
            finally:
                await client.delete(_NAMESPACES, "", name)
        finally:
            await transport.aclose()

    asyncio.run(main())


async def _exists(server: Server, kind: Kind[Any], name: str) -> bool:
    return not await server.gone(kind, name)


async def _define(client: ApiClient) -> None:
    try:
        await client.create(_DEFINITIONS, _DEFINITION)
    except ApiError as error:
        if not error.already_exists:
            raise
    with anyio.fail_after(30):
        while True:
            try:
                await client.list(THINGS, "default")
            except ApiError as error:
                if not error.not_found:
                    raise
                await asyncio.sleep(0.1)
            else:
                return


def run_on(which: str, request: pytest.FixtureRequest, scenario: Scenario) -> None:
    """Run the scenario on ``simulated`` or ``real``."""
    if which == "simulated":
        run_simulated(scenario)
    else:
        run_real(request.getfixturevalue("control_plane"), scenario)


def raw(body: bytes) -> Any:
    """Return a body as the server sent it."""
    return msgspec.json.decode(body)
