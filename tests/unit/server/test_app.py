"""What holds for every request: headers, log, bounds, refusals, CORS, probes."""

from collections.abc import Iterator
from typing import Any

import anyio
import pytest
import structlog
from structlog.testing import capture_logs

from magos.runtime.client.errors import ApiError, Status
from magos.server.middleware import LARGEST_BODY, SECURITY_HEADERS
from tests.unit.server.asgi import ask
from tests.unit.server.world import API, World, in_world

_APPROVE = f"{API}/workspaces/default/a/approve"


@pytest.fixture(autouse=True)
def logged() -> Iterator[list[Any]]:
    """The log lines of the test."""
    with capture_logs() as lines:
        yield lines
    structlog.reset_defaults()


@pytest.mark.parametrize(
    "path", ["/healthz", "/nothing", f"{API}/workspaces", f"{API}/workspaces/default/a", "/docs", "/docs/style.css"]
)
def test_every_answer_has_the_headers_of_safety(path: str) -> None:
    async def scene(world: World) -> None:
        for token in ("ann", ""):
            answer = await world.ask(path, token=token)
            for name, value in SECURITY_HEADERS.items():
                assert answer.headers[name.lower()] == value
            assert "unsafe" not in answer.headers["content-security-policy"]
            assert answer.headers["cache-control"] == "no-store"
            assert "access-control-allow-origin" not in answer.headers

    in_world(scene)


def test_an_unknown_path_and_a_wrong_method_are_told_in_the_same_form() -> None:
    async def scene(world: World) -> None:
        nothing = await world.ask("/nothing")
        assert (nothing.status, nothing.json) == (404, {"error": "there is nothing at /nothing"})
        wrong = await world.ask(f"{API}/workspaces", method="DELETE")
        assert wrong.status == 405
        assert set(wrong.json) == {"error"}
        assert "GET" in wrong.headers["allow"]

    in_world(scene)


def test_an_unexpected_error_is_500_without_internals_and_is_logged(logged: list[Any]) -> None:
    async def scene(world: World) -> None:
        async def broken(_request: object) -> None:
            raise RuntimeError("the secret is hunter2")

        world.authenticator.caller = broken  # type: ignore[assignment, method-assign]
        answer = await world.ask(f"{API}/workspaces")
        assert answer.status == 500
        assert "hunter2" not in answer.body.decode()
        assert any("hunter2" in str(line.get("error")) for line in logged)

    in_world(scene)


@pytest.mark.parametrize("status", [403, 404, 422, 500])
def test_what_the_cluster_refuses_to_the_server_itself_is_503_without_its_words(status: int) -> None:
    async def scene(world: World) -> None:
        async def refused(_request: object) -> None:
            raise ApiError("secret words", answer=Status(code=status, message="secret words"))

        world.authenticator.caller = refused  # type: ignore[assignment, method-assign]
        answer = await world.ask(f"{API}/workspaces")
        assert answer.status == 503
        assert "secret" not in answer.error

    in_world(scene)


def test_the_request_log_has_no_tokens_and_no_secrets_of_the_query(logged: list[Any]) -> None:
    async def scene(world: World) -> None:
        query = {"access_token": "hunter2", "code": "hunter2", "namespace": "team-a", "x=hunter2": "hunter2"}
        await ask(world.server.app, f"{API}/workspaces", token="hunter2", **query)
        [line] = [each for each in logged if each["event"] == "request"]
        assert line["query"] == "access_token=...&code=...&namespace=team-a&x=hunter2=..."
        line.pop("query")
        assert line.pop("caller") == "hunter2"  # of this test's authenticator: the token is the name
        assert "hunter2" not in str(line)
        assert (line["method"], line["status"], line["path"]) == ("GET", 200, f"{API}/workspaces")

    in_world(scene)


def test_a_body_that_is_too_large_is_413_whatever_its_length_is_said_to_be() -> None:
    async def scene(world: World) -> None:
        answer = await world.ask(_APPROVE, method="POST", body=b"x" * (LARGEST_BODY + 1))
        assert answer.status == 413

    in_world(scene)


def test_pages_of_listed_origins_may_call_and_are_never_given_cookies() -> None:
    async def scene(world: World) -> None:
        for origin, allowed in (("https://portal.example", True), ("https://other.example", False)):
            answer = await ask(world.server.app, f"{API}/workspaces", headers={"origin": origin})
            assert (answer.headers.get("access-control-allow-origin") == origin) is allowed
            assert "access-control-allow-credentials" not in answer.headers
            assert answer.headers.get("access-control-allow-origin") != "*"

    in_world(scene)


def test_readiness_waits_for_the_caches_and_fails_while_the_api_server_is_unreachable() -> None:
    async def scene(world: World) -> None:
        fresh = World(7)
        assert (await fresh.ask("/readyz", token="")).status == 503
        assert (await fresh.ask("/healthz", token="")).json == {"status": "ok"}
        assert (await world.ask("/readyz", token="")).json == {"status": "ok"}
        world.transport.partition()
        await anyio.sleep(100)
        assert (await world.ask("/readyz", token="")).status == 503
        assert (await world.ask("/healthz", token="")).status == 200
        assert (await world.ask(f"{API}/workspaces")).status == 200, "reads go on out of the caches"
        world.transport.cut = False
        await anyio.sleep(100)
        assert (await world.ask("/readyz", token="")).status == 200

    in_world(scene)


def test_a_watch_that_is_opened_again_does_not_make_the_server_unready() -> None:
    async def scene(world: World) -> None:
        for _ in range(20):
            world.api.disconnect()
            await anyio.sleep(1)
            assert (await world.ask("/readyz", token="")).status == 200

    in_world(scene)
