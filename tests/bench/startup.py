"""How long a process takes until it says something, as a ratio to an empty Python process in the same run."""

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

__all__ = ["measure"]

_ROUNDS = 7
_PROGRAMS = Path(sys.executable).parent
_KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:9"}}]
users: [{name: u, user: {token: t}}]
"""


def _until_first_line(command: list[str], environ: Mapping[str, str]) -> float:
    """Seconds from the start of the process to its first line, or to its end if it prints none."""
    began = time.perf_counter()
    with subprocess.Popen(
        command,
        env={"PATH": f"{_PROGRAMS}:{os.defpath}", **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        seconds = time.perf_counter() - began
        process.send_signal(signal.SIGKILL)
    return seconds


def measure() -> dict[str, float]:
    """Interleave the commands with an empty process, so that a noisy moment hits all of them; quote medians."""
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        kubeconfig.write_text(_KUBECONFIG)
        commands: dict[str, tuple[list[str], dict[str, str]]] = {
            "startup.job_ratio": ([str(_PROGRAMS / "magos-job"), "fetch"], {}),
            "startup.controller_ratio": (
                [str(_PROGRAMS / "magos-workspace-controller"), "--health-probe-bind-address=0"],
                {"KUBECONFIG": str(kubeconfig), "MAGOS_JOB_IMAGE": "magos-job", "POD_NAMESPACE": "magos-system"},
            ),
            "startup.cli_ratio": ([str(_PROGRAMS / "magos"), "--help"], {}),
        }
        empty = [sys.executable, "-c", "pass"]
        seconds: dict[str, list[float]] = {name: [] for name in ("empty", *commands)}
        for round_ in range(_ROUNDS + 1):
            for name, (command, environ) in {"empty": (empty, {}), **commands}.items():
                taken = _until_first_line(command, environ)
                if round_:  # the first round warms caches
                    seconds[name].append(taken)
    base = statistics.median(seconds["empty"])
    for name, values in seconds.items():
        print(f"{name}: median {statistics.median(values) * 1000:.0f} ms", file=sys.stderr)
    return {name: round(statistics.median(seconds[name]) / base, 2) for name in commands}
