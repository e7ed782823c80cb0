"""What every route of the server works with. ``magos.apps.server`` makes one and hands it to the app."""

from typing import Protocol

from msgspec import Struct
from starlette.requests import Request

from magos.api.project import Project
from magos.api.rollout import Rollout
from magos.api.variableset import VariableSet
from magos.api.workspace import Workspace
from magos.history.archive import LogArchive
from magos.history.store import HistoryReader
from magos.runtime.cache.informer import Informer
from magos.runtime.client.client import ApiClient
from magos.runtime.clock import Clock
from magos.server.access import Access
from magos.server.identity import Caller


class Authenticator(Protocol):
    """Finds out who makes a request."""

    async def caller(self, request: Request) -> Caller:
        """Return the caller, or raise a ``Problem`` 401; also 403 for an unsafe request by cookie that fails CSRF."""
        ...


class Cluster(Struct, frozen=True, kw_only=True):
    """The cached watches on the four kinds."""

    workspaces: Informer[Workspace]
    projects: Informer[Project]
    rollouts: Informer[Rollout]
    variable_sets: Informer[VariableSet]


class Context(Struct, frozen=True, kw_only=True):
    """The parts that routes use. ``history`` and ``archive`` are None where they are switched off."""

    client: ApiClient
    """The API's own account. Writes need a ``Grant`` besides (``access``)."""
    clock: Clock
    cluster: Cluster
    access: Access
    authenticator: Authenticator
    history: HistoryReader | None
    archive: LogArchive | None
    base_url: str
    """Scheme, host and path that users see, without a slash at the end."""
    version: str
