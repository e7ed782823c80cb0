"""A control plane for tests that are not async themselves: it lives in a thread of its own with its own loop."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal

from magos.errors import MagosError
from magos.local.controlplane.kubectl import Kubectl, find_kubectl
from magos.local.controlplane.plane import ControlPlane
from magos.local.programs.assets import AssetSettings, control_plane_assets
from magos.local.programs.progress import LineProgress
from tests.envtest.audit import AuditLog

__all__ = ["Cluster", "answered", "asset_settings", "eventually", "started_cluster"]

_T = TypeVar("_T")


def asset_settings() -> AssetSettings:
    """The settings that ``scripts/demo`` uses too, so that both share one cache."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    given = os.environ.get("KUBEBUILDER_ASSETS")
    return AssetSettings(
        cache=home / "magos", environ=dict(os.environ), kubebuilder_assets=Path(given) if given else None
    )


def answered(error: MagosError, code: int) -> bool:
    """Tell whether the API server answered a request of the one-machine mode with this code."""
    return f" with {code}: " in str(error)


def eventually(probe: Callable[[], _T], *, within: float = 30.0) -> _T:
    """The first truthy answer of ``probe``, asked every 50 ms; AssertionError after ``within`` seconds."""
    end = time.monotonic() + within
    while not (answer := probe()):
        assert time.monotonic() < end, f"not within {within:g} s; last answer: {answer!r}"
        time.sleep(0.05)
    return answer


class Cluster:
    """What tests use of the control plane; every call blocks."""

    def __init__(self, plane: ControlPlane, portal: BlockingPortal) -> None:
        self.plane = plane
        self._portal = portal

    @property
    def url(self) -> str:
        return self.plane.url

    @property
    def kubeconfig(self) -> Path:
        return self.plane.admin_kubeconfig

    @property
    def audit(self) -> AuditLog:
        return AuditLog(self.plane.audit_log)

    @property
    def kubectl(self) -> Kubectl:
        """kubectl as the administrator."""
        return Kubectl(find_kubectl(), self.kubeconfig)

    def request(self, method: str, path: str, body: object = None) -> Any:
        """An administrator's request; MagosError with the server's message if it is refused."""
        return self._portal.call(self.plane.request, method, path, body)

    def service_account_kubeconfig(self, namespace: str, name: str, path: Path) -> Path:
        """Write a kubeconfig for the existing ServiceAccount."""
        return self._portal.call(self.plane.service_account_kubeconfig, namespace, name, path)


@contextmanager
def started_cluster(folder: Path) -> Iterator[Cluster]:
    """A fresh control plane in ``folder`` for the length of the block."""
    assets = control_plane_assets(asset_settings(), LineProgress(sys.__stderr__ or sys.stderr))
    with start_blocking_portal("asyncio") as portal:
        plane = ControlPlane(assets, folder)
        with portal.wrap_async_context_manager(plane):
            yield Cluster(plane, portal)
