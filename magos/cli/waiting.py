"""Waiting that says for what: each new reason is a line on stderr, and on a terminal the time passes visibly."""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TypeVar

import anyio

from magos.api.workspace import WORKSPACES, Workspace
from magos.cli.accounts import account_of
from magos.cli.failures import TimedOut
from magos.cli.printing import span
from magos.cli.session import Cluster, Session
from magos.cli.watching import Selected, until
from magos.durations import format_duration
from magos.local.programs.progress import LineProgress
from magos.terminal import one_line

T = TypeVar("T")

_SECOND = 1.0
_REFRESH = 5
"""Seconds after which a reason is looked at anew: a Rollout may move while the Workspace does not."""


class Reporter:
    """Tells reasons once each, and how long the last one has held."""

    def __init__(self, here: Session) -> None:
        self._progress = LineProgress(sys.stderr)
        self._live = sys.stderr.isatty()
        self._here = here
        self._since = here.now()
        self.reason = ""

    def tell(self, reason: str) -> None:
        """Report a reason unless it is the last one."""
        if reason != self.reason:
            self.reason, self._since = reason, self._here.now()
            self._progress.say(one_line(reason))

    def tick(self) -> None:
        """Show on a terminal that time passes."""
        if self._live:
            self._progress.tick(f"waiting for {span(self._here.now() - self._since)}")


@asynccontextmanager
async def ticking(reporter: Reporter, refresh: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Let the reporter tick every second and call ``refresh`` every few seconds, as long as the block lasts."""

    async def tick() -> None:
        seconds = 0
        while True:
            await anyio.sleep(_SECOND)
            seconds += 1
            reporter.tick()
            if seconds % _REFRESH == 0:
                await refresh()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick)
        yield
        tasks.cancel_scope.cancel()


async def within(limit: timedelta | None, work: Callable[[], Awaitable[T]], reporter: Reporter) -> T:
    """Return what ``work`` returns; raises ``TimedOut`` with the last reason if it takes longer than ``limit``."""
    try:
        with anyio.fail_after(None if limit is None else limit.total_seconds()):
            return await work()
    except TimeoutError:
        passed = format_duration(limit or timedelta())
        raise TimedOut(f"gave up after {passed}: {one_line(reporter.reason) or 'nothing was heard'}") from None


class Wait:
    """Waits for a Workspace and tells meanwhile what it waits for."""

    def __init__(self, here: Session, cluster: Cluster, reporter: Reporter | None = None) -> None:
        self._here = here
        self._cluster = cluster
        self._latest: Workspace | None = None
        self.reporter = reporter or Reporter(here)

    async def until(self, name: str, ended: Callable[[Workspace], bool], limit: timedelta | None) -> Workspace:
        """Return the first version of the Workspace of which ``ended`` is true."""

        async def seen(workspace: Workspace) -> bool:
            self._latest = workspace
            if ended(workspace):
                return True
            await self._tell()
            return False

        async def work() -> Workspace:
            selected = Selected(kind=WORKSPACES, namespace=self._cluster.namespace, name=name)
            async with ticking(self.reporter, self._tell):
                return await until(self._cluster.client, selected, seen)

        return await within(limit, work, self.reporter)

    async def _tell(self) -> None:
        if self._latest is not None:
            account = await account_of(self._here, self._cluster, self._latest)
            self.reporter.tell(account.sentence)
