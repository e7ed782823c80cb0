"""The server as its composition root joins it: its document, its login, and what its pages tell of it."""

import asyncio
import re
from collections.abc import Sequence

import msgspec
import pytest
from msgspec import structs
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from magos.apps.server import Server
from magos.apps.serverparts import Parts, join
from magos.errors import InvariantViolation
from magos.reference.server import openapi_text
from magos.server.settings import ServerSettings
from tests.sim.virtualtime import VirtualClock, run_virtual
from tests.unit.server.asgi import ask
from tests.unit.server.auth.world import BASE, ENVIRON, ISSUER, PASSWORD, Cluster, client_of
from tests.unit.server.world import API

LOGIN = "/api/v1alpha1"


def joined(more: Sequence[BaseRoute] = ()) -> tuple[Server, Parts]:
    """Return the server of the real composition, with everything switched on, and its parts, which are to be closed."""
    environ = {**ENVIRON, "MAGOS_DEX_URL": "https://dex.example.com", "MAGOS_POSTGRES_HOST": "database.example.com"}
    client, clock, settings = client_of(Cluster()), VirtualClock(), ServerSettings(base_url=BASE)
    parts = join(environ, settings, client, clock)
    wider = structs.replace(parts, routes=lambda context: [*parts.routes(context), *more])
    return Server(client, clock, settings, wider), parts


def test_the_server_as_it_is_joined_has_every_route_of_the_document_and_describes_itself_so() -> None:
    server, parts = joined()

    async def main() -> None:
        for path, methods in msgspec.json.decode(openapi_text())["paths"].items():
            filled = path.replace("{namespace}", "default").replace("{name}", "a").replace("{runID}", "a-1")
            answer = await ask(server.app, filled, method="TRACE")
            assert answer.status == 405
            assert set(methods) <= {each.strip().lower() for each in answer.headers["allow"].split(",")}
        served = (await ask(server.app, "/openapi.json")).json
        assert served == msgspec.json.decode(openapi_text())
        await parts.close()

    run_virtual(main, seed=1, limit=60.0)


@pytest.mark.parametrize("path", [f"{LOGIN}/auth/more", f"{API}/workspaces/{{rest:path}}"])
def test_no_route_of_the_api_can_be_beside_the_table(path: str) -> None:
    with pytest.raises(InvariantViolation, match=re.escape(path)):
        joined([Route(path, lambda _request: Response())])


def test_the_settings_page_tells_what_the_environment_sets() -> None:
    server, parts = joined()

    async def main() -> None:
        entered = await ask(server.app, f"{LOGIN}/auth/login", method="POST", token=PASSWORD)
        page = await ask(server.app, "/settings", token=entered.json["idToken"])
        assert page.status == 200
        text = page.body.decode()
        for each in (f">{ISSUER}<", ">on<", "in PostgreSQL", "the newest 30 that", "a deleted one for 90 days"):
            assert each in text
        await parts.close()

    asyncio.run(main())
