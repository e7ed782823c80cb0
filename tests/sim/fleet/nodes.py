"""Nodes that restart, that cannot be reached for a while, and a Job controller that starts a second pod of a Job."""

import random
from enum import StrEnum

import anyio

from tests.sim.apiserver.problems import Problem
from tests.sim.apiserver.resources import Json
from tests.sim.fleet.cluster import Fleet
from tests.sim.fleet.jobcontroller import TRACKING

__all__ = ["Blow", "RoughNodes"]

NODE_CONTROLLER = "node-controller"
_PODS = "pods"
_ENDED = ("Succeeded", "Failed")


class Blow(StrEnum):
    """What may happen to a pod."""

    SECOND_POD = "the Job controller, which knows nothing of the first, starts a second one"
    REBOOT = "its node restarts, and its containers begin anew"
    UNREACHABLE = "its node cannot be reached for a while and comes back"
    FORCED = "its node cannot be reached, and somebody deletes it by force"


class RoughNodes:
    """Deals such blows while pods run, for some seconds; ``faults`` counts them."""

    def __init__(self, fleet: Fleet, rng: random.Random, *blows: Blow, seconds: float = 60.0) -> None:
        self.faults = 0
        self._fleet = fleet
        self._rng = rng
        self._blows = blows
        self._seconds = seconds

    async def run(self) -> None:
        """Deal blows, then leave everything well."""
        end = self._fleet.clock.monotonic() + self._seconds
        while self._fleet.clock.monotonic() < end:
            await self._fleet.until(lambda: bool(self._running()), "a pod that runs")
            await anyio.sleep(self._rng.uniform(0.05, 3.0))
            running = self._running()
            if running:
                self.faults += 1
                await self._strike(self._rng.choice(self._blows), running)
                await anyio.sleep(self._rng.uniform(0.0, 15.0))

    async def _strike(self, blow: Blow, running: list[Json]) -> None:
        kubelet = self._fleet.kubelet
        match blow:
            case Blow.SECOND_POD:
                self._second(self._rng.choice(running))
            case Blow.REBOOT:
                kubelet.reboot()
            case Blow.UNREACHABLE | Blow.FORCED:
                kubelet.up = False
                await anyio.sleep(self._rng.uniform(0.5, 5.0))
                for pod in self._running():
                    self._patch(pod, {"phase": "Unknown", "reason": "NodeLost"})
                await anyio.sleep(self._rng.uniform(0.5, 30.0))
                for pod in self._running() if blow is Blow.FORCED else ():
                    self._fleet.users.delete_by_force(pod)
                await anyio.sleep(self._rng.uniform(0.0, 10.0))
                kubelet.up = True
                kubelet.wake()

    def _running(self) -> list[Json]:
        """The runner pods that are bound and have not ended."""
        return [
            pod
            for pod in self._fleet.items(_PODS)
            if pod["spec"].get("nodeName") and (pod.get("status") or {}).get("phase") not in _ENDED
        ]

    def _second(self, pod: Json) -> None:
        meta, spec = pod["metadata"], {**pod["spec"]}
        del spec["nodeName"]
        kept = {key: meta.get(key) for key in ("namespace", "labels", "annotations", "ownerReferences")}
        name = f"{meta['name'][:-1]}{self._rng.choice('0z')}x"  # it may sort before or behind the first
        body = {"metadata": {**kept, "name": name, "finalizers": [TRACKING]}, "spec": spec}
        server = self._fleet.server
        server.acting = "job-controller"
        try:
            server.create(server.resource(_PODS), body)
        except Problem:
            self.faults -= 1  # it has a second one already
        finally:
            server.acting = ""

    def _patch(self, pod: Json, status: Json) -> None:
        server, key = self._fleet.server, (pod["metadata"]["namespace"], pod["metadata"]["name"])
        server.acting = NODE_CONTROLLER
        try:
            server.writer.patch(server.resource(_PODS), key, {"status": status}, "status")
        finally:
            server.acting = ""
