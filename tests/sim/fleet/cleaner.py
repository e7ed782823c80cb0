"""Whoever clears away what has ended: ``ttlSecondsAfterFinished`` by somebody's policy, and pod garbage collection."""

import random
from typing import ClassVar

from magos.api.annotations import RESULT
from magos.api.labels import JOB_TYPE, WORKSPACE
from magos.api.names import JobType
from magos.api.phases import Phase
from tests.sim.apiserver import SimApiServer
from tests.sim.apiserver.resources import Json
from tests.sim.fleet.actor import Actor

__all__ = ["Cleaner"]

_BUSY = {JobType.PLAN: (Phase.PENDING, Phase.PLANNING), JobType.APPLY: (Phase.PLANNED, Phase.APPLYING)}


class Cleaner(Actor):
    """Deletes ended Jobs and pods; ``faults`` counts them.

    A greedy one deletes ``share`` of them within ``seconds`` after their end, whether or not anybody has read what they
    said. Another waits for exactly that: a pod goes when its result stands on the Job, a Job when status has moved on.
    """

    name: ClassVar[str] = "ttl-controller"
    resources: ClassVar[tuple[str, ...]] = ("jobs.batch", "pods", "workspaces.magosproject.io")

    def __init__(
        self,
        server: SimApiServer,
        rng: random.Random,
        *,
        greedy: bool,
        share: float = 0.3,
        seconds: tuple[float, float] = (0.0, 0.3),
    ) -> None:
        super().__init__(server, rng)
        self.delay = (0.0, 0.02)
        self.faults = 0
        self._greedy = greedy
        self._share = share
        self._seconds = seconds
        self._due: dict[str, float] = {}

    def act(self) -> float | None:
        """Delete what is due."""
        for resource in ("jobs.batch", "pods"):
            for item in self.items(resource):
                if _ended(item) and "deletionTimestamp" not in item["metadata"] and self._is_due(resource, item):
                    self.faults += 1
                    self.delete(resource, item, grace=0)
        return min((at for at in self._due.values() if at > self.now()), default=None)

    def _is_due(self, resource: str, item: Json) -> bool:
        if self._greedy:
            uid = item["metadata"]["uid"]
            if uid not in self._due:
                goes = self.rng.random() < self._share
                self._due[uid] = self.now() + self.rng.uniform(*self._seconds) if goes else float("inf")
            return self._due[uid] <= self.now()
        return self._is_saved(item) if resource == "pods" else self._is_over(item)

    def _is_saved(self, pod: Json) -> bool:
        owners = {each["uid"] for each in pod["metadata"].get("ownerReferences") or []}
        jobs = [job for job in self.items("jobs.batch") if job["metadata"]["uid"] in owners]
        return any(RESULT in (job["metadata"].get("annotations") or {}) for job in jobs)

    def _is_over(self, job: Json) -> bool:
        labels = job["metadata"].get("labels") or {}
        key = (job["metadata"]["namespace"], labels.get(WORKSPACE, ""))
        found = self.server.store.get(self.type("workspaces.magosproject.io"), key)
        return found is not None and (found.get("status") or {}).get("phase") not in _BUSY[JobType(labels[JOB_TYPE])]


def _ended(item: Json) -> bool:
    status = item.get("status") or {}
    told = {each["type"] for each in status.get("conditions") or [] if each["status"] == "True"}
    return bool(told & {"Complete", "Failed"}) or status.get("phase") in ("Succeeded", "Failed")
