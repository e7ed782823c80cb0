"""Runs a manager as an operating system process: the real clock, the real network, signals and exit codes."""

import asyncio
import gc
import random
import signal
import sys
from contextlib import ExitStack

from magos.errors import ConfigurationError
from magos.runtime.clock import SystemClock
from magos.runtime.config import ConnectionConfig
from magos.runtime.http import connect
from magos.runtime.manager import ControllerApp, Manager
from magos.runtime.watchdog import Watchdog

__all__ = ["run_controllers"]


def run_controllers(app: ControllerApp, connection: ConnectionConfig, *, version: str) -> int:
    """Run the app until it ends and return the exit code (see ``manager``); to be called once, on the main thread."""
    try:
        return asyncio.run(_main(app, connection, version))
    except ConfigurationError as error:
        print(error, file=sys.stderr)  # one line for people, before any logging
        return 2


async def _main(app: ControllerApp, connection: ConnectionConfig, version: str) -> int:
    clock = SystemClock()
    rng = random.Random()  # noqa: S311 - jitter, not secrets
    transport = connect(connection, user_agent=f"magos/{version} ({app.name})", clock=clock, rng=rng)
    with ExitStack() as stack:
        guard = stack.enter_context(Watchdog(clock)) if app.settings.leader_elect else None
        manager = Manager(app, transport, clock=clock, rng=rng, guard=guard, on_filled=_spare_the_collector)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, manager.request_stop)
        return await manager.run()


def _spare_the_collector() -> None:
    """What the caches hold lives as long as the process: the garbage collector need not look at it again."""
    gc.collect()
    gc.freeze()
