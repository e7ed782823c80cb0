"""The API server of the bench, ``python -m tests.bench.crowdhouse PORT``, over a cluster that is made up when asked.

It has ``WORKSPACES`` Workspaces and keeps none of them, so that the memory of the process is the server's own. Each
line on standard input lets a burst of ``CHANGES`` changes come.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from magos.apps.server import Server
from magos.runtime.client.client import ApiClient
from magos.runtime.client.transport import HttpRequest, HttpResponse, HttpStream
from magos.runtime.clock import SystemClock
from magos.server.listener import Listener
from magos.server.settings import ServerSettings
from tests.envtest.api_process import everybody

__all__ = ["CHANGES", "WORKSPACES", "Cluster"]

WORKSPACES = 5_000
CHANGES = 50
_PER_SECOND = 20


def _workspace(number: int, version: int) -> str:
    """Return a Workspace of about 2 KiB, as one that is in use has."""
    message = "The plan of this commit changes 3 resources and waits for the approval of a person. " * 4
    item = {
        "apiVersion": "magosproject.io/v1alpha1",
        "kind": "Workspace",
        "metadata": {
            "name": f"workspace-{number:05}",
            "namespace": f"team-{number % 50:02}",
            "uid": f"00000000-0000-0000-0000-{number:012}",
            "resourceVersion": str(version),
            "generation": 1,
            "annotations": {f"magosproject.io/note-{each}": "x" * 40 for each in range(8)},
        },
        "spec": {
            "projectRef": {"name": f"project-{number % 200}"},
            "source": {"repoURL": f"https://git.example/team/{number}.git", "targetRevision": "main"},
            "terraform": {"version": "1.12.6"},
        },
        "status": {"phase": "Applied", "message": message, "observedRevision": "a" * 40},
    }
    return json.dumps(item)


class Cluster:
    """A transport to nowhere."""

    def __init__(self) -> None:
        self.version = WORKSPACES
        self._events: asyncio.Queue[bytes] = asyncio.Queue()

    async def burst(self) -> None:
        """Let changes come."""
        for number in range(CHANGES):
            self.version += 1
            event = f'{{"type":"MODIFIED","object":{_workspace(number, self.version)}}}\n'
            self._events.put_nowait(event.encode())
            await asyncio.sleep(1 / _PER_SECOND)

    async def request(self, request: HttpRequest) -> HttpResponse:
        """Answer a list."""
        query = dict(request.query)
        begin, limit = int(query.get("continue", 0)), int(query.get("limit", WORKSPACES))
        count = WORKSPACES if "workspaces" in request.path else 0
        items = ",".join(_workspace(number, number + 1) for number in range(begin, min(count, begin + limit)))
        more = str(begin + limit) if begin + limit < count else ""
        body = f'{{"metadata":{{"resourceVersion":"{self.version}","continue":"{more}"}},"items":[{items}]}}'
        return HttpResponse(status=200, body=body.encode())

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncIterator[HttpStream]:
        """Open a watch."""
        yield HttpStream(status=200, headers={}, chunks=self._chunks("workspaces" in request.path))

    async def _chunks(self, lively: bool) -> AsyncIterator[bytes]:
        while True:
            if not lively:
                await asyncio.Event().wait()
            yield await self._events.get()

    async def aclose(self) -> None:
        """There is nothing to close."""


async def _main(port: int) -> None:
    cluster, clock = Cluster(), SystemClock()
    settings = ServerSettings(port=port)
    client = ApiClient(cluster)
    server = Server(client, clock, settings, everybody({}, settings, client, clock))
    listener = Listener(server.app, "127.0.0.1", port, server.end_streams)
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as group:
        group.create_task(server.work())
        group.create_task(listener.serve())
        while await loop.run_in_executor(None, sys.stdin.readline):
            await cluster.burst()
        listener.stop()
        raise SystemExit(0)


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1])))
