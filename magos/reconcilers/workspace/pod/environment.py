"""The environment of the stages (spec §5.5).

The kubelet expands ``$(NAME)`` in values; a doubled dollar sign stands for itself. Every value that comes from a user
is therefore doubled, so that the stage receives exactly the text that was written.
"""

from collections.abc import Sequence

from msgspec import Struct

from magos.api import repositorysecret, runnerpod
from magos.api.kube import EnvVar, EnvVarSource, KeySelector
from magos.api.names import JobType
from magos.api.runnerpod import Stage
from magos.api.workspace import Workspace
from magos.reconcilers.effects import RepositorySecretReport
from magos.reconcilers.workspace.inputs.policies import SelectedPolicies, policy_environment

FIXED_PREFIXES = runnerpod.OWN_PREFIXES
"""What a pod configuration must not set: names that begin like this ..."""

FIXED_NAMES = frozenset(
    {
        runnerpod.REPO_URL,
        runnerpod.TARGET_REVISION,
        runnerpod.VERSION,
        runnerpod.PROJECT,
        runnerpod.PATH,
        runnerpod.TF_LOG,
        runnerpod.TF_PLUGIN_CACHE_DIR,
        runnerpod.TF_IN_AUTOMATION,
        runnerpod.TF_INPUT,
        runnerpod.TF_DATA_DIR,
        runnerpod.HOME,
    }
)
"""... and these."""


_GIT_VARIABLES = {
    repositorysecret.SSH_PRIVATE_KEY: runnerpod.GIT_SSH_PRIVATE_KEY,
    repositorysecret.PASSWORD: runnerpod.GIT_PASSWORD,
    repositorysecret.USERNAME: runnerpod.GIT_USERNAME,
    repositorysecret.KNOWN_HOSTS: runnerpod.GIT_KNOWN_HOSTS,
    repositorysecret.CA_BUNDLE: runnerpod.GIT_CA_BUNDLE,
    repositorysecret.INSECURE_IGNORE_HOST_KEY: runnerpod.GIT_INSECURE_IGNORE_HOST_KEY,
}
"""The variable that each key of the repository Secret reaches stage ``fetch`` in."""

_LOGIN = (repositorysecret.SSH_PRIVATE_KEY, repositorysecret.PASSWORD, repositorysecret.USERNAME)


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
        pairs.append((runnerpod.TF_LOG, plan.log_level))
    if stage is Stage.JOB:
        pairs += policy_environment(plan.policies)
    variables = [EnvVar(name=name, value=value.replace("$", "$$")) for name, value in pairs]
    if stage is Stage.FETCH:
        variables += _git(plan.secret)
    if stage is Stage.TERRAFORM:
        variables += plan.variables
    if stage in (Stage.RENDER, Stage.JOB):  # they have no variables, but the plan, which holds the values
        variables += (each for each in plan.variables if each.name == runnerpod.REDACT)
    return tuple(variables)


def _identity(workspace: Workspace, plan: JobPlan) -> list[tuple[str, str]]:
    spec, meta = workspace.spec, workspace.metadata
    pairs = [
        (runnerpod.JOB_TYPE, str(plan.job_type)),
        (runnerpod.RUN_ID, plan.run_id),
        (runnerpod.NAMESPACE, meta.namespace),
        (runnerpod.WORKSPACE, meta.name),
        (runnerpod.PROJECT, spec.project_ref.name),
        (runnerpod.REPO_URL, spec.source.repo_url),
        (runnerpod.TARGET_REVISION, spec.source.target_revision),
        (runnerpod.PATH, spec.source.path),
        (runnerpod.VERSION, spec.terraform.version),
        (runnerpod.DISTRIBUTION, str(spec.terraform.distribution)),
        (runnerpod.PLAN_FILE, runnerpod.plan_file(plan.run_id)),
        (runnerpod.GRACE_SECONDS, str(plan.grace_seconds)),
    ]
    optional = [
        (runnerpod.REVISION, plan.revision),
        (runnerpod.PLAN_DIGEST, plan.plan_digest),
        (runnerpod.TFVARS_FILE, spec.terraform.tfvars_path),
    ]
    return pairs + [(name, value) for name, value in optional if value]


def _tool(plan: JobPlan) -> Sequence[tuple[str, str]]:
    return [
        (runnerpod.TF_PLUGIN_CACHE_DIR, runnerpod.PLUGIN_CACHE_PATH),
        (runnerpod.TF_IN_AUTOMATION, "1"),
        (runnerpod.TF_INPUT, "0"),
        (runnerpod.HOME, runnerpod.HOME_PATH),
        *plan.passed_on,
    ]


def _git(secret: RepositorySecretReport) -> list[EnvVar]:
    """Credentials, by reference only: an SSH key wins over basic auth, a password alone goes with the user ``git``."""
    if not secret.names:
        return []
    login = repositorysecret.login_keys(secret.keys)
    wanted = [key for key in _GIT_VARIABLES if key in login or (key in secret.keys and key not in _LOGIN)]
    variables = [_from_secret(_GIT_VARIABLES[key], secret.names[0], key) for key in wanted]
    if login == (repositorysecret.PASSWORD,):
        variables.insert(0, EnvVar(name=runnerpod.GIT_USERNAME, value=repositorysecret.DEFAULT_USERNAME))
    return variables


def _from_secret(name: str, secret: str, key: str) -> EnvVar:
    return EnvVar(name=name, value_from=EnvVarSource(secret_key_ref=KeySelector(name=secret, key=key)))
