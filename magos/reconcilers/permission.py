"""Permission and what it was given for: one meaning for whoever gives it, takes it and acts on it (spec §5.1).

1. A grant names run, commit, spec and variables as status has them. Once status names something else, the grant is void
   by itself: nobody has to take it away in time, and no crash carries it into another run.
2. Permission without a name is a person's. It counts for whatever the waiting run says, so it goes before that changes.
"""

from collections.abc import Mapping

from magos.api.annotations import EXECUTION_ALLOWED, EXECUTION_GRANTED_FOR, TRUE, execution_allowed
from magos.api.phases import Phase
from magos.api.workspace import Workspace
from magos.ids import short_hash
from magos.reconcilers.revisions import pending_revision

_UNRESOLVED = "unresolved"
_DIGITS = 12


def granted_for(workspace: Workspace) -> str:
    """Return what permission that is given now is given for; empty if there is no run it could be given for.

    ``<run ID>@<commit, or "unresolved">#<12 hexadecimal digits that stand for spec and variables>``.
    """
    status = workspace.status
    run = status.current_run
    if run is None or not status.current_run_id:
        return ""
    sets = (f"{each.name}={each.digest}" for each in run.variable_sets)
    inputs = " ".join((run.spec_hash, run.variables_fingerprint, *sets))
    return f"{status.current_run_id}@{run.revision or _UNRESOLVED}#{short_hash(inputs, _DIGITS)}"


def grant_of(workspace: Workspace) -> Mapping[str, str]:
    """Return the annotations that give permission to the run of exactly this version of the Workspace."""
    return {EXECUTION_ALLOWED: TRUE, EXECUTION_GRANTED_FOR: granted_for(workspace)}


def permitted(workspace: Workspace) -> bool:
    """Tell whether a plan or an apply of the current run may start, as far as permission goes."""
    named = workspace.metadata.annotations.get(EXECUTION_GRANTED_FOR)
    return execution_allowed(workspace.metadata.annotations) and named in (None, granted_for(workspace))


def unnamed(workspace: Workspace) -> bool:
    """Tell whether the Workspace carries permission that counts for whatever its run says."""
    annotations = workspace.metadata.annotations
    return execution_allowed(annotations) and EXECUTION_GRANTED_FOR not in annotations


def named_otherwise(workspace: Workspace) -> str:
    """Say what permission that the Workspace carries in vain was given for; empty if it carries none in vain."""
    annotations = workspace.metadata.annotations
    if not execution_allowed(annotations) or permitted(workspace):
        return ""
    run, _, rest = annotations[EXECUTION_GRANTED_FOR].partition("@")
    revision, _, _ = rest.partition("#")
    now = workspace.status
    if run != now.current_run_id or now.current_run is None:
        return "another run"
    if revision == (now.current_run.revision or _UNRESOLVED):
        return "another spec or other variables"
    return "a commit that was not known yet" if revision == _UNRESOLVED else "another commit"


def awaits_amendment(workspace: Workspace) -> bool:
    """Tell whether the workspace controller has yet to write down what the run is for.

    Permission that is given before would be void a moment later.
    """
    status = workspace.status
    run = status.current_run
    if not granted_for(workspace) or run is None or status.observed_generation != workspace.metadata.generation:
        return True
    return status.phase is Phase.PENDING and run.revision != pending_revision(workspace)
