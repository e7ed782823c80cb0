"""The release mirror of the runner's tests, and repositories behind a login."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.hostile.origins import Origin, http_origin, ssh_origin
from tests.e2e.runner.conftest import _pid_namespace, mirror, workspace

__all__ = ["_pid_namespace", "mirror", "workspace"]


@pytest.fixture(params=["http", "ssh"])
def origin(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Origin]:
    """A server with private repositories, by basic authentication or by a key."""
    opened = http_origin if request.param == "http" else ssh_origin
    with opened(tmp_path / "origin") as running:
        yield running
