"""The one-machine mode for tests that are not async themselves: it lives in a thread of its own with its own loop."""

import os
import secrets
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio
import yaml
from anyio.from_thread import BlockingPortal, start_blocking_portal

from magos.api.annotations import RECONCILE_REQUEST
from magos.api.phases import TERMINAL, Phase
from magos.api.workspace import WORKSPACES, Workspace
from magos.local.machine import Machine, machine
from magos.local.programs.assets import machine_assets
from magos.local.programs.progress import LineProgress
from magos.local.programs.recipes import TOFU_VERSION
from magos.runtime.client.errors import ApiError
from tests.envtest.audit import AuditLog
from tests.envtest.cluster import asset_settings

__all__ = ["OneMachine", "one_machine"]

Document = dict[str, Any]
_T = TypeVar("_T")

NEVER = "87600h"
"""Tests that announce commits themselves must not be helped: only who says so by annotation is polled."""


class OneMachine:
    """What tests use of a running one-machine mode; every call blocks."""

    def __init__(self, here: Machine, portal: BlockingPortal) -> None:
        self.here = here
        self._portal = portal

    @property
    def revision(self) -> str:
        """The commit that ``main`` of the sample repository points at."""
        return self.here.repository.head()

    @property
    def audit(self) -> AuditLog:
        """Every request that the API server answered."""
        return AuditLog(self.here.plane.audit_log)

    def namespace(self) -> str:
        """Make a fresh namespace in which Workspaces can run, with a Project named ``shop``; return its name."""
        name = f"e2e-{secrets.token_hex(3)}"
        self._portal.call(self.here.prepare_namespace, name)
        self.apply(
            {
                "apiVersion": "magosproject.io/v1alpha1",
                "kind": "Project",
                "metadata": {"name": "shop", "namespace": name},
                "spec": {},
            }
        )
        return name

    def workspace_document(self, namespace: str, name: str, **overrides: Any) -> Document:
        """Return a Workspace of Project ``shop``; ``overrides`` replace parts of ``source`` or other spec fields."""
        source = {"repoURL": self.here.repo_url, "targetRevision": "main", "path": "environments/dev"}
        source |= overrides.pop("source", {})
        annotations = overrides.pop("annotations", {"magosproject.io/reconcile-interval": "1h"})
        return {
            "apiVersion": "magosproject.io/v1alpha1",
            "kind": "Workspace",
            "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
            "spec": {
                "projectRef": {"name": "shop"},
                "source": source,
                "terraform": {"version": TOFU_VERSION, "distribution": "opentofu"},
                **overrides,
            },
        }

    def apply(self, *documents: Document) -> None:
        """``kubectl apply`` the documents."""
        self.here.kubectl.run("apply", "-f", "-", stdin=yaml.safe_dump_all(documents))

    def annotate(self, namespace: str, name: str, annotations: Mapping[str, str]) -> None:
        """Set annotations of a Workspace."""
        pairs = [f"{key}={value}" for key, value in annotations.items()]
        self.here.kubectl.run("annotate", "--overwrite", "-n", namespace, "workspace", name, *pairs)

    def request(self, namespace: str, name: str) -> str:
        """Ask for a run; return the request."""
        token = secrets.token_hex(4)
        self.annotate(namespace, name, {RECONCILE_REQUEST: token})
        return token

    def call(self, method: str, path: str, body: object = None) -> Any:
        """An administrator's request to the API server; MagosError with the server's message if it is refused."""
        return self._portal.call(self.here.plane.request, method, path, body)

    def do(self, work: Callable[..., Awaitable[_T]], *arguments: Any) -> _T:
        """Await ``work(*arguments)`` in the machine's own loop and return its result."""
        return self._portal.call(work, *arguments)

    def workspace(self, namespace: str, name: str) -> Workspace:
        """Return the Workspace as it is now."""
        return self._portal.call(self.here.client.get, WORKSPACES, namespace, name)

    def wait(
        self, namespace: str, name: str, until: Callable[[Workspace], bool], *, within: float = 120.0
    ) -> Workspace:
        """Return the first version of the Workspace for which ``until`` holds; every version is looked at."""
        return self._portal.call(self._wait, namespace, name, until, within)

    def wait_settled(self, namespace: str, name: str, *, within: float = 120.0) -> Workspace:
        """Wait until the Workspace is in a terminal phase for its present generation."""
        return self.wait(
            namespace,
            name,
            lambda w: w.status.phase in TERMINAL and w.status.observed_generation == w.metadata.generation,
            within=within,
        )

    def wait_gone(self, namespace: str, name: str, *, within: float = 60.0) -> None:
        """Wait until there is no such Workspace any more."""
        self._portal.call(self._wait_gone, namespace, name, within)

    def wait_applied(self, namespace: str, name: str, revision: str, *, within: float = 120.0) -> Workspace:
        """Wait until exactly this commit is Applied; fails at once if the Workspace fails."""

        def settled(found: Workspace) -> bool:
            if found.status.phase is Phase.FAILED:
                raise AssertionError(f"Workspace {name} failed: {found.status.reason}: {found.status.message}")
            return found.status.phase is Phase.APPLIED and found.status.observed_revision == revision

        return self.wait(namespace, name, settled, within=within)

    def kill(self, controller: str) -> None:
        """SIGKILL a controller's process, if it runs just now."""
        pid = self.here.controllers[controller].pid
        if pid is not None:
            os.kill(pid, signal.SIGKILL)

    def state_file(self, namespace: str, name: str) -> Path | None:
        """Return the Terraform state that the Workspace wrote on its volume."""
        return self._portal.call(self.here.find_state, namespace, name)

    async def _wait(self, namespace: str, name: str, until: Callable[[Workspace], bool], within: float) -> Workspace:
        selector = f"metadata.name={name}"
        latest: Workspace | None = None
        with anyio.move_on_after(within):
            page = await self.here.client.list(WORKSPACES, namespace, field_selector=selector)
            version = page.resource_version
            found = next(iter(page.items), None)
            while True:
                if found is not None and until(found):
                    return found
                latest = found or latest
                async with self.here.client.watch(
                    WORKSPACES, namespace=namespace, field_selector=selector, resource_version=version
                ) as batches:
                    async for batch in batches:
                        for event in batch:
                            version = event.resource_version or version
                            found = event.object or found
                            if found is not None and until(found):
                                return found
                            latest = found or latest
        raise AssertionError(f"not within {within:g} s; last seen of {namespace}/{name}: {latest and latest.status}")

    async def _wait_gone(self, namespace: str, name: str, within: float) -> None:
        with anyio.fail_after(within):
            while True:
                try:
                    await self.here.client.get(WORKSPACES, namespace, name)
                except ApiError as error:
                    if error.not_found:
                        return
                    raise
                await anyio.sleep(0.1)


@contextmanager
def one_machine(
    folder: Path, settings: Mapping[str, str], *, policies: bool = False, extras: bool = False
) -> Iterator[OneMachine]:
    """A fresh one-machine mode in ``folder``; ``settings`` go to the controllers' environment.

    ``policies``: runner pods have the policy evaluator, which may have to be built first. ``extras``: API server,
    database and bucket run too.
    """
    progress = LineProgress(sys.__stderr__ or sys.stderr)
    assets = machine_assets(asset_settings(), progress, policies=policies)
    environ = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ} | dict(settings)
    with start_blocking_portal("asyncio") as portal:
        manager = machine(assets, folder, environ=environ, progress=progress, poll_interval=NEVER, extras=extras)
        with portal.wrap_async_context_manager(manager) as here:
            if here.extras is not None:
                api = here.extras.api
                assert portal.call(api.wait_until_ready, 60.0), f"no answer; see {api.process.spec.log_file}"
            yield OneMachine(here, portal)
