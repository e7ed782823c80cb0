"""Tells what happens in the demo's namespace while it happens, and waits for what it is told to wait for."""

import time
from collections.abc import Callable

import anyio

from magos.api.phases import Phase
from magos.api.rollout import Rollout
from magos.api.status import CommonStatus
from magos.api.workspace import Workspace
from magos.local.progress import Progress
from magos.runtime.cache.informer import Change

__all__ = ["Story"]

_EXPLAINED = frozenset({Phase.FAILED, Phase.VALIDATION_FAILED})


class Story:
    """The Workspaces and the Rollout as last seen. Every change is told once; ``until`` looks at every version."""

    def __init__(self, progress: Progress, began: float) -> None:
        self._progress = progress
        self._began = began
        self._told: dict[str, str] = {}
        self._changed = anyio.Event()
        self.workspaces: dict[str, Workspace] = {}
        self.rollout: Rollout | None = None

    def say(self, text: str) -> None:
        """Tell something with the time since the start."""
        self._progress.say(f"{time.monotonic() - self._began:6.1f} s  {text}")

    def workspace_changed(self, change: Change[Workspace]) -> None:
        """Handler of the Workspaces' informer."""
        if change.new is not None:
            self.workspaces[change.new.metadata.name] = change.new
            self._tell(change.new.metadata.name, change.new.status)

    def rollout_changed(self, change: Change[Rollout]) -> None:
        """Handler of the Rollouts' informer."""
        if change.new is not None:
            self.rollout = change.new
            self._tell(f"Rollout {change.new.metadata.name}", change.new.status)

    async def until(self, holds: Callable[[], bool], within: float) -> bool:
        """Wait until ``holds``; False if it does not within so many seconds."""
        with anyio.move_on_after(within):
            while not holds():
                await self._changed.wait()
            return True
        return False

    def promoted(self, revision: str) -> bool:
        """Whether every Workspace has applied this commit and the Rollout says it is done."""
        done = self.rollout is not None and self.rollout.status.reason == "RolloutCompleted"
        return done and all(
            workspace.status.phase is Phase.APPLIED and workspace.status.observed_revision == revision
            for workspace in self.workspaces.values()
        )

    def _tell(self, name: str, status: CommonStatus) -> None:
        phase = f"{status.phase or 'new'}{'/' + status.reason if status.reason else ''}"
        if self._told.get(name) != phase:
            self._told[name] = phase
            detail = f"  {status.message}" if status.message and status.phase in _EXPLAINED else ""
            self.say(f"{name:<14} {phase}{detail}")
        self._changed.set()
        self._changed = anyio.Event()
