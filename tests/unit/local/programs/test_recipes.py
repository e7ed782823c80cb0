"""A recipe's key names what a build makes of it."""

from magos.local.programs.recipes import ETCD, TOFU, kubernetes


def test_the_key_of_a_recipe_changes_with_what_is_built_and_not_with_the_estimate() -> None:
    keys = {ETCD.key, TOFU.key, kubernetes("kube-apiserver").key, kubernetes("kube-apiserver", "1.36.2").key}
    assert len(keys) == 4
    assert kubernetes("kube-apiserver").key == kubernetes("kube-apiserver").key
    assert kubernetes("kube-apiserver", "1.31.4").local_modules == "v0.31.4"
