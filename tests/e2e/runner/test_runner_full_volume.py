"""A volume that is full: a run makes room by itself, or says which volume is full and what to do. Real file systems."""

import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from magos.api.result import Outcome, Result
from magos.api.runnerpod import Stage
from magos.local.programs.assets import AssetSettings
from magos.local.programs.progress import LineProgress
from magos.runner.room import EVICTED
from magos.toolchain.releases import architecture
from tests.e2e.runner.pod import NEXT, PLAN, RUN, RunnerPod, Workspace, apply, plan, provisioned
from tests.e2e.runner.provider import TIME_PROVIDER, time_provider_program
from tests.e2e.runner.statebackend import StateServer, state_server

_LATER = "20260101T000200-00000003"
_MI = 1024**2
_MODULE = 'terraform {\n  required_providers {\n    time = { source = "hashicorp/time" }\n  }\n}\n'
_RESOURCE = 'resource "time_static" "here" {}\n'
_LARGE_PLAN = (
    'resource "terraform_data" "a" {\n'
    '  input = [for a in range(100) : join("", [for b in range(100) : sha256("${a} ${b}")])]\n}\n'
)
_REGISTRY = "registry.opentofu.org"


@pytest.fixture
def mounted() -> Iterator[Callable[[Path, int], None]]:
    """Mount a file system of so many bytes at a path; what lay there is gone."""
    places: list[Path] = []

    def mount(place: Path, size: int) -> None:
        place.mkdir(parents=True, exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"no file system can be mounted here: {done.stderr.decode().strip()}")
        places.append(place)

    yield mount
    for place in reversed(places):
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture
def server() -> Iterator[StateServer]:
    with state_server() as started:
        yield started


@pytest.fixture(scope="module")
def provider() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "magos"
    return time_provider_program(AssetSettings(cache=cache, environ=dict(os.environ)), LineProgress(sys.stderr))


@pytest.fixture(scope="module")
def registry(provider: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CLI configuration file that names a provider mirror, packed as registries serve it."""
    folder = tmp_path_factory.mktemp("registry")
    place = folder / "mirror" / _REGISTRY / "hashicorp" / "time"
    place.mkdir(parents=True)
    with zipfile.ZipFile(place / f"{provider.name}_{TIME_PROVIDER.version}_linux_{architecture()}.zip", "w") as archive:
        archive.write(provider, f"{provider.name}_v{TIME_PROVIDER.version}")
    settings = folder / "cli.tfrc"
    settings.write_text(
        f'provider_installation {{\n  filesystem_mirror {{\n    path = "{folder / "mirror"}"\n  }}\n}}\n'
    )
    return settings


def fill(place: Path, left: int = 0) -> None:
    """Take all but ``left`` bytes of the file system at ``place``."""
    place.parent.mkdir(parents=True, exist_ok=True)
    found = os.statvfs(place.parent)
    with suppress(OSError), place.open("wb", buffering=0) as stream:
        for _ in range(max(0, found.f_bavail * found.f_frsize - left) // 65536):
            stream.write(bytes(65536))
        while left == 0:
            stream.write(bytes(4096))


def outdated(workspace: Workspace, size: int, used: float = 1000.0) -> Path:
    """Put a provider that nobody needs into the plugin cache."""
    place = workspace.volume / "plugin-cache" / _REGISTRY / "hashicorp" / "aws" / "5.0.0"
    fill_exactly(place / "linux_amd64" / "program", size)
    os.utime(place, (used, used))
    return place


def fill_exactly(place: Path, size: int) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(bytes(size))


def cached(workspace: Workspace) -> list[str]:
    return [path.parent.parent.name for path in (workspace.volume / "plugin-cache").rglob("terraform-provider-*")]


def offline(workspace: Workspace, server: StateServer, registry: Path) -> None:
    workspace.settings["TF_CLI_CONFIG_FILE"] = str(registry)
    workspace.commit({"main.tf": server.backend + _MODULE + _RESOURCE})


def tool_size(workspace: Workspace) -> int:
    return sum(path.stat().st_size for path in (workspace.volume / "tools").rglob("*") if path.is_file())


@pytest.fixture
def sizes(workspace: Workspace, server: StateServer, provider: Path) -> tuple[int, int]:
    """What the tool and the provider take in the caches; the caches are empty again afterwards."""
    workspace.commit({"main.tf": server.backend})
    _, result = plan(workspace, name_of(0))
    assert result.result is Outcome.SUCCEEDED, result.message
    size = tool_size(workspace)
    subprocess.run(["rm", "-rf", str(workspace.volume)], check=True)
    return size, provider.stat().st_size


def name_of(number: int) -> str:
    return f"20250101T00000{number}-0000000{number}"


def test_a_new_provider_takes_the_place_of_one_that_is_not_needed(
    workspace: Workspace,
    server: StateServer,
    registry: Path,
    sizes: tuple[int, int],
    mounted: Callable[[Path, int], None],
) -> None:
    tool, program = sizes
    mounted(workspace.volume, tool + int(program * 1.6))
    workspace.commit({"main.tf": server.backend})
    plan(workspace)
    # More than a tenth is free, and the old one was used last: only init itself finds out.
    old = outdated(workspace, program * 3 // 4, used=time.time())
    offline(workspace, server, registry)
    pod, planned = plan(workspace, NEXT)
    assert planned.result is Outcome.SUCCEEDED, pod.log
    assert not old.exists()
    assert cached(workspace) == [TIME_PROVIDER.version]
    assert EVICTED in pod.output[Stage.TERRAFORM]
    assert "the plugin cache is done without" not in pod.log
    pod, applied = apply(workspace, planned)
    assert applied.result is Outcome.SUCCEEDED, pod.log


def test_providers_that_never_fit_on_the_volume_are_used_without_the_cache(
    workspace: Workspace,
    server: StateServer,
    registry: Path,
    sizes: tuple[int, int],
    mounted: Callable[[Path, int], None],
) -> None:
    tool, program = sizes
    mounted(workspace.volume, tool + program // 2)
    offline(workspace, server, registry)
    pod, planned = plan(workspace)
    assert planned.result is Outcome.SUCCEEDED, pod.log
    assert "the plugin cache is done without" in pod.log
    assert cached(workspace) == []
    pod, applied = apply(workspace, planned)
    assert applied.result is Outcome.SUCCEEDED, pod.log


def full_result(pod: RunnerPod, result: Result) -> str:
    assert result.reason == "VolumeFull", (result.message, pod.log)
    assert result.exit_code == 7
    return result.message


def test_a_plan_that_does_not_fit_says_what_takes_the_room_and_the_next_run_recovers_once_there_is_some(
    workspace: Workspace, server: StateServer, mounted: Callable[[Path, int], None]
) -> None:
    mounted(workspace.volume, 8 * _MI)
    workspace.commit({"main.tf": server.backend + provisioned("true")})
    fill(workspace.volume / "mine")
    pod, result = plan(workspace)
    message = full_result(pod, result)
    assert "the Workspace's volume (/workspace-data) is full: 0 KiB of 8.0 MiB free; most is taken by mine" in message
    assert "PersistentVolumeClaim net-data" in message
    (workspace.volume / "mine").unlink()
    pod, result = plan(workspace, NEXT)
    assert result.result is Outcome.SUCCEEDED, pod.log


def test_a_plan_file_that_meets_the_end_of_the_volume_is_no_riddle(
    workspace: Workspace, server: StateServer, mounted: Callable[[Path, int], None]
) -> None:
    mounted(workspace.volume, 4 * _MI)
    workspace.commit({"main.tf": server.backend + _LARGE_PLAN})
    fill(workspace.volume / "mine", left=256 * 1024)
    pod, result = plan(workspace)
    message = full_result(pod, result)
    assert "/workspace-data) is full" in message
    assert not list((workspace.volume / "runs" / RUN).glob("*.tfplan"))


def test_a_state_that_the_backend_refuses_takes_the_room_of_the_caches(
    workspace: Workspace, server: StateServer, sizes: tuple[int, int], mounted: Callable[[Path, int], None]
) -> None:
    tool, _ = sizes
    mounted(workspace.volume, tool + 12 * _MI)
    workspace.commit({"main.tf": server.backend + provisioned(f"dd if=/dev/zero of={workspace.volume}/mine || true")})
    _, planned = plan(workspace)
    assert planned.result is Outcome.SUCCEEDED, planned.message
    server.refuse_writes = True
    pod, failed = apply(workspace, planned)
    assert "is kept in" in failed.message, pod.log
    kept = workspace.volume / "unsaved-state" / f"{RUN}.tfstate"
    assert '"terraform_data"' in kept.read_text()
    assert (workspace.volume / "mine").exists()
    server.refuse_writes = False
    workspace.commit({"main.tf": server.backend + provisioned("true")})
    (workspace.volume / "mine").unlink()
    _, following = plan(workspace, _LATER)
    assert following.result is Outcome.SUCCEEDED, following.message
    assert server.resources == ["a"]


def test_a_state_that_does_not_fit_at_all_leaves_no_half_of_it(
    workspace: Workspace, server: StateServer, mounted: Callable[[Path, int], None]
) -> None:
    mounted(workspace.volume, 8 * _MI)
    filling = provisioned(f"dd if=/dev/zero of={workspace.volume}/mine || true").replace('"a"', '"z"')
    workspace.commit({"main.tf": server.backend + filling + _LARGE_PLAN})
    _, planned = plan(workspace)
    assert planned.result is Outcome.SUCCEEDED, planned.message
    server.refuse_writes = True
    pod, failed = apply(workspace, planned)
    assert "could not keep it" in failed.message, pod.log
    assert not list((workspace.volume / "unsaved-state").glob("*.tfstate"))


@pytest.mark.parametrize("place", ["work", "tmp", "scratch"])
def test_a_volume_of_the_pod_that_is_full_is_named(
    workspace: Workspace, server: StateServer, mounted: Callable[[Path, int], None], place: str
) -> None:
    workspace.commit({"main.tf": server.backend, "large": os.urandom(4 * _MI).hex()})
    pod = workspace.pod(PLAN, RUN)
    mounted(pod.root / place, 2 * _MI)
    if place == "scratch":
        fill(pod.root / place / "other", left=64 * 1024)
        workspace.commit({"main.tf": server.backend + _LARGE_PLAN})
    message = full_result(pod, pod.run())
    assert f"(/{place}) is full" in message
    assert "disk of the node" in message
