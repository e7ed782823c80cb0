"""``magos logs``: which log is printed, from where, and what reaches the terminal of it."""

from collections.abc import AsyncGenerator
from typing import Any

import anyio
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from magos.api.kube import Pod
from magos.api.names import JobType
from magos.api.phases import Phase
from magos.api.runnerpod import Stage
from magos.cli.logs import Lines
from magos.joblog import LogLine
from magos.terminal import shown
from tests.unit.cli.shop import HOSTILE, Shop
from tests.unit.explain.objects import RUN, with_meta, workspace

OTHER = "20260101T000000-00000000"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, JobType]]:
    """Stand in for the pods' logs; returns which were read."""
    found: list[tuple[str, JobType]] = []

    async def finished(_: object, pod: Pod, job_type: JobType) -> AsyncGenerator[bytes, None]:
        found.append((pod.metadata.name, job_type))
        yield b"=== terraform ===\nfirst \xc3"
        yield f"\xbc\nlast {HOSTILE}".encode("latin-1", "replace")

    async def followed(_: object, pod: Pod, job_type: JobType) -> AsyncGenerator[LogLine, None]:
        found.append((pod.metadata.name, job_type))
        yield LogLine(stage=Stage.FETCH, text=b"fetching")
        yield LogLine(stage=Stage.TERRAFORM, text=b"\x1b[1mplanning\xff")
        yield LogLine(stage=Stage.TERRAFORM, text=b"done")

    monkeypatch.setattr("magos.cli.logs.finished_log", finished)
    monkeypatch.setattr("magos.cli.logs.followed_lines", followed)
    return found


def test_the_log_of_the_apply_is_printed_if_there_is_one_else_that_of_the_plan(
    shop: Shop, read: list[tuple[str, JobType]]
) -> None:
    shop.has(workspace(Phase.APPLIED, "ApplySucceeded"))
    shop.pod("plan", RUN, "plan")
    shop.pod("other", OTHER, "apply")
    assert shop("logs", "prod").code == 0
    shop.pod("apply", RUN, "apply")
    shop("logs", "prod")
    shop("logs", "prod", "--phase", "plan")
    shop("logs", "prod", "--run", OTHER)
    plan, apply = JobType.PLAN, JobType.APPLY
    assert read == [("plan", plan), ("apply", apply), ("plan", plan), ("other", apply)]


def test_the_text_of_a_log_passes_the_door(shop: Shop, read: list[tuple[str, JobType]]) -> None:
    shop.has(workspace(Phase.APPLIED, "ApplySucceeded"))
    shop.pod("plan", RUN, "plan")
    printed = shop("logs", "prod").out
    assert read
    assert printed.splitlines()[:2] == ["=== terraform ===", "first ü"]
    assert "last x\\x1b[2J" in printed
    assert shown(printed) == printed


def test_who_follows_waits_for_the_pod_and_is_told_why_it_does_not_start(
    shop: Shop, read: list[tuple[str, JobType]]
) -> None:
    shop.has(workspace(Phase.PENDING, "PreviousRunnerTerminating", "Pod old has not ended."))

    async def meanwhile() -> None:
        await anyio.sleep(5)
        shop.has(workspace(Phase.PLANNING, "Planning"))
        await anyio.sleep(5)
        shop.pod("plan", RUN, "plan")

    shop.meanwhile = meanwhile
    ended = shop("logs", "prod", "-f")
    assert ended.code == 0
    assert ended.out.splitlines() == [
        "=== fetch ===",
        "fetching",
        "=== terraform ===",
        "\\x1b[1mplanning\N{REPLACEMENT CHARACTER}",
        "done",
    ]
    assert "Pod old has not ended" in ended.err
    assert read == [("plan", JobType.PLAN)]


def test_who_follows_a_new_workspace_waits_for_its_first_run(shop: Shop, read: list[tuple[str, JobType]]) -> None:
    shop.has(workspace(None, current_run_id=""))

    async def meanwhile() -> None:
        await anyio.sleep(5)
        shop.has(workspace(Phase.PLANNING, "Planning"))
        shop.pod("plan", RUN, "plan")

    shop.meanwhile = meanwhile
    ended = shop("logs", "prod", "-f")
    assert (ended.code, "has written no status yet" in ended.err) == (0, True)
    assert read == [("plan", JobType.PLAN)]


def test_who_follows_an_apply_gets_its_log_and_not_that_of_the_plan(
    shop: Shop, read: list[tuple[str, JobType]]
) -> None:
    shop.has(workspace(Phase.APPLYING, "ApplyJobCreated"))
    shop.pod("plan", RUN, "plan")

    async def meanwhile() -> None:
        await anyio.sleep(5)
        shop.pod("apply", RUN, "apply")

    shop.meanwhile = meanwhile
    assert shop("logs", "prod", "-f").code == 0
    assert read == [("apply", JobType.APPLY)]


def test_who_follows_a_run_that_ends_without_a_pod_does_not_wait_for_ever(shop: Shop) -> None:
    shop.has(workspace(Phase.PENDING, "AwaitingVariables"))

    async def meanwhile() -> None:
        await anyio.sleep(5)
        shop.has(workspace(Phase.FAILED, "UnresolvedVariables"))

    shop.meanwhile = meanwhile
    ended = shop("logs", "prod", "-f")
    assert (ended.code, f"no pod of run {RUN} of Workspace team-a/prod is left" in ended.err) == (3, True)


def test_without_a_pod_and_without_a_server_the_command_says_what_is_missing(shop: Shop) -> None:
    shop.has(workspace(Phase.APPLIED, "NoChanges"), with_meta(workspace(None, current_run_id=""), name="new"))
    ended = shop("logs", "prod")
    assert (ended.code, "give its address with --server or MAGOS_SERVER" in ended.err) == (3, True)
    new = shop("logs", "new")
    assert (new.code, "has had no run yet" in new.err) == (3, True)
    assert shop("logs", "prod", "--run", "../../etc").code == 2


def test_without_a_pod_the_log_comes_from_the_archive(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[httpx.URL] = []

    def serve(request: httpx.Request) -> httpx.Response:
        asked.append(request.url)
        return httpx.Response(200, content=b"archived\n" + HOSTILE.encode())

    client = httpx.Client

    def offline(**options: Any) -> httpx.Client:
        return client(**{**options, "transport": httpx.MockTransport(serve)})

    monkeypatch.setattr("magos.cli.api.httpx.Client", offline)
    shop.has(workspace(Phase.APPLIED, "NoChanges"))
    ended = shop("logs", "prod", "--server", "http://127.0.0.1:1/", "--phase", "plan")
    assert ended.out.startswith("archived\nx\\x1b[2J")
    assert str(asked[0]) == (
        f"http://127.0.0.1:1/apis/magosproject.io/v1alpha1/workspaces/team-a/prod/runs/{RUN}/log?phase=plan"
    )


@given(text=st.text(), cuts=st.lists(st.integers(1, 7)))
def test_lines_are_the_same_however_the_bytes_are_cut(text: str, cuts: list[int]) -> None:
    whole, parts = _printed([text.encode()]), []
    rest = text.encode()
    for cut in cuts:
        parts.append(rest[:cut])
        rest = rest[cut:]
    assert _printed([*parts, rest]) == whole
    assert whole == (text.removesuffix("\n") if text.endswith("\n") else text).split("\n") or not text


def _printed(chunks: list[bytes]) -> list[str]:
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("magos.cli.logs.echo", said.append)
        lines = Lines()
        for chunk in chunks:
            lines.feed(chunk)
        lines.close()
    return said


def test_a_very_long_line_is_printed_in_parts() -> None:
    assert [len(part) for part in _printed([b"a" * 50_000] * 4)] == [100_000, 100_000]
