"""The policies as the workspace controller mounted them: verified against their digest before anything believes them.

A ConfigMap volume shows each key as a link into a folder whose name begins with two dots. Only ``job`` mounts it, and
no process of the pod can write to it, so links are followed here.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from magos.api.reasons import Reason
from magos.api.validatingpolicy import JSON_MODE, ValidatingPolicy, content_digest, policy_file, read_policy
from magos.runner.files import read_limited
from magos.runner.outcome import StageFailed

_KUBELETS_OWN: Final = ".."
_LARGEST: Final = 2 * 1024**2


def mounted_policies(folder: Path, digest: str | None) -> Mapping[str, ValidatingPolicy]:
    """Return the policies in ``folder`` by name; none if there is no digest and no file.

    Raises ``StageFailed`` (PolicyEvaluationFailed) if they are not what ``digest`` says, cannot be read, or are not
    for plans.
    """
    try:
        content = _read(folder)
    except (OSError, ValueError) as error:
        raise _unusable(f"the mounted policies cannot be read: {error}", "check the node and its volumes") from error
    if digest is None and not content:
        return {}
    found = content_digest(content)
    if found != digest:
        raise _unusable(
            f"the mounted policies have the digest {found} ({len(content)} files), selected were policies of digest"
            f" {digest}",
            "check who writes to the ConfigMap of policies in this namespace, then request a reconcile",
        )
    return {policy.metadata.name: policy for name, text in content.items() for policy in [_policy(name, text)]}


def _read(folder: Path) -> dict[str, bytes]:
    if not folder.is_dir():
        return {}
    entries = [entry for entry in folder.iterdir() if not entry.name.startswith(_KUBELETS_OWN)]
    return {entry.name: read_limited(entry.resolve(), _LARGEST) for entry in entries}


def _policy(name: str, text: bytes) -> ValidatingPolicy:
    try:
        policy = read_policy(text)
    except (ValueError, RecursionError) as error:
        raise _unusable(
            f"the mounted policy {name} cannot be read: {error}", "controller and runner image must be of one version"
        ) from error
    own = policy.metadata.name
    if policy_file(own) != name:
        raise _unusable(f"the mounted policy {name} names itself {own!r}", "request a reconcile")
    if policy.mode != JSON_MODE:
        raise _unusable(
            f"policy {own} has the evaluation mode {policy.mode}, which is not about plans",
            f"set its spec.evaluation.mode to {JSON_MODE}, or change its labels or the policy selector",
        )
    return policy


def _unusable(problem: str, advice: str) -> StageFailed:
    return StageFailed(Reason.POLICY_EVALUATION_FAILED, f"{problem}; {advice}")
