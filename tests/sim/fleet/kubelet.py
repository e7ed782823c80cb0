"""The kubelet and the scheduler of one node: pods are bound, run their stages, are stopped gracefully and end.

A node that is ``up = False`` is unreachable: nothing of its pods moves, deletions included, until it comes back.
"""

import base64
import random
from dataclasses import dataclass
from typing import ClassVar

from magos.api.names import volume_claim_name
from magos.api.timestamps import format_time
from magos.runtime.clock import Clock
from tests.sim.apiserver import SimApiServer
from tests.sim.apiserver.resources import Json
from tests.sim.fleet.actor import Actor
from tests.sim.fleet.terraform import Terraform, Work, encode, order_of

__all__ = ["Kubelet"]

NODE = "node"
_STOPPING = (0.5, 2.0)
_FINISHED = ("Succeeded", "Failed")


@dataclass
class _Running:
    work: Work
    ends_at: float
    stopping: bool = False
    tool: bool = False


class Kubelet(Actor):
    """See the module. ``starts = False`` leaves new pods waiting, as a missing image does; where somebody ``binds``
    claims, pods wait for that.
    """

    name: ClassVar[str] = "kubelet"
    resources: ClassVar[tuple[str, ...]] = ("pods", "persistentvolumeclaims")

    def __init__(self, server: SimApiServer, rng: random.Random, terraform: Terraform, clock: Clock) -> None:
        super().__init__(server, rng)
        self.clock = clock
        self.starts = True
        self.binds = False
        self.mute = False
        self._terraform = terraform
        self._running: dict[str, _Running] = {}

    def act(self) -> float | None:
        """Bring every pod one step further."""
        pods = self.items("pods")
        alive = {pod["metadata"]["uid"] for pod in pods}
        for uid in [uid for uid in self._running if uid not in alive]:
            running = self._running.pop(uid)  # the object is gone, but the node has noticed only now
            self._terraform.end(running.work, interrupted=True)
        deadlines = [self._pod(pod) for pod in pods if pod["spec"].get("nodeName", NODE) == NODE]
        return min((each for each in deadlines if each is not None), default=None)

    def reboot(self) -> None:
        """The node loses its power: what runs breaks off, and every pod begins anew, init containers included."""
        for uid, running in self._running.items():
            self._terraform.end(running.work, interrupted=True)
            again = self._terraform.begin(running.work.order)
            self._running[uid] = _Running(again, self.now() + again.seconds)
        self.wake()

    def kill(self, pod: Json) -> None:
        """The processes of the pod end at once and say nothing."""
        running = self._running.pop(pod["metadata"]["uid"], None)
        if running is not None:
            self._terraform.end(running.work, interrupted=True)

    def _pod(self, pod: Json) -> float | None:
        uid, phase = pod["metadata"]["uid"], (pod.get("status") or {}).get("phase", "")
        going = "deletionTimestamp" in pod["metadata"]
        running = self._running.get(uid)
        if phase in _FINISHED:
            if going:
                self.delete("pods", pod, grace=0)
            return None
        if phase == "Unknown" and running is not None:
            self._report(pod, {"phase": "Running", "reason": None})
        if running is None:
            if not going:
                return self._start(pod)
            self._never_started(pod)
            return None
        if going and not running.stopping:
            running.stopping = True
            running.ends_at = min(running.ends_at, self.now() + self.rng.uniform(*_STOPPING))
        if self.now() < running.ends_at:
            if not running.tool:
                running.tool = True
                self._report(pod, {"initContainerStatuses": [self._done("fetch"), self._begun("terraform")]})
            return running.ends_at
        self._end(pod, running)
        return None

    def _start(self, pod: Json) -> float | None:
        claim = self._claim(pod)
        if claim is None:
            self._unscheduled(pod)
            return None
        if not pod["spec"].get("nodeName"):
            self.patch("pods", pod, {"spec": {"nodeName": NODE}})
            self.wake()
            return None
        if not self.starts:
            waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
            self._report(pod, {"initContainerStatuses": [_state("fetch", waiting)]})
            return None
        namespace = pod["metadata"]["namespace"]
        work = self._terraform.begin(
            order_of(pod, claim, lambda item: self._variables(namespace, item), self._policies(pod))
        )
        ends_at = self.now() + work.seconds
        self._running[pod["metadata"]["uid"]] = _Running(work, ends_at)
        self._report(pod, {"phase": "Running", "initContainerStatuses": [self._begun("fetch")]})
        return min(ends_at, self.now() + work.seconds / 2)

    def _never_started(self, pod: Json) -> None:
        self._report(pod, {"phase": "Failed", "reason": "Deleted"})

    def _end(self, pod: Json, running: _Running) -> None:
        del self._running[pod["metadata"]["uid"]]
        result = self._terraform.end(running.work, interrupted=running.stopping)
        code = result.exit_code
        message = "" if self.mute else encode(result)
        stages = [self._done(name) for name in ("fetch", "terraform")]
        main = self._done("job", code, message)
        body = {"initContainerStatuses": stages, "containerStatuses": [main]}
        self._report(pod, {"phase": "Failed" if code else "Succeeded", **body})

    def _begun(self, name: str) -> Json:
        return _state(name, {"running": {"startedAt": format_time(self.clock.now())}})

    def _done(self, name: str, code: int = 0, message: str = "") -> Json:
        ended = {"exitCode": code, "message": message, "finishedAt": format_time(self.clock.now())}
        return _state(name, {"terminated": ended})

    def _report(self, pod: Json, status: Json) -> None:
        self.patch("pods", pod, {"status": status}, "status")

    def _claim(self, pod: Json) -> str | None:
        """The UID of the claim, which tells two claims of one name apart; None where the scheduler waits for it."""
        for volume in pod["spec"].get("volumes") or []:
            name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            if name:
                key = (pod["metadata"]["namespace"], name)
                found = self.server.store.get(self.type("persistentvolumeclaims"), key)
                return str(found["metadata"]["uid"]) if found is not None and self._usable(found) else None
        return volume_claim_name(pod["metadata"]["name"])

    def _usable(self, claim: Json) -> bool:
        bound = not self.binds or (claim.get("status") or {}).get("phase") == "Bound"
        return bound and "deletionTimestamp" not in claim["metadata"]

    def _unscheduled(self, pod: Json) -> None:
        told = (pod.get("status") or {}).get("conditions")
        message = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        if not told and "nodeName" not in pod["spec"]:
            self._report(pod, {"phase": "Pending", "conditions": [condition]})

    def _variables(self, namespace: str, pod: Json) -> str:
        """What the tool gets as ``TF_VAR_…``, references resolved as the kubelet does."""
        containers = [*(pod["spec"].get("initContainers") or []), *pod["spec"]["containers"]]
        told = [env for container in containers for env in container.get("env") or []]
        found = {f"{e['name']}={self._value(namespace, e)}" for e in told if e["name"].startswith("TF_VAR_")}
        return ",".join(sorted(found))

    def _policies(self, pod: Json) -> tuple[tuple[str, str], ...]:
        """The files of the mounted ConfigMap, as they are at that moment."""
        found: list[tuple[str, str]] = []
        for volume in pod["spec"].get("volumes") or []:
            name = (volume.get("configMap") or {}).get("name")
            stored = self.server.store.get(self.type("configmaps"), (pod["metadata"]["namespace"], name or ""))
            found += sorted((stored or {}).get("data", {}).items())
        return tuple(found)

    def _value(self, namespace: str, env: Json) -> str:
        source = env.get("valueFrom") or {}
        for field, resource in (("secretKeyRef", "secrets"), ("configMapKeyRef", "configmaps")):
            reference = source.get(field)
            if reference:
                found = self.server.store.get(self.type(resource), (namespace, reference["name"])) or {}
                text = str((found.get("data") or {}).get(reference["key"], ""))
                return base64.b64decode(text).decode() if resource == "secrets" else text
        return str(env.get("value", ""))


def _state(name: str, state: Json) -> Json:
    return {"name": name, "state": state, "ready": False, "restartCount": 0, "image": "x", "imageID": ""}
