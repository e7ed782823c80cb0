"""Whatever the API server refuses, from whatever moment on: the controllers say so and come to rest (I15, I17)."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from magos.api.kube import CONFIG_MAPS, JOBS, PERSISTENT_VOLUME_CLAIMS
from magos.api.meta import Kind, ObjectMeta
from magos.api.names import JobType
from magos.api.project import PROJECTS, Project
from magos.api.selectors import LabelSelector
from magos.api.validatingpolicy import VALIDATING_POLICIES, ValidatingPolicy
from magos.api.workspace import WORKSPACES, Validation
from magos.runtime.decision import AddFinalizer, Create, Delete, PatchAnnotations, RemoveFinalizer
from tests.unit.reconcilers.cluster import Cluster
from tests.unit.reconcilers.model import NAME, NAMESPACE, OTHER_SHA, SHA, workspace_manifest
from tests.unit.reconcilers.results import apply_result, encode, plan_result

REFUSED: dict[str, tuple[type[Any], Kind[Any]]] = {
    "annotations of Workspaces": (PatchAnnotations, WORKSPACES),
    "annotations of Jobs": (PatchAnnotations, JOBS),
    "deletion of Jobs": (Delete, JOBS),
    "deletion of ConfigMaps": (Delete, CONFIG_MAPS),
    "creation of Jobs": (Create, JOBS),
    "creation of ConfigMaps": (Create, CONFIG_MAPS),
    "creation of volume claims": (Create, PERSISTENT_VOLUME_CLAIMS),
    "finalizer": (AddFinalizer, WORKSPACES),
    "release": (RemoveFinalizer, WORKSPACES),
}
POLICY = {"evaluation": {"mode": "JSON"}}

Action = Callable[[Cluster], None]


def policy(label: str) -> Action:
    def act(cluster: Cluster) -> None:
        meta = ObjectMeta(name="p", labels={"label": label})
        old = cluster.all(VALIDATING_POLICIES)
        meta = replace(meta, uid=old[0].metadata.uid) if old else meta
        cluster.put(VALIDATING_POLICIES, ValidatingPolicy(metadata=meta, spec={**POLICY, "matchConditions": [label]}))

    return act


def create(cluster: Cluster) -> None:
    cluster.put(PROJECTS, Project(metadata=ObjectMeta(name="platform", namespace=NAMESPACE)))
    everything = Validation(policy_selector=LabelSelector())
    cluster.put(WORKSPACES, workspace_manifest(auto_apply=False, validation=everything))
    cluster.annotate(detected_revision=SHA)


def grant(cluster: Cluster) -> None:
    cluster.annotate(execution_allowed="true")


def start(cluster: Cluster) -> None:
    cluster.create_pods()
    for job in cluster.all(JOBS):
        if not job.ended:
            cluster.start(job)


def end(job_type: JobType) -> Action:
    def act(cluster: Cluster) -> None:
        job = cluster.job(job_type)
        if job is None or job.ended or cluster.pod_of(job) is None:
            return
        result = plan_result(cluster) if job_type is JobType.PLAN else apply_result(cluster)
        cluster.end_pod(job, encode(result))
        cluster.finish_jobs()

    return act


def approve(cluster: Cluster) -> None:
    cluster.annotate(approved=cluster.workspace.status.current_run_id)


def advance(**delta: float) -> Action:
    return lambda cluster: cluster.advance(**delta)


def delete(cluster: Cluster) -> None:
    cluster.user_deletes(WORKSPACES, NAME)


PLAN = (grant, start, end(JobType.PLAN))
RUN = (*PLAN, approve, start, end(JobType.APPLY))
STORIES: dict[str, tuple[Action, ...]] = {
    "runs": (policy("a"), create, *RUN, policy("b"), advance(minutes=3), *RUN),
    "commits": (
        create,
        *PLAN,
        lambda cluster: cluster.edit(service_account_name="other"),
        *RUN,
        lambda cluster: cluster.annotate(detected_revision=OTHER_SHA),
        grant,
        start,
        lambda cluster: cluster.edit(service_account_name="another"),
        end(JobType.PLAN),
    ),
    "no start": (create, grant, advance(minutes=11), advance(minutes=3), grant, advance(minutes=11)),
    "deleted while planning": (create, grant, start, delete, end(JobType.PLAN)),
    "deleted while applying": (create, *PLAN, approve, start, delete, end(JobType.APPLY)),
    "deleted at rest": (create, *RUN, delete),
}


def points() -> list[Any]:
    return [pytest.param(story, refused, id=f"{story}, {refused}") for story in STORIES for refused in REFUSED]


@pytest.mark.parametrize(("story", "refused"), points())
def test_a_refusal_from_any_moment_on_is_told_and_loops_nowhere(story: str, refused: str) -> None:
    type_, kind = REFUSED[refused]
    for point in range(len(STORIES[story])):
        cluster = Cluster()
        for number, action in enumerate(STORIES[story]):
            if number == point:
                cluster.refusals.append((type_, kind.resource, 403, "Forbidden", "webhook says no"))
            if number == 0 or cluster.get(WORKSPACES, NAME) is not None or not cluster.state.get(WORKSPACES.resource):
                _act(cluster, action)
        _end(cluster)


def _act(cluster: Cluster, action: Action) -> None:
    try:
        action(cluster)
    except AssertionError:
        return  # what the action is about does not exist in this story
    cluster.settle()


def _end(cluster: Cluster) -> None:
    """Nothing is written at rest, however often it is looked at."""
    if cluster.get(WORKSPACES, NAME) is None:
        return
    before = cluster.versions
    cluster.step()
    cluster.step()
    assert cluster.versions == before
