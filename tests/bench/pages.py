"""How long the server works on a page over 5,000 Workspaces: from the request to the first bytes of the page.

The application is the real one, login included, in this process: no network and no browser are in the figures.
"""

import asyncio
import sys
import time
from collections.abc import Sequence

import bcrypt
import msgspec
from starlette.types import ASGIApp, Message

from magos.apps.server import Server
from magos.apps.serverparts import join
from magos.runtime.client.client import ApiClient
from magos.runtime.clock import SystemClock
from magos.runtime.manager.logs import logging_to
from magos.server.settings import ServerSettings
from tests.bench.crowdhouse import WORKSPACES, Cluster

__all__ = ["NAMES", "measure"]

NAMES = ("ui.workspaces5000_ms_p99", "ui.workspace_detail_ms_p99")

_PASSWORD = "a password of the bench"
_WARM, _REQUESTS = 3, 100


class _Reader:
    """A browser in memory."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._token = _PASSWORD

    async def log_in(self) -> None:
        """Log in as the admin."""
        body, _ = await self._ask("POST", "/api/v1alpha1/auth/login")
        self._token = msgspec.json.decode(body)["idToken"]

    async def times(self, paths: Sequence[str], content: bytes) -> list[float]:
        """Return how many milliseconds each page took to its first bytes, after a few that nobody counts."""
        found: list[float] = []
        for path in [*paths[:_WARM], *paths]:
            body, milliseconds = await self._ask("GET", path)
            if content not in body:
                raise ValueError(f"{path} is not the page that was asked for")
            found.append(milliseconds)
            await asyncio.sleep(0)
        return found[_WARM:]

    async def _ask(self, method: str, path: str) -> tuple[bytes, float]:
        body, milliseconds = bytearray(), 0.0
        began = time.perf_counter()

        async def send(message: Message) -> None:
            nonlocal milliseconds
            if message["type"] == "http.response.start" and message["status"] != 200:
                raise ValueError(f"{path} is answered with {message['status']}")
            if message.get("body"):
                milliseconds = milliseconds or (time.perf_counter() - began) * 1000
                body.extend(message["body"])

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(b"authorization", f"Bearer {self._token}".encode()), (b"accept", b"text/html")],
            "client": ("127.0.0.1", 1),
            "server": ("localhost", 8080),
            "scheme": "http",
        }
        await self._app(scope, receive, send)
        return bytes(body), milliseconds


def _p99(times: Sequence[float]) -> float:
    return sorted(times)[-1 - len(times) // 100]


async def _measured() -> dict[str, float]:
    environ = {
        "ADMIN_ACCOUNT_PASSWORD_HASH": bcrypt.hashpw(_PASSWORD.encode(), bcrypt.gensalt(4)).decode(),
        "ADMIN_ACCOUNT_TOKEN_SIGNING_KEY": "a key of the bench, long enough for all that",
        "MAGOS_SESSION_SIGNING_KEY": "another key of the bench, long enough for all that",
    }
    client, clock, settings = ApiClient(Cluster()), SystemClock(), ServerSettings()
    parts = join(environ, settings, client, clock)
    server = Server(client, clock, settings, parts)
    work = asyncio.create_task(server.work())
    try:
        cluster = server.cluster
        for each in (cluster.workspaces, cluster.projects, cluster.rollouts, cluster.variable_sets):
            await each.wait_synced()
        reader = _Reader(server.app)
        await reader.log_in()
        numbers = range(0, WORKSPACES, WORKSPACES // _REQUESTS)
        details = [f"/workspaces/team-{each % 50:02}/workspace-{each:05}" for each in numbers]
        found = [await reader.times(paths, b"workspace-0") for paths in (["/workspaces"] * _REQUESTS, details)]
    finally:
        work.cancel()
        await asyncio.wait([work])
        await parts.close()
    for name, times in zip(NAMES, found, strict=True):
        print(f"{name}: median {_p50(times):.1f} ms, slowest {max(times):.1f} ms", file=sys.stderr)
    return dict(zip(NAMES, map(_p99, found), strict=True))


def _p50(times: Sequence[float]) -> float:
    return sorted(times)[len(times) // 2]


def measure() -> dict[str, float]:
    """Read the list many times, then as many Workspaces."""
    with logging_to(level="warning"):
        return asyncio.run(_measured())
