"""Plans that are rendered once, and a stage ``job`` that judges them as often as a test likes."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from magos.api.meta import ObjectMeta
from magos.api.result import Result
from magos.api.runnerpod import Stage
from magos.api.selectors import Selector
from magos.api.validatingpolicy import ValidatingPolicy, content_digest
from magos.reconcilers.workspace.inputs.policies import policy_environment, select_policies
from tests.e2e.runner.pod import RunnerPod

__all__ = ["Rendered", "policy"]

_HURRIED = """
import sys
from pathlib import Path
from magos.runner import policies
policies.LIMIT_SECONDS = float(sys.argv[2])
from magos.runner.main import run_stage
from magos.runner.paths import Paths
sys.exit(run_stage(["job"], Paths(Path(sys.argv[1]))))
"""


def policy(
    expression: str,
    *,
    name: str = "p",
    actions: Iterable[str] | None = ("Deny",),
    annotations: Mapping[str, str] | None = None,
    message: str = "no",
    **spec: object,
) -> ValidatingPolicy:
    """A policy with one validation; ``actions`` None leaves its validation actions out."""
    written: dict[str, object] = {
        "evaluation": {"mode": "JSON"},
        "validations": [{"expression": expression, "message": message}],
    }
    if actions is not None:
        written["validationActions"] = list(actions)
    return ValidatingPolicy(metadata=ObjectMeta(name=name, annotations=annotations or {}), spec=written | spec)


class Rendered:
    """A pod whose stages have run up to ``render``; ``evaluators`` is the folder of the program ``kyverno``.

    ``limit``, if set, replaces the time an evaluation may take, in seconds.
    """

    def __init__(self, pod: RunnerPod) -> None:
        self.pod = pod
        self.limit = 0.0
        for stage in Stage.JOB.before(pod.phase):
            assert pod.stage(stage) == 0, pod.log
        assert (pod.root / "scratch/render/plan.json").is_file(), pod.log

    def judge(self, evaluators: Path, *policies: ValidatingPolicy) -> Result:
        """Mount the policies as the workspace controller selects them and run ``job``."""
        selected = select_policies(Selector(), policies)
        self.mount(selected.files)
        return self.job(evaluators, dict(policy_environment(selected)))

    def judge_files(self, evaluators: Path, files: Mapping[str, str]) -> Result:
        """Mount files that the workspace controller would never have stored."""
        self.mount(files)
        digest = content_digest({name: text.encode() for name, text in files.items()})
        return self.job(evaluators, {"MAGOS_POLICY_SELECTOR": "", "MAGOS_POLICIES_DIGEST": digest})

    def mount(self, files: Mapping[str, str]) -> None:
        """Lay files out as the kubelet does with a ConfigMap."""
        folder = self.pod.root / "policies"
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "..data").mkdir(parents=True)
        for name, text in files.items():
            (folder / "..data" / name).write_text(text)
            (folder / name).symlink_to(f"..data/{name}")

    def job(self, evaluators: Path, environment: Mapping[str, str]) -> Result:
        """Run ``job``; what it printed is ``log`` then."""
        pod = self.pod
        with self._environment(evaluators, environment):
            code = self._hurried() if self.limit else pod.stage(Stage.JOB)
        assert pod.result.exit_code == code, self.log
        assert list((pod.root / "tmp").glob("policy-evaluation*")) == [], "nothing stays behind"
        return pod.result

    @contextmanager
    def judging(self, evaluators: Path, *policies: ValidatingPolicy) -> Iterator[subprocess.Popen[bytes]]:
        """Start ``job`` and leave it to the block; it has ended when the block has."""
        selected = select_policies(Selector(), policies)
        self.mount(selected.files)
        with self._environment(evaluators, dict(policy_environment(selected))):
            process = self.pod.start(Stage.JOB)
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    @contextmanager
    def _environment(self, evaluators: Path, extra: Mapping[str, str]) -> Iterator[None]:
        pod, own = self.pod, self.pod.env
        pod.env = {**own, **extra, "PATH": f"{evaluators}:{os.environ['PATH']}"}
        try:
            yield
        finally:
            pod.env = own

    @property
    def log(self) -> str:
        """What the last ``job`` printed."""
        return self.pod.output[Stage.JOB]

    def _hurried(self) -> int:
        command = [sys.executable, "-c", _HURRIED, str(self.pod.root), str(self.limit)]
        ended = subprocess.run(command, env=self.pod.env, capture_output=True, text=True, timeout=60, check=False)
        self.pod.output[Stage.JOB] = ended.stdout + ended.stderr
        return ended.returncode
