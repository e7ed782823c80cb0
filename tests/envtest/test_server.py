"""``magos-api`` as a process of its own on a real API server: start, reads, streams, writes, stop."""

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from magos.api.workspace import Workspace
from magos.local.ports import free_ports
from tests.envtest.cluster import Cluster, eventually

API = "/apis/magosproject.io/v1alpha1"
RUN, OTHER = "20260101T000000-00000000", "20260101T000000-11111111"


class Server:
    """The process and what can be asked of it."""

    def __init__(self, child: "subprocess.Popen[str]", port: int) -> None:
        self.child = child
        self.port = port

    def ask(self, path: str, method: str = "GET", body: object = None, token: str = "ann") -> tuple[int, Any]:  # noqa: S107
        """Return status and decoded body; (0, None) where nobody answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        except OSError:
            return 0, None
        finally:
            connection.close()

    @contextmanager
    def stream(self, path: str) -> Iterator[Iterator[tuple[str, Any]]]:
        """Yield the events of a stream."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", path, headers={"Authorization": "Bearer ann"})
            yield _events(connection.getresponse())
        finally:
            connection.close()


def _events(answer: http.client.HTTPResponse) -> Iterator[tuple[str, Any]]:
    name = "message"
    for line in answer:
        key, _, value = line.decode().strip().partition(": ")
        if key == "event":
            name = value
        elif key == "data":
            yield name, json.loads(value)
            name = "message"


@contextmanager
def serving(kubeconfig: Path, **environ: str) -> Iterator[Server]:
    """Run the server around a block; killed at the end if it still runs."""
    [port] = free_ports(1)
    command = [sys.executable, "-m", "tests.envtest.api_process", "--address=127.0.0.1"]
    child = subprocess.Popen(
        command,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "KUBECONFIG": str(kubeconfig), "PORT": str(port), **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield Server(child, port)
    finally:
        if child.poll() is None:
            child.kill()
        child.wait()
        if child.stdout is not None:
            child.stdout.close()


@pytest.fixture(scope="module")
def server(kubeconfig: Path) -> Iterator[Server]:
    """One server for the tests that do not stop it."""
    with serving(kubeconfig) as found:
        eventually(lambda: found.ask("/readyz", token="")[0] == 200)
        yield found


def _create(cluster: Cluster, namespace: str, name: str) -> str:
    spec = {
        "projectRef": {"name": "platform"},
        "source": {"repoURL": "https://git.example.com/demo.git", "targetRevision": "main"},
        "terraform": {"version": "1.9.8"},
    }
    path = f"{API}/namespaces/{namespace}/workspaces"
    manifest = {
        "apiVersion": "magosproject.io/v1alpha1",
        "kind": "Workspace",
        "metadata": {"name": name},
        "spec": spec,
    }
    cluster.request("POST", path, manifest)
    return f"{path}/{name}"


def _gate(cluster: Cluster, path: str, run_id: str) -> None:
    found = cluster.request("GET", path)
    waiting = {"runID": run_id, "reason": "ManualApproval", "since": "2026-01-01T00:00:00Z"}
    found["status"] = {"phase": "Planned", "currentRunID": run_id, "awaitingApproval": waiting}
    cluster.request("PUT", f"{path}/status", found)


def test_a_list_and_an_object_are_as_the_cluster_has_them(
    server: Server, control_plane: Cluster, namespace: str
) -> None:
    path = _create(control_plane, namespace, "a")
    [found] = eventually(lambda: server.ask(f"{API}/workspaces?namespace={namespace}")[1])
    status, one = server.ask(f"{API}/workspaces/{namespace}/a")
    assert (status, one) == (200, found)
    stored = control_plane.request("GET", path)
    assert (found["apiVersion"], found["kind"]) == (stored["apiVersion"], stored["kind"])
    assert found["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]
    assert msgspec.convert(found, Workspace) == msgspec.convert(stored, Workspace)  # what is left out is the default


def test_changes_come_over_the_stream(server: Server, control_plane: Cluster, namespace: str) -> None:
    with server.stream(f"{API}/workspaces/events?namespace={namespace}") as events:
        assert next(events)[0] == "synced"
        path = _create(control_plane, namespace, "a")
        assert next(events)[1]["type"] == "ADDED"
        _gate(control_plane, path, RUN)
        name, data = next(events)
        assert (name, data["type"], data["object"]["status"]["phase"]) == ("message", "MODIFIED", "Planned")
        control_plane.request("DELETE", path)
        assert next(events)[1]["type"] == "DELETED"


def test_reconcile_and_approve_reach_the_cluster_in_the_name_of_the_caller(
    server: Server, control_plane: Cluster, namespace: str
) -> None:
    path = _create(control_plane, namespace, "a")
    one = f"{API}/workspaces/{namespace}/a"
    assert server.ask(f"{one}/approve", "POST", {"runID": RUN})[0] == 409
    _gate(control_plane, path, RUN)
    status, refused = server.ask(f"{one}/approve", "POST", {"runID": OTHER})
    assert (status, refused["runID"]) == (409, RUN)
    assert server.ask(f"{one}/approve", "POST", {"runID": RUN})[0] == 200
    assert server.ask(f"{one}/approve", "POST", {"runID": RUN}, token="bob")[0] == 200
    assert server.ask(f"{one}/reconcile", "POST")[0] == 200
    written = control_plane.request("GET", path)["metadata"]["annotations"]
    assert written["magosproject.io/approved"] == RUN
    assert json.loads(written["magosproject.io/approved-by"]) == {"runID": RUN, "principal": "ann"}
    assert json.loads(written["magosproject.io/requested-by"])["principal"] == "ann"


def test_sigterm_ends_streams_with_a_last_event_and_the_process_with_zero(kubeconfig: Path) -> None:
    with serving(kubeconfig) as server:
        eventually(lambda: server.ask("/readyz", token="")[0] == 200)
        with server.stream(f"{API}/projects/events") as events:
            while next(events)[0] != "synced":
                pass
            server.child.send_signal(signal.SIGTERM)
            assert list(events)[-1] == ("resync", {"reason": "the server stops"})
        assert server.child.wait(10) == 0
        output, _ = server.child.communicate()
        lines = [json.loads(line) for line in output.splitlines()]
        assert lines[0]["message"] == "starting"
        assert {"request", "process ended"} <= {line["message"] for line in lines}
        assert not [line for line in lines if line["level"] in ("warning", "error")]


def test_it_is_alive_and_not_ready_while_there_is_no_api_server(tmp_path: Path, kubeconfig: Path) -> None:
    [nowhere] = free_ports(1)
    text = kubeconfig.read_text("utf-8")
    lost = tmp_path / "kubeconfig"
    kept = [line if "server:" not in line else f"    server: https://127.0.0.1:{nowhere}" for line in text.splitlines()]
    lost.write_text("\n".join(kept), "utf-8")
    with serving(lost) as server:
        assert eventually(lambda: server.ask("/healthz", token="")[0] == 200)
        assert server.ask("/readyz", token="") == (503, {"status": "not ready"})
        server.child.send_signal(signal.SIGTERM)
        assert server.child.wait(10) == 0


def test_a_setting_that_is_wrong_is_one_line_and_exit_code_two(kubeconfig: Path) -> None:
    with serving(kubeconfig, MAGOS_BASE_URL="magos.example") as server:
        output, _ = server.child.communicate(timeout=30)
        assert server.child.returncode == 2
        assert output.strip() == "MAGOS_BASE_URL: 'magos.example' is not a URL such as https://magos.example.com"
