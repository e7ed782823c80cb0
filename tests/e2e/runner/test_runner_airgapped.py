"""Runs without the internet: the tool from a seeded cache, providers from a mirror of ``TF_CLI_CONFIG_FILE``."""

import json
import os
import shutil
import ssl
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trustme

from magos.api.names import JobType
from magos.api.result import Outcome, Result
from magos.local.programs.assets import AssetSettings
from magos.local.programs.progress import LineProgress
from magos.local.programs.recipes import TOFU_VERSION
from magos.local.servers.mirror import ReleaseMirror
from magos.toolchain.releases import architecture
from tests.e2e.runner.hostile import requires_time
from tests.e2e.runner.pod import APPLY, NEXT, PLAN, RUN, RunnerPod, Workspace, plan, resources
from tests.e2e.runner.provider import TIME_PROVIDER, time_provider_program
from tests.unit.toolchain.conftest import Signer

_REGISTRY = "registry.opentofu.org"
_NO_NETWORK = ("unshare", "--map-root-user", "--net")
"""Not even the loopback device is up."""


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A mirror's folder with one provider, in the layout that ``providers mirror`` writes."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "magos"
    program = time_provider_program(AssetSettings(cache=cache, environ=dict(os.environ)), LineProgress(sys.stderr))
    version = TIME_PROVIDER.version
    place = tmp_path_factory.mktemp("providers") / _REGISTRY / "hashicorp" / "time"
    place.mkdir(parents=True)
    packed = place / f"{program.name}_{version}_linux_{architecture()}.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        archive.write(program, f"{program.name}_v{version}")
    (place / "index.json").write_text(json.dumps({"versions": {version: {}}}))
    archives = {f"linux_{architecture()}": {"url": packed.name}}
    (place / f"{version}.json").write_text(json.dumps({"archives": archives}))
    return place.parents[2]


@pytest.fixture
def isolated(workspace: Workspace, mirror: ReleaseMirror) -> Workspace:
    """A Workspace whose volume holds the tool and whose settings name no mirror of tools."""
    del workspace.settings["MAGOS_OPENTOFU_MIRROR"]
    shutil.copytree(mirror.folder / TOFU_VERSION, tool_cache(workspace))
    return workspace


def tool_cache(workspace: Workspace) -> Path:
    return workspace.volume / "tools" / "opentofu" / TOFU_VERSION


def cli_config(workspace: Workspace, installation: str) -> None:
    """Give every stage a CLI configuration file with this way to install providers and no other."""
    file = workspace.folder / "cli.tfrc"
    file.write_text(f"provider_installation {{\n  {installation}\n}}\n")
    workspace.settings["TF_CLI_CONFIG_FILE"] = str(file)


def offline(workspace: Workspace, phase: JobType, run_id: str, **extra: str) -> tuple[RunnerPod, Result]:
    """Run a pod none of whose stages has a network."""
    pod = workspace.pod(phase, run_id, **extra)
    pod.wrapper = _NO_NETWORK
    return pod, pod.run()


def test_without_any_network_a_commit_is_planned_and_applied(isolated: Workspace, provider: Path) -> None:
    cli_config(isolated, f'filesystem_mirror {{ path = "{provider}" }}')
    local = 'module "m" {\n  source = "./m"\n}\n'
    isolated.commit({"main.tf": isolated.backend + local, "m/main.tf": requires_time()})
    pod, planned = offline(isolated, PLAN, RUN)
    assert (planned.result, planned.changes.add) == (Outcome.SUCCEEDED, 1), pod.log
    assert planned.warnings == ()
    extra = {"MAGOS_REVISION": planned.revision, "MAGOS_PLAN_DIGEST": planned.plan_digest}
    pod, applied = offline(isolated, APPLY, RUN, **extra)
    assert applied.result is Outcome.SUCCEEDED, pod.log
    assert resources(isolated) == ["here"]
    _, unchanged = offline(isolated, PLAN, NEXT)
    assert (unchanged.result, unchanged.has_changes) == (Outcome.SUCCEEDED, False)


def test_a_tool_that_was_not_seeded_fails_with_the_address_that_cannot_be_reached(isolated: Workspace) -> None:
    shutil.rmtree(tool_cache(isolated))
    isolated.commit({"main.tf": isolated.backend})
    _, result = offline(isolated, PLAN, RUN)
    assert (result.exit_code, result.reason) == (4, "ToolDownloadFailed")
    assert f"/{TOFU_VERSION}/" in result.message
    assert "mirror" in result.message


def test_a_seeded_tool_is_believed_no_more_than_a_downloaded_one(isolated: Workspace) -> None:
    [archive] = tool_cache(isolated).glob("*.zip")
    archive.write_bytes(archive.read_bytes()[:-1] + b"x")
    isolated.commit({"main.tf": isolated.backend})
    pod, result = offline(isolated, PLAN, RUN)
    assert (result.exit_code, result.reason) == (4, "ToolDownloadFailed")
    assert not list((pod.root / "work" / "tool").iterdir())


def test_a_release_key_that_expires_soon_is_told_in_log_and_result(isolated: Workspace) -> None:
    signer = Signer("Release <release@example.org>", validity_seconds=20 * 86400)
    keys = isolated.folder / "keys"
    keys.mkdir()
    (keys / "release.asc").write_text(str(signer.cert))
    isolated.settings["MAGOS_RELEASE_KEYS"] = str(keys)
    [sums] = tool_cache(isolated).glob("*_SHA256SUMS")
    (sums.parent / f"{sums.name}.gpgsig").write_bytes(signer.sign(sums.read_bytes()))
    isolated.commit({"main.tf": isolated.backend})
    pod, result = offline(isolated, PLAN, RUN)
    assert result.result is Outcome.SUCCEEDED, pod.log
    [warning] = result.warnings
    assert "expires on" in warning
    assert f"[magos-job] warning: {warning}" in pod.log


def test_providers_come_from_a_network_mirror_inside_and_from_nowhere_else(
    isolated: Workspace, provider: Path, tmp_path: Path
) -> None:
    with provider_mirror(provider, tmp_path / "ca.pem") as (url, asked):
        cli_config(isolated, f'network_mirror {{ url = "{url}/" }}')
        isolated.settings |= {
            "SSL_CERT_FILE": str(tmp_path / "ca.pem"),
            "HTTPS_PROXY": "http://127.0.0.1:1",  # whoever asks anybody but the loopback device fails
            "HTTP_PROXY": "http://127.0.0.1:1",
        }
        isolated.commit({"main.tf": isolated.backend + requires_time()})
        pod, planned = plan(isolated)
    assert (planned.result, planned.changes.add) == (Outcome.SUCCEEDED, 1), pod.log
    assert f"/{_REGISTRY}/hashicorp/time/index.json" in asked


@contextmanager
def provider_mirror(folder: Path, authority_file: Path) -> Iterator[tuple[str, list[str]]]:
    """Serve ``folder`` over HTTPS, as the tools insist; yields the address and the list of paths asked for."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(authority_file)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    asked: list[str] = []

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            super().do_GET()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Keep quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder))) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"https://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()
