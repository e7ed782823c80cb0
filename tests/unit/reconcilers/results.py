"""Results as a runner would report them, for the current run of a model."""

from collections.abc import Iterable
from typing import Any

import msgspec

from magos.api.kube import EnvVar, JobManifest
from magos.api.names import JobType
from magos.api.result import Outcome, PlannedChanges, PolicyCount, Result
from magos.ids import digest_of
from magos.runtime.decision import Event
from tests.unit.reconcilers.model import SHA, Model


def encode(result: Result) -> str:
    return msgspec.json.encode(result).decode()


def plan_result(model: Model, **changes: Any) -> Result:
    """The result of a plan with changes of the current run."""
    status = model.workspace.status
    run = status.current_run
    policies = (run.policies_selected or 0) if run else 0
    fields: dict[str, Any] = {
        "policies": PolicyCount(selected=policies, evaluated=policies),
        "run_id": status.current_run_id,
        "phase": JobType.PLAN,
        "result": Outcome.SUCCEEDED,
        "exit_code": 0,
        "revision": (run.revision if run else "") or SHA,
        "plan_digest": digest_of(status.current_run_id.encode()),
        "has_changes": True,
        "changes": PlannedChanges(add=1),
    }
    return Result(**{**fields, **changes})


def failed(model: Model, job_type: JobType, reason: str, message: str, exit_code: int = 1) -> Result:
    """A result that says why a half of the current run failed."""
    return Result(
        run_id=model.workspace.status.current_run_id,
        phase=job_type,
        result=Outcome.FAILED,
        exit_code=exit_code,
        reason=reason,
        message=message,
    )


def apply_result(model: Model, **changes: Any) -> Result:
    """The result of a good apply of the current run."""
    status = model.workspace.status
    fields: dict[str, Any] = {
        "run_id": status.current_run_id,
        "phase": JobType.APPLY,
        "result": Outcome.SUCCEEDED,
        "exit_code": 0,
        "revision": status.current_run.revision if status.current_run else SHA,
    }
    return Result(**{**fields, **changes})


def environment_of(manifest: JobManifest, container: str) -> dict[str, EnvVar]:
    """The variables of one container of a Job."""
    spec = manifest.spec.template.spec
    found = next(each for each in (*spec.init_containers, *spec.containers) if each.name == container)
    return {variable.name: variable for variable in found.env}


def reasons(events: Iterable[Event]) -> list[str]:
    return [event.reason for event in events]
