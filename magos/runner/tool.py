"""The command lines of the tool, Terraform or OpenTofu, and the environment each runs in.

Every command is non-interactive and gets the pod's own data directory, so that nothing of an earlier run's ``init`` is
ever reused (field case F19); nothing here migrates state or rewrites a backend.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from magos.api.reasons import Reason
from magos.api.tool import Distribution
from magos.masking.message import cleared, compose
from magos.runner.config import RunConfig
from magos.runner.diagnostics import LONGEST_DIAGNOSTIC, last_error, shorten
from magos.runner.outcome import StageFailed, phase_failed
from magos.runner.paths import Paths
from magos.runner.process import Command, Finished, Supervisor
from magos.runner.sealed import Sealed
from magos.runner.space import tool_met_full
from magos.toolchain.releases import architecture

_KILL_RESERVE: Final = 10
_BRIEF_STOP_TIMEOUT: Final = 3.0
_PLAN_HAS_CHANGES: Final = 2
_LOCK_WAIT_SECONDS: Final = 10
_FOREIGN_LOCK_FILE: Final = b"match any of the checksums"
_CACHE_TROUBLE: Final = (b"text file busy", b"plugin cache", b"plugin-cache", _FOREIGN_LOCK_FILE)
_UNKNOWN_SOURCE: Final = b"unable to compute static value"
_NO_MODULE: Final = b"failed to download module"
_SOURCE_HINT: Final = (
    "; Magos downloads modules without the variables of VariableSets: set those that a module source depends on by"
    " a default or in the file of spec.terraform.tfvarsPath"
)
_MEMORY_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")
_NO_VARIABLES: Final[Mapping[str, str]] = {}


def program_name(distribution: Distribution) -> str:
    """Return the name of the executable."""
    return "tofu" if distribution is Distribution.OPENTOFU else "terraform"


def inside_tree(tree: Path, relative: str, field: str) -> Path:
    """Return where ``relative`` leads, links resolved.

    Raises ``StageFailed`` (InvalidConfiguration) if that does not exist or lies outside ``tree`` (field case F08).
    """
    found = (tree / relative).resolve()
    if not found.is_relative_to(tree.resolve()):
        raise StageFailed(
            Reason.INVALID_CONFIGURATION,
            f"{field} is {relative!r}, which leads out of the repository; use a path inside it",
        )
    if not found.exists():
        raise StageFailed(
            Reason.INVALID_CONFIGURATION,
            f"{field} is {relative!r}, which is not in the repository at this revision; correct the path",
        )
    return found


class Tool:
    """Runs the installed tool on the module of ``run``; a failing command raises ``StageFailed``."""

    def __init__(self, paths: Paths, run: RunConfig, supervisor: Supervisor) -> None:
        self._paths = paths
        self._run = run
        self._supervisor = supervisor
        self._name = program_name(run.distribution)
        self.module = inside_tree(paths.source, run.path, "spec.source.path")

    @property
    def evaluates_early(self) -> bool:
        """True if backend settings and module sources may depend on variables (OpenTofu since 1.8)."""
        return self._is_opentofu_since(1, 8)

    @property
    def _compares_variables(self) -> bool:
        """True if ``apply`` reads files of variables by itself and wants them to say what the plan says.

        OpenTofu does since 1.11; it takes ``-var-file`` there since then, too, which the others refuse.
        """
        return self._is_opentofu_since(1, 11)

    def _is_opentofu_since(self, major: int, minor: int) -> bool:
        own = self._run.version.split(".", 2)
        return self._run.distribution is Distribution.OPENTOFU and (int(own[0]), int(own[1])) >= (major, minor)

    def get(self, git: Mapping[str, str]) -> None:
        """Download modules, with the Git access that ``git`` describes and without any ``TF_VAR_*`` (spec §5.4)."""
        arguments = ["get", "-no-color", *self._early_var_file()]
        finished = self._supervisor.run(replace(self._command(arguments, git), stop_timeout=_BRIEF_STOP_TIMEOUT))
        self._succeed("get", finished, _SOURCE_HINT if _UNKNOWN_SOURCE in _unwrapped(finished.tail) else "")

    def init(self, variables: Mapping[str, str], *, plugin_cache: bool = True) -> None:
        """Initialise the backend and the providers, without the plugin cache if that causes trouble.

        A full volume is no such trouble: whoever calls may make room first.
        """
        arguments = ["init", "-input=false", "-no-color", *self._early_var_file()]
        finished = self._supervisor.run(self._command(arguments, variables, plugin_cache=plugin_cache))
        if finished.code != 0 and tool_met_full(self._paths, finished.tail):
            self._succeed("init", finished)
        if finished.code != 0 and any(sign in _unwrapped(finished.tail) for sign in _CACHE_TROUBLE):
            finished = self._supervisor.run(self._command(arguments, variables, plugin_cache=False))
        said = _unwrapped(finished.tail)
        # Every module whose source does not depend on variables is there already.
        hint = _SOURCE_HINT if self.evaluates_early and _NO_MODULE in said else ""
        self._succeed("init", finished, self._lock_file_hint() if _FOREIGN_LOCK_FILE in said else hint)

    def plan(self, variables: Mapping[str, str]) -> None:
        """Write the plan file of the run at its path; later readers must verify what they find there."""
        output = self._paths.inside(self._run.plan_file)
        arguments = ["plan", "-input=false", "-no-color", "-detailed-exitcode", f"-out={output}"]
        finished = self._execute([*arguments, *self._lock_wait(), *self._var_file()], variables)
        if finished.code != _PLAN_HAS_CHANGES:
            self._succeed("plan", finished)

    def apply(self, variables: Mapping[str, str], plan: Sealed) -> None:
        """Apply exactly ``plan``."""
        arguments = ["apply", "-input=false", "-no-color", *self._lock_wait()]
        if self._compares_variables:
            arguments += self._var_file()
        self._succeed("apply", self._supervisor.run(self._given(plan, arguments, variables)))

    def push_state(self, variables: Mapping[str, str], state: Sealed) -> None:
        """Hand ``state`` to the backend, which refuses it if it has a newer one or one of another history."""
        arguments = ["state", "push", *self._lock_wait()]
        self._succeed("state push", self._supervisor.run(self._given(state, arguments, variables)))

    def pull_state(self, variables: Mapping[str, str], stdout: int) -> None:
        """Write the backend's state, which holds secrets, to the descriptor ``stdout``; nothing if it has none."""
        command = replace(self._command(["state", "pull"], variables), stdout=stdout)
        self._succeed("state pull", self._supervisor.run(command))

    def show_json(self, plan: Sealed, stdout: int) -> str:
        """Write ``plan`` as JSON, which holds secrets, to the descriptor ``stdout``.

        Returns why the providers might have reached into the tool meanwhile; nothing if they could not.
        """
        command = self._given(plan, ["show", "-json", "-no-color"], _NO_VARIABLES)
        finished = self._supervisor.run(
            replace(command, stop_timeout=_BRIEF_STOP_TIMEOUT, stdout=stdout, observed=True)
        )
        self._succeed("show", finished)
        return finished.exposure

    def _lock_wait(self) -> list[str]:
        """Wait a little for a lock that is only just held (field case F13); an option that a user set prevails."""
        users = (value for name, value in self._run.environment.items() if name.startswith("TF_CLI_ARGS"))
        return [] if any("-lock" in value for value in users) else [f"-lock-timeout={_LOCK_WAIT_SECONDS}s"]

    def _var_file(self) -> list[str]:
        if not self._run.tfvars:
            return []
        return [f"-var-file={inside_tree(self._paths.source, self._run.tfvars, 'spec.terraform.tfvarsPath')}"]

    def _early_var_file(self) -> list[str]:
        return self._var_file() if self.evaluates_early else []

    def _execute(self, arguments: list[str], extra: Mapping[str, str]) -> Finished:
        return self._supervisor.run(self._command(arguments, extra))

    def _command(self, arguments: list[str], extra: Mapping[str, str], *, plugin_cache: bool = True) -> Command:
        return Command(
            arguments=[str(self._paths.tool / self._name), *arguments],
            directory=self.module,
            environment={**self._environment(plugin_cache), **extra},
            stop_timeout=self._run.grace_seconds - _KILL_RESERVE,
        )

    def _given(self, file: Sealed, arguments: list[str], extra: Mapping[str, str]) -> Command:
        """Return the command with ``file`` as its last argument."""
        return replace(self._command([*arguments, file.path], extra), inherited=(file.descriptor,))

    def _environment(self, plugin_cache: bool) -> dict[str, str]:
        inherited = dict(self._run.environment)
        home = self._paths.made(inherited.get("HOME") or "/tmp/home")  # noqa: S108 - the container's own
        inherited |= {
            "HOME": str(home),
            "TF_DATA_DIR": str(self._paths.data),
            "TF_IN_AUTOMATION": "1",
            "TF_INPUT": "0",
            "CHECKPOINT_DISABLE": "1",
        }
        cache = inherited.pop("TF_PLUGIN_CACHE_DIR", None)
        if cache and plugin_cache:
            inherited["TF_PLUGIN_CACHE_DIR"] = str(self._paths.made(cache))  # a missing one ends the tool
        return inherited

    def _ending(self, step: str, code: int) -> str:
        if code >= 0:
            return f"ended with exit code {code}"
        killed = f"was killed by signal {-code} (9 is often a lack of memory{_memory_limit()})"
        return f"{killed}; the outcome of the apply is unknown; the next run plans again" if step == "apply" else killed

    def _lock_file_hint(self) -> str:
        return f"; run '{self._name} providers lock -platform=linux_{architecture()}' and commit the lock file"

    def _succeed(self, step: str, finished: Finished, hint: str = "") -> None:
        if finished.code == 0:
            return
        # The output has been masked as it passed; what is ours is not masked with it.
        ending = cleared(f"{self._name} {self._ending(step, finished.code)}")
        cause = last_error(finished.tail, datetime.now(UTC)) or ending
        failed = compose("{step} failed: {cause}", step=cleared(step), cause=cause)
        text = shorten(failed, LONGEST_DIAGNOSTIC - len(hint))
        full = tool_met_full(self._paths, finished.tail)
        reason = Reason.VOLUME_FULL if full else phase_failed(self._run.phase)
        raise StageFailed(reason, compose("{text}{hint}", text=text, hint=cleared(hint)))


def _memory_limit() -> str:
    """Return what is said of the container's memory limit; nothing if it has none that can be seen."""
    try:
        limit = int(_MEMORY_LIMIT.read_text("ascii"))
    except (OSError, ValueError):  # "max", or another version of control groups
        return ""
    return f"; the limit of this stage is {limit // 1024**2} MiB, see stageResources in MAGOS_JOB_POD_CONFIG"


def _unwrapped(output: bytes) -> bytes:
    """Return ``output`` in lower case on one line: the tools wrap their messages anywhere."""
    return b" ".join(output.lower().split())
