"""The main module in which a program is built."""

import msgspec

from magos.local.programs.gobuild import GoMod, main_module
from magos.local.programs.recipes import ETCD, ETCD_VERSION, KUBERNETES_VERSION, TOFU, kubernetes


def _mod(text: str) -> GoMod:
    return msgspec.json.decode(text, type=GoMod)


def test_staging_modules_become_the_published_ones_and_placeholders_do_not_reach_the_program() -> None:
    mod = _mod(
        """{"Go": "1.26.0",
        "Require": [{"Path": "k8s.io/api", "Version": "v0.0.0"}, {"Path": "github.com/x/y", "Version": "v1.2.3"}],
        "Replace": [
          {"Old": {"Path": "k8s.io/api"}, "New": {"Path": "./staging/src/k8s.io/api"}},
          {"Old": {"Path": "k8s.io/sample"}, "New": {"Path": "./staging/src/k8s.io/sample"}}]}"""
    )
    published = f"v0.{KUBERNETES_VERSION.removeprefix('1.')}"
    assert main_module(kubernetes("kube-apiserver"), mod).splitlines() == [
        "module magos.example/build",
        "",
        "go 1.26.0",
        "",
        f"require k8s.io/kubernetes v{KUBERNETES_VERSION}",
        f"replace k8s.io/api => k8s.io/api {published}",
        f"require k8s.io/api {published}",
        f"replace k8s.io/sample => k8s.io/sample {published}",
    ]


def test_a_replacement_by_another_module_is_repeated_with_its_versions() -> None:
    mod = _mod(
        """{"Go": "1.26.6", "Replace": [
        {"Old": {"Path": "a.example/hcl", "Version": "v2.20.1"},
         "New": {"Path": "b.example/hcl", "Version": "v2.20.2"}},
        {"Old": {"Path": "a.example/z"}, "New": {"Path": "b.example/z", "Version": "v1.0.0"}}]}"""
    )
    lines = main_module(TOFU, mod).splitlines()
    assert "replace a.example/hcl v2.20.1 => b.example/hcl v2.20.2" in lines
    assert "replace a.example/z => b.example/z v1.0.0" in lines


def test_a_folder_of_a_repository_whose_modules_are_required_as_published_is_dropped() -> None:
    mod = _mod(
        """{"Go": "1.26.0", "Replace": [{"Old": {"Path": "go.etcd.io/etcd/api/v3"}, "New": {"Path": "../api"}}]}"""
    )
    lines = main_module(ETCD, mod).splitlines()
    assert lines[-1] == f"require go.etcd.io/etcd/server/v3 v{ETCD_VERSION}"
