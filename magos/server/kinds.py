"""The four kinds as the server shows them: where their cache is, and what belongs to a Project."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from magos.api.meta import Kind
from magos.api.project import PROJECTS
from magos.api.rollout import ROLLOUTS
from magos.api.variableset import VARIABLESETS
from magos.api.workspace import WORKSPACES
from magos.runtime.cache.informer import Informer
from magos.server.context import Cluster
from magos.server.hub import Hub, Hubs


class Shown(Struct, frozen=True, kw_only=True):
    """One kind. ``project_of`` names the Project that an object belongs to; None where it may belong to many."""

    kind: Kind[Any]
    informer: Callable[[Cluster], Informer[Any]]
    project_of: Callable[[Any], str] | None


SHOWN = (
    Shown(
        kind=WORKSPACES, informer=lambda cluster: cluster.workspaces, project_of=lambda item: item.spec.project_ref.name
    ),
    Shown(kind=PROJECTS, informer=lambda cluster: cluster.projects, project_of=lambda item: item.metadata.name),
    Shown(kind=ROLLOUTS, informer=lambda cluster: cluster.rollouts, project_of=lambda item: item.spec.project_ref),
    Shown(kind=VARIABLESETS, informer=lambda cluster: cluster.variable_sets, project_of=None),
)


def hubs_of(cluster: Cluster) -> Hubs:
    """Return a hub for each kind; they listen to the informers from now on."""
    return {each.kind.plural: Hub(each.informer(cluster), each.project_of) for each in SHOWN}
