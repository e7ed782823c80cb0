"""What each failure of a Workspace says, and how to get out of it: the table of specification §14.1.

The table is complete: a reason that a Workspace may fail with and that is not explained here is a bug. Messages
themselves are composed where the failure is found; this is what they tell about.
"""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from magos.api.phases import Phase
from magos.api.reasons import WORKSPACE_REASONS, Reason
from magos.errors import InvariantViolation

__all__ = ["Explanation", "explanations"]


class Explanation(Struct, frozen=True):
    """``message``: what the message tells. ``fix``: what a person can do."""

    message: str
    fix: str


_R = Reason
_E = Explanation
_TABLE: Mapping[Reason, Explanation] = MappingProxyType(
    {
        _R.PLAN_FAILED: _E(
            "the last diagnostic of the tool, or `DeadlineExceeded`, `OOMKilled`, `Evicted` with what Kubernetes says;"
            " a lock on the state with ID, holder, time and age",
            "read the plan log; fix the module, raise timeout or memory; release the lock if its holder is gone",
        ),
        _R.APPLY_FAILED: _E(
            "the same for the apply; that the outcome is unknown and the next run plans again, where so; where a state"
            " that the backend did not take is kept",
            "read the apply log; check the state lock",
        ),
        _R.POLICY_VIOLATION: _E("`3 violations: policy-a: …`", "change the code or the policy"),
        _R.POLICY_EVALUATION_FAILED: _E(
            "what failed: policies cannot be listed, the evaluator ended with an exit code, a policy is not reported or"
            " its mode is not JSON; or that policies prove nothing, and why",
            "rights of the workspace controller, component kyverno-crd, syntax of the policy;"
            " [the guide](../guides/policies.md)",
        ),
        _R.PLAN_MISMATCH: _E(
            "expected and found revision or digest, or that the plan file is missing",
            "none: the next run plans again; check who writes to the volume",
        ),
        _R.RESULT_MISSING: _E(
            "the Job ended without a readable result", "request a reconcile; check the node and the runner image"
        ),
        _R.RUN_LOST: _E(
            "the Job of the run disappeared",
            "find out who deleted it; the plan is repeated on the next tick or on request",
        ),
        _R.INTERRUPTED: _E(
            "a stage was asked to stop (drain, deletion); for an apply, what is known of its outcome",
            "request a reconcile; check the state lock",
        ),
        _R.INVALID_CONFIGURATION: _E(
            "the variable or field and its value: path or variable file is not found or outside the repository, no"
            " backend that outlives the pod, a version below the minimum, a malformed variable of the runner",
            "correct the spec or the module; [where state may be](../faq.md#where-may-the-terraform-state-be)",
        ),
        _R.GIT_FAILED: _E("URL without userinfo, operation, cause", "network, URL, repository"),
        _R.GIT_AUTHENTICATION_FAILED: _E(
            "host, and which kind of credentials was used or none",
            "the repository Secret: label, equality of repoURL, keys",
        ),
        _R.REVISION_NOT_FOUND: _E(
            "URL, reference, commit; the advice to use the full SHA for a short one", "correct targetRevision"
        ),
        _R.UNKNOWN_HOST_KEY: _E(
            "host, key type, fingerprint", "add the key under `known_hosts` of the repository Secret"
        ),
        _R.SCHEME_NOT_ALLOWED: _E(
            "scheme, and the list of allowed ones", "use another URL, or extend `MAGOS_ALLOWED_GIT_SCHEMES`"
        ),
        _R.INVALID_REPOSITORY_SECRET: _E("name of the Secret, missing key", "complete the Secret"),
        _R.TOOL_DOWNLOAD_FAILED: _E(
            "URL without userinfo, version, cause", "does the version exist, and does the mirror hold it?"
        ),
        _R.CHECKSUM_MISMATCH: _E("the file, expected and found checksum", "complete or correct the mirror"),
        _R.SIGNATURE_INVALID: _E(
            "the file, and what is wrong with its signature", "complete the mirror; give it the vendor's present keys"
        ),
        _R.UNRESOLVED_VARIABLES: _E(
            "set, kind, name, key, reason",
            "create the object or key, or mark the reference optional; it heals by itself",
        ),
        _R.INVALID_POLICY_SELECTOR: _E(
            "where the selector stands, and what is wrong with it", "correct it in the Workspace or the Project"
        ),
        _R.VOLUME_CONFLICT: _E("the claim `<ws>-data` belongs to something else", "rename or delete it"),
        _R.JOB_REJECTED: _E("the server's text", "quota, admission policies; delete a foreign object of the same name"),
        _R.NAMESPACE_NOT_ALLOWED: _E(
            "the namespace, which is the one of the controllers",
            "move the Workspace to a namespace of its own (component `tenant`), or set"
            " `MAGOS_ALLOW_CONTROLLER_NAMESPACE=true` for the workspace controller",
        ),
        _R.SERVICE_ACCOUNT_NOT_ALLOWED: _E(
            "the account, that it lacks the label `magosproject.io/runner=true`, and the command that adds it",
            "label the account if whoever may edit Workspaces here may act with its rights, or name another in"
            " `spec.serviceAccountName`; it heals by itself",
        ),
        _R.SERVICE_ACCOUNT_NOT_FOUND: _E(
            "the account; time waited, if it went after the Job was created",
            "create it with its label (component `tenant`); it heals by itself",
        ),
        _R.IMAGE_PULL_FAILED: _E("container, the kubelet's text, time waited", "`MAGOS_JOB_IMAGE` and the pull Secret"),
        _R.POD_UNSCHEDULABLE: _E("the scheduler's text, time waited", "nodes, taints, requested resources"),
        _R.VOLUME_UNAVAILABLE: _E(
            "the text of scheduler or kubelet, time waited", "StorageClass, and the node of the volume"
        ),
        _R.QUOTA_EXCEEDED: _E("the server's text", "raise the quota or free resources"),
        _R.POD_CONFIG_ERROR: _E(
            "the kubelet's text, time waited", "do the Secrets and keys that the pod refers to exist?"
        ),
        _R.JOB_START_FAILED: _E("what is known, time waited", "look at the Events of the Job and the pod"),
        _R.RECONCILE_ERROR: _E(
            "what the API server refused, with its text",
            "rights of the workspace controller, admission policies",
        ),
    }
)


def explanations() -> Mapping[Reason, Explanation]:
    """Return the explanation of every reason that a Workspace may fail with, in the order of the specification."""
    failing = WORKSPACE_REASONS[Phase.FAILED] | WORKSPACE_REASONS[Phase.VALIDATION_FAILED]
    if failing != _TABLE.keys():
        raise InvariantViolation(
            f"magos/api/explanations.py must explain exactly the failures of magos/api/reasons.py; too few or too many:"
            f" {', '.join(sorted(failing ^ _TABLE.keys()))}"
        )
    return _TABLE
