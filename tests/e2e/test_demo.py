"""The demo, as a user runs it."""

import itertools
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

_MAGOS = Path(sys.executable).parent / "magos"


def _processes_naming(text: str) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # the process has ended meanwhile
        if text in command:
            found.append(command)
    return found


def test_the_walk_promotes_halts_and_recovers_and_leaves_nothing_behind(tmp_path: Path) -> None:
    answer = subprocess.run(
        [_MAGOS, "demo", "--exit"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    told = answer.stdout + answer.stderr
    assert answer.returncode == 0, told
    revisions = re.findall(r"^[├└]─ ✔ Workspace shop-\w+ +Applied/\w+ +revision (\w{7})", answer.stdout, re.MULTILINE)
    assert len(revisions) == 3, told
    assert len(set(revisions)) == 1, told
    assert "shop-staging   Failed/PlanFailed" in told
    assert re.search(r"prod stays at \w{7}; its message: Run \S+ waits ", told), told
    assert len(re.findall(r"Terraform state of shop-\w+: /\S+/terraform\.tfstate$", told, re.MULTILINE)) == 3, told
    assert "export KUBECONFIG" not in told, "that file goes away with the demo"
    assert not re.search(r"\[(debug|info) ", told), "log lines stand between those of the story"
    assert not list(tmp_path.iterdir()), "the demo's folder is still there"
    assert not _processes_naming(str(tmp_path))


def test_ctrl_c_ends_everything_in_order_and_without_warnings(tmp_path: Path) -> None:
    with subprocess.Popen(
        [_MAGOS, "demo"],
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        before = list(itertools.takewhile(lambda line: "Planning/Planning" not in line, process.stdout))
        assert process.poll() is None, before
        process.send_signal(signal.SIGINT)
        after = process.stdout.read()
        process.wait(timeout=120)
    assert "stopping everything that the demo has started" in after
    assert [line for line in after.splitlines() if not re.match(r" *[\d.]+ s  |stopping everything ", line)] == []
    assert not _processes_naming(str(tmp_path))
    assert not list(tmp_path.iterdir())
