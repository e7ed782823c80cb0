"""Where programs come from: the order of sources, verified downloads, one build for several callers."""

import hashlib
import io
import os
import stat
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from magos.errors import MagosError
from magos.local.programs.assets import AssetSettings, control_plane_assets, kyverno_program, tofu_program
from magos.local.programs.download import Sources
from magos.local.programs.gobuild import BuildFailed
from magos.local.programs.recipes import (
    ETCD,
    ETCD_VERSION,
    GO_VERSION,
    KUBERNETES_VERSION,
    KYVERNO,
    TOFU,
    TOFU_VERSION,
    kubernetes,
)
from magos.local.servers.loopback import StaticServer, serving
from magos.toolchain.releases import architecture
from tests.unit.local.recorder import Recorder

_NOWHERE = Sources(kubernetes="http://127.0.0.1:9", etcd="http://127.0.0.1:9", tofu="http://127.0.0.1:9")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Path, Sources]]:
    """An empty download site and the sources that point to it."""
    folder = tmp_path / "site"
    folder.mkdir()
    server = StaticServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    base = f"http://127.0.0.1:{server.server_port}"
    with serving(server, "site"):
        yield (
            folder,
            Sources(kubernetes=f"{base}/k8s", etcd=f"{base}/etcd", tofu=f"{base}/tofu", kyverno=f"{base}/kyverno"),
        )


def _program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def _fake_go(folder: Path, body: str) -> Path:
    """A stand-in for the go command that writes to the file ``runs`` how often it built; ``body`` is its build."""
    mod = folder / "wanted.mod"
    mod.parent.mkdir(parents=True, exist_ok=True)
    mod.write_text("module wanted\n")
    return _program(
        folder / "go",
        f"""#!/bin/sh
case "$1 $2" in
  "version ") echo "go version go{GO_VERSION} linux/amd64" ;;
  "mod download") echo '{{"GoMod": "{mod}"}}' ;;
  "mod edit") echo '{{"Go": "1.26.0"}}' ;;
  "list "*) echo $4 >> {folder}/listed ;;
  build*) echo run >> {folder}/runs
    while [ "$1" != -o ]; do shift; done
    out=$2
    {body} ;;
esac
""",
    )


def _publish_kubernetes(site: Path, name: str, content: bytes, checksum: str | None = None) -> None:
    folder = site / "k8s" / f"v{KUBERNETES_VERSION}" / "bin" / "linux" / architecture()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)
    (folder / f"{name}.sha256").write_text(checksum or hashlib.sha256(content).hexdigest())


def _publish_etcd(site: Path, content: bytes) -> None:
    folder = site / "etcd" / f"v{ETCD_VERSION}"
    folder.mkdir(parents=True)
    base = f"etcd-v{ETCD_VERSION}-linux-{architecture()}"
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        entry = tarfile.TarInfo(f"{base}/etcd")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    (folder / f"{base}.tar.gz").write_bytes(buffer.getvalue())
    digest = hashlib.sha256(buffer.getvalue()).hexdigest()
    (folder / "SHA256SUMS").write_text(f"{'0' * 64}  other.tar.gz\n{digest}  {base}.tar.gz\n")


def _publish_kyverno(site: Path, content: bytes) -> None:
    folder = site / "kyverno" / f"v{KYVERNO.version}"
    folder.mkdir(parents=True)
    machine = {"amd64": "x86_64"}.get(architecture(), architecture())
    name = f"kyverno-cli_v{KYVERNO.version}_linux_{machine}.tar.gz"
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        entry = tarfile.TarInfo("kyverno")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    (folder / name).write_bytes(buffer.getvalue())
    (folder / "checksums.txt").write_text(f"{hashlib.sha256(buffer.getvalue()).hexdigest()}  {name}\n")


def test_the_kyverno_command_line_is_given_or_downloaded(tmp_path: Path, site: tuple[Path, Sources]) -> None:
    folder, sources = site
    _publish_kyverno(folder, b"kyverno")
    settings = AssetSettings(cache=tmp_path / "cache", environ={}, sources=sources)
    program = kyverno_program(settings, Recorder())
    assert program.read_bytes() == b"kyverno"
    assert program.name == "kyverno", "the runner looks for it by that name"
    given_program = _program(tmp_path / "given" / "kyverno")
    settings = AssetSettings(cache=tmp_path / "cache", environ={}, kubebuilder_assets=given_program.parent)
    assert kyverno_program(settings, Recorder()) == given_program


def test_three_programs_in_kubebuilder_assets_are_used_without_a_download(tmp_path: Path) -> None:
    given_folder = tmp_path / "given"
    for name in ("etcd", "kube-apiserver", "kube-controller-manager"):
        _program(given_folder / name)
    settings = AssetSettings(cache=tmp_path / "cache", environ={}, kubebuilder_assets=given_folder, sources=_NOWHERE)
    progress = Recorder()
    assets = control_plane_assets(settings, progress)
    assert {assets.etcd.parent, assets.kube_apiserver.parent, assets.kube_controller_manager.parent} == {given_folder}
    assert progress.said == []
    assert not (tmp_path / "cache").exists()


def test_a_foreign_api_server_gets_a_controller_manager_of_its_own_version(tmp_path: Path) -> None:
    given_folder, cache = tmp_path / "given", tmp_path / "cache"
    _program(given_folder / "etcd")
    _program(given_folder / "kube-apiserver", "#!/bin/sh\necho Kubernetes v1.31.4\n")
    cached = _program(
        cache / "programs" / kubernetes("kube-controller-manager", "1.31.4").key / "kube-controller-manager"
    )
    settings = AssetSettings(cache=cache, environ={}, kubebuilder_assets=given_folder, sources=None)
    assert control_plane_assets(settings, Recorder()).kube_controller_manager == cached


def test_a_foreign_api_server_without_a_release_version_is_refused_with_advice(tmp_path: Path) -> None:
    given_folder = tmp_path / "given"
    _program(given_folder / "kube-apiserver", "#!/bin/sh\necho broken >&2\n")
    settings = AssetSettings(cache=tmp_path / "cache", environ={}, kubebuilder_assets=given_folder, sources=None)
    with pytest.raises(MagosError, match=r"does not report a release version \(broken\).*unset KUBEBUILDER_ASSETS"):
        control_plane_assets(settings, Recorder())


def test_downloads_are_verified_placed_executable_and_not_repeated(tmp_path: Path, site: tuple[Path, Sources]) -> None:
    folder, sources = site
    _publish_kubernetes(folder, "kube-apiserver", b"apiserver")
    _publish_kubernetes(folder, "kube-controller-manager", b"manager")
    _publish_etcd(folder, b"etcd")
    settings = AssetSettings(cache=tmp_path / "cache", environ={}, sources=sources)
    first = control_plane_assets(settings, Recorder())
    assert first.etcd.read_bytes() == b"etcd"
    assert first.kube_apiserver.read_bytes() == b"apiserver"
    assert stat.S_IMODE(first.kube_controller_manager.stat().st_mode) == 0o755
    progress = Recorder()
    assert control_plane_assets(settings, progress) == first
    assert progress.said == []


def test_opentofu_is_taken_out_of_its_release_archive(tmp_path: Path, site: tuple[Path, Sources]) -> None:
    folder, sources = site
    release = folder / "tofu" / f"v{TOFU_VERSION}"
    release.mkdir(parents=True)
    archive = release / f"tofu_{TOFU_VERSION}_linux_{architecture()}.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("LICENSE", "text")
        packed.writestr("tofu", "program")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    (release / f"tofu_{TOFU_VERSION}_SHA256SUMS").write_text(f"{digest}  {archive.name}\n")
    settings = AssetSettings(cache=tmp_path / "cache", environ={}, sources=sources)
    assert tofu_program(settings, Recorder()).read_text() == "program"


def test_a_download_with_a_wrong_checksum_is_reported_in_one_line_and_built_instead(
    tmp_path: Path, site: tuple[Path, Sources]
) -> None:
    folder, sources = site
    _publish_kubernetes(folder, "kube-apiserver", b"tampered", hashlib.sha256(b"genuine").hexdigest())
    go = _fake_go(tmp_path / "bin", 'echo built > "$out"')
    settings = AssetSettings(cache=tmp_path / "cache", environ={"PATH": f"{go.parent}:/bin:/usr/bin"}, sources=sources)
    progress = Recorder()
    assets = control_plane_assets(settings, progress)
    assert assets.kube_apiserver.read_text() == "built\n"
    refused = [line for line in progress.said if line.startswith("cannot download kube-apiserver")]
    assert len(refused) == 1
    assert "SHA-256" in refused[0]
    assert "\n" not in refused[0]


def test_an_unreachable_download_site_is_tried_once_and_not_for_every_program(tmp_path: Path) -> None:
    go = _fake_go(tmp_path / "bin", 'echo built > "$out"')
    environ = {"PATH": f"{go.parent}:/bin:/usr/bin"}
    settings = AssetSettings(cache=tmp_path / "cache", environ=environ, sources=_NOWHERE)
    progress = Recorder()
    control_plane_assets(settings, progress)
    reasons = {line.partition(": ")[2] for line in progress.said if line.startswith("cannot download")}
    assert len(reasons) == 1
    assert "127.0.0.1 cannot be reached" in reasons.pop()


def test_two_callers_at_the_same_time_build_once(tmp_path: Path) -> None:
    go = _fake_go(tmp_path / "bin", f'while [ ! -e {tmp_path}/open ]; do :; done; echo built > "$out"')
    settings = AssetSettings(cache=tmp_path / "cache", environ={"PATH": f"{go.parent}:/bin:/usr/bin"}, sources=None)
    results: list[Path] = []
    waiting = threading.Event()

    class Second(Recorder):
        def say(self, text: str) -> None:
            if "another process is making it" in text:
                waiting.set()

    runs = go.parent / "runs"
    first = threading.Thread(target=lambda: results.append(tofu_program(settings, Recorder())))
    second = threading.Thread(target=lambda: results.append(tofu_program(settings, Second())))
    first.start()
    while not runs.exists():
        assert first.is_alive()
    second.start()
    assert waiting.wait(20)
    (tmp_path / "open").touch()
    first.join(20)
    second.join(20)
    assert len(set(results)) == 1
    assert len(results) == 2
    assert runs.read_text() == "run\n"


def test_a_failed_build_shows_the_output_of_go_and_leaves_no_entry(tmp_path: Path) -> None:
    go = _fake_go(tmp_path / "bin", 'echo half > "$out"; echo "undefined: colour" >&2; exit 1')
    settings = AssetSettings(cache=tmp_path / "cache", environ={"PATH": f"{go.parent}:/bin:/usr/bin"}, sources=None)
    with pytest.raises(BuildFailed, match=r"(?s)could not build tofu.*undefined: colour"):
        tofu_program(settings, Recorder())
    assert os.listdir(tmp_path / "cache" / "programs") == []  # noqa: PTH208


def test_a_build_ends_with_the_process_that_asked_for_it(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    go = _fake_go(tmp_path / "bin", f"echo $$ > {pid_file}.new; mv {pid_file}.new {pid_file}; exec sleep 600")
    code = f"""
import sys
from pathlib import Path
from magos.local.programs.assets import AssetSettings, tofu_program
from magos.local.programs.progress import LineProgress
environ, cache = {{"PATH": "{go.parent}:/bin:/usr/bin"}}, Path({str(tmp_path / "cache")!r})
tofu_program(AssetSettings(cache=cache, environ=environ, sources=None), LineProgress(sys.stderr))
"""
    with subprocess.Popen([sys.executable, "-c", code]) as asker:
        _wait(pid_file.exists)
        entry = Path(f"/proc/{pid_file.read_text().strip()}/stat")
        assert entry.exists()
        asker.kill()
    _wait(lambda: not entry.exists() or entry.read_text().split()[2] == "Z")


def _wait(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_the_modules_of_the_next_programs_are_downloaded_during_a_build(tmp_path: Path) -> None:
    """The first fake build ends only once Go has been asked for the modules of both next programs."""
    listed = tmp_path / "bin" / "listed"
    wait = f"for i in $(seq 2000); do grep -qsF {TOFU.package} {listed} && break; sleep 0.01; done"
    go = _fake_go(tmp_path / "bin", f'{wait}; echo built > "$out"')
    settings = AssetSettings(cache=tmp_path / "cache", environ={"PATH": f"{go.parent}:/bin:/usr/bin"}, sources=None)
    control_plane_assets(settings, Recorder(), ahead=(TOFU,))
    assert listed.read_text().split()[:2] == [ETCD.package, TOFU.package]


def test_a_download_ahead_ends_with_its_build(tmp_path: Path) -> None:
    pid = tmp_path / "bin" / "pid"
    go = _fake_go(
        tmp_path / "bin", f'for i in $(seq 2000); do [ -s {pid} ] && break; sleep 0.01; done; echo x > "$out"'
    )
    go.write_text(go.read_text().replace("echo $4", f"echo $$ > {pid}; exec sleep 600; echo"))
    settings = AssetSettings(cache=tmp_path / "cache", environ={"PATH": f"{go.parent}:/bin:/usr/bin"}, sources=None)
    tofu_program(settings, Recorder(), ahead=(ETCD,))
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
