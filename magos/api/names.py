"""Names of the objects that belong to a Workspace, all derived and none stored.

A Job's name is unique for ever: it holds a hash over namespace, Workspace and run ID. So a second create of the same
Job is recognised, and no Job of another run is ever taken for this one.

No two owners share a name: it holds the whole name of its Workspace, or where that is cut a hash over the whole name.
Both forms end in a different number of digits, so no Workspace can be named to get what is another's.
"""

from enum import StrEnum

from magos.ids import RunID, short_hash

_CUT = 48


class JobType(StrEnum):
    """The two Jobs of a run."""

    PLAN = "plan"
    APPLY = "apply"


def job_name(namespace: str, workspace: str, run_id: RunID, job_type: JobType) -> str:
    """Return the name of a run's plan or apply Job: at most 63 characters, a DNS subdomain."""
    return f"{_cut(workspace)}-{job_type}-{short_hash(f'{namespace}/{workspace}/{run_id}', 8)}"


def volume_claim_name(workspace: str) -> str:
    """Return the name of a Workspace's volume claim."""
    return f"{workspace}-data"


def policies_name(workspace: str, digest_hex: str) -> str:
    """Return the name of the ConfigMap that holds policies; ``digest_hex`` is the content's SHA-256 in hexadecimal.

    The policies are selected, not owned: Workspaces with the same ones have the same digest. So a name that had to be
    cut is in the hash.
    """
    if len(workspace) <= _CUT:
        return f"{workspace}-policies-{digest_hex[:10]}"
    return f"{_cut(workspace)}-policies-{short_hash(f'{workspace}/{digest_hex}', 20)}"


def source_key(repo_url: str, target_revision: str) -> str:
    """Return the source key: what a commit is a commit *of*. 16 hexadecimal digits."""
    return short_hash(f"{repo_url}\n{target_revision}", 16)


def _cut(workspace: str) -> str:
    return workspace[:_CUT].rstrip("-.")
