"""Tries to exchange a plan between the moments at which it is made, shown, reported, compared and applied.

A run is played with the runner's real stages and a stand-in for the tool that only copies and digests what it is given,
so that hundreds of moments are affordable. The adversary acts once a run: at a line of the runner's own code, or while
the tool is at a chosen step, as code of a configuration would.
"""

import hashlib
import io
import json
import os
import random
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from magos.api.names import JobType
from magos.api.result import Outcome, Result, decode_result
from magos.api.runnerpod import Stage
from magos.ids import Digest, digest_of
from magos.runner.status import StageStatus
from tests.e2e.hostile.stageserver import Answer, Request
from tests.e2e.runner.pod import RUN

__all__ = ["TOOL_STEPS", "WAYS", "Attempt", "Outcomes", "Playground", "attempts", "playground", "tally"]

_REVISION: Final = "a" * 40
_STEPS: Final = tuple((phase, stage) for phase in JobType for stage in (*Stage.JOB.before(phase)[1:], Stage.JOB))

# What the adversary does; $V is the volume, $R the run's folder, $EVIL another plan, $ROOT the pod, $HONEST the plan.
WAYS: Final[Mapping[str, str]] = {
    "rewrite it": 'cat "$EVIL" >"$R/run.tfplan"',
    "append to it": 'echo x >>"$R/run.tfplan"',
    "put another in its place": 'cp "$EVIL" "$R/x"; mv -f "$R/x" "$R/run.tfplan"',
    "put another there and back": 'cp "$EVIL" "$R/x"; mv -f "$R/x" "$R/run.tfplan"; cp "$HONEST" "$R/run.tfplan"',
    "put a link there": 'ln -sfn "$EVIL" "$R/run.tfplan"',
    "put a hard link there": 'ln -f "$EVIL" "$R/run.tfplan"',
    "put a pipe there": 'rm -f "$R/run.tfplan"; mkfifo "$R/run.tfplan"',
    "put a folder there": 'rm -f "$R/run.tfplan"; mkdir "$R/run.tfplan"',
    "remove it": 'rm -f "$R/run.tfplan"',
    "replace its folder": 'mv "$R" "$V/moved"; mkdir "$R"; cp "$EVIL" "$R/run.tfplan"',
    "link its folder": 'mv "$R" "$V/moved"; ln -s "$V/evil" "$R"',
    "link its folder, to be read in two ways": 'mv "$R" "$V/moved"; ln -s /proc/self/cwd/two "$R"',
    "link the folder of all runs": 'mv "$V/runs" "$V/moved"; ln -s "$V/others" "$V/runs"',
}
TOOL_STEPS: Final = (
    (JobType.PLAN, "init-now"),
    (JobType.PLAN, "plan-before"),
    (JobType.PLAN, "plan-after"),
    (JobType.PLAN, "show-before"),
    (JobType.PLAN, "show-opened"),
    (JobType.PLAN, "show-after"),
    (JobType.APPLY, "init-now"),
    (JobType.APPLY, "apply-before"),
    (JobType.APPLY, "apply-opened"),
)
_TOOL: Final = """#!/bin/sh
step=$1
for each; do
  last=$each
  case $each in -out=*) out=${each#-out=} ;; esac
done
at() { if [ "$step-$1" = "$EXCHANGE_AT" ]; then eval "$EXCHANGE"; fi; }
case $step in
init) at now ;;
plan)
  at before
  test -p "$out" || : >"$out" || exit 1
  cat "$HONEST" 1<>"$out" || exit 1  # never waits for the other end of a pipe, as the real tools do not
  at after
  exit 2 ;;
show)
  at before
  exec 7<"$last" || exit 1
  at opened
  digest=$(sha256sum <&7)
  at after
  echo "{\\"format_version\\":\\"1.2\\",\\"resource_changes\\":[],\\"digest\\":\\"sha256:${digest%% *}\\"}" ;;
apply)
  at before
  exec 7<"$last" || exit 1
  at opened
  digest=$(sha256sum <&7)
  echo "sha256:${digest%% *}" >>"$APPLIED" ;;
esac
"""


class Attempt(msgspec.Struct, frozen=True):
    """One exchange: how, and when: at line number ``moment`` of a stage, or while the tool is at ``step``."""

    way: str
    phase: JobType
    stage: Stage = Stage.TERRAFORM
    moment: int = 0
    step: str = ""


class Outcomes(msgspec.Struct, frozen=True):
    """What became of the plan: its digest as shown, as reported (None: the plan failed), and as applied."""

    acted: bool
    shown: str
    reported: Digest | None
    applied: tuple[str, ...]
    succeeded: bool

    @property
    def exchanged(self) -> bool:
        """True if the digests differ anywhere on the way, or something was applied that was not reported."""
        if self.reported is None:
            return self.applied != ()
        once = (self.reported,)
        return self.shown != self.reported or self.applied not in ((once,) if self.succeeded else ((), once))


class Playground:
    """One folder in which run after run is played."""

    def __init__(self, folder: Path, server: "subprocess.Popen[str]") -> None:
        self._folder = folder
        self._server = server
        self._number = 0
        self._honest = folder / "honest"
        self._honest.write_bytes(_plan(0))
        self._tool = folder / "tool"
        self._tool.write_text(_TOOL)
        self._tool.chmod(0o755)

    def moments(self) -> dict[tuple[JobType, Stage], int]:
        """Play a run undisturbed; return how many moments each stage has."""
        found: dict[tuple[JobType, Stage], int] = {}
        outcomes = self.play(None, found)
        assert outcomes.succeeded, (self._root() / "log").read_text()
        assert outcomes.applied == (outcomes.shown,) == (digest_of(self._honest.read_bytes()),)
        return found

    def play(self, attempt: Attempt | None, found: dict[tuple[JobType, Stage], int] | None = None) -> Outcomes:
        """Play a run with the exchange ``attempt``."""
        self._number += 1
        root = self._prepared()
        reported: Digest | None = None
        acted = succeeded = False
        for phase in JobType:
            self._fetched(root, phase)
            environment = self._environment(root, phase, reported)
            for stage in (each for of, each in _STEPS if of is phase):
                answer = self._stage(self._request(root, environment, attempt, phase, stage))
                acted = acted or bool(answer.acted)
                if found is not None:
                    found[phase, stage] = answer.moments
            result = self._result(root)
            succeeded = result.result is Outcome.SUCCEEDED
            if phase is JobType.PLAN:
                if not succeeded:
                    break
                reported = Digest(result.plan_digest)
        outcomes = self._outcomes(root, reported, acted=acted, succeeded=succeeded)
        shutil.rmtree(root)
        return outcomes

    def _outcomes(self, root: Path, reported: Digest | None, *, acted: bool, succeeded: bool) -> Outcomes:
        shown, applied = root / "shown.json", root / "applied"
        return Outcomes(
            acted=acted or (root / "acted").exists(),
            shown=json.loads(shown.read_text())["digest"] if shown.exists() else "",
            reported=reported,
            applied=tuple(applied.read_text().split()) if applied.exists() else (),
            succeeded=succeeded,
        )

    def _root(self) -> Path:
        return self._folder / f"run-{self._number}"

    def _prepared(self) -> Path:
        root = self._root()
        volume = root / "workspace-data"
        for name in ("work/source/two", "work/tool", "work/data", "scratch", "tmp", "dev", "two"):
            (root / name).mkdir(parents=True)
        for name in ("evil", f"others/{RUN}"):
            (volume / name).mkdir(parents=True)
        # Seen from the tool's working directory it is another plan than from the runner's.
        shutil.copy(self._honest, root / "two/run.tfplan")
        for name in ("evil", f"others/{RUN}", "../work/source/two"):
            (volume / name / "run.tfplan").write_bytes(_plan(1))
        (root / "work/tool/tofu").symlink_to(self._tool)
        return root

    def _fetched(self, root: Path, phase: JobType) -> None:
        """Leave what ``fetch`` leaves; a pod has a scratch of its own, the log and what was shown are kept."""
        shown = root / "scratch/render/plan.json"
        if phase is JobType.APPLY:
            shutil.move(shown, root / "shown.json")
        shutil.rmtree(root / "scratch")
        status = StageStatus(stage=Stage.FETCH, revision=_REVISION, tool_version="1.9.5")
        (root / "scratch/fetch").mkdir(parents=True)
        (root / "scratch/fetch/status.json").write_bytes(msgspec.json.encode(status))

    def _environment(self, root: Path, phase: JobType, reported: Digest | None) -> dict[str, str]:
        volume = root / "workspace-data"
        environment = {
            "PATH": os.environ["PATH"],
            "REPO_URL": "https://example.com/r.git",
            "TARGET_REVISION": "main",
            "TF_VERSION": "1.9.5",
            "PROJECT_REF": "shop",
            "MAGOS_TF_DISTRIBUTION": "opentofu",
            "MAGOS_JOB_TYPE": phase,
            "MAGOS_RUN_ID": RUN,
            "MAGOS_NAMESPACE": "team",
            "MAGOS_WORKSPACE": "net",
            "MAGOS_PLAN_FILE": f"/workspace-data/runs/{RUN}/run.tfplan",
            "MAGOS_TERMINATION_GRACE_SECONDS": "120",
            "MAGOS_ALLOW_EPHEMERAL_STATE": "true",
            "V": str(volume),
            "R": str(volume / "runs" / RUN),
            "ROOT": str(root),
            "HONEST": str(self._honest),
            "EVIL": str(volume / "evil/run.tfplan"),
            "APPLIED": str(root / "applied"),
        }
        if reported is not None:
            environment |= {"MAGOS_REVISION": _REVISION, "MAGOS_PLAN_DIGEST": reported}
        return environment

    def _request(
        self, root: Path, environment: Mapping[str, str], attempt: Attempt | None, phase: JobType, stage: Stage
    ) -> Request:
        given = dict(environment)
        if attempt is None or attempt.phase is not phase:
            return Request(stage, str(root), given)
        if attempt.step:
            given |= {"EXCHANGE_AT": attempt.step, "EXCHANGE": f'{WAYS[attempt.way]}; : >"$ROOT/acted"'}
        moment = attempt.moment if attempt.stage is stage else 0
        return Request(stage, str(root), given, moment, WAYS[attempt.way])

    def _stage(self, request: Request) -> Answer:
        stdin, stdout = self._server.stdin, self._server.stdout
        assert stdin is not None
        assert stdout is not None
        answer = Path(request.root) / "answer.json"
        answer.unlink(missing_ok=True)
        stdin.write(msgspec.json.encode(request).decode() + "\n")
        stdin.flush()
        stdout.readline()
        assert answer.exists(), (Path(request.root) / "log").read_text()
        return msgspec.json.decode(answer.read_bytes(), type=Answer)

    def _result(self, root: Path) -> Result:
        return decode_result((root / "dev/termination-log").read_bytes())


@contextmanager
def playground(folder: Path) -> Iterator[Playground]:
    """A playground in ``folder``, with the process that runs its stages."""
    repository = Path(__file__).parents[3]
    command = [sys.executable, "-m", "tests.e2e.hostile.stageserver"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(repository), *sys.path])}
    server = subprocess.Popen(
        command, cwd=repository, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield Playground(folder, server)
    finally:
        server.communicate(timeout=60)


def attempts(moments: Mapping[tuple[JobType, Stage], int], seed: int, number: int) -> Iterator[Attempt]:
    """Yield every way at every step of the tool, then ``number`` at lines of our own code, spread over all of them."""
    for phase, step in TOOL_STEPS:
        for way in WAYS:
            yield Attempt(way, phase, step=step)
    chosen = random.Random(seed)
    everywhere = [(phase, stage, line) for (phase, stage), last in moments.items() for line in range(1, last + 1)]
    ways = list(WAYS)
    for count in range(number):
        low, high = count * len(everywhere) // number, (count + 1) * len(everywhere) // number
        phase, stage, line = everywhere[chosen.randrange(low, max(high, low + 1))]
        yield Attempt(chosen.choice(ways), phase, stage, line)


def tally(folder: Path, seed: int, number: int) -> tuple[int, list[tuple[Attempt, Outcomes]]]:
    """Try them all; return how many exchanges took place and those after which the digests differed."""
    tried, exchanged = 0, []
    with playground(folder) as ground:
        for attempt in attempts(ground.moments(), seed, number):
            outcomes = ground.play(attempt)
            tried += outcomes.acted
            if outcomes.exchanged:
                exchanged.append((attempt, outcomes))
    return tried, exchanged


def _plan(number: int) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("tfplan", hashlib.sha256(bytes([number])).digest())
    return content.getvalue()
