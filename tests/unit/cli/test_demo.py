"""The demo's samples, and how a signal ends it."""

import signal

import anyio
import pytest

from magos.cli.demo import _until_signalled, sample_manifests
from magos.local.programs.recipes import TOFU_VERSION
from tests.unit.local.recorder import Recorder

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def test_the_samples_use_the_given_repository_namespace_and_the_tool_of_the_mirror() -> None:
    documents = sample_manifests("http://127.0.0.1:1/demo.git", "here", "promotion")
    assert {document["metadata"]["namespace"] for document in documents} == {"here"}
    assert {document["kind"] for document in documents} == {"Project", "Rollout", "Workspace"}
    specs = [document["spec"] for document in documents if document["kind"] == "Workspace"]
    assert len(specs) == 3
    assert {spec["source"]["repoURL"] for spec in specs} == {"http://127.0.0.1:1/demo.git"}
    assert {spec["terraform"]["version"] for spec in specs} == {TOFU_VERSION}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_cancels_the_walk_which_may_still_end_what_it_started(number: signal.Signals) -> None:
    ended: list[str] = []
    progress = Recorder()

    async def walk() -> int:
        try:
            await anyio.wait_all_tasks_blocked()
            signal.raise_signal(number)
            await anyio.sleep_forever()
        finally:
            ended.append("control plane")
        return 0

    assert await _until_signalled(walk, progress) == 1
    assert ended == ["control plane"]
    assert progress.said == ["stopping everything that the demo has started"]


async def test_a_walk_that_ends_by_itself_returns_its_result() -> None:
    async def walk() -> int:
        return 0

    assert await _until_signalled(walk, Recorder()) == 0
