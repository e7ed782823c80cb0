"""The model with the actors around it: Job controller, kubelet, user, and short ways to a point of a run."""

from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from magos.api.kube import (
    JOBS,
    PODS,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    Job,
    JobCondition,
    JobStatus,
    Pod,
    PodStatus,
)
from magos.api.labels import JOB_TYPE, RUN_ID
from magos.api.meta import ObjectMeta, OwnerReference
from magos.api.names import JobType
from magos.api.project import PROJECTS, Project
from magos.api.result import Result
from magos.api.workspace import WORKSPACES, CurrentRun
from magos.reconcilers.workspace.evidence.interruptions import MOST_REPETITIONS
from tests.unit.reconcilers.model import NAMESPACE, SHA, Model, workspace_manifest
from tests.unit.reconcilers.results import apply_result, encode, plan_result


class Cluster(Model):
    """The model, alive."""

    def advance(self, **delta: float) -> None:
        self.now += timedelta(**delta)

    def job(self, job_type: JobType) -> Job | None:
        """The Job of the current run."""
        run_id = self.workspace.status.current_run_id
        labels = (run_id, str(job_type))
        found = [
            j for j in self.all(JOBS) if (j.metadata.labels.get(RUN_ID), j.metadata.labels.get(JOB_TYPE)) == labels
        ]
        return found[0] if found else None

    def create_pods(self) -> None:
        """The Job controller: one pod for each unfinished Job."""
        for job in self.all(JOBS):
            name = f"{job.metadata.name}-pod"
            if job.spec.suspend or job.ended or job.metadata.deletion_timestamp or self.get(PODS, name):
                continue
            owner = OwnerReference(
                api_version="batch/v1", kind="Job", name=job.metadata.name, uid=job.metadata.uid, controller=True
            )
            meta = ObjectMeta(name=name, namespace=NAMESPACE, labels=job.metadata.labels, owner_references=(owner,))
            self.put(PODS, Pod(metadata=meta, status=PodStatus(phase="Pending")))

    def pod_of(self, job: Job) -> Pod | None:
        found = self.get(PODS, f"{job.metadata.name}-pod")
        return found if isinstance(found, Pod) else None

    def start(self, job: Job) -> None:
        """The kubelet starts the first container."""
        pod = self.pod_of(job)
        assert pod is not None
        running = ContainerStatus(name="fetch", state=ContainerState(running=ContainerStateRunning()))
        self.put(PODS, replace(pod, status=PodStatus(phase="Running", init_container_statuses=(running,))))

    def end_pod(self, job: Job, message: str, *, exit_code: int = 0) -> None:
        """The pod's ``job`` container ends with a termination message."""
        pod = self.pod_of(job)
        assert pod is not None
        fetched = ContainerStatus(
            name="fetch", state=ContainerState(terminated=ContainerStateTerminated(exit_code=0, reason="Completed"))
        )
        ended = ContainerStatus(
            name="job",
            state=ContainerState(terminated=ContainerStateTerminated(exit_code=exit_code, message=message)),
        )
        status = PodStatus(
            phase="Succeeded" if exit_code == 0 else "Failed",
            init_container_statuses=(fetched,),
            container_statuses=(ended,),
        )
        self.put(PODS, replace(pod, status=status))
        if pod.metadata.deletion_timestamp is not None:
            self.remove(PODS, pod.metadata.name)

    def end_job(self, job: Job, condition: str, reason: str = "", message: str = "") -> None:
        """The Job controller sets the final condition."""
        current = self.get(JOBS, job.metadata.name)
        if current is None:
            return
        end = JobCondition(type=condition, status="True", reason=reason, message=message)
        self.put(JOBS, replace(current, status=JobStatus(conditions=(end,))))

    def finish_jobs(self) -> None:
        """The Job controller reacts to ended pods."""
        for job in self.all(JOBS):
            pod = self.pod_of(job)
            if not job.ended and pod is not None and pod.ended:
                good = pod.status.phase == "Succeeded"
                self.end_job(job, "Complete" if good else "Failed", "" if good else "BackoffLimitExceeded")

    def run_job(self, job_type: JobType, result: Result | None, *, exit_code: int | None = None) -> None:
        """Create the pod, start it, end it with a result, end the Job; reconciling in between."""
        self.create_pods()
        job = self.job(job_type)
        assert job is not None
        self.start(job)
        self.settle()
        code = exit_code if exit_code is not None else (result.exit_code if result is not None else 0)
        self.end_pod(job, encode(result) if result is not None else "", exit_code=code)
        self.finish_jobs()
        self.settle()

    def exhaust_repetitions(self) -> None:
        """As if infrastructure had ended the plans right before this one so often that it is the last in a row."""
        workspace = self.workspace
        run = replace(workspace.status.current_run or CurrentRun(), interruptions=MOST_REPETITIONS)
        self.put(WORKSPACES, replace(workspace, status=replace(workspace.status, current_run=run)))

    # --- a short way to a point -----------------------------------------------------------------------------------

    def add_workspace(self, **spec: Any) -> None:
        self.put(WORKSPACES, workspace_manifest(**spec))
        self.settle()

    def to_planning(self, *, revision: str = SHA, **spec: Any) -> Job:
        """A granted Workspace with a plan Job whose pod runs."""
        self.put(PROJECTS, Project(metadata=ObjectMeta(name="platform", namespace=NAMESPACE)))
        self.put(WORKSPACES, workspace_manifest(**spec))
        if revision:
            self.annotate(detected_revision=revision)
        self.settle()
        self.annotate(execution_allowed="true")
        self.settle()
        self.create_pods()
        job = self.job(JobType.PLAN)
        assert job is not None
        self.start(job)
        self.settle()
        return job

    def to_planned(self, **spec: Any) -> None:
        """... whose plan found changes, seen but not yet followed by an apply."""
        self.to_planning(**spec)
        self.annotate(execution_allowed=None)
        self.run_job_end(JobType.PLAN, plan_result(self))

    def run_job_end(self, job_type: JobType, result: Result | None, *, exit_code: int | None = None) -> None:
        """End the pod and the Job that run."""
        job = self.job(job_type)
        assert job is not None
        code = exit_code if exit_code is not None else (result.exit_code if result is not None else 0)
        self.end_pod(job, encode(result) if result is not None else "", exit_code=code)
        self.finish_jobs()
        self.settle()

    def to_applying(self, **spec: Any) -> Job:
        """... and whose apply pod runs."""
        self.to_planning(**spec)
        self.run_job_end(JobType.PLAN, plan_result(self))
        self.create_pods()
        job = self.job(JobType.APPLY)
        assert job is not None
        self.start(job)
        self.settle()
        return job

    def to_applied(self, **spec: Any) -> None:
        self.to_applying(**spec)
        self.run_job_end(JobType.APPLY, apply_result(self))
