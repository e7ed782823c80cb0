"""The environment of the stages (spec §5.5).

The kubelet expands ``$(NAME)`` in values; a doubled dollar sign stands for itself. Every value that comes from a user
is therefore doubled, so that the stage receives exactly the text that was written.
"""

from collections.abc import Sequence

from msgspec import Struct

from magos.api.kube import EnvVar, EnvVarSource, KeySelector
from magos.api.names import JobType
from magos.api.workspace import Workspace
from magos.reconcilers.effects import RepositorySecretReport
from magos.reconcilers.workspace.inputs.policies import SelectedPolicies, policy_environment
from magos.reconcilers.workspace.inputs.variables import REDACT
from magos.reconcilers.workspace.pod.stages import Stage, plan_file

__all__ = ["FIXED_NAMES", "FIXED_PREFIXES", "JobPlan", "stage_environment"]

FIXED_PREFIXES = ("MAGOS_", "TF_VAR_", "GIT_")
"""What a pod configuration must not set: names that begin like this ..."""

FIXED_NAMES = frozenset(
    {
        "REPO_URL",
        "TARGET_REVISION",
        "TF_VERSION",
        "PROJECT_REF",
        "TF_PATH",
        "TF_LOG",
        "TF_PLUGIN_CACHE_DIR",
        "TF_IN_AUTOMATION",
        "TF_INPUT",
        "TF_DATA_DIR",
        "HOME",
    }
)
"""... and these."""


class JobPlan(Struct, frozen=True, kw_only=True):
    """What one Job of a run is to do; ``revision`` is empty if the runner has to resolve the target revision itself.

    ``variables`` are the entries of stage ``terraform``, ready for a manifest. ``policies`` are those of a plan, None
    without an effective selector.
    """

    job_type: JobType
    run_id: str
    revision: str = ""
    plan_digest: str = ""
    log_level: str = ""
    grace_seconds: int = 300
    secret: RepositorySecretReport = RepositorySecretReport()
    passed_on: tuple[tuple[str, str], ...] = ()
    variables: tuple[EnvVar, ...] = ()
    policies: SelectedPolicies | None = None


def stage_environment(workspace: Workspace, plan: JobPlan, stage: Stage) -> tuple[EnvVar, ...]:
    """Return the variables of one stage, in a fixed order."""
    pairs = [*_identity(workspace, plan), *_tool(plan)]
    if stage is Stage.TERRAFORM and plan.log_level:
        pairs.append(("TF_LOG", plan.log_level))
    if stage is Stage.JOB:
        pairs += policy_environment(plan.policies)
    variables = [EnvVar(name=name, value=value.replace("$", "$$")) for name, value in pairs]
    if stage is Stage.FETCH:
        variables += _git(plan.secret)
    if stage is Stage.TERRAFORM:
        variables += plan.variables
    if stage in (Stage.RENDER, Stage.JOB):  # they have no variables, but the plan, which holds the values
        variables += (each for each in plan.variables if each.name == REDACT)
    return tuple(variables)


def _identity(workspace: Workspace, plan: JobPlan) -> list[tuple[str, str]]:
    spec, meta = workspace.spec, workspace.metadata
    pairs = [
        ("MAGOS_JOB_TYPE", str(plan.job_type)),
        ("MAGOS_RUN_ID", plan.run_id),
        ("MAGOS_NAMESPACE", meta.namespace),
        ("MAGOS_WORKSPACE", meta.name),
        ("PROJECT_REF", spec.project_ref.name),
        ("REPO_URL", spec.source.repo_url),
        ("TARGET_REVISION", spec.source.target_revision),
        ("TF_PATH", spec.source.path),
        ("TF_VERSION", spec.terraform.version),
        ("MAGOS_TF_DISTRIBUTION", str(spec.terraform.distribution)),
        ("MAGOS_PLAN_FILE", plan_file(plan.run_id)),
        ("MAGOS_TERMINATION_GRACE_SECONDS", str(plan.grace_seconds)),
    ]
    optional = [
        ("MAGOS_REVISION", plan.revision),
        ("MAGOS_PLAN_DIGEST", plan.plan_digest),
        ("MAGOS_TFVARS_FILE", spec.terraform.tfvars_path),
    ]
    return pairs + [(name, value) for name, value in optional if value]


def _tool(plan: JobPlan) -> Sequence[tuple[str, str]]:
    return [
        ("TF_PLUGIN_CACHE_DIR", "/workspace-data/plugin-cache"),
        ("TF_IN_AUTOMATION", "1"),
        ("TF_INPUT", "0"),
        ("HOME", "/tmp/home"),  # noqa: S108 - a path inside the container
        *plan.passed_on,
    ]


def _git(secret: RepositorySecretReport) -> list[EnvVar]:
    """Credentials, by reference only: an SSH key wins over basic auth, a password alone goes with the user ``git``."""
    if not secret.names:
        return []
    keys = frozenset(secret.keys)
    wanted: list[tuple[str, str]] = []
    variables: list[EnvVar] = []
    if "sshPrivateKey" in keys:
        wanted.append(("GIT_SSH_PRIVATE_KEY", "sshPrivateKey"))
    elif "password" in keys:
        wanted.append(("GIT_PASSWORD", "password"))
        if "username" in keys:
            wanted.append(("GIT_USERNAME", "username"))
        else:
            variables.append(EnvVar(name="GIT_USERNAME", value="git"))
    for name, key in (
        ("GIT_KNOWN_HOSTS", "known_hosts"),
        ("GIT_CA_BUNDLE", "caBundle"),
        ("GIT_INSECURE_IGNORE_HOST_KEY", "insecureIgnoreHostKey"),
    ):
        if key in keys:
            wanted.append((name, key))
    return variables + [_from_secret(name, secret.names[0], key) for name, key in wanted]


def _from_secret(name: str, secret: str, key: str) -> EnvVar:
    return EnvVar(name=name, value_from=EnvVarSource(secret_key_ref=KeySelector(name=secret, key=key)))
