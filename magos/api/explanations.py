"""What each failure of a Workspace says, and how to get out of it: the table of specification §14.1.

It explains every reason that a Workspace may fail with. The code that finds a failure composes the message itself.
"""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from magos.api.phases import Phase
from magos.api.reasons import WORKSPACE_REASONS, Reason
from magos.errors import InvariantViolation


class Explanation(Struct, frozen=True):
    """``message``: what the message says. ``fix``: what a person can do."""

    message: str
    fix: str


_R = Reason
_E = Explanation
_TABLE: Mapping[Reason, Explanation] = MappingProxyType(
    {
        _R.PLAN_FAILED: _E(
            "the last error that the tool printed, or `DeadlineExceeded`, `OOMKilled` or `Evicted` with the text of"
            " Kubernetes and the limit that was exceeded; for a locked state the lock ID, its holder, since when and"
            " for how long",
            "read the plan log; correct the module, raise timeout or memory; if the holder of the lock is gone,"
            " release the lock",
        ),
        _R.APPLY_FAILED: _E(
            "the same for the apply; if the outcome is unknown, that the next run plans again; if the backend did not"
            " take the state, where it is kept",
            "read the apply log; if the message names a lock, or the outcome is unknown, check whether the state is"
            " still locked",
        ),
        _R.POLICY_VIOLATION: _E("`3 violations: policy-a: …`", "change the code or the policy"),
        _R.POLICY_EVALUATION_FAILED: _E(
            "what failed: Magos cannot list the policies, the evaluator ended with an exit code, a policy is not"
            " reported or does not have mode JSON; or why the policies prove nothing",
            "check the rights of the workspace controller, the component kyverno-crd and the syntax of the policy;"
            " [the guide](../guides/policies.md)",
        ),
        _R.PLAN_MISMATCH: _E(
            "the expected and the found revision or digest, or that the plan file is missing",
            "wait: the next run plans again; check who else writes to the volume",
        ),
        _R.RESULT_MISSING: _E(
            "the Job that ended without a readable result", "request a reconcile; check the node and the runner image"
        ),
        _R.RUN_LOST: _E(
            "the Job of the run that disappeared",
            "find out who deleted it; a plan is repeated by itself, after that on the next tick or on request; after an"
            " apply, check whether the state is still locked",
        ),
        _R.INTERRUPTED: _E(
            "what took the run away (drain, eviction, node, deletion); in Pending, when the plan begins anew; for an"
            " apply, what is known of its outcome",
            "in Pending wait, or request a reconcile to begin at once; else look at the nodes; after an apply, check"
            " whether the state is still locked",
        ),
        _R.INVALID_CONFIGURATION: _E(
            "the field or variable and its value: a path that is not in the repository or leads out of it, a state"
            " without a backend that outlives the pod, a version below the minimum, a malformed variable of the runner",
            "correct the spec or the module; [where state may be](../faq.md#where-may-the-terraform-state-be)",
        ),
        _R.VOLUME_FULL: _E(
            "which volume is full, what it has and has left, what takes most of it, and what met it",
            "enlarge spec.resources.requests.storage of the claim `<ws>-data`, or remove what the configuration keeps"
            " there; for a volume of the pod, free the disk of the node;"
            " [what the runner removes by itself](../faq.md#the-volume-is-full-what-now)",
        ),
        _R.GIT_FAILED: _E("URL without credentials, operation, cause", "check the network, the URL and the repository"),
        _R.GIT_AUTHENTICATION_FAILED: _E(
            "the host, and which credentials of the repository Secret it refused, or that none were sent",
            "create or correct the repository Secret: its label, its keys, and a repoURL equal to spec.source.repoURL",
        ),
        _R.REVISION_NOT_FOUND: _E(
            "URL, reference and commit; for a short commit ID, the advice to use the full one",
            "correct spec.source.targetRevision",
        ),
        _R.UNKNOWN_HOST_KEY: _E(
            "host, key type and fingerprint",
            "compare the fingerprint, then add the key under `known_hosts` of the repository Secret",
        ),
        _R.SCHEME_NOT_ALLOWED: _E(
            "the refused scheme or form, and the allowed schemes",
            "use another URL, or add the scheme to `MAGOS_ALLOWED_GIT_SCHEMES`",
        ),
        _R.INVALID_REPOSITORY_SECRET: _E("name of the Secret and the missing key", "add the key to the Secret"),
        _R.TOOL_DOWNLOAD_FAILED: _E(
            "URL without credentials, version, cause", "check that the version exists and that the mirror holds it"
        ),
        _R.CHECKSUM_MISMATCH: _E("the file, its expected and its found checksum", "correct the file on the mirror"),
        _R.SIGNATURE_INVALID: _E(
            "the file, and what is wrong with its signature",
            "complete the mirror; give Magos the vendor's present keys",
        ),
        _R.UNRESOLVED_VARIABLES: _E(
            "VariableSet, kind, name and key of the reference, and what is wrong",
            "create the object or key, or mark the reference optional; Magos then goes on by itself",
        ),
        _R.INVALID_POLICY_SELECTOR: _E(
            "where the selector stands, and what is wrong with it",
            "correct the selector in the Workspace or the Project",
        ),
        _R.VOLUME_CONFLICT: _E(
            "the PersistentVolumeClaim `<ws>-data`, which belongs to something else", "rename or delete that claim"
        ),
        _R.JOB_REJECTED: _E(
            "the text of the API server", "check quotas and admission policies; delete a foreign Job of the same name"
        ),
        _R.NAMESPACE_NOT_ALLOWED: _E(
            "the namespace, which is the one of the Magos controllers",
            "move the Workspace to a namespace of its own (component `tenant`), or set"
            " `MAGOS_ALLOW_CONTROLLER_NAMESPACE=true` for the workspace controller",
        ),
        _R.SERVICE_ACCOUNT_NOT_ALLOWED: _E(
            "the ServiceAccount, which lacks the label `magosproject.io/runner=true`, and the command that adds it",
            "label it if everybody who may edit Workspaces there may act with its rights, or name another in"
            " spec.serviceAccountName; Magos then goes on by itself",
        ),
        _R.SERVICE_ACCOUNT_NOT_FOUND: _E(
            "the ServiceAccount that does not exist; time waited, if it went after the Job was created",
            "create it with its label (component `tenant`), or name another in spec.serviceAccountName; Magos then goes"
            " on by itself",
        ),
        _R.IMAGE_PULL_FAILED: _E(
            "container, text of the kubelet, time waited", "correct `MAGOS_JOB_IMAGE` or the pull Secret"
        ),
        _R.POD_UNSCHEDULABLE: _E("text of the scheduler, time waited", "check nodes, taints and requested resources"),
        _R.VOLUME_UNAVAILABLE: _E(
            "text of the scheduler or the kubelet, time waited", "check the StorageClass and the node of the volume"
        ),
        _R.QUOTA_EXCEEDED: _E("the text of the API server", "raise the quota or free resources"),
        _R.POD_CONFIG_ERROR: _E(
            "text of the kubelet, time waited", "create the Secrets, ConfigMaps and keys that the pod refers to"
        ),
        _R.JOB_START_FAILED: _E("what is known, time waited", "read the Events of the Job and its pod"),
        _R.RECONCILE_ERROR: _E(
            "what the API server refused, and its text",
            "check the rights of the workspace controller and admission policies",
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
