"""Whether the process lives, and whether it may be sent requests (spec §9.1)."""

from collections.abc import Callable

import anyio
import structlog
from msgspec import Struct
from starlette.responses import Response

from magos.api.project import PROJECTS
from magos.runtime.client.client import ApiClient
from magos.runtime.client.errors import ApiError
from magos.server.context import Cluster
from magos.server.encoding import answer
from magos.server.kinds import SHOWN
from magos.server.table import Answer, Call, Operation

LOOK_SECONDS = 5.0
"""So often the API server is asked while a watch has trouble."""

Check = Callable[[], str]
"""Returns what is not ready, empty if everything is."""

_log = structlog.get_logger(__name__)


class State(Struct, frozen=True, kw_only=True):
    """The state of the process, in a word."""

    status: str


class Readiness:
    """Knows whether the caches are filled and the API server answers.

    A watch that breaks is opened again within moments and costs nobody anything; so only what the API server itself
    does when it is asked then counts.
    """

    def __init__(self, cluster: Cluster, client: ApiClient) -> None:
        self._informers = [shown.informer(cluster) for shown in SHOWN]
        self._client = client.on(timeout=LOOK_SECONDS)
        self._trouble = ""

    def problem(self) -> str:
        """Return what is not ready (a ``Check``)."""
        unfilled = [each.kind.plural for each in self._informers if not each.synced]
        return f"the caches of {', '.join(unfilled)} are not filled yet" if unfilled else self._trouble

    async def run(self) -> None:
        """Look for ever."""
        while True:
            before, self._trouble = self._trouble, await self._look()
            if self._trouble and not before:
                _log.warning("the API server does not answer", error=self._trouble)
            elif before and not self._trouble:
                _log.info("the API server answers again")
            await anyio.sleep(LOOK_SECONDS)

    async def _look(self) -> str:
        if not any(each.stats.problem for each in self._informers):
            return ""
        try:
            await self._client.list(PROJECTS, limit=1)
        except ApiError as error:
            return str(error)
        return ""


def operations(ready: Check) -> list[Operation]:
    """Return the two probes; ``ready`` is asked by the second."""

    async def healthz(call: Call) -> Response:
        del call
        return answer(State(status="ok"))

    async def readyz(call: Call) -> Response:
        del call
        if ready():
            return answer(State(status="not ready"), 503)
        return answer(State(status="ok"))

    return [
        Operation(
            method="GET",
            path="/healthz",
            handler=healthz,
            summary="Is the process alive?",
            answer=Answer(description="It is.", type=State),
            open=True,
        ),
        Operation(
            method="GET",
            path="/readyz",
            handler=readyz,
            summary="Is the process ready?",
            description="503 until the caches are filled, and while the Kubernetes API server does not answer.",
            answer=Answer(description="It is.", type=State),
            open=True,
        ),
    ]
