"""One controller process that is started again whenever it ends, as the kubelet does with its container."""

import random
from dataclasses import dataclass

import anyio

from magos.reconcilers.workspace.pod.settings import WorkspaceSettings
from magos.runtime.manager.composition import ControllerApp
from magos.runtime.manager.manager import Manager
from magos.runtime.manager.settings import Settings
from tests.sim.apiserver import SimApiServer
from tests.sim.fleet.clocks import Clocks
from tests.sim.fleet.crash import CrashPlan, FragileTransport, StepTrap
from tests.sim.fleet.evidence import Evidence
from tests.sim.fleet.git import Git
from tests.sim.fleet.programs import build_of

__all__ = ["SYSTEM", "Replica", "Stage"]

SYSTEM = "kube-system"
"""The namespace of the controllers, where nothing may run."""

_RESTART = (0.2, 1.0)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What all replicas share: the server, the clocks, the crash plan and the settings."""

    server: SimApiServer
    clocks: Clocks
    rng: random.Random
    crash: CrashPlan
    settings: WorkspaceSettings
    git: Git
    election: bool = False
    workers: int = 2
    evidence: Evidence | None = None


class Replica:
    """A process of one program; ``starts`` counts how often it was started."""

    def __init__(self, stage: Stage, program: str, number: int = 0) -> None:
        self.program = program
        self.number = number
        self.starts = 0
        self.held = False
        self.manager: Manager | None = None
        self._stage = stage
        self._scope = anyio.CancelScope()
        self._transport: FragileTransport | None = None

    async def run(self) -> None:
        """Start, and start again, for ever."""
        while True:
            with anyio.CancelScope() as self._scope:
                await self._one_life()
            await anyio.sleep(self._stage.rng.uniform(*_RESTART))
            while self.held:  # noqa: ASYNC110 - a test holds it down
                await anyio.sleep(0.2)

    def kill(self) -> None:
        """Die at this very instant: no write of this process reaches the server any more."""
        if self._transport is not None:
            self._transport.cut()
        self._scope.cancel()

    def partition(self) -> None:
        """Cut the process off: it lives and does not know."""
        if self._transport is not None:
            self._transport.cut()

    def terminate(self) -> None:
        """Ask for a clean stop, as SIGTERM does."""
        if self.manager is not None:
            self.manager.request_stop()

    @property
    def leads(self) -> bool:
        """True if the process may write right now."""
        return self.manager is not None and self.manager.parts.still_leading()

    async def _one_life(self) -> None:
        stage = self._stage
        self.starts += 1
        self._transport = FragileTransport(stage.server.transport(self.program))
        settings = Settings(
            namespace=SYSTEM,
            identity=f"{self.program}-{self.number}",
            workers=stage.workers,
            leader_elect=stage.election,
            grace=5.0,
            health=None,
        )
        rng = random.Random(stage.rng.random())
        stores = stage.evidence.stores(stage.crash, self.kill) if stage.evidence is not None else None
        build = build_of(self.program, rng, settings=stage.settings, git=stage.git, stores=stores)
        app = ControllerApp(name=f"{self.program}-controller", settings=settings, build=build)
        self.manager = Manager(app, self._transport, clock=stage.clocks.replica(self.number), rng=rng)
        # The composition makes the executor; an observer is nothing a program could want, so only tests put it there.
        trap = StepTrap(stage.crash, self._transport, self.kill)
        self.manager.parts.controllers[0]._executor._observer = trap
        await self.manager.run()
