"""Everything a Workspace's reconciler may look at, collected into one frozen value.

Where the pass before asked for live reads, the live objects replace the cached ones as a whole, and ``live`` says so:
a decision is never half about the cache and half about the server.
"""

from datetime import datetime
from typing import Any

from msgspec import Struct

from magos.api.kube import JOBS, PERSISTENT_VOLUME_CLAIMS, PODS, Job, PersistentVolumeClaim, Pod
from magos.api.labels import JOB_TYPE, RUN_ID, WORKSPACE, workspace_label
from magos.api.meta import controller_of
from magos.api.names import JobType, volume_claim_name
from magos.api.phases import Phase
from magos.api.project import PROJECTS, Project
from magos.api.workspace import WORKSPACES, CurrentRun, Workspace
from magos.ids import parse_run_id
from magos.reconcilers.effects import JobEvents, JobWarning, RepositorySecretReport, RepositorySecrets
from magos.reconcilers.workspace.settings import WorkspaceSettings
from magos.runtime.decision import Fact, LiveGet, LiveList, Probe, ProbeFailure, Refusal, Request, View

__all__ = ["BY_WORKSPACE", "Observation", "events_probe", "live_probes", "observe", "start_probes", "workspace_index"]

BY_WORKSPACE = "workspace"
"""Index of Jobs and pods that the app must provide: ``workspace_index(namespace, label value)``."""


def workspace_index(namespace: str, label: str) -> str:
    """Return the index value under which Jobs and pods labelled ``mp/workspace=<label>`` are filed."""
    return f"{namespace}/{label}"


class Observation(Struct, frozen=True, kw_only=True):
    """One Workspace, what belongs to it, and the circumstances of this pass.

    ``jobs`` and ``pods`` are all that carry the Workspace's label, whoever owns them. ``entropy`` are four random bytes
    for a run ID, drawn by the app whether or not they are needed. ``secrets`` and ``warnings`` are None where the pass
    before did not ask.
    """

    now: datetime
    settings: WorkspaceSettings
    entropy: bytes
    workspace: Workspace | None
    jobs: tuple[Job, ...] = ()
    pods: tuple[Pod, ...] = ()
    claim: PersistentVolumeClaim | None = None
    project: Project | None = None
    live: bool = False
    stale: bool = False
    secrets: RepositorySecretReport | None = None
    warnings: tuple[JobWarning, ...] | None = None
    refusal: Refusal | None = None
    failure: ProbeFailure | None = None

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
        """Return the pods of the current run's plan or apply, by name."""
        wanted = (self.run_id, str(job_type))
        found = (p for p in self.pods if (p.metadata.labels.get(RUN_ID), p.metadata.labels.get(JOB_TYPE)) == wanted)
        return tuple(sorted(found, key=lambda pod: pod.metadata.name)) if self.run_id else ()

    @property
    def gated(self) -> bool:
        """True while a person has to approve."""
        return self.subject.status.awaiting_approval is not None

    @property
    def phase(self) -> Phase | None:
        """``status.phase``."""
        return self.subject.status.phase


def live_probes(namespace: str, name: str) -> tuple[Probe, ...]:
    """Return the reads that make an observation live."""
    selector = f"{WORKSPACE}={workspace_label(name)}"
    return (
        LiveGet(WORKSPACES, namespace, name),
        LiveList(JOBS, namespace, selector),
        LiveList(PODS, namespace, selector),
    )


def start_probes(workspace: Workspace) -> tuple[Probe, ...]:
    """Return the reads that a start is decided on: the live ones, the Project, the claim and the repository Secret."""
    meta, spec = workspace.metadata, workspace.spec
    return (
        *live_probes(meta.namespace, meta.name),
        LiveGet(PROJECTS, meta.namespace, spec.project_ref.name),
        LiveGet(PERSISTENT_VOLUME_CLAIMS, meta.namespace, volume_claim_name(meta.name)),
        RepositorySecrets(meta.namespace, spec.source.repo_url),
    )


def events_probe(job: Job, pods: tuple[Pod, ...]) -> JobEvents:
    """Return the question for the Warning Events of a Job and its pod."""
    return JobEvents(job.metadata.namespace, job.metadata.uid, pods[0].metadata.uid if pods else "")


def observe(request: Request, view: View, now: datetime, settings: WorkspaceSettings, entropy: bytes) -> Observation:
    """Collect what the Workspace named by ``request`` is judged by."""
    namespace, name = request.namespace, request.name
    facts = [view.fact(probe) for probe in live_probes(namespace, name)]
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
    return _with_surroundings(observation, view, workspace) if workspace is not None else observation


def _with_surroundings(seen: Observation, view: View, workspace: Workspace) -> Observation:
    meta, project_name = workspace.metadata, workspace.spec.project_ref.name
    project = view.fact(LiveGet(PROJECTS, meta.namespace, project_name))
    claim_name = volume_claim_name(meta.name)
    claim = view.fact(LiveGet(PERSISTENT_VOLUME_CLAIMS, meta.namespace, claim_name))
    secrets = view.fact(RepositorySecrets(meta.namespace, workspace.spec.source.repo_url))
    run = workspace.status.current_run or CurrentRun()
    job = seen.job_named(run.apply_job) or seen.job_named(run.plan_job)
    warnings = None
    if job is not None:
        pods = seen.pods_of_run(JobType.APPLY if job.metadata.name == run.apply_job else JobType.PLAN)
        warnings = view.fact(events_probe(job, pods))
    return Observation(
        now=seen.now,
        settings=seen.settings,
        entropy=seen.entropy,
        workspace=workspace,
        jobs=seen.jobs,
        pods=seen.pods,
        claim=_value(claim) if claim else view.get(PERSISTENT_VOLUME_CLAIMS, meta.namespace, claim_name),
        project=_value(project) if project else view.get(PROJECTS, meta.namespace, project_name),
        live=seen.live,
        stale=seen.stale,
        secrets=_value(secrets),
        # Events only explain; a controller that may not read them says less and works on.
        warnings=(_value(warnings) or ()) if warnings else None,
        refusal=seen.refusal,
        failure=seen.failure or _first_failure([project, claim, secrets]),
    )


def _first_failure(facts: list[Fact | None]) -> ProbeFailure | None:
    return next((fact.failure for fact in facts if fact is not None and fact.failure is not None), None)


def _value(fact: Fact | None) -> Any:
    return fact.value if fact is not None else None
