"""The mounted policies: nothing of them is believed before their digest is."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magos.api.meta import ObjectMeta
from magos.api.selectors import Selector
from magos.api.validatingpolicy import ValidatingPolicy, content_digest, policy_text, read_policy
from magos.reconcilers.workspace.inputs.policies import select_policies
from magos.runner.outcome import StageFailed
from magos.runner.policyfiles import mounted_policies


def policy(name: str, mode: str = "JSON", **spec: object) -> ValidatingPolicy:
    return ValidatingPolicy(metadata=ObjectMeta(name=name), spec={"evaluation": {"mode": mode}, **spec})


def mounted(folder: Path, policies: Iterable[ValidatingPolicy]) -> str:
    """Lay the policies out as the kubelet does; return their digest."""
    selected = select_policies(Selector(), policies)
    data = folder / "..2026_01_01"
    data.mkdir(parents=True)
    (folder / "..data").symlink_to(data.name)
    for name, text in selected.files.items():
        (data / name).write_text(text)
        (folder / name).symlink_to(f"..data/{name}")
    assert selected.digest is not None
    return selected.digest


def test_policies_of_a_config_map_volume_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "policies"
    digest = mounted(folder, [policy("b"), policy("a", validationActions=["Audit"])])
    found = mounted_policies(folder, digest)
    assert sorted(found) == ["a", "b"]
    assert found["a"].action == "Audit"


def test_no_digest_and_no_file_are_no_policies(tmp_path: Path) -> None:
    assert mounted_policies(tmp_path / "absent", None) == {}
    assert mounted_policies(tmp_path, None) == {}


@pytest.mark.parametrize("change", ["changed", "added", "removed", "unlinked", "all gone"])
def test_every_change_of_the_content_is_noticed(tmp_path: Path, change: str) -> None:
    folder = tmp_path / "policies"
    digest = mounted(folder, [policy("a"), policy("b")])
    content = folder / "..data/a.yaml"
    match change:
        case "changed":
            content.write_text(content.read_text().replace("JSON", "JSOM"))
        case "added":
            (folder / ".c").write_text(content.read_text())
        case "removed":
            content.unlink()
        case "unlinked":
            (folder / "a.yaml").unlink()
        case _:
            folder = tmp_path / "absent"
    with pytest.raises(StageFailed) as failure:
        mounted_policies(folder, digest)
    assert failure.value.reason == "PolicyEvaluationFailed"


def test_policies_without_a_digest_are_not_believed(tmp_path: Path) -> None:
    mounted(tmp_path, [policy("a")])
    with pytest.raises(StageFailed, match="selected were policies of digest None"):
        mounted_policies(tmp_path, None)


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.yaml", policy_text(policy("a", mode="Kubernetes")), "policy a has the evaluation mode Kubernetes"),
        ("a.yaml", policy_text(ValidatingPolicy(metadata=ObjectMeta(name="a"))), "evaluation mode Kubernetes"),
        ("a.yaml", policy_text(policy("b")), "a.yaml names itself 'b'"),
        ("a.yml", policy_text(policy("a")), "a.yml names itself 'a'"),
        ("a.yaml", policy_text(policy("a")).replace("policies.kyverno.io/v1", "kyverno.io/v1"), "kyverno.io/v1"),
        ("a.yaml", "apiVersion: v1\n", "a.yaml cannot be read"),
        ("a.yaml", "[" * 100_000, "a.yaml cannot be read"),
    ],
)
def test_a_policy_that_cannot_be_evaluated_is_named(tmp_path: Path, name: str, text: str, problem: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(StageFailed, match=problem) as failure:
        mounted_policies(tmp_path, content_digest({name: text.encode()}))
    assert failure.value.reason == "PolicyEvaluationFailed"


texts = st.text(max_size=20)
specs = st.dictionaries(
    texts,
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**60), 2**60) | texts,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)


@given(specs)
def test_a_specification_travels_whole_and_in_one_form(spec: dict[str, object]) -> None:
    meta = ObjectMeta(name="a", uid="u", resource_version="7", labels={"y": "1", "x": "2"})
    written = policy_text(ValidatingPolicy(metadata=meta, spec=spec))
    assert read_policy(written).spec == spec
    again = ObjectMeta(name="a", uid="other", resource_version="8", labels={"x": "2", "y": "1"})
    turned = dict(reversed(spec.items()))
    assert policy_text(ValidatingPolicy(metadata=again, spec=turned)) == written
