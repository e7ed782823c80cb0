"""Everything a Workspace's reconciler may look at, collected into one frozen value.

Where the pass before asked for live reads, the live objects replace the cached ones as a whole, and ``live`` says so:
a decision is never half about the cache and half about the server.
"""

from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from magos.api.kube import (
    JOBS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    ConfigMap,
    Job,
    PersistentVolumeClaim,
    Pod,
    ServiceAccountMetadata,
)
from magos.api.labels import JOB_TYPE, RUN_ID, workspace_label
from magos.api.meta import controller_of
from magos.api.names import JobType, volume_claim_name
from magos.api.phases import Phase
from magos.api.project import PROJECTS, Project
from magos.api.validatingpolicy import ValidatingPolicy
from magos.api.variableset import VARIABLESETS, VariableSet
from magos.api.workspace import WORKSPACES, CurrentRun, Workspace
from magos.ids import parse_run_id
from magos.reconcilers.archive.keeping import Standing
from magos.reconcilers.effects import JobWarning, RepositorySecretReport
from magos.reconcilers.workspace.inputs import probes
from magos.reconcilers.workspace.inputs.layers import Layer
from magos.reconcilers.workspace.inputs.memo import Memo
from magos.reconcilers.workspace.inputs.specification import forget_specification
from magos.reconcilers.workspace.inputs.variables import Composition, compose, layers_of
from magos.reconcilers.workspace.inputs.variables import Outcome as Inputs
from magos.reconcilers.workspace.pod.settings import WorkspaceSettings
from magos.runtime.decision import Query, QueryAnswer, QueryFailure, Refusal, Request, View

BY_WORKSPACE = "workspace"
"""Index of Jobs and pods that the app must provide: ``workspace_index(namespace, label value)``."""


def workspace_index(namespace: str, label: str) -> str:
    """Return the index value under which Jobs and pods labelled ``mp/workspace=<label>`` are filed."""
    return f"{namespace}/{label}"


class Observation(Struct, frozen=True, kw_only=True):
    """One Workspace, what belongs to it, and the circumstances of this pass.

    ``jobs`` and ``pods`` are all that carry the Workspace's label, whoever owns them. ``entropy`` are four random bytes
    for a run ID, drawn by the app whether or not they are needed. ``account``, ``secrets``, ``warnings`` and
    ``policies`` are None where the pass before did not ask. ``complete`` says that everything a start is decided on has
    been read live: the Workspace with its Jobs and pods, and all that it and its Project name; ``inputs_live`` says it
    of the Project and the VariableSets alone. ``history`` is what is stored of the records in status.
    """

    now: datetime
    settings: WorkspaceSettings
    entropy: bytes
    workspace: Workspace | None
    jobs: tuple[Job, ...] = ()
    pods: tuple[Pod, ...] = ()
    claim: PersistentVolumeClaim | None = None
    project: Project | None = None
    project_sets: tuple[Layer, ...] = ()
    own_sets: tuple[Layer, ...] = ()
    inputs: Inputs = Composition()
    inputs_live: bool = False
    live: bool = False
    complete: bool = False
    stale: bool = False
    account: ServiceAccountMetadata | None = None
    secrets: RepositorySecretReport | None = None
    policies: tuple[ValidatingPolicy, ...] | None = None
    policies_failure: QueryFailure | None = None
    stored_policies: tuple[ConfigMap, ...] = ()
    warnings: tuple[JobWarning, ...] | None = None
    refusal: Refusal | None = None
    failure: QueryFailure | None = None
    history: Standing = Standing()

    @property
    def subject(self) -> Workspace:
        """The Workspace; only for passes that have one."""
        if self.workspace is None:
            raise ValueError("this observation has no Workspace")
        return self.workspace

    @property
    def run(self) -> CurrentRun:
        """What status says about the current run; empty if it says nothing."""
        return self.subject.status.current_run or CurrentRun()

    @property
    def run_id(self) -> str:
        """The current run's ID as status names it; may be empty or nonsense, see ``has_run``."""
        return self.subject.status.current_run_id

    @property
    def has_run(self) -> bool:
        """True if status names a run with a well-formed ID."""
        try:
            parse_run_id(self.run_id)
        except ValueError:
            return False
        return self.subject.status.current_run is not None

    @property
    def own_jobs(self) -> tuple[Job, ...]:
        """The Jobs that this very Workspace (by UID) controls, by name."""
        uid = self.subject.metadata.uid
        owners = ((job, controller_of(job.metadata)) for job in self.jobs)
        return tuple(sorted((j for j, owner in owners if owner and owner.uid == uid), key=lambda j: j.metadata.name))

    def job_named(self, name: str) -> Job | None:
        """Return our own Job of that name."""
        return next((job for job in self.own_jobs if name and job.metadata.name == name), None)

    def pods_of_run(self, job_type: JobType) -> tuple[Pod, ...]:
        """Return the pods of the current run's plan or apply, by name: those of its Job and no other.

        Anybody may label a pod, so a label alone lets no pod speak for a run (invariant I18). Where the Job is gone,
        its name tells: as the owner's, or, if the deletion orphaned the pod, as the beginning of the pod's own. Such a
        deletion takes the owner from the pod before it takes the Job.
        """
        name = self.run.plan_job if job_type is JobType.PLAN else self.run.apply_job
        if not (self.run_id and name):
            return ()
        wanted, job = (self.run_id, str(job_type)), self.job_named(name)
        found = (p for p in self.pods if (p.metadata.labels.get(RUN_ID), p.metadata.labels.get(JOB_TYPE)) == wanted)
        own = (pod for pod in found if _is_of_job(pod, name, job))
        return tuple(sorted(own, key=lambda pod: pod.metadata.name))

    @property
    def gated(self) -> bool:
        """True while a person has to approve."""
        return self.subject.status.awaiting_approval is not None

    @property
    def denial(self) -> Refusal | QueryFailure | None:
        """What the API server would not do, or would not tell."""
        return self.refusal or self.failure

    @property
    def phase(self) -> Phase | None:
        """``status.phase``."""
        return self.subject.status.phase


_inputs: Memo[Inputs] = Memo()


def observe(request: Request, view: View, now: datetime, settings: WorkspaceSettings, entropy: bytes) -> Observation:
    """Collect what the Workspace named by ``request`` is judged by."""
    namespace, name = request.namespace, request.name
    facts = [view.answer(probe) for probe in probes.live_probes(namespace, name)]
    live = all(fact is not None and fact.failure is None for fact in facts)
    values: list[Any] = [fact.value for fact in facts if fact is not None]
    key = workspace_index(namespace, workspace_label(name))
    workspace = values[0] if live else view.get(WORKSPACES, namespace, name)
    jobs: tuple[Job, ...] = values[1] if live else view.by_index(JOBS, BY_WORKSPACE, key)
    pods: tuple[Pod, ...] = values[2] if live else view.by_index(PODS, BY_WORKSPACE, key)
    observation = Observation(
        now=now,
        settings=settings,
        entropy=entropy,
        workspace=workspace,
        jobs=jobs,
        pods=pods,
        live=live,
        stale=view.stale and not live,
        refusal=view.refusal,
        failure=_first_failure(facts),
    )
    if workspace is None:
        _inputs.forget((namespace, name))
        forget_specification(namespace, name)
        return observation
    surrounded = _with_surroundings(observation, view, workspace)
    return _with_facts(surrounded, view, workspace) if live else surrounded


def _with_surroundings(seen: Observation, view: View, workspace: Workspace) -> Observation:
    """Add what the caches know, or what was read live in their place."""
    namespace = workspace.metadata.namespace
    project: Project | None = _live_or(
        view, probes.project_probe(workspace), view.get(PROJECTS, namespace, workspace.spec.project_ref.name)
    )
    claim: PersistentVolumeClaim | None = _live_or(
        view,
        probes.claim_probe(workspace),
        view.get(PERSISTENT_VOLUME_CLAIMS, namespace, volume_claim_name(workspace.metadata.name)),
    )
    asked = [view.answer(probe) for probe in probes.input_probes(workspace, project)]
    seen = replace(
        seen,
        project=project,
        claim=claim,
        inputs_live=all(fact is not None for fact in asked),
        failure=seen.failure or _first_failure(asked),
    )
    if not probes.set_names(workspace, project):
        return seen

    def find(name: str) -> VariableSet | None:
        cached = view.get(VARIABLESETS, namespace, name)
        found: VariableSet | None = _live_or(view, probes.set_probe(workspace, name), cached)
        return found

    inherited, own = layers_of(workspace, project, find)
    sets = tuple(layer.found for layer in (*inherited, *own))
    specs = (workspace.spec, project.spec if project is not None else None)
    inputs = _inputs.of((namespace, workspace.metadata.name), (*specs, *sets), lambda: compose(inherited, own))
    return replace(seen, project_sets=inherited, own_sets=own, inputs=inputs)


def _with_facts(seen: Observation, view: View, workspace: Workspace) -> Observation:
    """Add what only a live read can tell, and whether all that a start needs has been read."""
    asked = {probe: view.answer(probe) for probe in probes.start_probes(workspace, seen.project)}
    secrets = asked[probes.secrets_probe(workspace)]
    wanted = probes.policies_probe(workspace, seen.project)
    policies = asked[wanted] if wanted is not None else None
    stored = asked[probes.stored_policies_probe(workspace)] if wanted is not None else None
    run = workspace.status.current_run or CurrentRun()
    job = seen.job_named(run.apply_job) or seen.job_named(run.plan_job)
    warnings = None
    if job is not None:
        pods = seen.pods_of_run(JobType.APPLY if job.metadata.name == run.apply_job else JobType.PLAN)
        warnings = view.answer(probes.events_probe(job, pods))
    return replace(
        seen,
        complete=all(fact is not None for fact in asked.values()),
        account=_value(asked[probes.account_probe(workspace)]),
        secrets=_value(secrets),
        policies=_value(policies),
        policies_failure=policies.failure if policies is not None else None,
        stored_policies=_value(stored) or (),
        # Events only explain; a controller that may not read them says less and works on.
        warnings=(_value(warnings) or ()) if warnings else None,
        # Policies that cannot be listed have a reason of their own.
        failure=seen.failure or _first_failure([fact for probe, fact in asked.items() if probe != wanted]),
    )


def _is_of_job(pod: Pod, name: str, job: Job | None) -> bool:
    owner = controller_of(pod.metadata)
    if owner is None:
        going = job is None or job.metadata.deletion_timestamp is not None
        return going and pod.metadata.name.startswith(f"{name}-")
    if job is not None:
        return owner.uid == job.metadata.uid
    return (owner.kind, owner.name) == ("Job", name)


def _live_or(view: View, probe: Query, cached: Any) -> Any:
    fact = view.answer(probe)
    return cached if fact is None else fact.value


def _first_failure(facts: list[QueryAnswer | None]) -> QueryFailure | None:
    return next((fact.failure for fact in facts if fact is not None and fact.failure is not None), None)


def _value(fact: QueryAnswer | None) -> Any:
    return fact.value if fact is not None else None
