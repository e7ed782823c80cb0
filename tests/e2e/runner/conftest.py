"""A release mirror with the real tool, and a Workspace on top of it."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from magos.local.programs.assets import AssetSettings, tofu_program
from magos.local.programs.progress import LineProgress
from magos.local.programs.recipes import TOFU_VERSION
from magos.local.servers.mirror import ReleaseMirror, release_mirror
from tests.e2e.runner.pod import Workspace


@pytest.fixture(scope="session")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReleaseMirror]:
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "magos"
    program = tofu_program(AssetSettings(cache=cache, environ=dict(os.environ)), LineProgress(sys.stderr))
    folder = tmp_path_factory.mktemp("mirror")
    with release_mirror(folder / "releases", folder / "keys") as served:
        served.publish(program, TOFU_VERSION)
        yield served


@pytest.fixture(autouse=True)
def _pid_namespace(tmp_path: Path) -> Iterator[None]:
    """End what a killed stage left running: a stage is a bare process here; in a pod its container ends with it."""
    yield
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(tmp_path).encode() in entry.read_bytes():
                os.kill(int(entry.parent.name), signal.SIGKILL)
        except (OSError, ValueError):
            continue  # ended while we looked


@pytest.fixture
def workspace(tmp_path: Path, mirror: ReleaseMirror) -> Workspace:
    settings = {
        "TF_VERSION": TOFU_VERSION,
        "MAGOS_TF_DISTRIBUTION": "opentofu",
        "MAGOS_OPENTOFU_MIRROR": mirror.url,
        "MAGOS_RELEASE_KEYS": str(mirror.keys),
    }
    return Workspace(tmp_path, settings)
