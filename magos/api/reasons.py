"""The closed list of reasons: why an object is in its phase.

A reason is CamelCase, stable, and what people write alerts and scripts on. Its message says the rest.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from magos.api.phases import Phase


class Reason(StrEnum):
    """Every reason Magos writes to status and to the ``Ready`` condition."""

    # why a run is pending
    AWAITING_ROLLOUT = "AwaitingRollout"
    CONFIGURATION_CHANGED = "ConfigurationChanged"
    NEW_REVISION_DETECTED = "NewRevisionDetected"
    MANUAL_RECONCILE_REQUESTED = "ManualReconcileRequested"
    VARIABLES_CHANGED = "VariablesChanged"
    RETRY_PLAN = "RetryPlan"
    RETRY_APPLY = "RetryApply"
    SCHEDULED_RECONCILE = "ScheduledReconcile"
    AWAITING_VARIABLES = "AwaitingVariables"
    PREVIOUS_RUNNER_TERMINATING = "PreviousRunnerTerminating"
    # a run on its way
    PLAN_JOB_CREATED = "PlanJobCreated"
    PLANNING = "Planning"
    PLAN_SUCCEEDED = "PlanSucceeded"
    AUDIT_POLICY_VIOLATION = "AuditPolicyViolation"
    APPLY_JOB_CREATED = "ApplyJobCreated"
    APPLYING = "Applying"
    APPLY_SUCCEEDED = "ApplySucceeded"
    NO_CHANGES = "NoChanges"
    # a run that failed, as the runner reports it
    PLAN_FAILED = "PlanFailed"
    APPLY_FAILED = "ApplyFailed"
    POLICY_VIOLATION = "PolicyViolation"
    POLICY_EVALUATION_FAILED = "PolicyEvaluationFailed"
    PLAN_MISMATCH = "PlanMismatch"
    INTERRUPTED = "Interrupted"
    INVALID_CONFIGURATION = "InvalidConfiguration"
    VOLUME_FULL = "VolumeFull"
    GIT_FAILED = "GitFailed"
    GIT_AUTHENTICATION_FAILED = "GitAuthenticationFailed"
    REVISION_NOT_FOUND = "RevisionNotFound"
    UNKNOWN_HOST_KEY = "UnknownHostKey"
    SCHEME_NOT_ALLOWED = "SchemeNotAllowed"
    TOOL_DOWNLOAD_FAILED = "ToolDownloadFailed"
    CHECKSUM_MISMATCH = "ChecksumMismatch"
    SIGNATURE_INVALID = "SignatureInvalid"
    # a run that failed, as the controller sees it
    RESULT_MISSING = "ResultMissing"
    RUN_LOST = "RunLost"
    INVALID_REPOSITORY_SECRET = "InvalidRepositorySecret"  # noqa: S105 - a reason
    UNRESOLVED_VARIABLES = "UnresolvedVariables"
    INVALID_POLICY_SELECTOR = "InvalidPolicySelector"
    VOLUME_CONFLICT = "VolumeConflict"
    JOB_REJECTED = "JobRejected"
    NAMESPACE_NOT_ALLOWED = "NamespaceNotAllowed"
    SERVICE_ACCOUNT_NOT_ALLOWED = "ServiceAccountNotAllowed"
    SERVICE_ACCOUNT_NOT_FOUND = "ServiceAccountNotFound"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    POD_UNSCHEDULABLE = "PodUnschedulable"
    VOLUME_UNAVAILABLE = "VolumeUnavailable"
    QUOTA_EXCEEDED = "QuotaExceeded"
    POD_CONFIG_ERROR = "PodConfigError"
    JOB_START_FAILED = "JobStartFailed"
    # any kind
    RECONCILE_ERROR = "ReconcileError"
    DELETING = "Deleting"
    # Project
    DEFAULT_PARALLEL = "DefaultParallel"
    MANAGED_BY_ROLLOUT = "ManagedByRollout"
    # Rollout
    NO_STEPS = "NoSteps"
    LEVEL_PROGRESSING = "LevelProgressing"
    ROLLOUT_COMPLETED = "RolloutCompleted"
    NO_WORKSPACES_FOUND = "NoWorkspacesFound"
    STEP_FAILED = "StepFailed"
    # VariableSet
    ALL_REFERENCES_RESOLVED = "AllReferencesResolved"
    UNRESOLVED_REFERENCES = "UnresolvedReferences"


class ReferenceProblem(StrEnum):
    """Why a reference of a VariableSet has no value (``status.unresolvedReferences[].reason``)."""

    RESOURCE_NOT_FOUND = "ResourceNotFound"
    KEY_NOT_FOUND = "KeyNotFound"
    FORBIDDEN = "Forbidden"


HEALING = frozenset(
    {
        Reason.NO_WORKSPACES_FOUND,
        Reason.UNRESOLVED_REFERENCES,
        Reason.UNRESOLVED_VARIABLES,
        Reason.SERVICE_ACCOUNT_NOT_ALLOWED,
        Reason.SERVICE_ACCOUNT_NOT_FOUND,
    }
)
"""Failures that heal when another object appears: not ready, but not stalled either."""

INTERRUPTIONS = frozenset({Reason.INTERRUPTED, Reason.RUN_LOST})
"""Failures that say nothing about the configuration: what ran was taken away."""

FAILURES = frozenset(
    {
        Reason.PLAN_FAILED,
        Reason.APPLY_FAILED,
        Reason.POLICY_EVALUATION_FAILED,
        Reason.PLAN_MISMATCH,
        Reason.INTERRUPTED,
        Reason.INVALID_CONFIGURATION,
        Reason.VOLUME_FULL,
        Reason.GIT_FAILED,
        Reason.GIT_AUTHENTICATION_FAILED,
        Reason.REVISION_NOT_FOUND,
        Reason.UNKNOWN_HOST_KEY,
        Reason.SCHEME_NOT_ALLOWED,
        Reason.TOOL_DOWNLOAD_FAILED,
        Reason.CHECKSUM_MISMATCH,
        Reason.SIGNATURE_INVALID,
        Reason.RESULT_MISSING,
        Reason.RUN_LOST,
        Reason.INVALID_REPOSITORY_SECRET,
        Reason.UNRESOLVED_VARIABLES,
        Reason.INVALID_POLICY_SELECTOR,
        Reason.VOLUME_CONFLICT,
        Reason.JOB_REJECTED,
        Reason.NAMESPACE_NOT_ALLOWED,
        Reason.SERVICE_ACCOUNT_NOT_ALLOWED,
        Reason.SERVICE_ACCOUNT_NOT_FOUND,
        Reason.IMAGE_PULL_FAILED,
        Reason.POD_UNSCHEDULABLE,
        Reason.VOLUME_UNAVAILABLE,
        Reason.QUOTA_EXCEEDED,
        Reason.POD_CONFIG_ERROR,
        Reason.JOB_START_FAILED,
        Reason.RECONCILE_ERROR,
    }
)
"""What a Workspace in phase Failed may give as its reason."""

_R = Reason
_HOLDS = frozenset(
    {
        _R.NAMESPACE_NOT_ALLOWED,
        _R.SERVICE_ACCOUNT_NOT_ALLOWED,
        _R.SERVICE_ACCOUNT_NOT_FOUND,
        _R.VOLUME_CONFLICT,
    }
)
"""Why a plan that is there is not applied for now: nothing is wrong with the plan, but a run may not act here."""

WORKSPACE_REASONS: Mapping[Phase, frozenset[Reason]] = MappingProxyType(
    {
        Phase.PENDING: frozenset(
            {
                _R.AWAITING_ROLLOUT,
                _R.CONFIGURATION_CHANGED,
                _R.NEW_REVISION_DETECTED,
                _R.MANUAL_RECONCILE_REQUESTED,
                _R.VARIABLES_CHANGED,
                _R.RETRY_PLAN,
                _R.RETRY_APPLY,
                _R.SCHEDULED_RECONCILE,
                _R.AWAITING_VARIABLES,
                _R.PREVIOUS_RUNNER_TERMINATING,
                _R.INTERRUPTED,
            }
        ),
        Phase.PLANNING: frozenset({_R.PLAN_JOB_CREATED, _R.PLANNING}),
        Phase.PLANNED: frozenset({_R.PLAN_SUCCEEDED, _R.AWAITING_ROLLOUT}) | _HOLDS,
        Phase.PLANNED_WITH_VIOLATIONS: frozenset({_R.AUDIT_POLICY_VIOLATION, _R.AWAITING_ROLLOUT}) | _HOLDS,
        Phase.APPLYING: frozenset({_R.APPLY_JOB_CREATED, _R.APPLYING}),
        Phase.APPLIED: frozenset({_R.APPLY_SUCCEEDED, _R.NO_CHANGES}),
        Phase.FAILED: FAILURES,
        Phase.VALIDATION_FAILED: frozenset({_R.POLICY_VIOLATION}),
        Phase.DELETING: frozenset({_R.DELETING}),
    }
)
"""Which reasons a Workspace may show in which phase."""

KIND_REASONS: Mapping[str, tuple[tuple[Phase, Reason], ...]] = MappingProxyType(
    {
        "Project": (
            (Phase.READY, _R.DEFAULT_PARALLEL),
            (Phase.READY, _R.MANAGED_BY_ROLLOUT),
            (Phase.FAILED, _R.RECONCILE_ERROR),
            (Phase.DELETING, _R.DELETING),
        ),
        "Rollout": (
            (Phase.READY, _R.NO_STEPS),
            (Phase.RECONCILING, _R.LEVEL_PROGRESSING),
            (Phase.APPLIED, _R.ROLLOUT_COMPLETED),
            (Phase.FAILED, _R.NO_WORKSPACES_FOUND),
            (Phase.FAILED, _R.STEP_FAILED),
            (Phase.FAILED, _R.RECONCILE_ERROR),
        ),
        "VariableSet": (
            (Phase.READY, _R.ALL_REFERENCES_RESOLVED),
            (Phase.FAILED, _R.UNRESOLVED_REFERENCES),
            (Phase.FAILED, _R.RECONCILE_ERROR),
        ),
    }
)
"""Every phase of the other kinds, with the reasons it may have."""

_GENERAL: Mapping[Phase, Reason] = MappingProxyType(
    {
        Phase.PENDING: _R.AWAITING_ROLLOUT,
        Phase.PLANNING: _R.PLANNING,
        Phase.PLANNED: _R.PLAN_SUCCEEDED,
        Phase.PLANNED_WITH_VIOLATIONS: _R.AUDIT_POLICY_VIOLATION,
        Phase.APPLYING: _R.APPLYING,
        Phase.APPLIED: _R.APPLY_SUCCEEDED,
        Phase.FAILED: _R.RECONCILE_ERROR,
        Phase.VALIDATION_FAILED: _R.POLICY_VIOLATION,
        Phase.DELETING: _R.DELETING,
    }
)
_BY_TEXT = MappingProxyType({str(reason): reason for reason in Reason})


def reason_in(phase: Phase, text: str) -> Reason:
    """Return the reason that a Workspace's status gives for its phase, as one that the phase may have.

    What another version or another hand has written is replaced by the most general one. Raises ``KeyError`` for a
    phase that no Workspace can be in.
    """
    reason = _BY_TEXT.get(text)
    return reason if reason in WORKSPACE_REASONS[phase] else _GENERAL[phase]
