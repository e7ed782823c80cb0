"""What a command works with: the environment, how it was called, and the way to the cluster.

Commands get it from click, so that tests put another one in its place. It imports nothing that takes time.
"""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from magos.runtime.client.client import ApiClient

T = TypeVar("T")

PROGRAM = "magos"
PLUGIN_FILE, PLUGIN_NAME = "kubectl-magos", "kubectl magos"


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """An open connection, and the namespace that counts where none is named."""

    client: "ApiClient"
    namespace: str


@dataclass(frozen=True, kw_only=True)
class Target:
    """Which cluster and namespace the flags of a command name; empty values are the kubeconfig's."""

    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""


Connect = Callable[[Mapping[str, str], Target], AbstractAsyncContextManager[Cluster]]


@asynccontextmanager
async def connect_by_kubeconfig(environ: Mapping[str, str], target: Target) -> AsyncIterator[Cluster]:
    """Open a connection as kubectl would; raises ``ConfigurationError`` if no cluster is configured."""
    from magos.runtime.client.client import ApiClient
    from magos.runtime.client.config import load_config
    from magos.runtime.client.http import connect

    config = load_config(target.kubeconfig or None, target.context or None, environ=environ)
    client = ApiClient(connect(config, user_agent="magos (cli)"))
    try:
        yield Cluster(client=client, namespace=target.namespace or config.namespace)
    finally:
        await client.aclose()


def _run(work: Callable[[], Awaitable[Any]]) -> Any:
    import anyio

    return anyio.run(work)


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, kw_only=True)
class Session:
    """What one call of the program works with; ``program`` is the name it was called by."""

    environ: Mapping[str, str] = field(default_factory=dict)
    program: str = PROGRAM
    connect: Connect = connect_by_kubeconfig
    now: Callable[[], datetime] = _now
    run: Callable[[Callable[[], Awaitable[Any]]], Any] = _run

    def on_cluster(self, target: Target, work: Callable[[Cluster], Awaitable[T]]) -> T:
        """Run ``work`` with an open connection and return what it returns."""

        async def connected() -> T:
            async with self.connect(self.environ, target) as cluster:
                return await work(cluster)

        found: T = self.run(connected)
        return found

    def spoken(self, command: str) -> str:
        """Return a command line that begins with ``magos`` with the name that this program was called by."""
        name, blank, rest = command.partition(" ")
        return f"{self.program}{blank}{rest}" if name == PROGRAM else command

    @property
    def asks(self) -> bool:
        """Whether a person can be asked: both ends are a terminal."""
        return sys.stdin.isatty() and sys.stdout.isatty()


def session() -> Session:
    """Return the session of the command that runs now."""
    found = click.get_current_context().find_object(Session)
    return found if found is not None else Session()


def called_by(argument: str) -> str:
    """Return the name to show for a program that was started as ``argument``."""
    return PLUGIN_NAME if argument.replace("\\", "/").rpartition("/")[2].startswith(PLUGIN_FILE) else PROGRAM
