"""The control plane of the one-machine mode is a real one: server, controllers, accounts, audit log, clean end."""

import json
import os
import signal
import socket
from pathlib import Path

import anyio
import msgspec
import pytest

from magos.errors import MagosError
from magos.local.controlplane.kubectl import Kubectl
from magos.local.controlplane.plane import ControlPlane
from magos.local.processes import ProcessFailed
from magos.local.programs.assets import ControlPlaneAssets, control_plane_assets
from magos.local.programs.progress import LineProgress
from tests.envtest.audit import count_by_user_and_verb
from tests.envtest.cluster import Cluster, asset_settings, eventually

_JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "once"},
    "spec": {
        "template": {
            "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none.invalid/none:1"}]}
        }
    },
}


def test_the_server_answers_kubectl_with_a_release_version(kubectl: Kubectl) -> None:
    version = json.loads(kubectl.run("version", "--output=json"))["serverVersion"]
    assert version["gitVersion"].startswith("v1.")
    assert version["minor"] == version["gitVersion"].split(".")[1]


def test_the_job_controller_makes_the_pod_of_a_job(control_plane: Cluster, namespace: str) -> None:
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    eventually(lambda: "default" in _names(control_plane, f"/api/v1/namespaces/{namespace}/serviceaccounts"))
    job = control_plane.request("POST", jobs, _JOB)
    pods = eventually(lambda: control_plane.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"])
    assert [owner["uid"] for pod in pods for owner in pod["metadata"]["ownerReferences"]] == [job["metadata"]["uid"]]
    assert pods[0]["status"]["phase"] == "Pending"


def test_a_deleted_job_takes_its_pods_along(control_plane: Cluster, namespace: str) -> None:
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    pods = f"/api/v1/namespaces/{namespace}/pods"
    eventually(lambda: "default" in _names(control_plane, f"/api/v1/namespaces/{namespace}/serviceaccounts"))
    control_plane.request("POST", jobs, _JOB)
    eventually(lambda: _names(control_plane, pods))
    control_plane.request("DELETE", f"{jobs}/once?propagationPolicy=Background")
    eventually(lambda: not _names(control_plane, pods))


def test_a_deleted_namespace_is_emptied_and_goes_away_even_with_a_claim_in_it(control_plane: Cluster) -> None:
    control_plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": "short-lived"}})
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    made = control_plane.request("POST", "/api/v1/namespaces/short-lived/persistentvolumeclaims", claim)
    assert made["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    control_plane.request("DELETE", "/api/v1/namespaces/short-lived")
    eventually(lambda: "short-lived" not in _names(control_plane, "/api/v1/namespaces"))


def test_a_service_account_has_the_rights_that_rbac_gives_it_and_no_other(
    control_plane: Cluster, namespace: str, tmp_path: Path
) -> None:
    control_plane.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "reader"}})
    admin = control_plane.kubectl
    admin.run("-n", namespace, "create", "role", "read", "--verb=get,list", "--resource=configmaps")
    admin.run("-n", namespace, "create", "rolebinding", "read", "--role=read", f"--serviceaccount={namespace}:reader")
    config = control_plane.service_account_kubeconfig(namespace, "reader", tmp_path / "reader.kubeconfig")
    reader = Kubectl(admin.program, config)
    assert reader.run("auth", "can-i", "list", "configmaps").strip() == "yes"
    refused = reader.completed(["get", "secrets"])
    assert refused.returncode == 1
    assert f'User "system:serviceaccount:{namespace}:reader" cannot list resource "secrets"' in refused.stderr


def test_the_audit_log_counts_each_request_of_a_user_once(control_plane: Cluster, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    mark = control_plane.audit.mark()
    for number in range(3):
        control_plane.request("POST", path, {"metadata": {"name": f"counted-{number}"}})
    control_plane.request("GET", path)
    with pytest.raises(MagosError, match=r"counted-0.*already exists"):
        control_plane.request("POST", path, {"metadata": {"name": "counted-0"}})

    def counted() -> bool:
        mine = [one for one in control_plane.audit.requests(mark) if one.uri == path and one.user == "magos-admin"]
        return count_by_user_and_verb(mine) == {("magos-admin", "create"): 4, ("magos-admin", "list"): 1}

    eventually(counted)
    codes = [one.code for one in control_plane.audit.requests(mark) if one.name == "counted-0"]
    assert codes == [201, 409]


def test_a_watch_is_one_request_whether_it_is_open_or_over(control_plane: Cluster, namespace: str) -> None:
    uri = f"/api/v1/namespaces/{namespace}/configmaps?timeoutSeconds=1&watch=1"
    mark = control_plane.audit.mark()
    control_plane.kubectl.run("get", "--raw", uri)
    eventually(lambda: [one.verb for one in control_plane.audit.requests(mark) if one.uri == uri] == ["watch"])


@pytest.mark.anyio
async def test_leaving_the_block_leaves_no_process_and_a_second_start_finds_the_old_content(tmp_path: Path) -> None:
    assets = await anyio.to_thread.run_sync(_assets)
    async with ControlPlane(assets, tmp_path) as plane:
        pids = [child.pid for child in plane.processes]
        assert [child.name for child in plane.processes] == ["etcd", "kube-apiserver", "kube-controller-manager"]
        await plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": "kept"}})
    assert not _alive(pids)
    async with ControlPlane(assets, tmp_path) as plane:
        assert (await plane.request("GET", "/api/v1/namespaces/kept"))["metadata"]["name"] == "kept"


@pytest.mark.anyio
async def test_a_server_that_cannot_start_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    assets = await anyio.to_thread.run_sync(_assets)
    broken = tmp_path / "kube-apiserver"
    broken.write_text("#!/bin/sh\necho 'unknown flag: --made-up'\nexit 3\n")
    broken.chmod(0o755)
    bad = ControlPlaneAssets(etcd=assets.etcd, kube_apiserver=broken, kube_controller_manager=broken)
    with pytest.raises(ProcessFailed, match=r"(?s)kube-apiserver ended with status 3.*unknown flag: --made-up"):
        async with ControlPlane(bad, tmp_path / "data"):
            pass
    assert not _processes_in(tmp_path)


@pytest.mark.anyio
async def test_an_etcd_that_cannot_start_is_reported_at_once(tmp_path: Path) -> None:
    assets = await anyio.to_thread.run_sync(_assets)
    broken = tmp_path / "etcd"
    broken.write_text("#!/bin/sh\necho 'disk is full'\nexit 4\n")
    broken.chmod(0o755)
    bad = msgspec.structs.replace(assets, etcd=broken)
    with pytest.raises(ProcessFailed, match=r"(?s)etcd ended with status 4.*disk is full"):
        async with ControlPlane(bad, tmp_path / "data"):
            pass
    assert not _processes_in(tmp_path)


@pytest.mark.anyio
async def test_a_start_replaces_a_port_that_another_program_has_taken(tmp_path: Path) -> None:
    assets = await anyio.to_thread.run_sync(_assets)
    plane = ControlPlane(assets, tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", int(plane.url.rpartition(":")[2])))
        taken.listen()
        async with plane:
            assert await plane.request("GET", "/version")


@pytest.mark.anyio
async def test_watch_processes_reports_a_process_that_ends_by_itself(tmp_path: Path) -> None:
    assets = await anyio.to_thread.run_sync(_assets)
    async with ControlPlane(assets, tmp_path) as plane:
        manager = plane.processes[2]
        manager.send_signal(signal.SIGKILL)
        with anyio.fail_after(20), pytest.raises(ProcessFailed, match=r"kube-controller-manager ended with status -9"):
            await plane.watch_processes()


def _assets() -> ControlPlaneAssets:
    with Path(os.devnull).open("w") as nowhere:
        return control_plane_assets(asset_settings(), LineProgress(nowhere))


def _names(cluster: Cluster, path: str) -> list[str]:
    return [item["metadata"]["name"] for item in cluster.request("GET", path)["items"]]


def _alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def _processes_in(folder: Path) -> list[str]:
    """Command lines of running processes that name the folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line:
            found.append(line)
    return found
