"""The Job and the claim that the workspace controller creates, before the real API server (spec §5.4)."""

from typing import Any

import msgspec
import pytest

from magos.adapters.podconfig import parse_pod_config
from magos.api.meta import ObjectMeta
from magos.api.names import JobType
from magos.api.status import NameReference
from magos.api.workspace import Source, Terraform, Workspace, WorkspaceSpec
from magos.ids import digest_of
from magos.reconcilers.effects import RepositorySecretReport
from magos.reconcilers.workspace.pod.environment import JobPlan
from magos.reconcilers.workspace.pod.manifest import claim_manifest, job_manifest
from magos.reconcilers.workspace.pod.record import JobRecord
from magos.reconcilers.workspace.pod.settings import WorkspaceSettings
from tests.envtest.cluster import Cluster

RUN = "20260102T030405-0a1b2c3d"
POD_CONFIG = """
resources: {requests: {cpu: 100m}, limits: {memory: 1Gi}}
tolerations: [{key: dedicated, operator: Exists}]
env: [{name: HTTPS_PROXY, value: "http://proxy"}]
envFrom: [{secretRef: {name: cloud, optional: true}}]
volumes: [{name: keys, configMap: {name: release-keys}}]
volumeMounts: [{name: keys, mountPath: /etc/magos/keys, readOnly: true}]
"""
SETTINGS = WorkspaceSettings(job_image="magos-job:test", pod=parse_pod_config(POD_CONFIG, "pod.yaml"))


def workspace(namespace: str) -> Workspace:
    spec = WorkspaceSpec(
        project_ref=NameReference(name="platform"),
        source=Source(repo_url="https://git.example.com/$(demo).git", target_revision="main"),
        terraform=Terraform(version="1.9.8"),
    )
    return Workspace(metadata=ObjectMeta(name="network", namespace=namespace, uid="0a1b2c3d"), spec=spec)


def manifest(namespace: str, job_type: JobType) -> Any:
    plan = JobPlan(
        job_type=job_type,
        run_id=RUN,
        revision="a" * 40,
        plan_digest=digest_of(b"") if job_type is JobType.APPLY else "",
        secret=RepositorySecretReport(names=("creds",), keys=("password", "caBundle")),
    )
    record = JobRecord(
        run_id=RUN,
        job_type=job_type,
        trigger="manual",
        project="platform",
        target_revision="main",
        source_key="0123456789abcdef",
        spec_hash="x",
    )
    return plain(job_manifest(workspace(namespace), plan, record, SETTINGS))


def plain(item: object) -> Any:
    return msgspec.json.decode(msgspec.json.encode(item))


@pytest.mark.parametrize("job_type", list(JobType))
def test_job_and_pod_are_admitted_strictly_and_under_the_restricted_level(
    control_plane: Cluster, namespace: str, job_type: JobType
) -> None:
    level = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    control_plane.kubectl.run(
        "patch", "namespace", namespace, "--type=merge", f"--patch={msgspec.json.encode(level).decode()}"
    )
    control_plane.kubectl.run("create", "serviceaccount", "magos-job", f"--namespace={namespace}")
    job = manifest(namespace, job_type)
    strict = "?dryRun=All&fieldValidation=Strict"
    created = control_plane.request("POST", f"/apis/batch/v1/namespaces/{namespace}/jobs{strict}", job)
    assert created["spec"]["podReplacementPolicy"] == "Failed"
    template = job["spec"]["template"]
    pod = {**template, "metadata": {**template["metadata"], "name": "network-plan"}}
    admitted = control_plane.request("POST", f"/api/v1/namespaces/{namespace}/pods{strict}", pod)
    tokens = [
        container["name"]
        for container in (*admitted["spec"]["initContainers"], *admitted["spec"]["containers"])
        if any("serviceaccount" in mount["mountPath"] for mount in container["volumeMounts"])
    ]
    assert tokens == ["terraform"]  # the server has mounted none of its own accord


def test_the_claim_is_admitted_strictly(control_plane: Cluster, namespace: str) -> None:
    claim = plain(claim_manifest(workspace(namespace), SETTINGS))
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims?dryRun=All&fieldValidation=Strict"
    assert control_plane.request("POST", path, claim)["spec"]["accessModes"] == ["ReadWriteOnce"]
