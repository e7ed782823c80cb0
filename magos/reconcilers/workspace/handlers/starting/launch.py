"""The effects that start one half of a run: the Job, and before a plan the ConfigMap with its policies (spec §6.2.6).

A Job is created only if the Workspace is still at the version that was judged (invariant I4).
"""

from magos.api.kube import CONFIG_MAPS, JOBS
from magos.api.labels import WORKSPACE
from magos.api.meta import controller_of
from magos.api.names import JobType
from magos.api.timestamps import format_time
from magos.api.triggers import Trigger
from magos.api.workspace import WORKSPACES, CurrentRun
from magos.reconcilers.effects import RepositorySecretReport
from magos.reconcilers.workspace.inputs.annotated import read_annotations
from magos.reconcilers.workspace.inputs.policies import SelectedPolicies, policies_config_map
from magos.reconcilers.workspace.inputs.variables import Composition, apply_environment, plan_environment
from magos.reconcilers.workspace.observation import Observation
from magos.reconcilers.workspace.pod.environment import JobPlan
from magos.reconcilers.workspace.pod.manifest import IDENTITY, job_manifest
from magos.reconcilers.workspace.pod.record import JobRecord
from magos.runtime.decision import Create, Delete, Effect, Unchanged


def create_plan(seen: Observation, run: CurrentRun, inputs: Composition, policies: SelectedPolicies | None) -> Effect:
    """Return the creation of the plan Job of ``run``."""
    plan = JobPlan(
        job_type=JobType.PLAN,
        run_id=seen.run_id,
        revision=run.revision,
        log_level=read_annotations(seen.subject.metadata.annotations).log_level,
        grace_seconds=seen.settings.pod.termination_grace_period_seconds,
        secret=seen.secrets or RepositorySecretReport(),
        passed_on=seen.settings.runner_environment,
        variables=plan_environment(inputs),
        policies=policies,
    )
    return _create(seen, run, plan)


def create_apply(seen: Observation) -> Effect:
    """Return the creation of the apply Job; what has changed of the variables since the plan is left out."""
    run = seen.run
    plan = JobPlan(
        job_type=JobType.APPLY,
        run_id=seen.run_id,
        revision=run.revision,
        plan_digest=run.plan_digest,
        log_level=read_annotations(seen.subject.metadata.annotations).log_level,
        grace_seconds=seen.settings.pod.termination_grace_period_seconds,
        secret=seen.secrets or RepositorySecretReport(),
        passed_on=seen.settings.runner_environment,
        variables=apply_environment(seen.project_sets, seen.own_sets, run.variables),
    )
    return _create(seen, run, plan)


def store_policies(seen: Observation, policies: SelectedPolicies | None) -> tuple[Effect, ...]:
    """Return the creation of the ConfigMap that the plan pod mounts, and the removal of those of earlier runs.

    Nothing runs when a plan is started, so nobody reads the earlier ones any more.
    """
    if policies is None:
        return ()
    wanted = policies_config_map(seen.subject, policies)
    name = wanted.metadata.name if wanted is not None else ""
    meta = seen.subject.metadata
    owners = ((each, controller_of(each.metadata)) for each in seen.stored_policies)
    ours = [each for each, owner in owners if owner is not None and owner.uid == meta.uid]
    old = tuple(
        Delete(kind=CONFIG_MAPS, namespace=meta.namespace, name=each.metadata.name, uid=each.metadata.uid)
        for each in ours
        if each.metadata.name != name and each.metadata.deletion_timestamp is None
    )
    there = any(each.metadata.name == name and each.metadata.deletion_timestamp is None for each in ours)
    if wanted is None or there:
        return old
    return (*old, Create(kind=CONFIG_MAPS, manifest=wanted, identity=(WORKSPACE,)))


def _create(seen: Observation, run: CurrentRun, plan: JobPlan) -> Effect:
    workspace, meta = seen.subject, seen.subject.metadata
    record = JobRecord(
        run_id=plan.run_id,
        job_type=plan.job_type,
        trigger=str(workspace.status.current_run_trigger or Trigger.UNKNOWN),
        project=workspace.spec.project_ref.name,
        target_revision=workspace.spec.source.target_revision,
        source_key=run.source_key,
        spec_hash=run.spec_hash,
        created_at=format_time(seen.now),
        revision=run.revision,
        request=run.request,
        principal=run.principal,
        plan_digest=plan.plan_digest,
        variables_fingerprint=run.variables_fingerprint,
        similar_secrets=plan.secret.similar,
    )
    manifest = job_manifest(workspace, plan, record, seen.settings)
    judged = Unchanged(
        kind=WORKSPACES, namespace=meta.namespace, name=meta.name, resource_version=meta.resource_version
    )
    return Create(kind=JOBS, manifest=manifest, identity=IDENTITY, unchanged=judged)
