"""What the demo reports, and what it waits for."""

import anyio
import pytest

from magos.api.phases import Phase
from magos.api.workspace import Workspace
from magos.cli.progressview import ProgressView
from magos.runtime.cache.cache import Change
from tests.unit.cli.objects import rollout, workspace
from tests.unit.local.recorder import Recorder

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def _workspace(phase: Phase, reason: str = "", message: str = "", revision: str = "") -> Change[Workspace]:
    return Change(old=None, new=workspace("dev", phase, reason, message, revision))


def test_each_state_is_reported_once_and_a_failure_with_its_message() -> None:
    progress = Recorder()
    view = ProgressView(progress, 0.0)
    for _ in range(2):
        view.workspace_changed(_workspace(Phase.PLANNING, "Planning", "the plan runs"))
        view.workspace_changed(_workspace(Phase.FAILED, "PlanFailed", "no such variable"))
    said = [line.split(" s  ", 1)[1] for line in progress.said]
    assert said == 2 * ["dev            Planning/Planning", "dev            Failed/PlanFailed  no such variable"]
    view.workspace_changed(_workspace(Phase.FAILED, "PlanFailed", "no such variable, seen again"))
    assert len(progress.said) == 4


async def test_until_looks_at_every_version_and_gives_up_after_its_time() -> None:
    view = ProgressView(Recorder(), 0.0)
    seen: list[str] = []

    def holds() -> bool:
        seen.extend(workspace.status.reason for workspace in view.workspaces.values())
        return "Second" in seen

    async with anyio.create_task_group() as tasks:

        async def change() -> None:
            for reason in ("First", "Second"):
                await anyio.lowlevel.checkpoint()
                view.workspace_changed(_workspace(Phase.PLANNING, reason))
                await anyio.wait_all_tasks_blocked()

        tasks.start_soon(change)
        assert await view.until(holds, 20)
    assert seen == ["First", "Second"]
    assert not await view.until(lambda: False, 0)


def test_a_commit_is_promoted_once_every_workspace_and_the_rollout_have_it() -> None:
    view = ProgressView(Recorder(), 0.0)
    assert not view.promoted("new")
    view.workspace_changed(_workspace(Phase.APPLIED, revision="new"))
    assert not view.promoted("new")
    view.rollout_changed(Change(old=None, new=rollout("RolloutCompleted")))
    assert view.promoted("new")
    view.workspace_changed(_workspace(Phase.APPLIED, revision="old"))
    assert not view.promoted("new")
