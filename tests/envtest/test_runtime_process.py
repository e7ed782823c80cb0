"""The toy controller as a process of its own on a real API server: signals, probes, metrics, exit codes."""

import json
import signal
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme

from magos.local.ports import free_ports
from tests.envtest.cluster import Cluster, eventually
from tests.envtest.toy_process import define
from tests.sim import toy

QUIET = ("--health-probe-bind-address=0",)
_KIND = {"apiVersion": f"{toy.GROUP}/v1", "kind": "Widget", "spec": {"size": 1}}


@pytest.fixture(scope="module", autouse=True)
def definition(control_plane: Cluster) -> None:
    """The CRD of Widgets."""
    define(control_plane)


@contextmanager
def process(kubeconfig: Path, namespace: str, *flags: str) -> Iterator["subprocess.Popen[str]"]:
    """Run the toy controller as a process; killed at the end if it still runs."""
    command = [sys.executable, "-m", "tests.envtest.toy_process", str(kubeconfig), namespace, *flags]
    child = subprocess.Popen(
        command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        yield child
    finally:
        if child.poll() is None:
            child.kill()
        child.communicate()


FLAGS = ("--leader-elect", "--health-probe-bind-address=0")


def _holder(cluster: Cluster, namespace: str) -> str:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    leases = cluster.request("GET", path)["items"]
    return str(leases[0]["spec"].get("holderIdentity") or "") if leases else ""


def test_sigterm_gives_the_lease_back_and_exits_zero_and_a_standby_takes_over(
    control_plane: Cluster, kubeconfig: Path, namespace: str
) -> None:
    with process(kubeconfig, namespace, *FLAGS) as first:
        eventually(lambda: _holder(control_plane, namespace) != "")
        leader = _holder(control_plane, namespace)
        with process(kubeconfig, namespace, *FLAGS) as second:
            first.send_signal(signal.SIGTERM)
            assert first.wait(10) == 0
            # Without the release it would take at least 12 s.
            eventually(lambda: _holder(control_plane, namespace) not in ("", leader), within=10)
            second.send_signal(signal.SIGINT)
            assert second.wait(10) == 0
            assert _holder(control_plane, namespace) == ""


def test_a_wrong_flag_is_one_line_and_exit_code_two(kubeconfig: Path, namespace: str) -> None:
    with process(kubeconfig, namespace, "--max-concurrent-reconciles=many") as child:
        output, _ = child.communicate(timeout=30)
        assert child.returncode == 2
        assert output.strip().splitlines() == [
            "toy-controller: argument --max-concurrent-reconciles: 'many' is not a number from 1 to 1000"
        ]


def _get(url: str, token: str = "", *, tls: ssl.SSLContext | None = None) -> tuple[int, str]:
    """Return status and body; (0, reason) where nobody answers."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - loopback
    try:
        with urllib.request.urlopen(request, timeout=10, context=tls) as answer:  # noqa: S310
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


def test_probes_and_plain_metrics(kubeconfig: Path, namespace: str, control_plane: Cluster) -> None:
    health, metrics = free_ports(2)
    flags = (
        "--leader-elect",
        f"--health-probe-bind-address=127.0.0.1:{health}",
        f"--metrics-bind-address=127.0.0.1:{metrics}",
        "--metrics-secure=false",
    )
    with process(kubeconfig, namespace, *flags):
        eventually(lambda: _get(f"http://127.0.0.1:{health}/healthz") == (200, "ok"))
        eventually(lambda: _get(f"http://127.0.0.1:{health}/readyz") == (200, "ok"))
        control_plane.request(
            "POST", f"/apis/{toy.GROUP}/v1/namespaces/{namespace}/widgets", {"metadata": {"name": "a"}, **_KIND}
        )
        wanted = f'toy_reconcile_total{{name="a",namespace="{namespace}",result="success"}}'

        def scrape() -> str:
            body = _get(f"http://127.0.0.1:{metrics}/metrics")[1]
            return body if wanted in body else ""

        text = eventually(scrape)
        for line in (
            'controller_runtime_reconcile_errors_total{controller="toy"} 0.0',
            'workqueue_depth{controller="toy",name="toy"} 0.0',
            'leader_election_master_status{name="toy-controller"} 1.0',
            "events_dropped_total 0.0",
        ):
            assert line in text.splitlines()
        assert "rest_client_requests_total" in text
        assert _get(f"http://127.0.0.1:{metrics}/other")[0] == 404


def test_secure_metrics_are_for_those_whom_the_cluster_lets_read_them(
    kubeconfig: Path, namespace: str, control_plane: Cluster, tmp_path: Path
) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_pem.write_to_path(tmp_path / "tls.key")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "tls.crt")
    tls = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
    kubectl = control_plane.kubectl
    kubectl.run("create", "serviceaccount", "nobody", f"--namespace={namespace}")
    nobody = kubectl.run("create", "token", "nobody", f"--namespace={namespace}").strip()
    [port] = free_ports(1)
    url = f"https://127.0.0.1:{port}/metrics"
    with process(
        kubeconfig, namespace, *QUIET, f"--metrics-bind-address=127.0.0.1:{port}", f"--metrics-cert-path={tmp_path}"
    ):
        eventually(lambda: _get(url, tls=tls)[0])
        assert _get(url, tls=tls) == (401, "authentication required: send the token of a Kubernetes account\n")
        assert _get(url, nobody, tls=tls) == (403, "this account may not get the non-resource URL /metrics\n")
        kubectl.run("create", "serviceaccount", "reader", f"--namespace={namespace}")
        kubectl.run("create", "clusterrole", f"read-{namespace}", "--verb=get", "--non-resource-url=/metrics")
        kubectl.run(
            "create",
            "clusterrolebinding",
            f"read-{namespace}",
            f"--clusterrole=read-{namespace}",
            f"--serviceaccount={namespace}:reader",
        )

        def reads() -> str:
            # A new token each time: an answer is kept for a minute, and the rights of a moment ago may be refused.
            reader = kubectl.run("create", "token", "reader", f"--namespace={namespace}").strip()
            status, body = _get(url, reader, tls=tls)
            return body if status == 200 else ""

        assert "workqueue_depth" in eventually(reads)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--metrics-bind-address=127.0.0.1:1",), "--metrics-secure needs a certificate"),
        (("--metrics-bind-address=127.0.0.1:1", "--metrics-cert-path=/nonexistent"), "cannot be read"),
    ],
)
def test_secure_metrics_without_a_certificate_are_refused_in_one_line(
    kubeconfig: Path, namespace: str, flags: tuple[str, ...], words: str
) -> None:
    with process(kubeconfig, namespace, *QUIET, *flags) as child:
        output, _ = child.communicate(timeout=30)
        assert child.returncode == 2
        begun, line = output.strip().splitlines()
        assert json.loads(begun)["message"] == "starting"
        assert words in line


def test_an_address_in_use_ends_the_process_with_its_name(kubeconfig: Path, namespace: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with process(kubeconfig, namespace, f"--health-probe-bind-address={address}") as child:
            output, _ = child.communicate(timeout=30)
            assert child.returncode == 2
            assert f"cannot listen on {address}" in output


def _managed(depth: int) -> str:
    """Return a ConfigMap as anybody may create it: ``managedFields`` that are nested ``depth`` deep."""
    fields = '{"f:a":' * depth + "{}" + "}" * depth
    entry = f'{{"manager":"x","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{fields}}}'
    return f'{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"deep","managedFields":[{entry}]}}}}'


def _phase(cluster: Cluster, namespace: str, name: str) -> object:
    path = f"/apis/{toy.GROUP}/v1/namespaces/{namespace}/widgets/{name}"
    return cluster.request("GET", path).get("status", {}).get("phase")


def test_a_config_map_of_any_depth_ends_no_controller(kubeconfig: Path, namespace: str, control_plane: Cluster) -> None:
    config_maps = f"/api/v1/namespaces/{namespace}/configmaps"
    widgets = f"/apis/{toy.GROUP}/v1/namespaces/{namespace}/widgets"
    with process(kubeconfig, namespace, *QUIET) as child:
        control_plane.request("POST", widgets, {"metadata": {"name": "before"}, **_KIND})
        eventually(lambda: _phase(control_plane, namespace, "before") == "Ready")
        control_plane.kubectl.run("create", f"--raw={config_maps}", "--filename=-", stdin=_managed(1_500))
        stored = control_plane.kubectl.run("get", f"--raw={config_maps}/deep")
        assert '{"f:a":' * 1_500 in stored, "the API server no longer stores it as deep as that"
        control_plane.request("POST", widgets, {"metadata": {"name": "behind"}, **_KIND})
        eventually(lambda: _phase(control_plane, namespace, "behind") == "Ready")
        child.send_signal(signal.SIGTERM)
        assert child.wait(10) == 0
    with process(kubeconfig, namespace, *QUIET) as child:  # ... and no start: now it is in the list
        control_plane.request("POST", widgets, {"metadata": {"name": "anew"}, **_KIND})
        eventually(lambda: _phase(control_plane, namespace, "anew") == "Ready")
        assert child.poll() is None


def test_an_object_that_cannot_be_decoded_is_told_of_and_harms_no_other(
    kubeconfig: Path, namespace: str, control_plane: Cluster
) -> None:
    widgets = f"/apis/{toy.GROUP}/v1/namespaces/{namespace}/widgets"
    [port] = free_ports(1)
    flags = (*QUIET, f"--metrics-bind-address=127.0.0.1:{port}", "--metrics-secure=false")
    gauge = f'informer_undecodable_objects{{resource="widgets.{toy.GROUP}"}}'
    kubectl = control_plane.kubectl

    def spoil(name: str, status: str) -> None:
        patch = f'--patch={{"status":{{"phase":{status}}}}}'
        kubectl.run("patch", "widget", name, f"--namespace={namespace}", "--subresource=status", "--type=merge", patch)

    def told() -> list[str]:
        events = control_plane.request("GET", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")["items"]
        return [f"{each['regarding']['name']}: {each['note']}" for each in events if each["reason"] == "Undecodable"]

    def shows(value: int) -> bool:
        return f"{gauge} {value}.0" in _get(f"http://127.0.0.1:{port}/metrics")[1].splitlines()

    with process(kubeconfig, namespace, *flags):
        control_plane.request("POST", widgets, {"metadata": {"name": "odd"}, **_KIND})
        eventually(lambda: _phase(control_plane, namespace, "odd") == "Ready")
        spoil("odd", "5")
        eventually(lambda: shows(1))
        [note] = eventually(told)
        assert note.startswith(f"odd: Widget {namespace}/odd exists but cannot be read (Expected `str`, got `int`")
        control_plane.request("POST", widgets, {"metadata": {"name": "good"}, **_KIND})
        eventually(lambda: _phase(control_plane, namespace, "good") == "Ready")
        assert _phase(control_plane, namespace, "odd") == 5
        spoil("odd", '""')
        eventually(lambda: _phase(control_plane, namespace, "odd") == "Ready")
        eventually(lambda: shows(0))
