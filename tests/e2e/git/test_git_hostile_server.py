"""A server that answers with any bytes at all: the client lists, fetches or refuses, with an error of ours."""

import hashlib
import subprocess
import tempfile
import threading
import zlib
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from magos.git.checkout import CheckoutRequest, checkout
from magos.git.errors import GitError
from magos.git.lsremote import LsRemoteRequest, ls_remote
from magos.ids import GitSHA
from tests.e2e.git.servers import Repository

SHA = "1234567890" * 4
_PATIENCE = 15.0


def packet(content: bytes) -> bytes:
    return f"{len(content) + 4:04x}".encode() + content


def advertisement(*lines: bytes) -> bytes:
    """The answer to the first request as protocol v0 writes it."""
    return packet(b"# service=git-upload-pack\n") + b"0000" + b"".join(map(packet, lines)) + b"0000"


GOOD = advertisement(
    SHA.encode() + b" HEAD\0multi_ack ofs-delta side-band-64k allow-reachable-sha1-in-want shallow agent=x\n",
    SHA.encode() + b" refs/heads/main\n",
)
V2 = packet(b"version 2\n") + packet(b"agent=x\n") + packet(b"ls-refs\n") + packet(b"fetch=shallow\n") + b"0000"


class _Hostile(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    listing: ClassVar[bytes] = GOOD
    refs: ClassVar[bytes] = b""
    answer: ClassVar[bytes] = b""

    def do_GET(self) -> None:
        self._send(self.listing, "advertisement")

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._send(self.refs if b"command=ls-refs" in asked else self.answer, "result")

    def _send(self, content: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", f"application/x-git-upload-pack-{kind}")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's name
        """Nothing is printed."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Hostile) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/r.git"
        server.shutdown()
        thread.join()


def mutated(good: bytes) -> st.SearchStrategy[bytes]:
    """``good`` with a piece replaced by other bytes."""
    return st.builds(
        lambda start, length, piece: good[:start] + piece + good[start + length :],
        st.integers(0, len(good)),
        st.integers(0, 30),
        st.binary(max_size=30),
    )


PACKETS = st.lists(st.binary(max_size=40).map(packet) | st.sampled_from([b"0000", b"0001", b"0002"])).map(b"".join)


def thin(kind: int, base: bytes) -> bytes:
    """A pack of one delta whose base is not in it."""
    delta = zlib.compress(b"\1\1\1x")
    body = b"PACK\0\0\0\2\0\0\0\1" + bytes([kind << 4 | 4]) + base + delta
    return body + hashlib.sha1(body, usedforsecurity=False).digest()


ANY = mutated(GOOD) | mutated(V2) | PACKETS | st.binary(max_size=60)
_FEW = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@_FEW
@given(ANY, PACKETS | st.binary(max_size=60))
@example(b"", b"")
@example(GOOD[:-4], b"")
@example(b"ffff", b"")
@example(advertisement(b"x refs/heads/main\0\n"), b"")
@example(advertisement(b"\xff" * 40 + b" refs/heads/main\0\n"), b"")
@example(advertisement(SHA.encode() + b" refs/heads/main"), b"")
@example(V2, packet(b"x refs/heads/main\n") + b"0000")
@example(V2, packet(b"\xff" * 40 + b" refs/heads/main\n") + b"0000")
@example(V2, packet(b"unborn HEAD symref-target:refs/heads/main\n") + b"0000")
@example(V2, packet(b"ERR go away\n"))
@example(V2, packet(SHA.encode() + b"\n") + b"0000")
def test_any_advertisement_is_an_answer_or_an_error_of_ours(url: str, listing: bytes, answer: bytes) -> None:
    _Hostile.listing, _Hostile.refs = listing, answer
    with suppress(GitError):
        found = ls_remote(LsRemoteRequest(url, "main", ("http",), timeout=_PATIENCE))
        assert len(found.sha) == 40


@_FEW
@given(st.sampled_from([GOOD, V2]), PACKETS | st.binary(max_size=200))
@example(V2, packet(b"packfile\n") + packet(b"\1PACK\0\0\0\2\0\0\0\1garbage") + b"0000")
@example(V2, packet(b"packfile\n") + packet(b"\1PACK\0\0\0\2\xff\xff\xff\xff") + b"0000")
@example(V2, packet(b"packfile\n") + packet(b"\3gone\n") + b"0000")
@example(V2, packet(b"packfile\n") + packet(b"\7?") + b"0000")
@example(V2, packet(b"packfile\n") + packet(b"\1" + thin(7, b"\x11" * 20)) + b"0000")
@example(V2, packet(b"packfile\n") + packet(b"\1" + thin(6, b"\x05")) + b"0000")
@example(V2, packet(b"shallow-info\n") + packet(b"shallow x\n") + b"0001")
@example(GOOD, packet(b"NAK\n") + packet(b"\1PACK") + b"0000")
@example(GOOD, packet(b"ACK \xff\n"))
@example(GOOD, b"")
def test_any_pack_is_refused_and_leaves_nothing(url: str, listing: bytes, answer: bytes) -> None:
    _Hostile.listing, _Hostile.refs, _Hostile.answer = listing, packet(f"{SHA} HEAD\n".encode()) + b"0000", answer
    with tempfile.TemporaryDirectory() as name:
        workdir, destination = Path(name) / "w", Path(name) / "d"
        workdir.mkdir()
        request = CheckoutRequest(
            url=url,
            target_revision="main",
            revision=GitSHA(SHA),
            destination=destination,
            workdir=workdir,
            allowed_schemes=("http",),
            timeout=_PATIENCE,
        )
        with pytest.raises(GitError):
            checkout(request)
        assert list(destination.iterdir()) == []
        assert list(workdir.iterdir()) == []


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> tuple[GitSHA, bytes]:
    """A commit and the pack that holds it, as git makes it."""
    folder = tmp_path_factory.mktemp("packed")
    repository = Repository(folder, "r.git")
    sha = repository.commit({"a": "x" * 300, "b/c": "y", "b/d": "x" * 301})
    command = ["git", "pack-objects", "--stdout", "--revs", "--delta-base-offset", "-q"]
    pack = subprocess.run(command, cwd=repository.work, input=sha.encode(), capture_output=True, check=True).stdout
    return GitSHA(sha), pack


@_FEW
@given(st.data())
def test_a_changed_pack_gives_the_commit_itself_or_nothing(
    url: str, served: tuple[GitSHA, bytes], data: st.DataObject
) -> None:
    sha, pack = served
    changed = data.draw(st.just(pack) | mutated(pack))
    packets = b"".join(packet(b"\1" + changed[at : at + 500]) for at in range(0, len(changed), 500))
    _Hostile.listing, _Hostile.refs = V2, packet(f"{sha} HEAD\n".encode()) + b"0000"
    _Hostile.answer = packet(b"packfile\n") + packets + b"0000"
    with tempfile.TemporaryDirectory() as name:
        workdir, destination = Path(name) / "w", Path(name) / "d"
        workdir.mkdir()
        request = CheckoutRequest(
            url=url,
            target_revision="main",
            revision=sha,
            destination=destination,
            workdir=workdir,
            allowed_schemes=("http",),
            timeout=_PATIENCE,
        )
        try:
            found = checkout(request)
        except GitError:
            assert changed != pack
            assert list(destination.iterdir()) == []
        else:
            assert found.revision == sha
            assert {str(path.relative_to(destination)) for path in destination.rglob("*")} == {"a", "b", "b/c", "b/d"}
            assert (destination / "a").read_text() == "x" * 300
        assert list(workdir.iterdir()) == []
