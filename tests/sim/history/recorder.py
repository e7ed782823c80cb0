"""Writes the history of a simulated cluster down while it happens: from the store's commits and the tool's own word."""

import msgspec

from magos.api.labels import JOB_TYPE, RUN_ID, WORKSPACE
from magos.api.names import JobType
from magos.api.rollout import Rollout
from magos.api.workspace import Workspace
from tests.sim.apiserver import SimApiServer
from tests.sim.apiserver.resources import Json
from tests.sim.apiserver.store import Change
from tests.sim.fleet.terraform import ToolEnd, ToolStart
from tests.sim.history.records import (
    CONTROLLERS,
    JobCreated,
    JobDeleted,
    PodCreated,
    PodDeleted,
    PodEnded,
    Record,
    RolloutWritten,
    ToolEnded,
    ToolStarted,
    WorkspaceWritten,
)

__all__ = ["ADVERSARY", "Recorder"]

ADVERSARY = "adversary"


class Recorder:
    """Keeps ``records``; stands beside the server from its first moment on."""

    def __init__(self, server: SimApiServer) -> None:
        self.records: list[Record] = []
        self._server = server
        self._workspaces: dict[str, Workspace] = {}
        self._rollouts: dict[str, Rollout] = {}
        self._foreign: set[str] = set()
        self._asked: dict[str, float] = {}
        server.store.subscribe(self._note)

    def tell(self, fact: ToolStart | ToolEnd) -> None:
        """Note what the tool did."""
        order, at = fact.order, self._server.clock.monotonic()
        if isinstance(fact, ToolStart):
            self.records.append(
                ToolStarted(
                    at=at,
                    workspace=order.state,
                    run_id=order.run_id,
                    job_type=order.job_type,
                    revision=fact.revision,
                    digest=fact.digest,
                )
            )
        else:
            self.records.append(
                ToolEnded(
                    at=at, workspace=order.state, run_id=order.run_id, job_type=order.job_type, result=fact.result
                )
            )

    def _note(self, change: Change) -> None:
        match change.resource:
            case "workspaces.magosproject.io":
                self._workspace(change)
            case "rollouts.magosproject.io":
                self._rollout(change)
            case "jobs.batch":
                self._job(change)
            case "pods":
                self._pod(change)

    def _is_foreign(self, change: Change) -> bool:
        """What the adversary makes under our labels is no runner, whatever it looks like."""
        if change.old is None and self._server.acting == ADVERSARY:
            self._foreign.add(_uid(change))
        return _uid(change) in self._foreign

    def _workspace(self, change: Change) -> None:
        uid = _uid(change)
        old = self._workspaces.pop(uid, None)
        new = msgspec.convert(change.new, Workspace) if change.new is not None else None
        if new is not None:
            self._workspaces[uid] = new
        self.records.append(WorkspaceWritten(**self._fact(), old=old, new=new))

    def _rollout(self, change: Change) -> None:
        uid = _uid(change)
        old = self._rollouts.pop(uid, None)
        new = msgspec.convert(change.new, Rollout) if change.new is not None else None
        if new is not None:
            self._rollouts[uid] = new
        self.records.append(RolloutWritten(**self._fact(), old=old, new=new))

    def _job(self, change: Change) -> None:
        item = change.new or change.old
        if item is None or not _is_runner(item) or self._is_foreign(change):
            return
        meta, env = item["metadata"], _environment(item["spec"]["template"]["spec"])
        owner = (meta["namespace"], env.get("MAGOS_WORKSPACE", meta["labels"][WORKSPACE]))
        names: Json = {
            "workspace": owner,
            "run_id": meta["labels"][RUN_ID],
            "job_type": JobType(meta["labels"][JOB_TYPE]),
        }
        if item["spec"].get("suspend"):
            self._asked.setdefault(meta["uid"], self._server.clock.monotonic())
            return  # no pod of it can be there
        asked = self._asked.pop(meta["uid"], None)
        if change.old is None or asked is not None:
            told: Json = {"asked": asked if asked is not None else self._server.clock.monotonic()}
            told |= {"revision": env.get("MAGOS_REVISION", ""), "digest": env.get("MAGOS_PLAN_DIGEST", "")}
            self.records.append(JobCreated(**self._fact(), **names, uid=meta["uid"], **told))
        elif _deleted_now(change) and (self._server.acting not in CONTROLLERS or not _ended_job(change.old)):
            self.records.append(JobDeleted(**self._fact(), **names))

    def _pod(self, change: Change) -> None:
        item = change.new or change.old
        if item is None or not _is_runner(item) or self._is_foreign(change):
            return
        meta, env = item["metadata"], _environment(item["spec"])
        owner = (meta["namespace"], env.get("MAGOS_WORKSPACE", meta["labels"][WORKSPACE]))
        names: Json = {"run_id": meta["labels"][RUN_ID], "job_type": JobType(meta["labels"][JOB_TYPE])}
        if change.old is None:
            self.records.append(PodCreated(**self._fact(), workspace=owner, pod=meta["uid"], **names))
            return
        if _ended_pod(change.old):
            return
        if _deleted_now(change):
            self.records.append(PodDeleted(**self._fact(), workspace=owner, pod=meta["uid"], **names))
        if change.new is None or _ended_pod(change.new):
            self.records.append(PodEnded(**self._fact(), workspace=owner, pod=meta["uid"]))

    def _fact(self) -> Json:
        return {"at": self._server.clock.monotonic(), "actor": self._server.acting}


def _uid(change: Change) -> str:
    item = change.new or change.old or {}
    uid: str = item["metadata"]["uid"]
    return uid


def _is_runner(item: Json) -> bool:
    labels = item["metadata"].get("labels") or {}
    return all(key in labels for key in (WORKSPACE, RUN_ID)) and labels.get(JOB_TYPE) in set(JobType)


def _environment(spec: Json) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in spec["containers"][0].get("env") or []}


def _deleted_now(change: Change) -> bool:
    """True for the first sign of a deletion."""
    if change.old is None or "deletionTimestamp" in change.old["metadata"]:
        return False
    return change.new is None or "deletionTimestamp" in change.new["metadata"]


def _ended_job(item: Json) -> bool:
    conditions = (item.get("status") or {}).get("conditions") or []
    return any(each["type"] in ("Complete", "Failed") and each["status"] == "True" for each in conditions)


def _ended_pod(item: Json) -> bool:
    return (item.get("status") or {}).get("phase") in ("Succeeded", "Failed")
