"""The owner reference that everything a Workspace owns carries: with it the garbage collector removes what is left."""

from magos.api.meta import OwnerReference
from magos.api.workspace import WORKSPACES, Workspace


def owned_by(workspace: Workspace) -> OwnerReference:
    """Return the reference that makes ``workspace`` the controller of an object in its namespace."""
    return OwnerReference(
        api_version=WORKSPACES.api_version,
        kind=WORKSPACES.name,
        name=workspace.metadata.name,
        uid=workspace.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )
