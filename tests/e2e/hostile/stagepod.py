"""A runner pod with a canary in every secret that it can have, and the prowler in each of its stages.

In ``fetch`` no program of the configuration runs, so there the prowler runs beside ``get``, as its user. In the other
stages the configuration starts it: as a provider while the tool plans and while it renders, also by a provisioner in
an apply; in ``job`` it is what the evaluator of policies starts, as if a policy had taken that over.
"""

import json
import os
import secrets
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from msgspec import Struct

from magos.api.kube import EnvFromSource, EnvVar, EnvVarSource, KeySelector, SecretEnvSource
from magos.api.meta import ObjectMeta
from magos.api.result import Outcome, Result
from magos.api.runnerpod import REDACT, Stage
from magos.api.validatingpolicy import ValidatingPolicy, policy_file, policy_text
from magos.local.programs.assets import AssetSettings, kyverno_program
from magos.local.programs.progress import LineProgress
from magos.local.servers.mirror import ReleaseMirror
from magos.reconcilers.workspace.pod.settings import PodConfig
from tests.e2e.canary import forms
from tests.e2e.hostile.fetchpod import FetchPod
from tests.e2e.hostile.origins import Origin, Stranger
from tests.e2e.runner.hostile import provider_files, requires_time
from tests.e2e.runner.pod import APPLY, PLAN
from tests.e2e.runner.provider import time_provider_program

__all__ = ["CANARIES", "Search", "StagePod"]

CANARIES: Final = ("login", "variable", "pod variable", "pod secret", "token", "policies")
"""The repository's login, a variable from a Secret, one of the pod configuration, all keys of a Secret named there,
the token of the ServiceAccount, and the text of the policies."""

_PROWL: Final = "/opt/magos/bin/python /workspace-data/prowler.py </workspace-data/asked.json >>/tmp/told 2>&1"
_ONCE: Final = f"test -e /tmp/told || {_PROWL}"
"""The tool starts a provider several times."""

_MAIN: Final = f"""
terraform {{
  backend "local" {{
    path = "/workspace-data/state/net.tfstate"
  }}
}}
variable "hidden" {{}}
resource "terraform_data" "a" {{
  provisioner "local-exec" {{
    command = "{_PROWL}"
  }}
}}
"""
_EVALUATOR: Final = f"""#!/bin/sh
{_PROWL}
exec "${{0%/*}}/kyverno-itself" "$@"
"""

Found: TypeAlias = Mapping[str, Sequence[str]]
"""Where each secret was found."""


class Search(Struct, frozen=True):
    """What the prowlers of one stage found, and how much they searched."""

    found: Found
    searched: Mapping[str, int]


class StagePod(FetchPod):
    """The plan pod of a Workspace, then its apply pod."""

    def __init__(self, folder: Path, origin: Origin, mirror: ReleaseMirror) -> None:
        super().__init__(folder, origin, mirror)
        self._canaries = {name: f"canary-{secrets.token_hex(16)}" for name in CANARIES[1:]}
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "magos"
        self._assets = AssetSettings(cache=cache, environ=dict(os.environ))
        pod, values = self.pod, self._canaries
        pod.secrets |= {
            "inputs": {"hidden": values["variable"]},
            "cloud": {"token": values["pod variable"]},
            "backend": {"TF_HTTP_PASSWORD": values["pod secret"]},
        }
        pod.token = values["token"]
        pod.variables = (_from_secret("TF_VAR_hidden", "inputs", "hidden"), EnvVar(name=REDACT, value="TF_VAR_hidden"))
        pod.config = PodConfig(
            env=(_from_secret("CLOUD_TOKEN", "cloud", "token"),),
            env_from=(EnvFromSource(secret_ref=SecretEnvSource(name="backend")),),
        )
        pod.policies = {policy_file("p"): policy_text(_policy(values["policies"]))}
        pod.programs = self._programs(folder)

    @property
    def wanted(self) -> Mapping[str, list[bytes]]:
        found = {"login": self.forms}
        for name, value in self._canaries.items():
            plain = list(forms(value))
            found[name] = [*plain, *(form[::-1] for form in plain)]
        return found

    def search(self, somebody: Stranger) -> dict[str, Search]:
        """Run a plan and its apply; return what was found in each stage."""
        others = _listening()
        with self.caught({}, somebody) as pid:
            told = self.prowl(pid, "files", "proc", "sockets", others=others)
        searches = {"fetch": Search(told["found"], told["searched"])}
        self.pod.fresh()
        self._commit()
        asked = self.pod.volume / "asked.json"
        asked.write_text(json.dumps(self.asked("files", "proc", "sockets", others=others)))
        asked.chmod(0o644)
        planned = self._run(None)
        searches |= {"plan": self._told(Stage.TERRAFORM)}
        searches |= {str(stage): self._told(stage) for stage in (Stage.RENDER, Stage.JOB)}
        self.pod.fresh(planned)
        self._run(planned)
        return searches | {"apply": self._told(Stage.TERRAFORM)}

    def _commit(self) -> None:
        repository = self.origin.repository("configuration.git", {"main.tf": _MAIN + requires_time()})
        provider_files(repository.work, time_provider_program(self._assets, LineProgress(sys.stderr)), _ONCE)
        repository.commit({})

    def _run(self, planned: Result | None) -> Result:
        for stage in Stage.JOB.before(PLAN if planned is None else APPLY):
            assert self.pod.stage(stage) == 0, self.pod.log(stage)
        result = self.pod.result()
        assert result.result is Outcome.SUCCEEDED, (result.message, self.pod.log(Stage.TERRAFORM))
        assert planned is not None or result.policies.evaluated == 1
        return result

    def _told(self, stage: Stage) -> Search:
        """Put together what the prowlers of the container have said."""
        lines = (self.pod.folder / f"volumes/tmp-{stage}/told").read_text().splitlines()
        told = [json.loads(line) for line in lines]
        names = self.wanted
        found = {name: sorted({place for each in told for place in each["found"][name]}) for name in names}
        kinds = {kind for each in told for kind in each["searched"]}
        return Search(found, {kind: sum(each["searched"].get(kind, 0) for each in told) for kind in kinds})

    def _programs(self, folder: Path) -> tuple[Path, ...]:
        place = folder / "programs"
        place.mkdir()
        evaluator, real = place / "kyverno", place / "kyverno-itself"
        evaluator.write_text(_EVALUATOR)
        evaluator.chmod(0o755)
        real.symlink_to(kyverno_program(self._assets, LineProgress(sys.stderr)))
        return evaluator, real


def _from_secret(name: str, secret: str, key: str) -> EnvVar:
    return EnvVar(name=name, value_from=EnvVarSource(secret_key_ref=KeySelector(name=secret, key=key)))


def _policy(canary: str) -> ValidatingPolicy:
    """A policy that everything passes and whose text holds the canary."""
    spec = {
        "evaluation": {"mode": "JSON"},
        "validations": [{"expression": "true", "message": canary}],
        "validationActions": ["Deny"],
    }
    return ValidatingPolicy(metadata=ObjectMeta(name="p"), spec=spec)


def _listening() -> list[str]:
    """Return the TCP ports and abstract names on which this machine listens already: they are not the pod's."""
    ports = [line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    names = [line.split(maxsplit=7)[7] for line in Path("/proc/net/unix").read_text().splitlines()[1:] if " @" in line]
    return [*(str(int(local.partition(":")[2], 16)) for local in ports), *names]
