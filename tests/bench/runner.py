"""What the runner costs beside the tools it runs: fetching a large repository, and everything but Terraform itself.

``runner.fetch_time_ratio`` compares a whole checkout, process start included, with ``git fetch --depth 1`` and ``git
checkout`` of the same repository from the same server; rounds are interleaved and medians are quoted.
``runner.fetch_peak_mib`` is the peak resident size of our process. ``runner.plan_overhead_seconds`` and
``runner.apply_overhead_seconds`` are the times of the stages' processes without the time in which the tool ran, with
warm caches; the split by stage goes to standard error.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from magos.api.runnerpod import Stage
from magos.api.tool import Distribution
from magos.local.programs.assets import AssetSettings, tofu_program
from magos.local.programs.progress import LineProgress
from magos.local.programs.recipes import TOFU_VERSION
from magos.local.servers.mirror import ReleaseMirror, release_mirror
from magos.toolchain.releases import architecture, release
from tests.e2e.git.servers import git, http_server
from tests.e2e.runner.pod import APPLY, PLAN, RunnerPod, Workspace

__all__ = ["large_repository", "measure_fetch", "measure_overhead"]

_FILES, _FILE_BYTES, _COMMITS = 1000, 20 * 1024, 15  # 20 MB at the tip, 300 MB of history
_FETCH_ROUNDS = 3
_OVERHEAD_ROUNDS = 3

_CHECKOUT = """
import sys
from pathlib import Path
from magos.git.checkout import CheckoutRequest, checkout
url, revision, work, destination = sys.argv[1:]
checkout(CheckoutRequest(url=url, target_revision="main", revision=revision, allowed_schemes=("http",),
                         workdir=Path(work), destination=Path(destination)))
[peak] = [line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
Path("peak").write_text(peak)
"""
_STAGE = """
import sys, time
from pathlib import Path
from magos.runner.main import run_stage
from magos.runner.paths import Paths
from magos.runner.process import Supervisor
run = Supervisor.run
def timed(self, command):
    began = time.perf_counter()
    try:
        return run(self, command)
    finally:
        with open(sys.argv[3], "a") as times:
            times.write(f"{time.perf_counter() - began}\\n")
Supervisor.run = timed
code = run_stage([sys.argv[2]], Paths(Path(sys.argv[1])))
Path(sys.argv[3] + ".cpu").write_text(str(time.process_time()))
sys.exit(code)
"""


def large_repository(folder: Path) -> tuple[Path, str]:
    """Make a bare repository of which nothing can be compressed; return it and its tip."""
    bare = folder / "large.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(bare)], check=True)
    git(bare, "config", "core.compression", "0")
    importing = subprocess.Popen(["git", "fast-import", "--quiet", "--depth=0"], cwd=bare, stdin=subprocess.PIPE)
    assert importing.stdin is not None
    with importing.stdin as stream:
        for number in range(_COMMITS):
            stream.write(b"commit refs/heads/main\ncommitter A <a> %d +0000\ndata 1\nx\n" % (1_700_000_000 + number))
            for file in range(_FILES):
                stream.write(b"M 100644 inline d%d/f%d\ndata %d\n" % (file % 30, file, _FILE_BYTES))
                stream.write(os.urandom(_FILE_BYTES) + b"\n")
    assert importing.wait() == 0
    git(bare, "config", "uploadpack.allowReachableSHA1InWant", "true")
    return bare, git(bare, "rev-parse", "main")


def _timed(command: list[str], folder: Path) -> float:
    """Return the seconds of a process."""
    began = time.perf_counter()
    subprocess.run(command, cwd=folder, stdout=sys.stderr, check=True)
    return time.perf_counter() - began


@contextmanager
def _fresh(folder: Path) -> Iterator[Path]:
    fresh = Path(tempfile.mkdtemp(dir=folder))
    yield fresh
    shutil.rmtree(fresh)


def _ours(folder: Path, url: str, revision: str) -> tuple[float, float]:
    """Return seconds and peak MiB of our checkout, which itself says the latter (proc(5), VmHWM)."""
    (folder / "work").mkdir()
    command = [sys.executable, "-c", _CHECKOUT, url, revision, str(folder / "work"), str(folder / "tree")]
    return _timed(command, folder), int((folder / "peak").read_text()) / 1024


def _gits(folder: Path, url: str, revision: str) -> float:
    """Return the seconds of git for the same."""
    script = f"git init -q . && git fetch -q --depth 1 {url} {revision} && git checkout -q FETCH_HEAD"
    return _timed(["sh", "-euc", script], folder)


def measure_fetch() -> dict[str, float]:
    """The large repository over smart HTTP from a real ``git http-backend``."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bare, revision = large_repository(folder)
        ours: list[tuple[float, float]] = []
        theirs: list[float] = []
        with http_server(folder) as server:
            url = f"{server.url}/{bare.name}"
            for _ in range(_FETCH_ROUNDS):
                with _fresh(folder) as fresh:
                    ours.append(_ours(fresh, url, revision))
                with _fresh(folder) as fresh:
                    theirs.append(_gits(fresh, url, revision))
    seconds, peak = statistics.median(each[0] for each in ours), max(each[1] for each in ours)
    git_seconds = statistics.median(theirs)
    print(f"fetch: ours {seconds:.2f} s, {peak:.0f} MiB; git {git_seconds:.2f} s", file=sys.stderr)
    return {"runner.fetch_time_ratio": round(seconds / git_seconds, 2), "runner.fetch_peak_mib": round(peak)}


def _publish_packed(mirror: ReleaseMirror, program: Path) -> None:
    """Publish the tool as its makers do: compressed."""
    folder = mirror.publish(program, TOFU_VERSION)
    layout = release(Distribution.OPENTOFU, TOFU_VERSION, architecture())
    with zipfile.ZipFile(folder / layout.archive, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as packed:
        packed.write(program, layout.binary)
    mirror.sign(folder, layout.checksums, layout.signatures[0])


class _Spent(Struct, frozen=True):
    """Seconds of one stage: passed while the tool did not run, and of our own processor time."""

    passed: float
    processor: float


def _overhead(pod: RunnerPod, stage: Stage) -> _Spent:
    """Run one stage."""
    times = pod.root / f"{stage}.times"
    began = time.perf_counter()
    with pod.log_file.open("ab") as log:
        command = [sys.executable, "-c", _STAGE, str(pod.root), stage, str(times)]
        code = subprocess.run(command, env=pod.env, stdout=log, stderr=log, check=False).returncode
    seconds = time.perf_counter() - began
    assert code == 0, pod.log
    passed = seconds - (sum(map(float, times.read_text().split())) if times.exists() else 0)
    return _Spent(passed, float(times.with_name(f"{times.name}.cpu").read_text()))


def _stages(pod: RunnerPod) -> dict[str, _Spent]:
    return {stage: _overhead(pod, stage) for stage in (*Stage.JOB.before(pod.phase), Stage.JOB)}


def measure_overhead() -> dict[str, float]:
    """A small module, planned and applied several times on one volume; the first round fills the caches."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "magos"
    program = tofu_program(AssetSettings(cache=cache, environ=dict(os.environ)), LineProgress(sys.stderr))
    spent: dict[str, list[dict[str, _Spent]]] = {PLAN: [], APPLY: []}
    with tempfile.TemporaryDirectory() as name, release_mirror(Path(name) / "r", Path(name) / "k") as mirror:
        _publish_packed(mirror, program)
        settings = {
            "TF_VERSION": TOFU_VERSION,
            "MAGOS_TF_DISTRIBUTION": "opentofu",
            "MAGOS_OPENTOFU_MIRROR": mirror.url,
            "MAGOS_RELEASE_KEYS": str(mirror.keys),
        }
        workspace = Workspace(Path(name) / "w", settings)
        for number in range(_OVERHEAD_ROUNDS + 1):
            module = f'resource "terraform_data" "a" {{\n  input = {number}\n}}\n'
            workspace.commit({"main.tf": workspace.backend + module})
            run_id = f"20260101T0000{number:02}-0000000{number}"
            planning = workspace.pod(PLAN, run_id)
            spent[PLAN].append(_stages(planning))
            planned = planning.result
            applying = workspace.pod(
                APPLY, run_id, MAGOS_REVISION=planned.revision, MAGOS_PLAN_DIGEST=planned.plan_digest
            )
            spent[APPLY].append(_stages(applying))
    return {f"runner.{phase}_overhead_seconds": _quoted(phase, rounds[1:]) for phase, rounds in spent.items()}


def _quoted(phase: str, rounds: list[dict[str, _Spent]]) -> float:
    medians = {stage: statistics.median(each[stage].passed for each in rounds) for stage in rounds[0]}
    processor = {stage: statistics.median(each[stage].processor for each in rounds) for stage in rounds[0]}
    split = ", ".join(f"{stage} {seconds:.2f} (processor {processor[stage]:.2f})" for stage, seconds in medians.items())
    print(f"{phase}, seconds without the tool: {split}", file=sys.stderr)
    return round(sum(medians.values()), 2)
