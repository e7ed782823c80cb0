"""Composition root of ``magos-api``: caches, routes and a listener in one process (spec §9.1)."""

import argparse
import asyncio
import os
import random
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence

import anyio
import structlog

from magos.api.project import PROJECTS
from magos.api.rollout import ROLLOUTS
from magos.api.variableset import VARIABLESETS
from magos.api.workspace import WORKSPACES
from magos.apps.serverparts import Join, Parts, join
from magos.errors import ConfigurationError, InvariantViolation
from magos.runtime.cache.informer import Informer
from magos.runtime.client.client import ApiClient
from magos.runtime.client.config import ConnectionConfig, load_config
from magos.runtime.client.http import connect
from magos.runtime.clock import Clock, SystemClock
from magos.runtime.manager.logs import logging_to
from magos.runtime.manager.settings import LOG_LEVELS, flag_parser
from magos.server.app import Rules, api_operations, application
from magos.server.context import Cluster, Context
from magos.server.kinds import hubs_of
from magos.server.listener import Listener
from magos.server.probes import Readiness
from magos.server.settings import ServerSettings, load_server_settings
from magos.terminal import echo
from magos.version import VERSION

PROGRAM = "magos-api"

_log = structlog.get_logger(__name__)


def main() -> None:
    """Run the API server; ends the process with its exit code."""
    sys.exit(run_api(sys.argv[1:], dict(os.environ), join))


def run_api(arguments: Sequence[str], environ: Mapping[str, str], join: Join) -> int:
    """Run until asked to stop and return the exit code: 0, 1 if a part of it died, 2 for a wrong setting."""
    parser = flag_parser(PROGRAM)
    add_flags(parser)
    try:
        flags = parser.parse_args(arguments)
        settings = load_server_settings(environ)
        connection = load_config(flags.kubeconfig, environ=environ)
        with logging_to(level=flags.log_level):
            _log.info("starting", program=PROGRAM, version=VERSION, port=settings.port, base_url=settings.base_url)
            return asyncio.run(_main(flags.address, settings, connection, lambda *known: join(environ, *known)))
    except ConfigurationError as error:
        echo(" ".join(str(error).split()), error=True)
        return 2


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the API server."""
    parser.add_argument("--address", default="", metavar="ADDRESS", help="Where to listen; by default everywhere.")
    parser.add_argument("--kubeconfig", default=None, metavar="FILE", help="By default `KUBECONFIG` or the pod.")
    parser.add_argument("--log-level", choices=LOG_LEVELS, default="info")


async def _main(
    address: str,
    settings: ServerSettings,
    connection: ConnectionConfig,
    join: Callable[[ServerSettings, ApiClient, Clock], Parts],
) -> int:
    clock, rng = SystemClock(), random.Random()  # noqa: S311 - jitter, not secrets
    transport = connect(connection, user_agent=f"magos/{VERSION} ({PROGRAM})", clock=clock, rng=rng)
    try:
        client = ApiClient(transport)
        parts = join(settings, client, clock)
        server = Server(client, clock, settings, parts)
        listener = Listener(server.app, address, settings.port, server.end_streams)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, listener.stop)
        try:
            code = await _live(server, listener)
        finally:
            with anyio.CancelScope(shield=True):
                await parts.close()
    finally:
        with anyio.CancelScope(shield=True):
            await transport.aclose()
    _log.info("process ended", code=code)
    return code


class Server:
    """The caches and the application over them, without a listener."""

    def __init__(self, client: ApiClient, clock: Clock, settings: ServerSettings, parts: Parts) -> None:
        rng = random.Random()  # noqa: S311 - jitter, not secrets
        self.cluster = Cluster(
            workspaces=Informer(client, WORKSPACES, clock=clock, rng=rng),
            projects=Informer(client, PROJECTS, clock=clock, rng=rng),
            rollouts=Informer(client, ROLLOUTS, clock=clock, rng=rng),
            variable_sets=Informer(client, VARIABLESETS, clock=clock, rng=rng),
        )
        self.hubs = hubs_of(self.cluster)
        self._readiness = Readiness(self.cluster, client)
        self._beside = parts.beside
        context = Context(
            client=client,
            clock=clock,
            cluster=self.cluster,
            access=parts.access,
            authenticator=parts.authenticator,
            history=parts.history,
            archive=parts.archive,
            base_url=settings.base_url,
            version=VERSION,
        )
        operations = api_operations(self._readiness.problem, VERSION, parts.operations)
        rules = Rules(cors_origins=settings.cors_origins, render=parts.render)
        self.app = application(context, self.hubs, operations, parts.routes(context), rules)

    async def work(self) -> None:
        """Keep the caches full and watch over readiness, for ever."""
        cluster = self.cluster
        caches = (cluster.workspaces.run, cluster.projects.run, cluster.rollouts.run, cluster.variable_sets.run)
        works: list[Callable[[], Awaitable[None]]] = [*caches, self._readiness.run, *self._beside]
        async with anyio.create_task_group() as group:
            for work in works:
                group.start_soon(_forever, work)

    def end_streams(self) -> None:
        """Send the last event of every open stream."""
        for hub in self.hubs.values():
            hub.close()


async def _forever(work: Callable[[], Awaitable[None]]) -> None:
    await work()
    raise InvariantViolation(f"{getattr(work, '__qualname__', work)} ended by itself")


async def _live(server: Server, listener: Listener) -> int:
    """Serve until asked to stop: 0; or until a part of the server dies: 1, for a restart is better than half of it."""
    code = 0
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(server.work)
            await listener.serve()
            group.cancel_scope.cancel()
    except* Exception as died:  # noqa: BLE001 - whatever killed a task ends the process
        code = 1
        for error in died.exceptions:
            _log.error("task died, process ends", error=str(error), exc_info=error)
    return code
