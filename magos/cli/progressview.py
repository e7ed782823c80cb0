"""Reports what happens in the demo's namespace while it happens, and waits for conditions on it."""

import time
from collections.abc import Callable

import anyio

from magos.api.phases import Phase
from magos.api.rollout import Rollout
from magos.api.status import CommonStatus
from magos.api.workspace import Workspace
from magos.cli.tree import phase_and_reason
from magos.local.programs.progress import Progress
from magos.runtime.cache.cache import Change
from magos.terminal import one_line

_EXPLAINED = frozenset({Phase.FAILED, Phase.VALIDATION_FAILED})


class ProgressView:
    """The latest Workspaces and Rollout. It reports each change once, and ``until`` looks at every version."""

    def __init__(self, progress: Progress, began: float) -> None:
        self._progress = progress
        self._began = began
        self._reported: dict[str, str] = {}
        self._changed = anyio.Event()
        self.workspaces: dict[str, Workspace] = {}
        self.rollout: Rollout | None = None

    def say(self, text: str) -> None:
        """Report ``text`` with the seconds since the start of the demo."""
        self._progress.say(f"{time.monotonic() - self._began:6.1f} s  {one_line(text)}")

    def workspace_changed(self, change: Change[Workspace]) -> None:
        """Handle a change from the Workspaces' informer."""
        if change.new is not None:
            self.workspaces[change.new.metadata.name] = change.new
            self._report(change.new.metadata.name, change.new.status)

    def rollout_changed(self, change: Change[Rollout]) -> None:
        """Handle a change from the Rollouts' informer."""
        if change.new is not None:
            self.rollout = change.new
            self._report(f"Rollout {change.new.metadata.name}", change.new.status)

    async def until(self, holds: Callable[[], bool], within: float) -> bool:
        """Wait until ``holds`` returns true, at most ``within`` seconds; return whether it did."""
        with anyio.move_on_after(within):
            while not holds():
                await self._changed.wait()
            return True
        return False

    def promoted(self, revision: str) -> bool:
        """Tell whether every Workspace has applied this commit and the Rollout has completed."""
        done = self.rollout is not None and self.rollout.status.reason == "RolloutCompleted"
        return done and all(
            workspace.status.phase is Phase.APPLIED and workspace.status.observed_revision == revision
            for workspace in self.workspaces.values()
        )

    def _report(self, name: str, status: CommonStatus) -> None:
        state = phase_and_reason(status)
        if self._reported.get(name) != state:
            self._reported[name] = state
            detail = f"  {status.message}" if status.message and status.phase in _EXPLAINED else ""
            self.say(f"{name:<14} {state}{detail}")
        self._changed.set()
        self._changed = anyio.Event()
