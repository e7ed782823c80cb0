"""A Project's members under a Rollout, in any state that a Workspace can be in, over the model of the API server."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from magos.api.annotations import DETECTED_REVISION, EXECUTION_ALLOWED, RECONCILE_REQUEST
from magos.api.meta import ObjectMeta
from magos.api.phases import Phase
from magos.api.reasons import Reason
from magos.api.rollout import ROLLOUTS, Rollout, RolloutSpec, RolloutStep, RolloutStrategy
from magos.api.selectors import LabelSelector, LabelSelectorRequirement
from magos.api.triggers import Trigger
from magos.api.workspace import WORKSPACES, AwaitingApproval, CurrentRun, GateReason, Workspace, WorkspaceStatus
from magos.reconcilers.revisions import source_of
from magos.reconcilers.rollout.machine import reconcile
from magos.reconcilers.rollout.observation import Observation, observe
from magos.runtime.decision import Decision, LiveList, Query, QueryAnswer, Refusal, Request
from tests.unit.reconcilers.model import NAMESPACE, SHA, Model, ModelView, workspace_manifest

__all__ = ["PROJECT", "Fleet", "applied", "member", "rollout", "step"]

PROJECT = "platform"
_REASONS = {
    Phase.PENDING: Reason.AWAITING_ROLLOUT,
    Phase.PLANNING: Reason.PLANNING,
    Phase.PLANNED: Reason.PLAN_SUCCEEDED,
    Phase.PLANNED_WITH_VIOLATIONS: Reason.AUDIT_POLICY_VIOLATION,
    Phase.APPLYING: Reason.APPLYING,
    Phase.APPLIED: Reason.APPLY_SUCCEEDED,
    Phase.FAILED: Reason.PLAN_FAILED,
    Phase.VALIDATION_FAILED: Reason.POLICY_VIOLATION,
}


def step(name: str, *values: str, key: str = "stage") -> RolloutStep:
    """A step that selects ``stage in (values)``, by default the stage of its own name."""
    wanted = LabelSelectorRequirement(key=key, operator="In", values=values or (name,))
    return RolloutStep(name=name, selector=LabelSelector(match_expressions=(wanted,)))


def rollout(*steps: RolloutStep | str, project: str = PROJECT) -> Rollout:
    """A Rollout as a user would write it."""
    each = tuple(step(item) if isinstance(item, str) else item for item in steps)
    spec = RolloutSpec(project_ref=project, strategy=RolloutStrategy(steps=each))
    return Rollout(metadata=ObjectMeta(name=PROJECT, namespace=NAMESPACE), spec=spec)


def member(
    name: str,
    stage: str = "",
    phase: Phase | None = None,
    *,
    trigger: Trigger = Trigger.REVISION,
    pinned: str = SHA,
    observed: str = "",
    detected: str = "",
    request: str = "",
    gated: bool = False,
    allowed: bool = False,
    **spec: Any,
) -> Workspace:
    """A Workspace in the middle of its life; ``pinned`` is the commit of its run, ``observed`` the one applied."""
    workspace = workspace_manifest(name, **spec)
    source = source_of(workspace)
    values: Mapping[str, str] = {
        DETECTED_REVISION: detected,
        RECONCILE_REQUEST: request,
        EXECUTION_ALLOWED: "true" if allowed else "",
    }
    status = WorkspaceStatus()
    if phase is not None:
        gate = AwaitingApproval(run_id="r", reason=GateReason.MANUAL_APPROVAL, since="", revision=pinned)
        status = WorkspaceStatus(
            phase=phase,
            reason=str(_REASONS.get(phase, "")),
            observed_generation=1,
            current_run_id="r",
            current_run_trigger=trigger,
            current_run=CurrentRun(revision=pinned, source_key=source),
            observed_revision=observed,
            observed_source=source if observed else "",
            awaiting_approval=gate if gated else None,
        )
    meta = replace(
        workspace.metadata,
        labels={"stage": stage} if stage else {},
        annotations={key: value for key, value in values.items() if value},
    )
    return replace(workspace, metadata=meta, status=status)


def applied(name: str, stage: str, revision: str = SHA, **fields: Any) -> Workspace:
    """A Workspace that has applied ``revision``."""
    return member(name, stage, Phase.APPLIED, pinned=revision, observed=revision, **fields)


class Fleet(Model):
    """The model with the rollout controller in it; ``step`` and ``settle`` are its passes."""

    def __init__(self, made: Rollout, members: Sequence[Workspace]) -> None:
        super().__init__()
        self.stale = False
        for each in members:
            self.put(WORKSPACES, each)
        self.put(ROLLOUTS, made)

    @property
    def rollout(self) -> Rollout:
        found = self.get(ROLLOUTS, PROJECT)
        assert isinstance(found, Rollout)
        return found

    @property
    def allowed(self) -> set[str]:
        """Who has permission."""
        found = (each.metadata for each in self.all(WORKSPACES))
        return {meta.name for meta in found if meta.annotations.get(EXECUTION_ALLOWED) == "true"}

    def set(self, changed: Workspace) -> None:
        """Let a member be in another state, its permission as given."""
        self.put(WORKSPACES, replace(changed, metadata=replace(changed.metadata, uid=self.uid(changed.metadata.name))))

    def uid(self, name: str) -> str:
        return str(self.get(WORKSPACES, name).metadata.uid)

    def edit_steps(self, *steps: RolloutStep | str) -> None:
        """A user changes the steps."""
        old = self.rollout
        meta = replace(old.metadata, generation=old.metadata.generation + 1)
        self.put(ROLLOUTS, replace(old, metadata=meta, spec=rollout(*steps).spec))

    def decide(
        self, name: str = PROJECT, answers: dict[Query, QueryAnswer] | None = None, refusal: Refusal | None = None
    ) -> Decision:
        """Return what the rollout controller decides now."""
        seen = self.observe(name, answers, refusal)
        decision = reconcile(seen)
        assert decision == reconcile(seen), "the same observation gave two decisions"
        return decision

    def observe(
        self, name: str = PROJECT, answers: dict[Query, QueryAnswer] | None = None, refusal: Refusal | None = None
    ) -> Observation:
        self.sync()
        view = ModelView(self.cache, answers or {}, refusal)
        view.stale = self.stale
        return observe(Request(namespace=NAMESPACE, name=name), view, self.now)

    def advance(self, **delta: float) -> None:
        self.now += timedelta(**delta)

    def answer(self, query: Query) -> QueryAnswer:
        if isinstance(query, LiveList) and not query.selector and type(query) not in self.failing_probes:
            return QueryAnswer(value=tuple(self.all(query.kind)), at=self.now)
        return super().answer(query)
