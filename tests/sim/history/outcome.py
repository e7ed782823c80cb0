"""The end state of a world, without what no two runs of it share: run IDs, times, UIDs and messages (I14)."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from magos.api.labels import JOB_TYPE, RUN_ID
from magos.api.names import JobType
from tests.sim.apiserver import SimApiServer
from tests.sim.apiserver.resources import Json
from tests.sim.history.records import History, JobCreated

__all__ = ["Outcome", "differences", "outcome_of"]

Outcome: TypeAlias = Mapping[str, Any]
_KINDS = ("projects", "rollouts", "variablesets")


def outcome_of(server: SimApiServer, history: History, infrastructure: Mapping[tuple[str, str], str]) -> Outcome:
    """Return everything that must be the same however often processes died."""
    found: dict[str, Any] = {f"infrastructure of {owner[1]}": content for owner, content in infrastructure.items()}
    for item in server.store.items(server.resource("workspaces.magosproject.io")):
        found[f"workspace {item['metadata']['name']}"] = _workspace(item)
    for kind in _KINDS:
        for item in server.store.items(server.resource(f"{kind}.magosproject.io")):
            status = item.get("status") or {}
            shown = {key: status.get(key) for key in ("phase", "reason", "currentStep", "members")}
            found[f"{kind} {item['metadata']['name']}"] = {**shown, "conditions": _conditions(status)}
    for item in server.store.items(server.resource("jobs.batch")):
        labels = item["metadata"].get("labels") or {}
        if RUN_ID in labels:
            key = f"jobs of {labels['magosproject.io/workspace']}"
            found[key] = sorted([*found.get(key, []), labels[JOB_TYPE]])
    found["runs"] = _runs(history)
    return found


def differences(expected: Outcome, actual: Outcome) -> list[str]:
    """Return one line for everything that is not the same."""
    return [
        f"{key}: {expected.get(key)!r} became {actual.get(key)!r}"
        for key in sorted({*expected, *actual})
        if expected.get(key) != actual.get(key)
    ]


def _workspace(item: Json) -> Json:
    status, metadata = item.get("status") or {}, item["metadata"]
    run = status.get("currentRun") or {}
    return {
        **{key: status.get(key) for key in ("phase", "reason", "observedRevision", "lastAttemptedRevision")},
        **{key: status.get(key) for key in ("currentRunTrigger", "policyViolations", "observedGeneration")},
        "planSummary": status.get("planSummary"),
        "gated": "awaitingApproval" in status,
        "approved": bool(run.get("approval")),
        "request": run.get("request"),
        "revision": run.get("revision"),
        "annotations": sorted(metadata.get("annotations") or {}),
        "finalizers": metadata.get("finalizers"),
        "conditions": _conditions(status),
        "deleting": "deletionTimestamp" in metadata,
    }


def _conditions(status: Json) -> list[tuple[str, str, str]]:
    return sorted((each["type"], each["status"], each["reason"]) for each in status.get("conditions") or [])


def _runs(history: History) -> dict[str, list[str]]:
    """The halves of runs of each Workspace, in their order, with their commits: nothing runs twice after a crash."""
    found: dict[str, list[str]] = {}
    for record in history:
        if isinstance(record, JobCreated):
            known = record.revision[:8] if record.job_type is JobType.APPLY else ""
            found.setdefault(record.workspace[1], []).append(f"{record.job_type} {known}".strip())
    return found
