"""A runner pod without a cluster: the stages as processes, one after the other, below one folder."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from magos.api.names import JobType
from magos.api.result import Result, decode_result
from magos.api.runnerpod import Stage
from magos.ids import GitSHA

__all__ = [
    "APPLY",
    "NEXT",
    "PLAN",
    "RUN",
    "RunnerPod",
    "Workspace",
    "apply",
    "plan",
    "provisioned",
    "resources",
    "until",
]

PLAN, APPLY = JobType.PLAN, JobType.APPLY
RUN = "20260101T000000-00000001"
NEXT = "20260101T000100-00000002"

_STAGE = """
import sys
from pathlib import Path
from magos.runner.main import run_stage
from magos.runner.paths import Paths
sys.exit(run_stage(sys.argv[2:], Paths(Path(sys.argv[1]))))
"""


def git(repository: Path, *arguments: str) -> str:
    """Run git in ``repository``; return its output."""
    identity = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(repository), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


class Workspace:
    """A repository, a volume and the settings of one Workspace."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        self.folder = folder
        self.repository = folder / "repository"
        self.volume = folder / "volume"
        self.state = self.volume / "state" / "terraform.tfstate"
        self.settings = dict(settings)
        for made in (self.repository, self.volume, self.state.parent):
            made.mkdir(parents=True)
        git(self.repository, "init", "-q", "-b", "main")

    @property
    def backend(self) -> str:
        """A backend block that keeps the state on the Workspace's volume."""
        return f'terraform {{\n  backend "local" {{\n    path = "{self.state}"\n  }}\n}}\n'

    def commit(self, files: Mapping[str, str]) -> GitSHA:
        """Replace the tree by ``files``."""
        for entry in self.repository.iterdir():
            if entry.name != ".git":
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        for name, content in files.items():
            target = self.repository / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content)
        return self.commit_more()

    def commit_more(self) -> GitSHA:
        """Commit the tree as it lies there."""
        git(self.repository, "add", "-A", "-f")
        git(self.repository, "commit", "-q", "--allow-empty", "-m", "test")
        return GitSHA(git(self.repository, "rev-parse", "HEAD"))

    def pod(self, phase: JobType, run_id: str, name: str = "", **extra: str) -> "RunnerPod":
        """A new pod of ``phase`` for run ``run_id``."""
        return RunnerPod(self, phase, run_id, name or f"{phase}-{run_id}", extra)


class RunnerPod:
    """One pod: fresh volumes except the Workspace's own."""

    def __init__(self, workspace: Workspace, phase: JobType, run_id: str, name: str, extra: Mapping[str, str]) -> None:
        self.phase = phase
        self.root = workspace.folder / name
        self.output: dict[Stage, str] = {}
        for made in ("work", "scratch", "tmp", "dev"):
            (self.root / made).mkdir(parents=True, exist_ok=True)
        if not (self.root / "workspace-data").exists():
            (self.root / "workspace-data").symlink_to(workspace.volume)
        self.env = {
            "PATH": os.environ["PATH"],
            "REPO_URL": workspace.repository.as_uri(),
            "TARGET_REVISION": "main",
            "PROJECT_REF": "shop",
            "TF_PATH": ".",
            "MAGOS_JOB_TYPE": phase,
            "MAGOS_RUN_ID": run_id,
            "MAGOS_NAMESPACE": "team",
            "MAGOS_WORKSPACE": "net",
            "MAGOS_PLAN_FILE": f"/workspace-data/runs/{run_id}/run.tfplan",
            "MAGOS_TERMINATION_GRACE_SECONDS": "120",
            "MAGOS_ALLOWED_GIT_SCHEMES": "file",
            "TF_PLUGIN_CACHE_DIR": "/workspace-data/plugin-cache",
            "TF_IN_AUTOMATION": "1",
            "TF_INPUT": "0",
            "HOME": "/tmp/home",  # noqa: S108 - a path below the root of the pod
            **workspace.settings,
            **extra,
        }
        self.plan_file = self.root / self.env["MAGOS_PLAN_FILE"].lstrip("/")
        self.log_file = self.root / "log"
        self.wrapper: tuple[str, ...] = ()
        """What runs the stage instead of running it directly; must become it (``exec``)."""

    def start(self, stage: Stage) -> subprocess.Popen[bytes]:
        """Start one stage; its standard input is a pipe that stays open, its output goes to the log file."""
        with self.log_file.open("ab") as log:
            return subprocess.Popen(
                [*self.wrapper, sys.executable, "-c", _STAGE, str(self.root), stage],
                env=self.env,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )

    def stage(self, stage: Stage) -> int:
        """Run one stage to its end; return its exit code."""
        begin = len(self.log)
        process = self.start(stage)
        try:
            code = process.wait(timeout=120)
        finally:
            process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()
        self.output[stage] = self.log[begin:]
        return code

    def run(self) -> Result:
        """Run all stages as the kubelet would; return the result, whose exit code the pod ended with."""
        for stage in Stage.JOB.before(self.phase):
            assert self.stage(stage) == 0, self.log
        code = self.stage(Stage.JOB)
        result = self.result
        assert result.exit_code == code, self.log
        return result

    @property
    def log(self) -> str:
        """All output so far."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    @property
    def result(self) -> Result:
        """The termination message, decoded."""
        message = (self.root / "dev" / "termination-log").read_bytes()
        assert len(message) <= 2400
        return decode_result(message)


def plan(workspace: Workspace, run_id: str = RUN, **extra: str) -> tuple[RunnerPod, Result]:
    pod = workspace.pod(PLAN, run_id, **extra)
    return pod, pod.run()


def apply(workspace: Workspace, planned: Result, name: str = "", **extra: str) -> tuple[RunnerPod, Result]:
    extra = {"MAGOS_REVISION": planned.revision, "MAGOS_PLAN_DIGEST": planned.plan_digest, **extra}
    pod = workspace.pod(APPLY, planned.run_id, name, **extra)
    return pod, pod.run()


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.02)


def resources(workspace: Workspace) -> list[str]:
    state = json.loads(workspace.state.read_text())
    return [resource["name"] for resource in state["resources"]]


def provisioned(script: str, *lines: str) -> str:
    """A resource whose creation runs ``script`` in a shell."""
    body = "".join(f"  {line}\n" for line in lines)
    command = json.dumps(script)
    return f'resource "terraform_data" "a" {{\n{body}  provisioner "local-exec" {{\n    command = {command}\n  }}\n}}\n'
