"""What the builder of a runner pod and the programs in it agree on (spec §5.4, §5.5, §7.6).

The workspace controller builds the pod, the runner's stages run in it. Stages, volumes, paths, names of environment
variables and exit codes are written here once, so that neither side can spell one of them in another way.
"""

from enum import StrEnum
from types import MappingProxyType
from typing import Final

from magos.api.names import JobType
from magos.api.reasons import Reason


class Stage(StrEnum):
    """One container of the pod, in the order in which they run; ``JOB`` is the main container."""

    FETCH = "fetch"
    TERRAFORM = "terraform"
    RENDER = "render"
    JOB = "job"

    def before(self, job_type: JobType) -> "tuple[Stage, ...]":
        """Return the stages that run before this one in a pod of ``job_type``."""
        stages = stages_of(job_type)
        return stages[: stages.index(self)]


def stages_of(job_type: JobType) -> tuple[Stage, ...]:
    """Return the stages of a plan or an apply, ``JOB`` last; an apply renders nothing."""
    return tuple(stage for stage in Stage if job_type is JobType.PLAN or stage is not Stage.RENDER)


DATA_VOLUME: Final = "workspace-data"
WORK_VOLUME: Final = "work"
SCRATCH_VOLUME: Final = "scratch"
POLICIES_VOLUME: Final = "policies"
TOKEN_VOLUME: Final = "service-account-token"  # noqa: S105 - the name of a volume


def tmp_volume(stage: Stage) -> str:
    """Return the name of the volume with a stage's own temporary files."""
    return f"tmp-{stage}"


POD_VOLUMES: Final = (WORK_VOLUME, SCRATCH_VOLUME, *map(tmp_volume, Stage))
"""The volumes that a pod writes to and that end with it; each has a limit of its own."""

DATA_PATH: Final = "/workspace-data"
"""The Workspace's volume. Code of the configuration writes to it."""

WORK_PATH: Final = "/work"
"""Source, tool and data folder of this pod."""

TOOL_FOLDER: Final = "tool"
"""The folder in the work volume with the unpacked, verified tool."""

SCRATCH_PATH: Final = "/scratch"
"""One folder a stage, which that stage may write to and later ones may read."""

TMP_PATH: Final = "/tmp"  # noqa: S108 - a path inside the container
POLICIES_PATH: Final = "/policies"
SECRETS_PATH: Final = "/var/run/secrets"
"""Where Kubernetes and injectors mount tokens."""

TOKEN_PATH: Final = f"{SECRETS_PATH}/kubernetes.io/serviceaccount"
TERMINATION_LOG: Final = "/dev/termination-log"
PLUGIN_CACHE_PATH: Final = f"{DATA_PATH}/plugin-cache"
HOME_PATH: Final = f"{TMP_PATH}/home"

RUNS: Final = "runs"
"""On the Workspace's volume, one folder a run: plan file, dependency lock file, started markers."""


def run_folder(run_id: str) -> str:
    """Return the name of a run's own folder on the volume."""
    return f"{RUNS}/{run_id}"


def run_path(run_id: str) -> str:
    """Return where a run's own folder lies in every stage."""
    return f"{DATA_PATH}/{run_folder(run_id)}"


def plan_file(run_id: str) -> str:
    """Return where the plan of a run lies in every stage."""
    return f"{run_path(run_id)}/run.tfplan"


ALLOWED_GIT_SCHEMES: Final = "MAGOS_ALLOWED_GIT_SCHEMES"
ALLOWED_PEERS: Final = "MAGOS_ALLOWED_PEERS"
ALLOW_EPHEMERAL_STATE: Final = "MAGOS_ALLOW_EPHEMERAL_STATE"
DENIED_PEERS: Final = "MAGOS_DENIED_PEERS"
MIRROR_OPENTOFU: Final = "MAGOS_OPENTOFU_MIRROR"
MIRROR_TERRAFORM: Final = "MAGOS_TERRAFORM_MIRROR"
RELEASE_KEYS: Final = "MAGOS_RELEASE_KEYS"
VERIFY_SIGNATURES: Final = "MAGOS_VERIFY_SIGNATURES"
PASSED_ON: Final = (
    ALLOWED_GIT_SCHEMES,
    ALLOWED_PEERS,
    ALLOW_EPHEMERAL_STATE,
    DENIED_PEERS,
    MIRROR_OPENTOFU,
    RELEASE_KEYS,
    MIRROR_TERRAFORM,
    VERIFY_SIGNATURES,
    "TF_CLI_CONFIG_FILE",
)
"""Variables of the controller that the runner gets as they are (spec §5.5, last row)."""

DEFAULT_SCHEMES: Final = ("https", "http", "ssh")
"""What may be cloned from where ``ALLOWED_GIT_SCHEMES`` is not set."""

JOB_TYPE: Final = "MAGOS_JOB_TYPE"
RUN_ID: Final = "MAGOS_RUN_ID"
NAMESPACE: Final = "MAGOS_NAMESPACE"
WORKSPACE: Final = "MAGOS_WORKSPACE"
PROJECT: Final = "PROJECT_REF"
REPO_URL: Final = "REPO_URL"
TARGET_REVISION: Final = "TARGET_REVISION"
REVISION: Final = "MAGOS_REVISION"
PATH: Final = "TF_PATH"
TFVARS_FILE: Final = "MAGOS_TFVARS_FILE"
VERSION: Final = "TF_VERSION"
DISTRIBUTION: Final = "MAGOS_TF_DISTRIBUTION"
PLAN_FILE: Final = "MAGOS_PLAN_FILE"
PLAN_DIGEST: Final = "MAGOS_PLAN_DIGEST"
GRACE_SECONDS: Final = "MAGOS_TERMINATION_GRACE_SECONDS"
POLICY_SELECTOR: Final = "MAGOS_POLICY_SELECTOR"
POLICY_ALL: Final = "MAGOS_POLICY_ALL"
POLICIES_DIGEST: Final = "MAGOS_POLICIES_DIGEST"
REDACT: Final = "MAGOS_REDACT_ENV"
"""Names the variables that come from Secrets, for the stages to mask: what they are given, and what a plan holds."""

GIT_SSH_PRIVATE_KEY: Final = "GIT_SSH_PRIVATE_KEY"
GIT_USERNAME: Final = "GIT_USERNAME"
GIT_PASSWORD: Final = "GIT_PASSWORD"  # noqa: S105 - the name of a variable
GIT_KNOWN_HOSTS: Final = "GIT_KNOWN_HOSTS"
GIT_CA_BUNDLE: Final = "GIT_CA_BUNDLE"
GIT_INSECURE_IGNORE_HOST_KEY: Final = "GIT_INSECURE_IGNORE_HOST_KEY"

HOME: Final = "HOME"
TF_DATA_DIR: Final = "TF_DATA_DIR"
TF_INPUT: Final = "TF_INPUT"
TF_IN_AUTOMATION: Final = "TF_IN_AUTOMATION"
TF_LOG: Final = "TF_LOG"
TF_PLUGIN_CACHE_DIR: Final = "TF_PLUGIN_CACHE_DIR"

VARIABLE_PREFIX: Final = "TF_VAR_"
"""How the environment variable of a Terraform variable begins; the name of the variable follows."""

SECRET_COPIES: Final = "MAGOS_SECRET_"  # noqa: S105 - the name of variables
"""How variables begin in which the runner gets once more what an ``envFrom`` takes from a Secret, to know what to mask.
Their values count, their names do not."""

OWN_PREFIXES: Final = ("MAGOS_", VARIABLE_PREFIX, "GIT_")
"""How names begin that only Magos sets; no pod configuration may set them, and no tool inherits them."""

TERMINATED: Final = 143
"""Exit code of a stage that was asked to stop: 128 + SIGTERM."""

_EXIT_CODES: Final = MappingProxyType(
    {
        Reason.PLAN_FAILED: 1,
        Reason.APPLY_FAILED: 1,
        Reason.INVALID_CONFIGURATION: 2,
        Reason.GIT_FAILED: 3,
        Reason.GIT_AUTHENTICATION_FAILED: 3,
        Reason.REVISION_NOT_FOUND: 3,
        Reason.UNKNOWN_HOST_KEY: 3,
        Reason.SCHEME_NOT_ALLOWED: 3,
        Reason.TOOL_DOWNLOAD_FAILED: 4,
        Reason.CHECKSUM_MISMATCH: 4,
        Reason.SIGNATURE_INVALID: 4,
        Reason.POLICY_VIOLATION: 5,
        Reason.POLICY_EVALUATION_FAILED: 5,
        Reason.PLAN_MISMATCH: 6,
        Reason.VOLUME_FULL: 7,
        Reason.INTERRUPTED: TERMINATED,
    }
)

REPORTED_REASONS: Final = frozenset(_EXIT_CODES)
"""Every reason the runner may report."""


def exit_code(reason: Reason) -> int:
    """Return the exit code of a run that ends with ``reason``; ``KeyError`` for a reason the runner never reports."""
    return _EXIT_CODES[reason]
