"""Jobs (``batch/v1``): the small observed form for caches, and the full form that is created.

Only the conditions ``Complete`` and ``Failed`` say that a Job ended; its counters do not (a pod may still be running).
"""

from msgspec import Struct

from magos.api.kube.podspec import PodSpec
from magos.api.meta import Kind, ObjectMeta


class JobCondition(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """``Complete``, ``Failed``, ``Suspended``, ``SuccessCriteriaMet``, ``FailureTarget``, ..."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class JobStatus(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Counters and conditions; times are RFC 3339."""

    conditions: tuple[JobCondition, ...] = ()
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int | None = None
    ready: int | None = None
    start_time: str | None = None
    completion_time: str | None = None


class PodTemplateSpec(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """The pod a Job creates."""

    spec: PodSpec
    metadata: ObjectMeta = ObjectMeta()


class JobSpec(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """What a Job runs; ``None`` is left to the API server's default."""

    template: PodTemplateSpec
    backoff_limit: int | None = None
    completions: int | None = None
    parallelism: int | None = None
    pod_replacement_policy: str = ""
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    suspend: bool | None = None


class ObservedJobSpec(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """The few fields of a Job's specification that matter to an onlooker."""

    active_deadline_seconds: int | None = None
    suspend: bool | None = None


class Job(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A Job as observed: without its pod template."""

    metadata: ObjectMeta
    spec: ObservedJobSpec = ObservedJobSpec()
    status: JobStatus = JobStatus()

    def condition(self, type_: str) -> JobCondition | None:
        """Return the condition of that type if its status is ``True``."""
        return next((c for c in self.status.conditions if c.type == type_ and c.status == "True"), None)

    @property
    def complete(self) -> bool:
        """True if the Job ended well."""
        return self.condition("Complete") is not None

    @property
    def failed(self) -> JobCondition | None:
        """The condition that says why the Job failed, None if it did not."""
        return self.condition("Failed")

    @property
    def ended(self) -> bool:
        """True if the Job is finished, well or not."""
        return self.complete or self.failed is not None


class JobManifest(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A Job to be created."""

    metadata: ObjectMeta
    spec: JobSpec


JOBS = Kind(group="batch", version="v1", plural="jobs", name="Job", type=Job)
