"""The example of magos/runtime/README.md works as it stands there."""

import random

import anyio

from magos.api.kube import CONFIG_MAPS
from magos.runtime.client.client import ApiClient
from magos.runtime.manager.composition import ControllerApp
from magos.runtime.manager.manager import Manager
from magos.runtime.manager.settings import Settings
from tests.sim.apiserver import SimApiServer
from tests.sim.apiserver.resources import CUSTOM, custom_resource
from tests.sim.example_controller import GREETINGS, build
from tests.sim.virtualtime import VirtualClock, run_virtual


async def shown(user: ApiClient, phase: str, text: str) -> None:
    """Wait until the Greeting has the phase and its ConfigMap the text."""
    with anyio.fail_after(60):
        while True:
            greeting = await user.get(GREETINGS, "default", "hello")
            found = (await user.list(CONFIG_MAPS, "default")).items
            if greeting.status.phase == phase and [each.data for each in found] == [{"text": text}]:
                return
            await anyio.sleep(0.1)


def test_a_greeting_gets_its_config_map_and_another_one_when_its_text_changes() -> None:
    async def main() -> None:
        resource = custom_resource("example.com", "v1", "greetings", "Greeting")
        server = SimApiServer(VirtualClock(), random.Random(1), resources=(*CUSTOM, resource))
        app = ControllerApp(
            name="greeting-controller", settings=Settings(namespace="default", health=None), build=build
        )
        manager = Manager(app, server.transport("controller"), clock=server.clock, rng=random.Random(2))
        user = server.client("user")
        async with anyio.create_task_group() as group:
            group.start_soon(manager.run)
            await user.create(
                GREETINGS, {"metadata": {"name": "hello", "namespace": "default"}, "spec": {"text": "hi"}}
            )
            await shown(user, "Ready", "hi")
            await user.patch(GREETINGS, "default", "hello", {"spec": {"text": "welcome"}})
            await shown(user, "Ready", "welcome")
            manager.request_stop()

    run_virtual(main)
