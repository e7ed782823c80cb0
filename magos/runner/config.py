"""The environment of the stages (spec §5.5): the only place of the runner that reads it.

Each ``load_*`` function returns a frozen configuration or raises ``StageFailed`` (InvalidConfiguration, exit code 2)
naming the variable, what is wrong with it and what is expected. Values of secrets are never repeated in a message.
"""

import os
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final, TypeVar

import msgspec

from magos.api import runnerpod
from magos.api.names import JobType
from magos.api.reasons import Reason
from magos.api.tool import Distribution
from magos.git.credentials import Credentials
from magos.ids import Digest, GitSHA, RunID, git_sha, parse_digest, parse_run_id
from magos.masking.secretforms import secret_forms
from magos.outbound.peers import Network, Peers, parse_networks
from magos.runner.outcome import StageFailed

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)
Environment = Mapping[str, str]

_VERSION: Final = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z.-]+)?", re.ASCII
)
_LONGEST_VERSION: Final = 64
_SHORTEST_GRACE: Final = 11  # ten seconds are kept for killing and cleaning up
_TOKEN_FILE: Final = "_TOKEN_FILE"  # noqa: S105 - how names of variables end
_OWN_NAMES: Final = frozenset(
    {runnerpod.REPO_URL, runnerpod.TARGET_REVISION, runnerpod.VERSION, runnerpod.PROJECT, runnerpod.PATH}
)


class RunConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What every stage knows: identity, source and tool. ``plan_file`` is the path in the container."""

    run_id: RunID
    phase: JobType
    namespace: str
    workspace: str
    project: str
    repo_url: str
    target_revision: str
    revision: GitSHA | None
    plan_digest: Digest | None
    path: str
    tfvars: str | None
    distribution: Distribution
    version: str
    plan_file: str
    grace_seconds: int
    environment: Environment
    """What a tool inherits: everything but our own variables, credentials and TF_VAR_*."""

    @property
    def plan_name(self) -> str:
        """The name of the plan file in the run's folder."""
        return self.plan_file.rpartition("/")[2]


class FetchConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What ``fetch`` needs besides. ``mirror`` None is the official place, ``release_keys`` None the shipped keys."""

    run: RunConfig
    credentials: Credentials
    allowed_schemes: tuple[str, ...]
    peers: Peers
    mirror: str | None
    release_keys: str | None
    verify_signatures: bool
    secret_forms: tuple[bytes, ...]


class TerraformConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What ``terraform`` needs besides.

    ``variables`` maps ``TF_VAR_<name>`` to the literal the user wrote; ``secret_names`` are the variables, these and
    others, that come from Secrets.
    """

    run: RunConfig
    variables: Environment
    secret_names: frozenset[str]
    allow_ephemeral_state: bool
    secret_forms: tuple[bytes, ...]


class RenderConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What ``render`` needs besides: which variables have values from Secrets, which the plan carries."""

    run: RunConfig
    secret_variables: frozenset[str] = frozenset()


class JobConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What ``job`` needs besides. A digest means that there are policies to evaluate; a selector alone matched none.

    ``secret_variables`` are the variables whose values come from Secrets; ``job`` finds the values in the plan.
    """

    run: RunConfig
    policy_selector: str | None
    policies_digest: str | None
    secret_variables: frozenset[str] = frozenset()


def environment() -> Environment:
    """Return the environment of this process."""
    return dict(os.environ)


def load_fetch(env: Environment) -> FetchConfig:
    """Return the configuration of ``fetch``."""
    run = _run(env)
    schemes = env.get(runnerpod.ALLOWED_GIT_SCHEMES) or ",".join(runnerpod.DEFAULT_SCHEMES)
    mirror = runnerpod.MIRROR_OPENTOFU if run.distribution is Distribution.OPENTOFU else runnerpod.MIRROR_TERRAFORM
    return FetchConfig(
        run=run,
        credentials=_credentials(env),
        allowed_schemes=tuple(scheme for part in schemes.split(",") if (scheme := part.strip().lower())),
        peers=Peers(denied=_networks(env, runnerpod.DENIED_PEERS), allowed=_networks(env, runnerpod.ALLOWED_PEERS)),
        mirror=env.get(mirror) or None,
        release_keys=env.get(runnerpod.RELEASE_KEYS) or None,
        verify_signatures=_flag(env, runnerpod.VERIFY_SIGNATURES, default=True),
        secret_forms=fetch_forms(env),
    )


def fetch_forms(env: Environment) -> tuple[bytes, ...]:
    """Return what ``fetch`` must mask, whatever the rest of its environment is like."""
    return secret_forms(_credentials(env).secrets())


def _credentials(env: Environment) -> Credentials:
    return Credentials(
        ssh_private_key=env.get(runnerpod.GIT_SSH_PRIVATE_KEY) or None,
        username=env.get(runnerpod.GIT_USERNAME) or None,
        password=env.get(runnerpod.GIT_PASSWORD) or None,
        known_hosts=env.get(runnerpod.GIT_KNOWN_HOSTS) or None,
        ca_bundle=env.get(runnerpod.GIT_CA_BUNDLE) or None,
        insecure_ignore_host_key=env.get(runnerpod.GIT_INSECURE_IGNORE_HOST_KEY) == "true",
    )


def load_terraform(env: Environment) -> TerraformConfig:
    """Return the configuration of ``terraform``."""
    return TerraformConfig(
        run=_run(env),
        variables={name: value for name, value in env.items() if name.startswith(runnerpod.VARIABLE_PREFIX)},
        secret_names=_secret_names(env),
        allow_ephemeral_state=_flag(env, runnerpod.ALLOW_EPHEMERAL_STATE, default=False),
        secret_forms=terraform_forms(env),
    )


def terraform_forms(env: Environment) -> tuple[bytes, ...]:
    """Return what ``terraform`` must mask of its environment, whatever the rest of that is like."""
    copies = (value for name, value in env.items() if name.startswith(runnerpod.SECRET_COPIES))
    return secret_forms([*copies, *(env[name] for name in _secret_names(env) if name in env)])


def token_paths(env: Environment) -> tuple[str, ...]:
    """Return the paths in the container of the files that hold tokens for somebody, as variables name them."""
    return tuple(value for name, value in env.items() if name.upper().endswith(_TOKEN_FILE) and value.startswith("/"))


def _secret_names(env: Environment) -> frozenset[str]:
    return frozenset(name for part in env.get(runnerpod.REDACT, "").split(",") if (name := part.strip()))


def _secret_variables(env: Environment) -> frozenset[str]:
    """Return the names, in the configuration, of the variables whose values come from Secrets."""
    names = _secret_names(env)
    return frozenset(
        name.removeprefix(runnerpod.VARIABLE_PREFIX) for name in names if name.startswith(runnerpod.VARIABLE_PREFIX)
    )


def load_render(env: Environment) -> RenderConfig:
    """Return the configuration of ``render``."""
    return RenderConfig(run=_run(env), secret_variables=_secret_variables(env))


def load_job(env: Environment) -> JobConfig:
    """Return the configuration of ``job``."""
    return JobConfig(
        run=_run(env),
        policy_selector=env.get(runnerpod.POLICY_SELECTOR),
        policies_digest=env.get(runnerpod.POLICIES_DIGEST),
        secret_variables=_secret_variables(env),
    )


def _run(env: Environment) -> RunConfig:
    phase = _enum(env, runnerpod.JOB_TYPE, JobType)
    run_id = _parsed(env, runnerpod.RUN_ID, parse_run_id)
    applying = phase is JobType.APPLY
    return RunConfig(
        run_id=run_id,
        phase=phase,
        namespace=_required(env, runnerpod.NAMESPACE),
        workspace=_required(env, runnerpod.WORKSPACE),
        project=_required(env, runnerpod.PROJECT),
        repo_url=_required(env, runnerpod.REPO_URL),
        target_revision=_required(env, runnerpod.TARGET_REVISION),
        revision=_parsed(env, runnerpod.REVISION, git_sha) if applying or env.get(runnerpod.REVISION) else None,
        plan_digest=_parsed(env, runnerpod.PLAN_DIGEST, parse_digest) if applying else None,
        path=_relative(env, runnerpod.PATH) or ".",
        tfvars=_relative(env, runnerpod.TFVARS_FILE),
        distribution=_enum(env, runnerpod.DISTRIBUTION, Distribution),
        version=_parsed(env, runnerpod.VERSION, _version),
        plan_file=_plan_file(env, run_id),
        grace_seconds=_parsed(env, runnerpod.GRACE_SECONDS, _grace),
        environment=_inherited(env),
    )


def _inherited(env: Environment) -> Environment:
    return {
        name: value
        for name, value in env.items()
        if name not in _OWN_NAMES and not name.startswith(runnerpod.OWN_PREFIXES)
    }


def _invalid(name: str, problem: str) -> StageFailed:
    return StageFailed(Reason.INVALID_CONFIGURATION, f"environment variable {name} {problem}")


def _required(env: Environment, name: str) -> str:
    value = env.get(name)
    if not value:
        raise _invalid(name, "is not set; the workspace controller sets it on every runner container")
    return value


def _parsed(env: Environment, name: str, parse: Callable[[str], T]) -> T:
    value = _required(env, name)
    try:
        return parse(value)
    except ValueError as error:
        raise _invalid(name, f"is malformed: {error}") from None


def _enum(env: Environment, name: str, kind: type[E]) -> E:
    value = _required(env, name)
    try:
        return kind(value)
    except ValueError:
        raise _invalid(name, f"is {value!r}; it must be one of {', '.join(kind)}") from None


def _flag(env: Environment, name: str, *, default: bool) -> bool:
    value = env.get(name)
    if not value:
        return default
    if value not in {"true", "false"}:
        raise _invalid(name, f"is {value!r}; it must be true or false")
    return value == "true"


def _networks(env: Environment, name: str) -> tuple[Network, ...]:
    try:
        return parse_networks(env.get(name, ""))
    except ValueError as error:
        raise _invalid(name, f"is a list separated by commas in which {error}") from error


def _relative(env: Environment, name: str) -> str | None:
    """Return a path inside the tree as written; where it leads, links resolved, is checked once the tree is there."""
    value = env.get(name)
    if not value:
        return None
    if value.startswith("/") or "\0" in value:
        raise _invalid(name, f"is {value!r}; it must be relative to the repository root")
    return value


def _version(text: str) -> str:
    if len(text) > _LONGEST_VERSION or not _VERSION.fullmatch(text):
        raise ValueError(f"{text!r} is not an exact version such as 1.9.5 (no prefix, no range)")
    return text


def _grace(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) >= _SHORTEST_GRACE):
        raise ValueError(f"{text!r} is not a number of seconds of at least {_SHORTEST_GRACE}")
    return int(text)


def _plan_file(env: Environment, run_id: RunID) -> str:
    value = _required(env, runnerpod.PLAN_FILE)
    folder, _, name = value.rpartition("/")
    if folder != runnerpod.run_path(run_id) or not name or name in {".", ".."}:
        raise _invalid(runnerpod.PLAN_FILE, f"is {value!r}; it must be a file in {runnerpod.run_path(run_id)}")
    return value
