"""What a storage provisioner and people do to claims: bound late or for a while not at all, resized, deleted in use.

A claim is bound only once a pod wants it (``WaitForFirstConsumer``). One that is deleted while a pod uses it stays
until that pod has ended (``kubernetes.io/pvc-protection``; the garbage collector of the simulation lets it go).
"""

import random
from typing import ClassVar

import anyio

from magos.api.kube import PERSISTENT_VOLUME_CLAIMS
from tests.sim.apiserver.resources import Json
from tests.sim.fleet.actor import Actor
from tests.sim.fleet.cluster import Fleet

__all__ = ["Binder", "Claims"]

_CLAIMS = "persistentvolumeclaims"
_PROTECTION = "kubernetes.io/pvc-protection"
_ENDED = ("Succeeded", "Failed")


class Binder(Actor):
    """Protects every claim and binds it some seconds after a pod wants it; ``up = False`` is no provisioner."""

    name: ClassVar[str] = "provisioner"
    resources: ClassVar[tuple[str, ...]] = ("pods", _CLAIMS)

    def __init__(self, fleet: Fleet, rng: random.Random, *, seconds: tuple[float, float]) -> None:
        super().__init__(fleet.server, rng)
        self.delay = (0.0, 0.02)
        self.bound = 0
        self._seconds = seconds
        self._due: dict[str, float] = {}
        fleet.kubelet.binds = True

    def act(self) -> float | None:
        """Bind what is due."""
        wanted = {name for pod in self.items("pods") for name in _claims_of(pod)}
        for claim in self.items(_CLAIMS):
            self._one(claim, wanted)
        return min((at for at in self._due.values() if at > self.now()), default=None)

    def _one(self, claim: Json, wanted: set[str]) -> None:
        meta = claim["metadata"]
        if "deletionTimestamp" in meta or (claim.get("status") or {}).get("phase") == "Bound":
            return
        if not meta.get("finalizers"):
            self.patch(_CLAIMS, claim, {"metadata": {"finalizers": [_PROTECTION]}})
        if meta["name"] not in wanted:
            return
        due = self._due.setdefault(meta["uid"], self.now() + self.rng.uniform(*self._seconds))
        if due <= self.now():
            self.bound += 1
            size = claim["spec"]["resources"]["requests"]
            self.patch(_CLAIMS, claim, {"status": {"phase": "Bound", "capacity": size}}, "status")


class Claims:
    """A binder with its bad times, and people who resize and delete claims; ``faults`` counts all of that."""

    def __init__(self, fleet: Fleet, rng: random.Random, *, seconds: float = 60.0) -> None:
        self.binder = Binder(fleet, rng, seconds=(0.0, 20.0))
        self._fleet = fleet
        self._rng = rng
        self._seconds = seconds
        self._deeds = 0

    @property
    def faults(self) -> int:
        """Number of claims bound late, and of what people did."""
        return self.binder.bound + self._deeds

    async def run(self) -> None:
        """Interfere for some seconds; claims are bound for ever."""
        self._fleet.also.start_soon(self.binder.run)
        end = self._fleet.clock.monotonic() + self._seconds
        while self._fleet.clock.monotonic() < end:
            await anyio.sleep(self._rng.uniform(1.0, 15.0))
            claims = self._fleet.items(_CLAIMS)
            if claims:
                self._deeds += 1
                await self._interfere(self._rng.choice(claims)["metadata"]["name"])

    async def _interfere(self, name: str) -> None:
        match self._rng.randrange(3):
            case 0:
                self._fleet.users.delete(PERSISTENT_VOLUME_CLAIMS, name)
            case 1:
                size = {"requests": {"storage": f"{self._rng.randint(2, 9)}Gi"}}
                self._fleet.users.patch(PERSISTENT_VOLUME_CLAIMS, name, {"spec": {"resources": size}})
            case _:
                self.binder.up = False
                await anyio.sleep(self._rng.choice((5.0, 200.0)))  # the second outlasts the start of a pod
                self.binder.up = True
                self.binder.wake()


def _claims_of(pod: Json) -> list[str]:
    if (pod.get("status") or {}).get("phase") in _ENDED:
        return []
    volumes = pod["spec"].get("volumes") or []
    return [each["persistentVolumeClaim"]["claimName"] for each in volumes if "persistentVolumeClaim" in each]
