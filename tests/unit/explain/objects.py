"""Objects that are explained."""

from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from magos.api.meta import Condition, ObjectMeta
from magos.api.phases import Phase
from magos.api.project import Project, ProjectStatus
from magos.api.reasons import Reason
from magos.api.rollout import Rollout, RolloutSpec, RolloutStatus, RolloutStep, RolloutStrategy
from magos.api.selectors import LabelSelector
from magos.api.status import NameReference
from magos.api.workspace import CurrentRun, Source, Terraform, Workspace, WorkspaceSpec, WorkspaceStatus

__all__ = ["COMMIT", "NOW", "RUN", "condition", "project", "rollout", "with_meta", "workspace"]

NOW = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)
RUN = "20260501T115900-0a1b2c3d"
COMMIT = "c0ffee0" + "1" * 33


def workspace(phase: Phase | None, reason: str = "", message: str = "", **status: Any) -> Workspace:
    """Return Workspace ``team-a/prod`` of Project ``shop``, in the middle of run ``RUN``."""
    run = CurrentRun(revision=COMMIT, plan_job="prod-plan-1", apply_job="prod-apply-1")
    fields: dict[str, Any] = {
        "observed_generation": 2,
        "last_reconcile_time": "2026-05-01T11:58:00Z",
        "last_run_started_at": "2026-05-01T11:57:00Z",
        "current_run_id": RUN,
        "current_run": run,
        **status,
    }
    return Workspace(
        metadata=ObjectMeta(
            name="prod",
            namespace="team-a",
            generation=2,
            labels={"stage": "prod"},
            creation_timestamp="2026-05-01T11:50:00Z",
            resource_version="7",
        ),
        spec=WorkspaceSpec(
            project_ref=NameReference(name="shop"),
            source=Source(repo_url="https://git.example/r", target_revision="main"),
            terraform=Terraform(version="1.9.8"),
        ),
        status=WorkspaceStatus(phase=phase, reason=reason, message=message, **fields),
    )


def with_meta(subject: Workspace, **meta: Any) -> Workspace:
    """Return the same Workspace with other metadata."""
    return replace(subject, metadata=replace(subject.metadata, **meta))


def project(reason: Reason = Reason.DEFAULT_PARALLEL) -> Project:
    """Return Project ``shop``."""
    status = ProjectStatus(phase=Phase.READY, reason=reason)
    return Project(metadata=ObjectMeta(name="shop", namespace="team-a"), status=status)


def rollout(
    current: int | None = 0, *stages: str, phase: Phase = Phase.RECONCILING, reason: str = "", message: str = ""
) -> Rollout:
    """Return Rollout ``shop`` with a step for each stage."""
    steps = tuple(RolloutStep(name=each, selector=LabelSelector(match_labels={"stage": each})) for each in stages)
    return Rollout(
        metadata=ObjectMeta(name="shop", namespace="team-a"),
        spec=RolloutSpec(project_ref="shop", strategy=RolloutStrategy(steps=steps)),
        status=RolloutStatus(phase=phase, reason=reason, message=message, current_step=current),
    )


def condition(type_: str, message: str, status: str = "True") -> Condition:
    """Return a condition since 11:30."""
    return Condition(
        type=type_, status=status, reason=type_, message=message, last_transition_time="2026-05-01T11:30:00Z"
    )
