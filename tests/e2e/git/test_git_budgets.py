"""Servers that send without end: whatever they send and whatever they speak, the client stops at its budget."""

import random
import socket
import socketserver
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from magos.git.budget import Budget, BudgetLimits
from magos.git.checkout import CheckoutRequest, checkout
from magos.git.credentials import ANONYMOUS, Credentials
from magos.git.deadline import Deadline
from magos.git.errors import GitError, GitReason
from magos.git.fetch import fetch_commit
from magos.git.lsremote import LsRemoteRequest, LsRemotesRequest, ls_remote, ls_remotes
from magos.git.remote import Access, open_remote
from magos.git.stores import Stores
from magos.git.url import parse
from magos.ids import GitSHA
from magos.local.servers.loopback import serving
from tests.e2e.git.servers import HTTPServer, Repository, git_daemon, ssh_server
from tests.e2e.git.test_git_hostile_server import SHA, V2, packet

MIB = 1024**2
_SMALL = BudgetLimits(content=MIB, objects=1000, talk=MIB // 2)
_PATIENCE = 60.0
_PACK = struct.pack(">4sLL", b"PACK", 2, 1)


def _v0(capabilities: bytes) -> bytes:
    """What a server of protocol v0 says first, and that it has nothing shallow and nothing in common."""
    first = packet(f"{SHA} HEAD\0".encode() + capabilities + b" agent=x\n")
    return first + packet(f"{SHA} refs/heads/main\n".encode()) + b"0000"


def _sideband(channel: bytes, size: int) -> bytes:
    return packet(channel + b"\x55" * size)


BAND = _v0(b"side-band-64k shallow allow-reachable-sha1-in-want")
RAW = _v0(b"shallow allow-reachable-sha1-in-want")
BEGUN = b"0000" + packet(b"NAK\n")
V2_PACK = V2 + packet(f"{SHA} HEAD\n".encode()) + b"0000" + packet(b"packfile\n")
ENDLESS = {
    "v0 content": (BAND + BEGUN + packet(b"\1" + _PACK), _sideband(b"\1", 65000), "MiB of history"),
    "v0 content without a side band": (RAW + BEGUN + _PACK, b"\x55" * 65536, "MiB of history"),
    "v0 many small packets": (BAND + BEGUN + packet(b"\1" + _PACK), _sideband(b"\1", 1) * 9000, "messages"),
    "v0 progress": (BAND + BEGUN, _sideband(b"\2", 65000), "messages"),
    "v0 shallow commits": (BAND, packet(f"shallow {SHA}\n".encode()) * 900, "messages"),
    "v0 acknowledgements": (BAND + b"0000", packet(f"ACK {SHA} common\n".encode()) * 900, "messages"),
    "v0 objects": (BAND + BEGUN, packet(b"\1" + struct.pack(">4sLL", b"PACK", 2, 1001)), "1,000 objects"),
    "v2 content": (V2_PACK + packet(b"\1" + _PACK), _sideband(b"\1", 65000), "MiB of history"),
    "v2 progress": (V2_PACK, _sideband(b"\2", 65000), "messages"),
}


@contextmanager
def endless(first: bytes, again: bytes) -> Iterator[str]:
    """Serve ``first`` and then ``again`` for ever, or nothing more, by the ``git://`` transport, whatever is asked."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            connection: socket.socket = self.request
            with suppress(OSError):  # the client has had enough
                connection.sendall(first)
                while again:
                    connection.sendall(again)
                while connection.recv(65536):
                    pass

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    with serving(server, "endless git"):
        yield f"git://127.0.0.1:{server.server_address[1]}/r.git"


def fetch(
    url: str, sha: str, folder: Path, limits: BudgetLimits, credentials: Credentials = ANONYMOUS, *, seconds: float = 60
) -> int:
    """Fetch one commit; return how many bytes of packs lie there afterwards, and raise what the fetch raises."""
    access = Access(parse(url), credentials, ("git", "http", "ssh"), folder, Budget(limits))
    with Stores(folder) as stores:
        store = stores.create()
        try:
            with open_remote(access, Deadline(seconds, "fetching")) as remote:
                fetch_commit(remote, store, "main", GitSHA(sha))
        finally:
            size = sum(file.stat().st_size for file in folder.rglob("*.pack"))
            assert size <= limits.content
    return size


@pytest.mark.parametrize("kind", ENDLESS)
def test_a_fetch_ends_at_its_budget(kind: str, tmp_path: Path) -> None:
    first, again, said = ENDLESS[kind]
    with endless(first, again) as url, pytest.raises(GitError) as caught:
        fetch(url, SHA, tmp_path, _SMALL)
    assert type(caught.value) is GitError, "a server that is over the budget must not be asked again and deeper"
    assert caught.value.reason is GitReason.GIT_FAILED
    assert said in caught.value.message
    assert url in caught.value.message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", [kind for kind in ENDLESS if "objects" not in kind])
def test_what_fits_the_budget_in_size_ends_at_its_time(kind: str, tmp_path: Path) -> None:
    first, again, _ = ENDLESS[kind]
    large = BudgetLimits(content=2**40, talk=2**40)
    with endless(first, again) as url, pytest.raises(GitError, match=r"fetching took longer than 0\.3 s") as caught:
        fetch(url, SHA, tmp_path, large, seconds=0.3)
    assert type(caught.value) is GitError
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("version", [0, 2])
def test_asking_for_references_ends_at_the_budget_that_everybody_has(version: int) -> None:
    line = packet(f"{SHA} refs/pull/1/head\n".encode()) * 1000
    with endless(RAW[:-4] if version == 0 else V2, line) as url:
        with pytest.raises(GitError, match="32 MiB of references and messages"):
            ls_remote(LsRemoteRequest(url, "main", ("git",), timeout=_PATIENCE))
        with pytest.raises(GitError, match="32 MiB of references and messages"):
            ls_remotes(LsRemotesRequest(url, ("main", "other"), ("git",), timeout=_PATIENCE))


def test_a_pack_that_announces_too_much_is_refused_by_the_budget_of_a_run_before_it_is_there() -> None:
    announced = packet(b"\1" + struct.pack(">4sLL", b"PACK", 2, 2**32 - 1))
    with endless(BAND + BEGUN + announced, b"") as url, tempfile.TemporaryDirectory() as name:
        destination, workdir = Path(name) / "d", Path(name) / "w"
        workdir.mkdir()
        request = CheckoutRequest(url, "main", destination, workdir, GitSHA(SHA), ("git",), timeout=_PATIENCE)
        with pytest.raises(GitError, match="2,000,000 objects"):
            checkout(request)
        assert list(destination.iterdir()) == list(workdir.iterdir()) == []


@pytest.fixture
def heavy(root: Path) -> list[str]:
    """Three commits, each with a third of a MiB that does not compress."""
    repository = Repository(root, "heavy.git", "main")
    noise = random.Random(1)
    return [repository.commit({"big": noise.randbytes(344_000)}) for _ in range(3)]


@pytest.mark.parametrize("transport", ["git", "http v0", "http v2"])
def test_real_servers_are_held_to_the_budget(
    transport: str, root: Path, server: HTTPServer, heavy: list[str], tmp_path: Path
) -> None:
    server.version_2 = transport == "http v2"
    with git_daemon(root) as daemon:
        url = f"{daemon if transport == 'git' else server.url}/heavy.git"
        assert 300_000 < fetch(url, heavy[0], tmp_path, BudgetLimits(content=500_000)) < 500_000
        with pytest.raises(GitError, match="of history"):
            fetch(url, heavy[0], tmp_path, BudgetLimits(content=300_000))
        with pytest.raises(GitError, match="2 objects of history"):
            fetch(url, heavy[0], tmp_path, BudgetLimits(objects=2))


def test_all_attempts_to_reach_a_commit_share_one_budget(root: Path, heavy: list[str], tmp_path: Path) -> None:
    """A server of protocol v0 that serves tips only is asked deeper and deeper; every answer counts."""
    folder = tmp_path / "sshd"
    folder.mkdir()
    with ssh_server(folder, accept_env=False) as sshd:
        url = sshd.url(root / "heavy.git")
        login = Credentials(ssh_private_key=sshd.private_key, known_hosts=sshd.host_key)
        work = tmp_path / "work"
        work.mkdir()
        assert fetch(url, heavy[0], work, BudgetLimits(content=2 * MIB), login) > 1_300_000
        with pytest.raises(GitError, match="1 MiB of history"):
            fetch(url, heavy[0], work, BudgetLimits(content=MIB + 100_000), login)
        with pytest.raises(GitError, match="messages"):
            fetch(url, heavy[0], work, BudgetLimits(talk=100), login)
