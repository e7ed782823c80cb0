"""The command line against a simulated API server, in virtual time: commands that wait take no time at all."""

import io
import random
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import anyio
import pytest
from msgspec import to_builtins

from magos.api.kube import PODS
from magos.api.meta import Kind, Resource
from magos.api.workspace import WORKSPACES, Workspace
from magos.cli.main import main
from magos.cli.session import Cluster, Session, Target
from magos.runtime.clock import Clock
from tests.sim.apiserver.server import SimApiServer
from tests.sim.virtualtime import run_virtual
from tests.unit.explain.objects import NOW

__all__ = ["HOSTILE", "Ended", "Shop", "shop"]

HOSTILE = "x\x1b[2J\x9b\u202e\nmagos: all is well"
"""What nobody may get a terminal to obey."""


class _Still(Clock):
    """Stands still at the time of the tests: objects that are made outside of a run have it too."""

    def monotonic(self) -> float:
        return 0.0

    def now(self) -> datetime:
        return NOW


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a call of the program ended."""

    code: int
    out: str
    err: str


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Shop:
    """A cluster, and calls of the program. ``meanwhile`` runs beside a command, as controllers and people do."""

    def __init__(self, capture: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
        self.server = SimApiServer(_Still(), random.Random(1), namespaces=("default", "team-a"), latency=(0.0, 0.0))
        self.meanwhile: Callable[[], Coroutine[Any, Any, None]] | None = None
        self.targets: list[Target] = []
        self.environ: dict[str, str] = {}
        self.program = "magos"
        self._capture = capture
        self._patch = patch

    def put(self, kind: Kind[Any], subject: Resource) -> None:
        """Create the object with its status, or replace it."""
        wanted = to_builtins(subject)
        meta = subject.metadata
        resource, key = self.server.resource(kind), (meta.namespace, meta.name)
        if self.server.store.get(resource, key) is None:
            self.server.create(resource, {key: value for key, value in wanted.items() if key != "status"})
        now = self.server.store.get(resource, key) or {}
        generation = {"generation": wanted["metadata"].get("generation", 1)}
        merged = {**wanted["metadata"], **now["metadata"], **generation}
        merged["annotations"] = wanted["metadata"].get("annotations", {})
        if wanted["metadata"].get("creationTimestamp"):
            merged["creationTimestamp"] = wanted["metadata"]["creationTimestamp"]
        self.server.store.put(resource, key, {**now, **wanted, "metadata": merged})

    def has(self, *workspaces: Workspace) -> None:
        """Put these Workspaces there."""
        for each in workspaces:
            self.put(WORKSPACES, each)

    def pod(self, name: str, run_id: str, job_type: str, subject: str = "prod") -> None:
        """Put a pod of a run there."""
        labels = {
            "magosproject.io/workspace": subject,
            "magosproject.io/run-id": run_id,
            "magosproject.io/job-type": job_type,
        }
        body = {"metadata": {"name": name, "namespace": "team-a", "labels": labels}, "spec": {}}
        self.server.create(self.server.resource(PODS), body)

    def workspace(self, name: str = "prod") -> Mapping[str, Any]:
        """Return the Workspace as the server has it."""
        found = self.server.store.get(self.server.resource(WORKSPACES), ("team-a", name))
        assert found is not None
        return found

    def annotations(self, name: str = "prod") -> Mapping[str, str]:
        """Return the annotations of the Workspace."""
        found: Mapping[str, str] = self.workspace(name)["metadata"].get("annotations", {})
        return found

    def __call__(self, *arguments: str, typed: str | None = None, given: str = "") -> Ended:
        """Call the program; ``typed`` makes both ends a terminal, ``given`` is standard input that is none."""
        self._patch.setattr(sys, "stdin", io.StringIO(given) if typed is None else _Terminal(typed))
        self._patch.setattr(sys.stdout, "isatty", lambda: typed is not None, raising=False)
        here = Session(
            environ=self.environ, program=self.program, connect=self._connect, now=lambda: NOW, run=run_virtual
        )
        with pytest.raises(SystemExit) as ended:
            main(list(arguments), here)
        printed = self._capture.readouterr()
        return Ended(code=int(ended.value.code or 0), out=printed.out, err=printed.err)

    @asynccontextmanager
    async def _connect(self, environ: Mapping[str, str], target: Target) -> AsyncIterator[Cluster]:
        del environ
        self.targets.append(target)
        async with anyio.create_task_group() as tasks:
            if self.meanwhile is not None:
                tasks.start_soon(self.meanwhile)
            yield Cluster(client=self.server.client(), namespace=target.namespace or "team-a")
            tasks.cancel_scope.cancel()


@pytest.fixture
def shop(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A cluster with namespace ``team-a``, which is the one of the kubeconfig."""
    return Shop(capsys, monkeypatch)
