"""Environment variables: what controllers read, asked of their own readers, and what each stage of a runner gets."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from magos.adapters.gitsettings import allowed_schemes, peers
from magos.adapters.workspacesettings import load_workspace_settings
from magos.api.kube import EnvVar
from magos.api.meta import ObjectMeta
from magos.api.names import JobType
from magos.api.runnerpod import DEFAULT_SCHEMES, PASSED_ON, REDACT, Stage, stages_of
from magos.api.selectors import Selector
from magos.api.status import NameReference
from magos.api.workspace import Source, Terraform, Workspace, WorkspaceSpec
from magos.durations import format_duration
from magos.errors import InvariantViolation
from magos.reconcilers.effects import RepositorySecretReport
from magos.reconcilers.workspace.inputs.policies import SelectedPolicies
from magos.reconcilers.workspace.pod.environment import JobPlan, stage_environment
from magos.reconcilers.workspace.pod.settings import WorkspaceSettings
from magos.reference.asked import Asked
from magos.reference.stores import MEANINGS as STORES
from magos.reference.stores import store_variables

_DEFAULTS = WorkspaceSettings(job_image="")
_OF_ALL = frozenset({"POD_NAMESPACE"})
"""What ``magos/apps/controllers.py`` reads for every process, whatever else the process asks for."""
_PROCESSES = ("workspace", "project", "rollout", "variableset", "refwatcher")
_MEANINGS: Mapping[str, tuple[str, str]] = {
    **STORES,
    "MAGOS_ALLOWED_GIT_SCHEMES": (
        "URL schemes that may be cloned from: a list of https, http, ssh, git, file.",
        ",".join(DEFAULT_SCHEMES),
    ),
    "MAGOS_ALLOWED_PEERS": (
        "Exceptions from networks that are denied, by default or by `MAGOS_DENIED_PEERS`: like `10.1.0.0/16`.",
        "",
    ),
    "MAGOS_ALLOW_CONTROLLER_NAMESPACE": (
        "`true` lets Workspaces run in the controllers' own namespace; otherwise `NamespaceNotAllowed`.",
        "false",
    ),
    "MAGOS_ALLOW_EPHEMERAL_STATE": ("`true` allows configurations whose state ends with the pod.", "false"),
    "MAGOS_DENIED_PEERS": (
        "Networks that Git and downloads of tools never connect to (specification §7.2), like `10.0.0.0/8`.",
        "",
    ),
    "MAGOS_JOB_IMAGE": ("The runner image. The start is refused without it.", ""),
    "MAGOS_JOB_IMAGE_PULL_POLICY": ("Pull policy of the runner image.", _DEFAULTS.image_pull_policy),
    "MAGOS_JOB_POD_CONFIG": (
        "Path of a YAML file with additions to runner pods, and their requests and limits (specification §5.4).",
        "",
    ),
    "MAGOS_JOB_START_TIMEOUT": (
        "Time in which a container of a Job must have started.",
        format_duration(_DEFAULTS.start_timeout),
    ),
    "MAGOS_MINIMUM_OPENTOFU_VERSION": (
        "The lowest `spec.terraform.version` of OpenTofu that is run; below it `InvalidConfiguration`.",
        _DEFAULTS.minimum_opentofu,
    ),
    "MAGOS_MINIMUM_TERRAFORM_VERSION": (
        "The lowest `spec.terraform.version` of Terraform that is run; below it `InvalidConfiguration`.",
        _DEFAULTS.minimum_terraform,
    ),
    "MAGOS_OPENTOFU_MIRROR": ("Base URL of OpenTofu releases.", "the vendor's"),
    "MAGOS_PVC_SIZE": ("Size of a Workspace's volume claim.", _DEFAULTS.pvc_size),
    "MAGOS_PVC_STORAGE_CLASS": ("StorageClass of a Workspace's volume claim.", "the cluster's"),
    "MAGOS_RELEASE_KEYS": ("Folder of armoured public keys that releases are verified with.", "the shipped keys"),
    "MAGOS_TERRAFORM_MIRROR": ("Base URL of Terraform releases.", "the vendor's"),
    "MAGOS_VERIFIED_PRINCIPALS": (
        "`true` believes `mp/requested-by` and `mp/approved-by`; only together with the component `principals`.",
        "false",
    ),
    "MAGOS_VERIFY_SIGNATURES": ("`false` switches the verification of signatures off; checksums stay.", "true"),
    "POD_NAMESPACE": (
        "The controllers' own namespace: of the Lease, and where Workspaces are refused. Set by the manifests.",
        "",
    ),
    "TF_CLI_CONFIG_FILE": ("CLI configuration of the tool, for mirrors of providers.", ""),
}


class Variable(Struct, frozen=True, kw_only=True):
    """A variable that a controller reads; ``handed_on`` if the runner gets it as it is."""

    name: str
    processes: tuple[str, ...]
    default: str
    meaning: str
    handed_on: bool


class StageVariable(Struct, frozen=True, kw_only=True):
    """A variable of runner pods: the stages of a plan and of an apply that get it."""

    name: str
    plan: tuple[Stage, ...]
    apply: tuple[Stage, ...]


def controller_variables() -> tuple[Variable, ...]:
    """Return what the controllers read from the environment, besides what the client needs."""
    workspace, refwatcher = Asked({"MAGOS_JOB_IMAGE": "magos-job"}), Asked({})
    load_workspace_settings(workspace)
    allowed_schemes(refwatcher)
    peers(refwatcher)
    asked: Mapping[str, AbstractSet[str]] = {
        "workspace": workspace.names | store_variables(),
        "refwatcher": refwatcher.names,
    }
    readers = {process: asked.get(process, frozenset()) | _OF_ALL for process in _PROCESSES}
    names = sorted(frozenset[str]().union(*readers.values()))
    if unknown := [name for name in names if name not in _MEANINGS]:
        raise InvariantViolation(f"say in magos/reference/environment.py what {', '.join(unknown)} means")
    return tuple(
        Variable(
            name=name,
            processes=tuple(process for process, read in readers.items() if name in read),
            default=_MEANINGS[name][1],
            meaning=_MEANINGS[name][0],
            handed_on=name in PASSED_ON,
        )
        for name in names
    )


def stage_variables() -> tuple[StageVariable, ...]:
    """Return every variable that a stage may get, by name."""
    found = {job_type: _by_stage(job_type) for job_type in JobType}
    names = sorted({name for stages in found.values() for each in stages.values() for name in each})
    return tuple(
        StageVariable(
            name=name,
            plan=tuple(stage for stage, given in found[JobType.PLAN].items() if name in given),
            apply=tuple(stage for stage, given in found[JobType.APPLY].items() if name in given),
        )
        for name in names
    )


def _by_stage(job_type: JobType) -> Mapping[Stage, frozenset[str]]:
    """Return the names that each stage gets, over all that a Workspace and its Secrets can ask for."""
    given: dict[Stage, frozenset[str]] = {}
    for stage in stages_of(job_type):
        names = {each.name for keys in _SECRETS for each in stage_environment(_WORKSPACE, _job(job_type, keys), stage)}
        given[stage] = frozenset(names)
    return given


_WORKSPACE = Workspace(
    metadata=ObjectMeta(name="name", namespace="namespace"),
    spec=WorkspaceSpec(
        project_ref=NameReference(name="project"),
        source=Source(repo_url="https://example.org/r.git", target_revision="main"),
        terraform=Terraform(version="1.9.8", tfvars_path="prod.tfvars"),
    ),
)
_SECRETS: Sequence[tuple[str, ...]] = (
    ("caBundle", "insecureIgnoreHostKey", "known_hosts", "sshPrivateKey"),
    ("password", "username"),
)


def _job(job_type: JobType, keys: tuple[str, ...]) -> JobPlan:
    planning = job_type is JobType.PLAN
    return JobPlan(
        job_type=job_type,
        run_id="20260101T000000-00000000",
        revision="0" * 40,
        plan_digest="" if planning else "sha256:" + "0" * 64,
        log_level="INFO",
        secret=RepositorySecretReport(names=("secret",), keys=keys),
        passed_on=tuple((name, "value") for name in PASSED_ON),
        variables=(EnvVar(name="TF_VAR_<name>", value="value"), EnvVar(name=REDACT, value="TF_VAR_<name>")),
        policies=SelectedPolicies(selector=Selector(), files={"policy.yaml": "text"}) if planning else None,
    )
