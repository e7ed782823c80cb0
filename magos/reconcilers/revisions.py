"""Which commit a Workspace's next or unfinished run will use (spec §6.2.3).

The Workspace's reconciler pins the commit that these functions return, and the Rollout's reconciler decides by them
whether it may be promoted.
"""

from collections.abc import Iterable

from magos.api.annotations import DETECTED_REVISION, DETECTED_SOURCE
from magos.api.names import source_key
from magos.api.phases import Phase
from magos.api.workspace import Workspace
from magos.ids import is_git_sha


def source_of(workspace: Workspace) -> str:
    """Return the source key of what the spec names."""
    return source_key(workspace.spec.source.repo_url, workspace.spec.source.target_revision)


def detected_revision(workspace: Workspace) -> str:
    """Return the valid detected revision, or nothing.

    It must be a full SHA of this source. A target revision that is itself a full SHA cannot be overtaken by any commit.
    """
    values = workspace.metadata.annotations
    detected = values.get(DETECTED_REVISION, "")
    source = values.get(DETECTED_SOURCE)
    if not is_git_sha(detected) or is_git_sha(workspace.spec.source.target_revision):
        return ""
    return detected if source is None or source == source_of(workspace) else ""


def applied_revision(workspace: Workspace) -> str:
    """Return the commit of this source that was applied last, empty if none was."""
    status = workspace.status
    return status.observed_revision if status.observed_source == source_of(workspace) else ""


def pending_revision(workspace: Workspace) -> str:
    """Return the commit that the next or unfinished run will use, empty if it is not known yet."""
    status, source = workspace.status, source_of(workspace)
    run = status.current_run
    continued = run is not None and run.source_key == source and status.phase is not Phase.APPLIED
    candidates: Iterable[str] = (
        workspace.spec.source.target_revision if is_git_sha(workspace.spec.source.target_revision) else "",
        detected_revision(workspace),
        run.revision if run is not None and continued else "",
        applied_revision(workspace),
    )
    return next((candidate for candidate in candidates if is_git_sha(candidate)), "")
