"""The variableset controller under its own ServiceAccount, on a real API server: every phase and reason."""

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from magos.api.phases import Phase
from magos.errors import MagosError
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


@pytest.fixture(scope="module")
def log(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What the controller logs; it runs, elected, for this module."""
    folder = tmp_path_factory.mktemp("variableset")
    with controller(own_account(control_plane, folder), folder / "log", "--leader-elect"):
        yield folder / "log"


@pytest.fixture
def place(control_plane: Cluster, namespace: str, log: Path) -> Namespace:
    assert log.exists()
    return Namespace(control_plane, namespace)


def test_every_reference_is_resolved_or_listed_with_its_reason(place: Namespace) -> None:
    place.put("secrets", "db", password=CANARY, user=CANARY)
    place.put("configmaps", "net", cidr=CANARY)
    place.declare("good", {"name": "a", "value": ""}, secret("b", "db", "password"), config_map("c", "net", "cidr"))
    place.declare("optional", secret("a", "gone", "k", optional=True), config_map("b", "net", "k", optional=True))
    place.declare(
        "bad",
        secret("a", "gone", "k"),
        config_map("b", "net", "k"),
        secret("c", "net", "k"),
        {"name": "d", "value": "1"},
    )
    good = place.ready("good")
    assert (good.status.phase, good.status.resolved_variables) == (Phase.READY, 3)
    assert [(str(s.kind), s.name) for s in good.status.sources] == [("Secret", "db"), ("ConfigMap", "net")]
    assert [(c.type, c.status) for c in good.status.conditions] == [("Ready", "True")]
    assert place.ready("optional").status.resolved_variables == 0
    bad = place.failed("bad")
    assert bad.status.phase is Phase.FAILED
    assert [(str(u.kind), u.name, u.key, str(u.reason)) for u in bad.status.unresolved_references] == [
        ("Secret", "gone", "k", "ResourceNotFound"),
        ("ConfigMap", "net", "k", "KeyNotFound"),
        ("Secret", "net", "k", "ResourceNotFound"),
    ]
    assert [(c.type, c.status) for c in bad.status.conditions] == [("Ready", "False")]
    assert bad.metadata.finalizers == ()
    events = f"/apis/events.k8s.io/v1/namespaces/{place.name}/events"
    told = eventually(lambda: place.cluster.request("GET", events)["items"])
    assert {(e["regarding"]["name"], e["type"], e["reason"]) for e in told} == {
        ("bad", "Warning", "UnresolvedReferences")
    }


def test_a_missing_source_heals_when_it_appears_and_breaks_when_it_goes(place: Namespace) -> None:
    place.declare("a", secret("x", "late", "k"))
    place.failed("a")
    place.put("secrets", "late", other=CANARY)
    place.until("a", lambda found: "KeyNotFound" in found.status.message)
    place.put("secrets", "late", k=CANARY)
    place.ready("a")
    place.cluster.request("DELETE", place.path("secrets", "late"))
    place.failed("a")


@pytest.mark.parametrize(("plural", "variable"), [("secrets", secret), ("configmaps", config_map)])
def test_rotation_moves_the_content_version_and_a_label_does_not(
    place: Namespace, plural: str, variable: Callable[..., dict[str, Any]]
) -> None:
    first = place.put(plural, "s", k=CANARY)
    place.declare("a", variable("x", "s", "k"))
    [source] = place.ready("a").status.sources
    assert (source.resource_version, source.content_version) == (first, first)
    label = place.label(plural.removesuffix("s"), "s", "1")
    [source] = place.until("a", lambda found: found.status.sources[0].resource_version == label).status.sources
    assert source.content_version == first
    rotated = place.put(plural, "s", k=f"{CANARY}-2")
    [source] = place.until("a", lambda found: found.status.sources[0].resource_version == rotated).status.sources
    assert source.content_version == rotated


def test_the_largest_set_is_judged(place: Namespace) -> None:
    values = {f"k{n}": f"{CANARY}{n}" for n in range(499)}
    place.put("configmaps", "many", **values)
    place.declare("large", *(config_map(f"v{n}", "many", f"k{n}") for n in range(499)), {"name": "lit", "value": "x"})
    assert place.ready("large").status.resolved_variables == 500
    place.put("secrets", "huge", k="x" * 200_000)
    place.declare("huge", secret("v", "huge", "k"))
    assert "longer than the 131072 bytes" in place.failed("huge").status.message


def test_a_deleted_set_is_gone_at_once(place: Namespace) -> None:
    place.declare("a", {"name": "x", "value": "1"})
    place.ready("a")
    place.cluster.request("DELETE", place.path("variablesets", "a"))
    with pytest.raises(MagosError, match="not found"):
        place.found("a")


def test_values_are_found_nowhere_but_where_they_belong(place: Namespace, log: Path) -> None:
    place.put("secrets", "db", good=CANARY)
    place.put("configmaps", "net", good=CANARY)
    place.declare("a", secret("x", "db", "good"), secret("y", "db", "bad"), config_map("z", "net", "good"))
    place.failed("a")
    place.put("secrets", "db", good=f"{CANARY}-rotated")
    place.failed("a")
    assert CANARY not in place.everything()
    assert log.read_text()
    assert CANARY not in log.read_text()
    assert base64.b64encode(CANARY.encode()).decode().rstrip("=") not in log.read_text()


def test_secrets_are_read_by_name_and_only_those_that_are_referred_to(place: Namespace) -> None:
    mark = place.cluster.audit.mark()
    place.put("secrets", "wanted", k=CANARY)
    place.put("secrets", "stranger", k=CANARY)
    place.declare("a", secret("x", "wanted", "k"))
    place.ready("a")
    user = f"system:serviceaccount:{SYSTEM}:{ACCOUNT}"
    requests = [r for r in place.cluster.audit.requests(mark) if r.user == user and r.namespace == place.name]
    assert {r.name for r in requests if r.resource == "secrets"} == {"wanted"}
    assert {(r.verb, r.resource) for r in requests if r.verb not in ("get", "list", "watch")} <= {
        ("patch", "variablesets/status"),
        ("create", "events"),
        ("patch", "events"),
    }
