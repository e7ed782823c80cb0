"""The variableset controller with narrowed rights, and started anew, on a real API server."""

from pathlib import Path

from tests.envtest.cluster import Cluster, eventually
from tests.envtest.variablesets import (
    ACCOUNT,
    CANARY,
    SYSTEM,
    Namespace,
    config_map,
    controller,
    own_account,
    secret,
)


def test_what_the_account_may_not_get_is_forbidden_and_nothing_else_suffers(
    control_plane: Cluster, namespace: str, tmp_path: Path
) -> None:
    """An account that may watch everywhere, and get Secrets in no namespace: as a narrowed installation has it."""
    place = Namespace(control_plane, namespace)
    name = f"narrow-{namespace}"
    rules = [
        {"apiGroups": ["magosproject.io"], "resources": ["variablesets"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["magosproject.io"], "resources": ["variablesets/status"], "verbs": ["get", "patch", "update"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list", "watch"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
    ]
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    subject = {"kind": "ServiceAccount", "name": "narrow", "namespace": namespace}
    control_plane.request("POST", place.path("serviceaccounts"), {"metadata": {"name": "narrow"}})
    control_plane.request("POST", f"{rbac}/clusterroles", {"metadata": {"name": name}, "rules": rules})
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [subject],
    }
    control_plane.request("POST", f"{rbac}/clusterrolebindings", binding)
    place.put("secrets", "db", k=CANARY)
    place.put("configmaps", "net", k=CANARY)
    place.declare("closed", secret("x", "db", "k"), config_map("y", "net", "k"))
    place.declare("open", config_map("y", "net", "k"))
    kubeconfig = control_plane.service_account_kubeconfig(namespace, "narrow", tmp_path / "kubeconfig")
    with controller(kubeconfig, tmp_path / "log"):
        place.ready("open")
        closed = place.failed("closed")
        assert [str(each.reason) for each in closed.status.unresolved_references] == ["Forbidden"]
        assert closed.status.resolved_variables == 1
        assert "RBAC" in closed.status.message
    control_plane.request("DELETE", f"{rbac}/clusterrolebindings/{name}")
    control_plane.request("DELETE", f"{rbac}/clusterroles/{name}")


def test_a_restart_writes_nothing_and_knows_a_label_from_a_rotation(
    control_plane: Cluster, namespace: str, tmp_path: Path
) -> None:
    place = Namespace(control_plane, namespace)
    account = own_account(control_plane, tmp_path)
    first = place.put("secrets", "db", k=CANARY)
    with controller(account, tmp_path / "one", "--leader-elect"):
        place.declare("a", secret("x", "db", "k"))
        place.ready("a")
        label = place.label("secret", "db", "1")
        place.until("a", lambda found: found.status.sources[0].resource_version == label)
    mark = control_plane.audit.mark()
    with controller(account, tmp_path / "two", "--leader-elect"):
        user = f"system:serviceaccount:{SYSTEM}:{ACCOUNT}"

        def seen() -> list[tuple[str, str]]:
            requests = [r for r in control_plane.audit.requests(mark) if r.user == user and r.namespace == namespace]
            return [(r.verb, r.resource) for r in requests if r.verb in ("get", "patch")]

        assert eventually(seen) == [("get", "secrets")]
        again = place.label("secret", "db", "2")
        found = place.until("a", lambda found: found.status.sources[0].resource_version == again)
        assert found.status.sources[0].content_version == first
        assert [verb for verb, _ in seen()] == ["get", "get", "patch"]
        rotated = place.put("secrets", "db", k=f"{CANARY}-2")
        place.until("a", lambda found: found.status.sources[0].content_version == rotated)
    logs = (tmp_path / "one").read_text() + (tmp_path / "two").read_text()
    assert logs
    assert CANARY not in logs
