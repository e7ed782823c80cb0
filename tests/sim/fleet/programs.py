"""The controller programs, composed as their processes compose them."""

import random
from collections.abc import Mapping
from types import MappingProxyType

from magos.adapters.archivist.stores import Stores
from magos.apps.controllers import Build
from magos.apps.project import project_controller
from magos.apps.refwatcher import RefWatcherSettings, refwatcher_controller
from magos.apps.rollout import rollout_controller
from magos.apps.variableset import variableset_controller
from magos.apps.workspace import workspace_controller
from magos.reconcilers.workspace.pod.settings import WorkspaceSettings
from tests.sim.fleet.git import Git

__all__ = ["CONTROLLERS", "build_of"]

CONTROLLERS = ("workspace", "project", "rollout", "variableset", "refwatcher")
"""All controller programs, in the order of their Leases."""


def build_of(
    name: str, rng: random.Random, *, settings: WorkspaceSettings, git: Git, stores: Stores | None = None
) -> Build:
    """Return what composes the named program; random bytes come from ``rng``, listings from the simulated Git."""
    builds: Mapping[str, Build] = MappingProxyType(
        {
            "workspace": lambda assembly: workspace_controller(assembly, settings, rng.randbytes, stores),
            "project": project_controller,
            "rollout": rollout_controller,
            "variableset": variableset_controller,
            "refwatcher": lambda assembly: refwatcher_controller(assembly, RefWatcherSettings(), git.listing),
        }
    )
    return builds[name]
