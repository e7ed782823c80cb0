"""Which policies a run gets, and in which form (spec §5.4, §5.5, §7.4)."""

import hashlib
from collections.abc import Mapping

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from magos.api.kube import ConfigMap
from magos.api.labels import WORKSPACE
from magos.api.meta import ObjectMeta
from magos.api.result import ViolationAction
from magos.api.selectors import LabelSelector, Selector, compile_selector
from magos.api.validatingpolicy import ValidatingPolicy, content_digest, policy_text
from magos.api.workspace import Workspace
from magos.bounds import POLICY_TEXTS
from magos.reconcilers.workspace.inputs.policies import (
    SelectedPolicies,
    policies_config_map,
    policies_mount,
    policies_volume,
    policy_environment,
    select_policies,
)
from magos.reconcilers.workspace.pod.stages import FIXED_MOUNT_PATHS, FIXED_VOLUMES
from tests.unit.reconcilers.model import NAMESPACE, workspace_manifest

EVERYTHING = Selector()
TEAM = compile_selector(LabelSelector(match_labels={"team": "a"}))


def policy(name: str, labels: Mapping[str, str] = {}, **spec: object) -> ValidatingPolicy:
    return ValidatingPolicy(
        metadata=ObjectMeta(name=name, labels=labels), spec={"evaluation": {"mode": "JSON"}, **spec}
    )


def workspace(name: str = "network") -> Workspace:
    return msgspec.structs.replace(
        workspace_manifest(name), metadata=ObjectMeta(name=name, namespace=NAMESPACE, uid="ws-uid")
    )


def stored(selected: SelectedPolicies, name: str = "network") -> ConfigMap:
    config_map = policies_config_map(workspace(name), selected)
    assert config_map is not None
    return config_map


def test_the_selector_selects_by_labels() -> None:
    policies = [policy("c", {"team": "b"}), policy("b", {"team": "a"}), policy("a", {"team": "a"}), policy("d")]
    assert list(select_policies(TEAM, policies).files) == ["a.yaml", "b.yaml"]
    assert len(select_policies(EVERYTHING, policies).files) == 4


def test_the_config_map_is_immutable_owned_and_named_by_its_content() -> None:
    selected = select_policies(EVERYTHING, [policy("b"), policy("a")])
    config_map = stored(selected)
    content = b"".join(
        b"%s\n%d\n%s" % (name.encode(), len(text.encode()), text.encode())
        for name, text in sorted(config_map.data.items())
    )
    digest = hashlib.sha256(content).hexdigest()
    assert config_map.metadata.name == f"network-policies-{digest[:10]}"
    assert (config_map.metadata.namespace, config_map.immutable) == (NAMESPACE, True)
    assert config_map.metadata.labels == {WORKSPACE: "network"}
    (owner,) = config_map.metadata.owner_references
    assert (owner.uid, owner.kind, owner.controller) == ("ws-uid", "Workspace", True)
    assert policy_environment(selected) == [
        ("MAGOS_POLICY_SELECTOR", ""),
        ("MAGOS_POLICY_ALL", "true"),
        ("MAGOS_POLICIES_DIGEST", f"sha256:{digest}"),
    ]


def test_a_long_workspace_name_is_cut_and_still_a_name_of_its_own() -> None:
    selected = select_policies(EVERYTHING, [policy("a")])
    names = [stored(selected, "w" * 199 + end).metadata.name for end in "ab"]
    assert {len(name) for name in names} == {48 + 10 + 20}
    assert names[0] != names[1]


def test_policies_differ_in_name_if_anything_of_them_differs() -> None:
    names = {
        stored(select_policies(EVERYTHING, chosen)).metadata.name
        for chosen in ([policy("a")], [policy("b")], [policy("a", {"x": "y"})], [policy("a", validationActions=[])])
    }
    assert len(names) == 4


def test_no_match_keeps_the_selector_and_stores_nothing() -> None:
    selected = select_policies(TEAM, [policy("a")])
    assert policies_config_map(workspace(), selected) is None
    assert policy_environment(selected) == [("MAGOS_POLICY_SELECTOR", "team=a")]
    assert policy_environment(None) == []


def test_volume_and_mount_are_those_that_are_reserved() -> None:
    volume, mount = policies_volume("x"), policies_mount()
    assert volume.name == mount.name
    assert volume.name in FIXED_VOLUMES
    assert mount.mount_path in FIXED_MOUNT_PATHS
    assert mount.read_only


@pytest.mark.parametrize("spec", [{"evaluation": {"mode": "Kubernetes"}}, {"evaluation": {}}, {"evaluation": None}])
def test_a_policy_that_is_not_about_plans_is_named(spec: Mapping[str, object]) -> None:
    foreign = ValidatingPolicy(metadata=ObjectMeta(name="for-pods"), spec=spec)
    with pytest.raises(ValueError, match=r"ValidatingPolicy for-pods \(Kubernetes\) is not JSON"):
        select_policies(EVERYTHING, [policy("a"), foreign])
    assert select_policies(TEAM, [foreign]).files == {}, "a policy that is not selected does not matter"


def test_what_does_not_fit_is_refused_with_its_size() -> None:
    with pytest.raises(ValueError, match=r"2 selected ValidatingPolicies have \d+ bytes.*largest is b\.yaml"):
        select_policies(EVERYTHING, [policy("a"), policy("b", text="x" * 1024**2)])
    with pytest.raises(ValueError, match="has 249 characters"):
        select_policies(EVERYTHING, [policy("n" * 249)])
    assert select_policies(EVERYTHING, [policy("n" * 248)]).files


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        (None, ViolationAction.DENY),
        ([], ViolationAction.DENY),
        ("Audit", ViolationAction.DENY),
        (["Deny", "Audit"], ViolationAction.DENY),
        (["Audit", "Warn"], ViolationAction.WARN),
        (["Audit"], ViolationAction.AUDIT),
        (["Audit", "audit"], ViolationAction.DENY),
    ],
)
def test_the_strictest_action_counts_and_what_is_unknown_blocks(actions: object, expected: ViolationAction) -> None:
    assert policy("a", validationActions=actions).action is expected


@given(st.dictionaries(st.text(max_size=15), st.text(max_size=30) | st.booleans() | st.integers(-9, 9), max_size=5))
def test_what_is_stored_is_yaml_of_the_same_meaning(spec: dict[str, object]) -> None:
    text = policy_text(policy("a", spec=spec))
    assert yaml.safe_load(text)["spec"] == {"evaluation": {"mode": "JSON"}, "spec": spec}


@given(st.dictionaries(st.text("ab", min_size=1, max_size=2), st.binary(max_size=4), max_size=4))
def test_the_digest_depends_on_names_and_contents_only(files: dict[str, bytes]) -> None:
    assert content_digest(dict(reversed(files.items()))) == content_digest(files)
    for name, content in files.items():
        assert content_digest(files | {name: content + b"a"}) != content_digest(files)


def test_bound_policy_texts() -> None:
    half = "x" * (POLICY_TEXTS.limit // 2 - 1000)
    fitting = [policy(name, {"team": "a"}, note=half) for name in "ab"]
    assert len(select_policies(TEAM, fitting).files) == 2
    with pytest.raises(ValueError, match=rf"a ConfigMap holds {POLICY_TEXTS.limit}"):
        select_policies(TEAM, [*fitting, policy("c", {"team": "a"}, note="y" * 3000)])
