"""The log endpoint answers as a kubelet does."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import anyio
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from magos.local.controlplane.credentials import Authority
from magos.local.node.logs import ContainerLog, _tail_offset, log_server

STARTED = datetime(2026, 12, 1, 16, 39, 28, tzinfo=UTC)

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class _Container:
    """One container whose log the server finds as ns/pod/main."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ended = False

    def find(self, namespace: str, pod: str, container: str) -> ContainerLog | None:
        known = (namespace, pod, container) == ("ns", "pod", "main")
        return ContainerLog(self.path, lambda: self.ended, STARTED) if known else None


@asynccontextmanager
async def _client(container: _Container, folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    authority = Authority(folder)
    pair = authority.issue("client", "127.0.0.1")
    trust = ssl.create_default_context(cadata=authority.certificate_pem.decode())
    trust.load_cert_chain(pair.certificate, pair.key)
    async with log_server(container.find, authority.server_context("server", "127.0.0.1")) as port:
        url = f"https://127.0.0.1:{port}/containerLogs"
        async with httpx.AsyncClient(base_url=url, verify=trust, trust_env=False) as client:
            yield client


async def test_a_log_is_served_whole_or_by_its_last_lines_or_first_bytes(tmp_path: Path) -> None:
    container = _Container(tmp_path / "log")
    container.path.write_text("one\ntwo\nthree\n")
    async with _client(container, tmp_path / "pki") as client:
        texts = [(await client.get(f"/ns/pod/main{query}")).text for query in ("", "?tailLines=2", "?limitBytes=5")]
    assert texts == ["one\ntwo\nthree\n", "two\nthree\n", "one\nt"]


async def test_each_line_has_a_time_of_its_own_that_stays(tmp_path: Path) -> None:
    container = _Container(tmp_path / "log")
    container.path.write_bytes(b"one\n\nthr\ree\nhalf")
    queries = (
        "",
        "&tailLines=2",
        "&sinceTime=2026-12-01T16:39:28Z",
        "&sinceTime=2026-12-01T16:39:29Z",
        "&limitBytes=33",
    )
    async with _client(container, tmp_path / "pki") as client:
        texts = [(await client.get(f"/ns/pod/main?timestamps=true{query}")).content for query in queries]
    second = b"2026-12-01T16:39:28.00000000"
    whole = b"".join(second + line for line in (b"0Z one\n", b"1Z \n", b"2Z thr\ree\n", b"3Z half"))
    assert texts == [whole, whole[whole.index(second + b"2Z") :], whole, b"", whole[:33]]


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/ns/pod/other", 400, "container other of pod ns/pod has no log: it has not started or does not exist"),
        ("/ns/pod/main?sinceSeconds=5", 400, "sinceSeconds is not supported, because log lines here carry no times"),
        ("/ns/pod/main?tailLines=many", 400, "tailLines must be a number, not 'many'"),
        ("/ns/pod/main?tailLines=²", 400, "tailLines must be a number, not '²'"),
    ],
)
async def test_what_cannot_be_served_is_refused_with_the_cause(
    path: str, status: int, text: str, tmp_path: Path
) -> None:
    container = _Container(tmp_path / "log")
    container.path.touch()
    async with _client(container, tmp_path / "pki") as client:
        answer = await client.get(path)
    assert answer.status_code == status
    assert answer.text.startswith(text)


async def test_a_follower_gets_all_output_and_ends_with_the_container(tmp_path: Path) -> None:
    container = _Container(tmp_path / "log")
    container.path.write_text("one\n")
    got = ""
    with anyio.fail_after(30):
        async with (
            _client(container, tmp_path / "pki") as client,
            client.stream("GET", "/ns/pod/main?follow=true") as answer,
        ):
            async for text in answer.aiter_text():
                got += text
                if got == "one\n":
                    container.path.write_text("one\ntwo\n")
                    container.ended = True
    assert got == "one\ntwo\n"


@given(st.lists(st.text("ab", max_size=3), max_size=8), st.booleans(), st.integers(0, 10))
def test_the_offset_of_the_last_lines_is_that_of_splitting(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], final: bool, wanted: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "tail"
    text = "\n".join(lines) + ("\n" if lines and final else "")
    path.write_text(text)
    whole = text.splitlines(keepends=True)
    expected = "".join(whole[len(whole) - wanted :]) if wanted < len(whole) else text
    assert text[_tail_offset(path, wanted) :] == (expected if wanted else "")


async def test_a_follower_that_leaves_is_no_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    container = _Container(tmp_path / "log")
    container.path.write_text("one\n")
    async with _client(container, tmp_path / "pki") as client:
        async with client.stream("GET", "/ns/pod/main?follow=true") as answer:
            assert answer.is_success
        with container.path.open("a") as log:
            log.write("two\n")  # the server, which ends now, tries to pass it on before
    assert [each.getMessage() for each in caplog.records if each.levelname == "ERROR"] == []
