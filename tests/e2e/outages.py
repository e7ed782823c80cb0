"""Runs while database and bucket are killed and started again at random; and what history has of them afterwards."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from magos.api.names import JobType
from magos.api.phases import TERMINAL
from magos.api.workspace import Workspace
from magos.local.machine import Extras
from tests.e2e.console import Console, PodOutputs, pod_outputs
from tests.e2e.onemachine import OneMachine

__all__ = ["Tally", "tally"]

_LONGEST_PAUSE = 4.0
_SETTLE_SECONDS = 240.0
"""Retries of the controller back off while a store is away."""


class Tally(Struct, frozen=True, kw_only=True):
    """How many runs there were, which records history lacks, and which logs are not what the pods printed."""

    runs: int
    lost: tuple[str, ...]
    unequal: tuple[str, ...]
    kills: int


def tally(here: OneMachine, seed: int, workspaces: int, rounds: int, folder: Path) -> Tally:
    """Let each of ``workspaces`` run ``rounds`` times under outages, then look at history when it has settled.

    A Workspace's first run applies, its later ones find no changes.
    """
    namespace = here.namespace()
    names = [f"kept-{number}" for number in range(workspaces)]
    wanted: dict[str, list[str]] = {name: [] for name in names}
    with Console(here) as console, pod_outputs(here, namespace, folder) as printed:
        with _outages(here, console.extras, seed) as kills:
            here.apply(*(here.workspace_document(namespace, name) for name in names))
            for turn in range(rounds):
                for name in names if turn else ():
                    here.request(namespace, name)
                for name in names:
                    ended = here.wait(namespace, name, _ended(wanted[name]), within=300)
                    wanted[name].append(ended.status.current_run_id)
        lost, end = _lost(console, namespace, wanted), time.monotonic() + _SETTLE_SECONDS
        while lost and time.monotonic() < end:
            threading.Event().wait(0.5)
            lost = _lost(console, namespace, wanted)
        unequal = _unequal(console, printed, namespace, wanted)
    return Tally(runs=sum(map(len, wanted.values())), lost=tuple(lost), unequal=tuple(unequal), kills=len(kills))


def _ended(known: list[str]) -> Callable[[Workspace], bool]:
    """Return what tells whether another run than those known has ended."""
    return lambda w: w.status.phase in TERMINAL and w.status.current_run_id not in ("", *known)


@contextmanager
def _outages(here: OneMachine, extras: Extras, seed: int) -> Iterator[list[str]]:
    """Kill one of the stores and start it again, over and over; at the end both run. Yields what was killed."""
    draw, over, killed = random.Random(seed), threading.Event(), list[str]()
    stores = {"postgres": extras.stores.postgres, "objects": extras.stores.objects}
    trouble: list[BaseException] = []

    def act() -> None:
        try:
            while not over.wait(draw.uniform(0.5, _LONGEST_PAUSE)):
                name = draw.choice(sorted(stores))
                store = stores[name]
                assert store is not None, f"{name} is not available here"
                here.do(store.kill)
                killed.append(name)
                over.wait(draw.uniform(0, _LONGEST_PAUSE))
                here.do(store.start)
        except BaseException as error:  # noqa: BLE001 - the test's thread raises it
            trouble.append(error)

    thread = threading.Thread(target=act)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()
    if trouble:
        raise trouble[0]


def _lost(console: Console, namespace: str, wanted: dict[str, list[str]]) -> list[str]:
    """Name every record that is missing, twofold or incomplete."""
    lost: list[str] = []
    for name, run_ids in wanted.items():
        told = console.runs(namespace, name)
        for run_id in run_ids:
            found = [run for run in told if run["runID"] == run_id]
            if len(found) != 1:
                lost.append(f"{name} {run_id}: {len(found)} records")
            else:
                lost += (f"{name} {run_id}: {what}" for what in _gaps(found[0]))
    return lost


def _gaps(run: dict[str, Any]) -> list[str]:
    expected = [JobType.PLAN, JobType.APPLY] if run.get("result") == "Applied" else [JobType.PLAN]
    gaps = [] if run.get("result") in {"Applied", "NoChanges"} and run.get("finishedAt") else ["no end"]
    for phase in expected:
        told = run.get(str(phase), {})
        keys = ("jobName", "podName", "startedAt", "finishedAt", "result", "logKey")
        gaps += [f"{phase} without {key}" for key in keys if not told.get(key)]
        if told.get("logError"):
            gaps.append(f"{phase}: {told['logError']}")
    return gaps


def _unequal(console: Console, printed: PodOutputs, namespace: str, wanted: dict[str, list[str]]) -> list[str]:
    """Name every log on record that is not what the pod printed."""
    unequal: list[str] = []
    for name, run_ids in wanted.items():
        for run in console.runs(namespace, name):
            for phase in JobType:
                told = run.get(str(phase))
                if run["runID"] not in run_ids or not told or not told.get("podName"):
                    continue
                if console.log(namespace, name, run["runID"], phase) != printed.of(told["podName"], phase):
                    unequal.append(f"{name} {run['runID']} {phase}")
    return unequal
