"""A server that sends without end on any channel costs one poll its budget, and the controller next to nothing.

The controller's container has 256 MiB and a /tmp of 64 MiB; twenty polls run at a time.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from magos.git.credentials import Credentials
from tests.e2e.git.servers import Repository, SSHServer, git_daemon, ssh_server
from tests.e2e.git.test_git_hostile_server import SHA, V2, packet
from tests.e2e.hostile.flooding import Question, ask, flood

MIB = 1024**2
WORKERS = 20
MOST_MEMORY = 64 * MIB
"""For all workers together; the processes have some 100 MiB left above what they need for themselves."""

_OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-advertisement\r\n"
_CHUNKED = _OK + b"Transfer-Encoding: chunked\r\n\r\n"
_PLAIN = _OK + b"\r\n"
_SERVICE = packet(b"# service=git-upload-pack\n") + b"0000"
_FIRST = packet(f"{SHA} HEAD\0shallow agent=x\n".encode())
_ERROR = "HTTP/1.1 {} Sorry\r\nTransfer-Encoding: chunked\r\nLocation: /r.git\r\n\r\n"
_CHUNK = b"8000\r\n" + b"x" * 32768 + b"\r\n"

HTTP_FLOODS = {
    "interim responses": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "interim responses with headers": (b"", b"HTTP/1.1 103 Early Hints\r\n" + b"Link: x\r\n" * 90 + b"\r\n"),
    "a header line": (_OK + b"X: ", b"x"),
    "headers": (_OK, b"X: y\r\n"),
    "long headers": (_OK, b"X: " + b"y" * 60_000 + b"\r\n"),
    "a chunk header": (_CHUNKED + b"1;", b"x"),
    "chunk headers": (_CHUNKED, b"1;" + b"y" * 60_000 + b"\r\n0\r\n"),
    "trailers": (_CHUNKED + b"%x\r\n" % len(_SERVICE) + _SERVICE + b"\r\n0\r\n", b"X: y\r\n"),
    "a trailer": (_CHUNKED + b"0\r\nX: ", b"y"),
    "the body of an error": (_ERROR.format(500).encode(), _CHUNK),
    "the body of a redirect": (_ERROR.format(302).encode(), _CHUNK),
    "references that nobody asked for": (
        _PLAIN + _SERVICE + _FIRST,
        packet(f"{SHA} refs/pull/1/head\n".encode()) * 1000,
    ),
    "different references": (
        _PLAIN + _SERVICE + _FIRST,
        b"".join(packet(f"{SHA} refs/heads/main/{number}\n".encode()) for number in range(20_000)),
    ),
    "the same reference": (_PLAIN + _SERVICE + _FIRST, packet(f"{SHA} refs/heads/main\n".encode())),
    "capabilities": (_PLAIN + packet(b"version 2\n"), b"".join(packet(b"%x" % number) for number in range(10_000))),
    "no packets": (_PLAIN, b"x"),
    "a compressed body": (_OK + b"Content-Encoding: gzip\r\n\r\n", b"\x1f\x8b"),
}
DAEMON_FLOODS = {
    "references of version 2": (V2, packet(f"{SHA} refs/pull/1/head\n".encode()) * 1000),
    "unknown attributes": (V2, packet(f"{SHA} refs/heads/main what:is this:then\n".encode())),
    "errors": (packet(b"ERR " + b"x" * 60_000), b"y"),
}


@pytest.mark.parametrize("kind", HTTP_FLOODS)
def test_an_http_server_that_floods_every_worker_is_refused_in_little_memory(kind: str, tmp_path: Path) -> None:
    with flood(*HTTP_FLOODS[kind]) as url:
        asked = ask(tmp_path, *[Question(url, seconds=8.0)] * WORKERS)
    assert all(isinstance(each, str) and each.startswith("GitFailed: ") for each in asked.answers), asked.answers
    assert max(map(len, asked.answers)) < 1000, "what the server sent is not the message"
    assert asked.grown < MOST_MEMORY, f"{asked.grown / MIB:.0f} MiB"
    assert list(tmp_path.iterdir()) == []
    assert asked.threads == []


@pytest.mark.parametrize("kind", DAEMON_FLOODS)
def test_a_git_daemon_that_floods_every_worker_is_refused_in_little_memory(kind: str, tmp_path: Path) -> None:
    with flood(*DAEMON_FLOODS[kind], scheme="git") as url:
        asked = ask(tmp_path, *[Question(url, seconds=8.0)] * WORKERS)
    assert all(isinstance(each, str) and each.startswith("GitFailed: ") for each in asked.answers), asked.answers
    assert asked.grown < MOST_MEMORY, f"{asked.grown / MIB:.0f} MiB"


class FloodingSSH:
    """A real sshd whose every session runs ``command``."""

    def __init__(self, server: SSHServer, authorized: Path) -> None:
        self._server = server
        self._authorized = authorized
        self._key = authorized.read_text()
        self.credentials = Credentials(ssh_private_key=server.private_key, known_hosts=server.host_key)

    def question(self, command: str, seconds: float = 60.0) -> Question:
        """Let sessions run ``command`` and return a question to the server."""
        self._authorized.write_text(f'command="{command}" {self._key}')
        return Question(self._server.url(Path("/r.git")), credentials=self.credentials, seconds=seconds)


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FloodingSSH]:
    folder = tmp_path_factory.mktemp("flooding-sshd")
    with ssh_server(folder) as server:
        yield FloodingSSH(server, folder / "authorized")


SSH_FLOODS = {
    "standard error without end": "cat /dev/zero >&2",
    "standard error in lines": "yes fatal: this is a line >&2",
    "standard error and the end": "head -c 150000000 /dev/zero >&2; exit 1",
    "output without end": "cat /dev/zero",
    "both": "cat /dev/zero >&2 & cat /dev/zero",
}


@pytest.mark.parametrize("kind", SSH_FLOODS)
def test_an_ssh_server_that_floods_is_refused_in_little_memory_and_no_file(
    kind: str, sshd: FloodingSSH, tmp_path: Path
) -> None:
    asked = ask(tmp_path, *[sshd.question(SSH_FLOODS[kind])] * 5, file_limit=256 * 1024)
    for answer in asked.answers:
        assert answer.startswith("GitFailed: ")
        if kind.startswith("standard error"):
            assert "sent more than 32 MiB of references and messages" in answer
    assert asked.grown < MOST_MEMORY / 2, f"{asked.grown / MIB:.0f} MiB"
    assert list(tmp_path.iterdir()) == []
    assert asked.threads == []


def test_what_a_server_says_before_it_ends_is_told_however_much_it_said(sshd: FloodingSSH, tmp_path: Path) -> None:
    asked = ask(
        tmp_path, sshd.question("yes remote: noise | head -n 600000 >&2; echo fatal: the disk is full >&2; exit 1")
    )
    assert asked.answers[0].startswith("GitFailed: ")
    assert "the disk is full" in asked.answers[0]


def test_an_unknown_host_key_is_told_behind_a_banner(tmp_path: Path) -> None:
    folder = tmp_path / "sshd"
    folder.mkdir()
    with ssh_server(folder) as server:
        question = Question(server.url(Path("/r.git")), credentials=Credentials(ssh_private_key=server.private_key))
        work = tmp_path / "work"
        work.mkdir()
        asked = ask(work, question)
    assert server.fingerprint in asked.answers[0]


def test_polls_of_hostile_servers_do_not_keep_the_others_from_their_answers(tmp_path: Path) -> None:
    root = tmp_path / "srv"
    root.mkdir()
    sha = Repository(root, "app.git", "main").commit({"main.tf": ""})
    work = tmp_path / "work"
    work.mkdir()
    with git_daemon(root) as daemon, flood(*HTTP_FLOODS["references that nobody asked for"]) as url:
        bad = [Question(url, seconds=5.0)] * (WORKERS - 1)
        asked = ask(work, *bad, Question(f"{daemon}/app.git"))
    assert asked.answers[-1] == {"main": sha}
    assert all("GitFailed" in each for each in asked.answers[:-1])
