"""Runs a manager as an operating system process: the real clock, the real network, signals and exit codes."""

import asyncio
import gc
import random
import signal
import sys
from contextlib import ExitStack

import structlog

from magos.errors import ConfigurationError
from magos.runtime.client.config import ConnectionConfig
from magos.runtime.client.http import connect
from magos.runtime.clock import SystemClock
from magos.runtime.leaderelection.elector import StopGuard
from magos.runtime.manager.composition import ControllerApp, Host, Unguarded
from magos.runtime.manager.instruments import RuntimeMetrics
from magos.runtime.manager.logs import logging_to
from magos.runtime.manager.manager import Manager
from magos.runtime.manager.metrics import Metrics
from magos.runtime.manager.watchdog import Watchdog

_log = structlog.get_logger(__name__)


def run_controllers(app: ControllerApp, connection: ConnectionConfig, *, version: str) -> int:
    """Run the app until it ends and return the exit code (see ``manager``); to be called once, on the main thread.

    The process logs JSON lines on standard error; the first says which program of which version this is, before
    anything that takes time. A setting that cannot be kept is one plain line behind it.
    """
    try:
        with logging_to(level=app.settings.log_level):
            _log.info("starting", program=app.name, version=version, namespace=app.settings.namespace)
            return asyncio.run(_main(app, connection, version))
    except ConfigurationError as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 2


async def _main(app: ControllerApp, connection: ConnectionConfig, version: str) -> int:
    clock = SystemClock()
    rng = random.Random()  # noqa: S311 - jitter, not secrets
    metrics = Metrics() if app.settings.metrics is not None else None
    instruments = None if metrics is None else RuntimeMetrics(metrics)
    observer = None if instruments is None else instruments.request
    agent = f"magos/{version} ({app.name})"
    transport = connect(connection, user_agent=agent, observer=observer, clock=clock, rng=rng)
    with ExitStack() as stack:
        guard: StopGuard = stack.enter_context(Watchdog(clock)) if app.settings.leader_elect else Unguarded()
        host = Host(guard=guard, on_filled=_spare_the_collector, metrics=metrics, instruments=instruments)
        manager = Manager(app, transport, clock=clock, rng=rng, host=host)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, manager.request_stop)
        return await manager.run()


def _spare_the_collector() -> None:
    """What the caches hold lives as long as the process: the garbage collector need not look at it again."""
    gc.collect()
    gc.freeze()
