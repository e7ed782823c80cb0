"""The manifests of an installation."""

import pytest

from magos.errors import MagosError
from magos.local.controlplane.installation import manifest_folder


@pytest.mark.parametrize("name", ["crds", "samples", "deploy"])
def test_a_checkout_has_every_folder_of_manifests(name: str) -> None:
    assert any(manifest_folder(name).iterdir())


def test_a_missing_folder_is_an_error_with_the_next_step() -> None:
    with pytest.raises(MagosError, match=r"has no folder charts; reinstall the package or use a checkout"):
        manifest_folder("charts")
