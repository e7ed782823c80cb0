"""Which Projects and Rollouts a change of a Workspace concerns; a Rollout bears the name of its Project."""

from collections.abc import Iterable

from magos.api.workspace import Workspace
from magos.runtime.cache.cache import Change
from magos.runtime.controller.workqueue import Key


def of_member(change: Change[Workspace]) -> Iterable[Key]:
    """Both the Project that a Workspace left and the one it joined."""
    found = (each for each in (change.old, change.new) if each is not None)
    return tuple({Key(each.metadata.namespace, each.spec.project_ref.name): None for each in found})
