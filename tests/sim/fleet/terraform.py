"""Terraform: a tiny model of infrastructure that is planned and applied, and the runner's result about it.

What a pod is told comes from its environment alone, as in life. Plans lie on the volume of the Workspace's claim, so a
plan is found again by its run only while that claim exists. An apply holds the state lock; somebody else's apply at the
same time is a fact of the history, not an error that is smoothed over.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from magos.api.labels import JOB_TYPE, RUN_ID
from magos.api.names import JobType
from magos.api.reasons import Reason
from magos.api.result import Outcome, PlannedChanges, PolicyCount, Result, Violation, ViolationAction
from magos.ids import digest_of
from tests.sim.apiserver.resources import Json
from tests.sim.fleet.git import Git

__all__ = ["Order", "Terraform", "ToolEnd", "ToolStart", "Work", "order_of"]


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a pod was told to do."""

    namespace: str
    workspace: str
    claim: str
    pod: str
    run_id: str
    job_type: JobType
    repo_url: str
    target: str
    revision: str
    digest: str
    variables: str
    policies: tuple[tuple[str, str], ...] = ()
    """Name and text of each policy that the pod is given."""

    @property
    def state(self) -> tuple[str, str]:
        """The Workspace whose infrastructure it is about."""
        return self.namespace, self.workspace


@dataclass(frozen=True, kw_only=True)
class ToolStart:
    """The tool has started; ``digest`` is that of the plan file it applies."""

    order: Order
    revision: str
    digest: str


@dataclass(frozen=True, kw_only=True)
class ToolEnd:
    """The tool has ended with this result; ``interrupted`` if it was asked to stop."""

    order: Order
    result: Result
    interrupted: bool


@dataclass
class Work:
    """One pod at work."""

    order: Order
    result: Result
    seconds: float
    content: str = ""
    started: bool = False


@dataclass(kw_only=True)
class Terraform:
    """The model. ``infrastructure`` maps a Workspace to its content, ``applied`` lists what was applied in order.

    ``slow`` overrides for single Workspaces how long the tool takes; ``violations`` are what policies find there, and a
    ``lenient`` runner calls a plan with blocking ones a success; ``misreports`` is the commit that a runner names
    instead of the one it worked on.
    """

    git: Git
    rng: random.Random
    tell: Callable[[ToolStart | ToolEnd], None]
    seconds: tuple[float, float] = (1.0, 4.0)
    slow: dict[str, float] = field(default_factory=dict)
    infrastructure: dict[tuple[str, str], str] = field(default_factory=dict)
    applied: list[tuple[tuple[str, str], str]] = field(default_factory=list)
    violations: dict[str, tuple[Violation, ...]] = field(default_factory=dict)
    lenient: bool = False
    misreports: dict[str, str] = field(default_factory=dict)
    files: dict[tuple[str, str], Json] = field(default_factory=dict)

    def begin(self, order: Order) -> Work:
        """Start the pod's work; what it will say is decided now, what it does happens at its end."""
        seconds = self.slow.get(order.workspace) or self.rng.uniform(*self.seconds)
        if (order.claim, f"{order.run_id}/{order.job_type}.started") in self.files:
            return self._refuse(order, Reason.INTERRUPTED, "this phase was started before", seconds)
        revision = order.revision or self.git.resolve(order.repo_url, order.target) or ""
        commit = self.git.commit(order.repo_url, revision)
        if commit is None:
            return self._refuse(order, Reason.GIT_FAILED, f"no commit {revision or order.target}", seconds)
        self.files[order.claim, f"{order.run_id}/{order.job_type}.started"] = {}
        content = f"{commit.content}|{order.variables}"
        if order.job_type is JobType.PLAN:
            fails = order.workspace in commit.plan_fails
            return self._plan(order, revision, content, seconds, fails=fails)
        return self._apply(order, revision, seconds, fails=order.workspace in commit.apply_fails)

    def end(self, work: Work, *, interrupted: bool) -> Result:
        """The pod ends: let what it did take effect and return what it says."""
        order, result = work.order, work.result
        if interrupted and work.started:
            result = self._failed(order, Reason.INTERRUPTED, "asked to stop", result.revision)
        good = result.result is Outcome.SUCCEEDED
        if good and order.job_type is JobType.APPLY:
            self.infrastructure[order.state] = work.content
            self.applied.append((order.state, result.revision))
        elif good and result.plan_digest:
            plan = {"digest": result.plan_digest, "content": work.content, "revision": result.revision}
            self.files[order.claim, f"{order.run_id}/run.tfplan"] = plan
        if work.started:
            self.tell(ToolEnd(order=order, result=result, interrupted=interrupted))
        return result

    def drift(self, state: tuple[str, str]) -> None:
        """Somebody changes the infrastructure by hand."""
        self.infrastructure[state] = "drifted"

    def _plan(self, order: Order, revision: str, content: str, seconds: float, *, fails: bool) -> Work:
        self.tell(ToolStart(order=order, revision=revision, digest=""))
        if fails:
            result = self._failed(order, Reason.PLAN_FAILED, "error in main.tf", revision)
            return Work(order, result, seconds, started=True)
        changes = self.infrastructure.get(order.state) != content
        found = (*self.violations.get(order.workspace, ()), *_violated(order))
        count = max(len(found), len(order.policies))
        blocking = any(each.action != "Audit" for each in found) and not self.lenient
        result = Result(
            run_id=order.run_id,
            phase=JobType.PLAN,
            result=Outcome.FAILED if blocking else Outcome.SUCCEEDED,
            exit_code=int(blocking),
            reason=Reason.POLICY_VIOLATION if blocking else "",
            revision=self.misreports.get(order.workspace, revision),
            plan_digest=digest_of(f"{order.run_id}|{content}".encode()),
            has_changes=changes,
            changes=PlannedChanges(add=1) if changes else PlannedChanges(),
            policies=PolicyCount(selected=count, evaluated=count),
            violations=found,
            violations_total=len(found),
        )
        return Work(order, result, seconds, content=content, started=True)

    def _apply(self, order: Order, revision: str, seconds: float, *, fails: bool) -> Work:
        plan = self.files.get((order.claim, f"{order.run_id}/run.tfplan"))
        if plan is None or plan["digest"] != order.digest or plan["revision"] != revision:
            return self._refuse(order, Reason.PLAN_MISMATCH, "the plan file is not the one that was approved", seconds)
        self.tell(ToolStart(order=order, revision=revision, digest=plan["digest"]))
        if fails:
            result = self._failed(order, Reason.APPLY_FAILED, "the provider refused", revision)
            return Work(order, result, seconds, started=True)
        result = Result(
            run_id=order.run_id, phase=JobType.APPLY, result=Outcome.SUCCEEDED, exit_code=0, revision=revision
        )
        return Work(order, result, seconds, content=plan["content"], started=True)

    def _refuse(self, order: Order, reason: Reason, message: str, seconds: float) -> Work:
        return Work(order, self._failed(order, reason, message, order.revision), seconds)

    def _failed(self, order: Order, reason: Reason, message: str, revision: str) -> Result:
        return Result(
            run_id=order.run_id,
            phase=order.job_type,
            result=Outcome.FAILED,
            exit_code=1,
            reason=reason,
            message=message,
            revision=revision,
        )


def _violated(order: Order) -> tuple[Violation, ...]:
    """A policy that names an action is violated by every plan."""
    found = ((name, action) for name, text in order.policies for action in ViolationAction if action in text)
    return tuple(Violation(policy=name, message="it forbids this", action=action) for name, action in found)


def order_of(
    pod: Json,
    claim_uid: str,
    variables: Callable[[Json], str] = lambda _: "",
    policies: tuple[tuple[str, str], ...] = (),
) -> Order:
    """Return what a runner pod is told, read from the environment of its main container and its labels."""
    container = pod["spec"]["containers"][0]
    env = {each["name"]: each.get("value", "").replace("$$", "$") for each in container.get("env") or []}
    labels = pod["metadata"]["labels"]
    return Order(
        namespace=pod["metadata"]["namespace"],
        workspace=env.get("MAGOS_WORKSPACE", ""),
        claim=claim_uid,
        pod=pod["metadata"]["name"],
        run_id=labels[RUN_ID],
        job_type=JobType(labels[JOB_TYPE]),
        repo_url=env.get("REPO_URL", ""),
        target=env.get("TARGET_REVISION", ""),
        revision=env.get("MAGOS_REVISION", ""),
        digest=env.get("MAGOS_PLAN_DIGEST", ""),
        variables=variables(pod),
        policies=policies,
    )


def encode(result: Result) -> str:
    """Return the termination message."""
    return msgspec.json.encode(result).decode()
