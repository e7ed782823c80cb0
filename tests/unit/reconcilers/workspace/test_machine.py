"""The laws of the Workspace's reconciler, over worlds that hypothesis makes up.

While anybody does anything in any order, with caches that lag and processes that die between two steps:

* the reconciler is total and deterministic, and follows only listed transitions (the model asserts it on every write);
* no Job is created without permission on the live object, beside a pod that has not ended, or with a ServiceAccount
  that is not labelled for runs at that moment (the model asserts it);
* a run has at most one plan Job and one apply Job; an apply names exactly the digest and the commit of its plan;
* nothing is applied without the approval its plan needs;
* when everybody stops, the world comes to rest, and being at rest means that nothing more is decided.
"""

import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from magos.api.annotations import APPROVED
from magos.api.kube import CONFIG_MAPS, JOBS, PERSISTENT_VOLUME_CLAIMS, PODS, Job
from magos.api.labels import FINALIZER, JOB_TYPE, RUN_ID
from magos.api.meta import ObjectMeta
from magos.api.names import JobType
from magos.api.phases import Phase
from magos.api.project import PROJECTS, Project, ProjectSpec, ProjectValidation
from magos.api.reasons import ReferenceProblem
from magos.api.result import Violation, ViolationAction
from magos.api.selectors import LabelSelector
from magos.api.status import NameReference
from magos.api.validatingpolicy import VALIDATING_POLICIES, ValidatingPolicy, content_digest
from magos.api.variableset import (
    VARIABLESETS,
    SourceKind,
    UnresolvedReference,
    VariableSet,
    VariableSetSpec,
    VariableSetStatus,
    VariableSource,
)
from magos.api.workspace import WORKSPACES
from magos.ids import digest_of
from magos.reconcilers.workspace.evidence.situations import Situation
from magos.reconcilers.workspace.machine import TABLE, reconcile
from magos.reconcilers.workspace.observation import Observation
from magos.reconcilers.workspace.situation import NO_RUN
from magos.runtime.decision import QueryFailure
from tests.unit.reconcilers.cluster import Cluster
from tests.unit.reconcilers.model import LATER_SHA, NAME, NAMESPACE, OTHER_SHA, SETTINGS, SHA, Crash, workspace_manifest
from tests.unit.reconcilers.results import apply_result as good_apply
from tests.unit.reconcilers.results import encode, environment_of, failed, plan_result
from tests.unit.reconcilers.variablesets import literal, secret

SHAS = (SHA, OTHER_SHA, LATER_SHA)
CACHED = (WORKSPACES, JOBS, PODS, PERSISTENT_VOLUME_CLAIMS, PROJECTS, VARIABLESETS)
SETS = (NameReference(name="inputs"),)
TEAM = LabelSelector(match_labels={"team": "a"})


def variable_set(version: int, *, validated: bool = True, resolved: bool = True) -> VariableSet:
    """One variable from a Secret, in a version of its content."""
    source = VariableSource(kind=SourceKind.SECRET, name="db", content_version=str(version))
    missing = UnresolvedReference(kind=SourceKind.SECRET, name="db", key="k", reason=ReferenceProblem.KEY_NOT_FOUND)
    status = VariableSetStatus(
        phase=Phase.READY if resolved else Phase.FAILED,
        observed_generation=1 if validated else 0,
        sources=(source,),
        unresolved_references=() if resolved else (missing,),
    )
    meta = ObjectMeta(name="inputs", namespace=NAMESPACE, generation=1)
    variables = (secret("password", "db", "k"), literal("size", "small"))
    return VariableSet(metadata=meta, spec=VariableSetSpec(variables=variables), status=status)


class Workspaces(RuleBasedStateMachine):
    """One Workspace, its controllers, Kubernetes and people."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Cluster()
        self.planned: dict[str, tuple[str, str]] = {}
        self.needs_approval: set[str] = set()
        self.approved: set[str] = set()

    @initialize(auto_apply=st.booleans(), discard=st.booleans(), inputs=st.sampled_from(["none", "own", "inherited"]))
    def begin(self, auto_apply: bool, discard: bool, inputs: str) -> None:
        self.model.put(VARIABLESETS, variable_set(1))
        spec = ProjectSpec(variable_set_ref=SETS if inputs == "inherited" else ())
        self.model.put(PROJECTS, Project(metadata=ObjectMeta(name="platform", namespace=NAMESPACE), spec=spec))
        own = SETS if inputs == "own" else ()
        self.model.put(
            WORKSPACES, workspace_manifest(auto_apply=auto_apply, discard_stale_plan=discard, variable_set_ref=own)
        )

    @property
    def there(self) -> bool:
        return self.model.get(WORKSPACES, NAME) is not None

    # --- controllers ----------------------------------------------------------------------------------------------

    @rule(times=st.integers(1, 3))
    def work(self, times: int) -> None:
        for _ in range(times):
            self.model.step()

    @rule(how=st.sampled_from(["good", "good", "empty", "audit", "failed"]))
    def things_go_their_way(self, how: str) -> None:
        """Everybody does what comes next."""
        self.model.advance(seconds=4)
        self.orchestrate()
        self.work(2)
        self.job_controller()
        self.pod_ends(how)
        self.kubelet_starts()
        self.job_controller()
        self.work(2)

    @rule(steps=st.integers(0, 2))
    def die(self, steps: int) -> None:
        self.model.crash_after = steps
        try:
            self.model.step()
        except Crash:
            pass
        finally:
            self.model.crash_after = None

    @rule()
    def orchestrate(self) -> None:
        self.model.step(project=True)

    @rule(kinds=st.sets(st.sampled_from(CACHED)))
    def lag(self, kinds: set[Any]) -> None:
        self.model.lagging = {kind.resource for kind in kinds}

    @rule()
    def catch_up(self) -> None:
        self.model.lagging = set()

    # --- Kubernetes -----------------------------------------------------------------------------------------------

    @rule()
    def job_controller(self) -> None:
        self.model.create_pods()
        self.model.finish_jobs()

    @rule()
    def kubelet_starts(self) -> None:
        for job in self.model.all(JOBS):
            pod = self.model.pod_of(job)
            if pod is not None and pod.status.phase == "Pending":
                self.model.start(job)

    @rule(how=st.sampled_from(["good", "good", "good", "empty", "audit", "failed", "silent", "killed"]))
    def pod_ends(self, how: str) -> None:
        for job in self.model.all(JOBS):
            pod = self.model.pod_of(job)
            if pod is None or pod.status.phase != "Running" or not self.there:
                continue
            run_id, job_type = job.metadata.labels[RUN_ID], JobType(job.metadata.labels[JOB_TYPE])
            self._end(how, job, run_id, job_type)

    def _end(self, how: str, job: Any, run_id: str, job_type: JobType) -> None:
        model = self.model
        if how in ("silent", "killed"):
            model.end_pod(job, "", exit_code=0 if how == "silent" else 137)
        elif how == "failed":
            report = failed(model, job_type, "PlanFailed" if job_type is JobType.PLAN else "ApplyFailed", "broken")
            model.end_pod(job, encode(self._of(report, run_id)), exit_code=1)
        elif job_type is JobType.APPLY:
            model.end_pod(job, encode(self._of(good_apply(model), run_id)))
        else:
            revision = self._given_revision(job.metadata.name) or OTHER_SHA
            digest = digest_of(run_id.encode())
            audit = Violation(policy="p", message="m", action=ViolationAction.AUDIT)
            changes: dict[str, Any] = {
                "revision": revision,
                "plan_digest": digest,
                "has_changes": how != "empty",
                "violations": (audit,) if how == "audit" else (),
            }
            model.end_pod(job, encode(self._of(plan_result(model, **changes), run_id)))
            self.planned[run_id] = (revision, digest)
            if how == "audit" or not model.workspace.spec.auto_apply:
                self.needs_approval.add(run_id)

    def _given_revision(self, name: str) -> str:
        manifest = next(each for each in self.model.created_jobs if each.metadata.name == name)
        variable = environment_of(manifest, "fetch").get("MAGOS_REVISION")
        return (variable.value or "") if variable is not None else ""

    @staticmethod
    def _of(result: Any, run_id: str) -> Any:
        return replace(result, run_id=run_id)

    # --- people ---------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.there)
    @rule(sha=st.sampled_from(SHAS))
    def commit(self, sha: str) -> None:
        self.model.annotate(detected_revision=sha)

    @precondition(lambda self: self.there)
    @rule(request=st.sampled_from(["one", "two"]))
    def request(self, request: str) -> None:
        self.model.annotate(reconcile_request=request)

    @precondition(lambda self: self.there)
    @rule(value=st.sampled_from(["true", None, "True"]))
    def permit(self, value: str | None) -> None:
        self.model.annotate(execution_allowed=value)

    @precondition(lambda self: self.there)
    @rule(account=st.sampled_from(["magos-job", "other"]), auto=st.booleans())
    def edit(self, account: str, auto: bool) -> None:
        self.model.edit(service_account_name=account, auto_apply=auto)

    @rule(account=st.sampled_from(["magos-job", "other"]), label=st.sampled_from(["true", "true", None, "false"]))
    def label_an_account(self, account: str, label: str | None) -> None:
        self.model.put_account(account, label)

    @rule(version=st.integers(1, 3), validated=st.booleans(), resolved=st.sampled_from([True, True, False]))
    def rotate(self, version: int, validated: bool, resolved: bool) -> None:
        self.model.put(VARIABLESETS, variable_set(version, validated=validated, resolved=resolved))

    @rule()
    def lose_the_set(self) -> None:
        self.model.remove(VARIABLESETS, "inputs")

    @rule(validated=st.booleans(), inherits=st.booleans())
    def edit_the_project(self, validated: bool, inherits: bool) -> None:
        found = self.model.get(PROJECTS, "platform")
        validation = ProjectValidation(policy_selector=TEAM) if validated else None
        spec = ProjectSpec(variable_set_ref=SETS if inherits else (), validation=validation)
        if found is not None and found.spec != spec:
            self.model.put(PROJECTS, replace(found, spec=spec))

    @rule(note=st.sampled_from(["strict", "lax"]), listable=st.sampled_from([True, True, False]))
    def policies(self, note: str, listable: bool) -> None:
        spec = {"evaluation": {"mode": "JSON"}, "validations": [{"message": note}]}
        meta = ObjectMeta(name="cost", labels={"team": "a"})
        self.model.put(VALIDATING_POLICIES, ValidatingPolicy(metadata=meta, spec=spec))
        kind = VALIDATING_POLICIES.resource
        self.model.failing_kinds = {} if listable else {kind: QueryFailure(reason="Forbidden", message="no")}

    @precondition(lambda self: self.there)
    @rule()
    def approve(self) -> None:
        status = self.model.workspace.status
        self.model.annotate(approved=status.current_run_id or None)
        waiting = status.awaiting_approval
        if waiting is not None and waiting.run_id == status.current_run_id:
            self.approved.add(waiting.run_id)

    @rule(which=st.integers(0, 3))
    def delete_a_job(self, which: int) -> None:
        """... that status has seen. One that vanishes without a trace before that is created again; the marker on the
        volume then keeps the tool from running twice."""
        jobs = self.model.all(JOBS)
        if which < len(jobs) and self._is_known(jobs[which]):
            self.model.user_deletes(JOBS, jobs[which].metadata.name)

    def _is_known(self, job: Job) -> bool:
        if not self.there:
            return True
        status = self.model.workspace.status
        current = job.metadata.labels[RUN_ID] == status.current_run_id
        waiting = Phase.PENDING if job.metadata.labels[JOB_TYPE] == JobType.PLAN else Phase.PLANNED
        with_violations = waiting is Phase.PLANNED and status.phase is Phase.PLANNED_WITH_VIOLATIONS
        return not (current and (status.phase is waiting or with_violations))

    @precondition(lambda self: self.there)
    @rule(really=st.sampled_from([False, False, False, True]))
    def delete_the_workspace(self, really: bool) -> None:
        if really:
            self.model.user_deletes(WORKSPACES, NAME)

    @rule(seconds=st.sampled_from([1, 5, 60, 200, 700]))
    def time_passes(self, seconds: int) -> None:
        self.model.advance(seconds=seconds)

    # --- laws -----------------------------------------------------------------------------------------------------

    @invariant()
    def at_most_one_pod_works(self) -> None:
        assert len([pod for pod in self.model.all(PODS) if not pod.ended]) <= 1

    @invariant()
    def each_job_is_created_once(self) -> None:
        names = [manifest.metadata.name for manifest in self.model.created_jobs]
        assert len(names) == len(set(names))
        runs = [(m.metadata.labels[RUN_ID], m.metadata.labels[JOB_TYPE]) for m in self.model.created_jobs]
        assert len(runs) == len(set(runs))

    @invariant()
    def an_apply_is_of_its_own_approved_plan(self) -> None:
        for manifest in self.model.created_jobs:
            if manifest.metadata.labels[JOB_TYPE] != JobType.APPLY:
                continue
            run_id, given = manifest.metadata.labels[RUN_ID], environment_of(manifest, "terraform")
            revision, digest = self.planned[run_id]
            assert (given["MAGOS_REVISION"].value, given["MAGOS_PLAN_DIGEST"].value) == (revision, digest)
            assert run_id not in self.needs_approval or run_id in self.approved

    @invariant()
    def an_apply_gets_no_variable_that_its_plan_did_not_get(self) -> None:
        given: dict[str, set[str]] = {}
        for manifest in self.model.created_jobs:
            names = {name for name in environment_of(manifest, "terraform") if name.startswith("TF_VAR_")}
            assert names <= given.setdefault(manifest.metadata.labels[RUN_ID], names)

    @invariant()
    def a_pod_that_mounts_policies_finds_those_of_its_digest(self) -> None:
        for manifest in self.model.created_jobs:
            wanted = environment_of(manifest, "job").get("MAGOS_POLICIES_DIGEST")
            job = self.model.get(JOBS, manifest.metadata.name)
            if wanted is None or job is None or job.ended or job.metadata.deletion_timestamp or not self.there:
                continue
            mounted = [each.config_map for each in manifest.spec.template.spec.volumes if each.config_map is not None]
            stored = self.model.get(CONFIG_MAPS, mounted[0].name)
            assert content_digest({name: text.encode() for name, text in stored.data.items()}) == wanted.value

    def teardown(self) -> None:
        """Everybody stops: the world comes to rest, and at rest nothing more is decided."""
        model = self.model
        model.lagging = set()
        for _ in range(12):
            model.settle()
            model.create_pods()
            for job in model.all(JOBS):
                pod = model.pod_of(job)
                if pod is not None and pod.status.phase == "Pending":
                    model.start(job)
            self._finish_pods()
            model.finish_jobs()
        model.settle()
        if not self.there:
            return
        status = model.workspace.status
        assert status.phase not in (Phase.PLANNING, Phase.APPLYING, Phase.DELETING), (status, model.history)
        decision = model.decide()
        assert (decision.status, decision.effects, decision.events) == (None, (), ())
        if status.phase in (Phase.APPLIED, Phase.FAILED, Phase.VALIDATION_FAILED):
            assert APPROVED not in model.workspace.metadata.annotations

    def _finish_pods(self) -> None:
        for pod in self.model.all(PODS):
            if pod.ended:
                continue
            name = pod.metadata.name.removesuffix("-pod")
            job = self.model.get(JOBS, name)
            if job is not None and pod.status.phase == "Running" and self.there:
                self._end("good", job, pod.metadata.labels[RUN_ID], JobType(pod.metadata.labels[JOB_TYPE]))
            elif job is None:
                self.model.remove(PODS, pod.metadata.name)  # its Job is gone: the kubelet stops it


Workspaces.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestWorkspaces = Workspaces.TestCase


@pytest.mark.parametrize("situation", list(Situation))
def test_every_situation_is_listed_for_some_phase(situation: Situation) -> None:
    assert [key for key in TABLE if key[1] is situation]


def test_a_workspace_without_run_is_always_handled() -> None:
    phases = [None, *Phase]
    for phase, annotated in itertools.product(phases, [{}, {"magosproject.io/execution-allowed": "true"}]):
        model = Cluster()
        item = workspace_manifest()
        item = replace(item, status=replace(item.status, phase=phase, reason="Whatever"))
        meta = replace(item.metadata, annotations=annotated, finalizers=(FINALIZER,))
        item = replace(item, metadata=meta)
        seen = Observation(now=model.now, settings=SETTINGS, entropy=bytes(4), workspace=item)
        for live in (False, True):
            reconcile(replace(seen, live=live))
    assert NO_RUN == ""
