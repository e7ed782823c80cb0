"""No server can hold a listing longer than its deadline, whatever it sends and however slowly."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from magos.git.errors import GitError, GitReason
from magos.git.lsremote import LsRemotesRequest, ls_remotes

SCHEMES = ("http", "https", "git")
HEADERS = b"HTTP/1.1 200 OK\r\nX-Endless: "
BODY = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-advertisement\r\n\r\n"
PACKET = b"0ff0"
HANDSHAKE = b"\x16\x03\x03\x40\x00\x02"  # a TLS handshake record of 16 KiB that never ends


@contextmanager
def dripping(start: bytes) -> Iterator[int]:
    """Answer every connection with ``start`` and then a byte every now and then, for ever."""
    over = threading.Event()

    def answer(connection: socket.socket) -> None:
        with connection:
            try:
                connection.sendall(start)
                while not over.wait(0.05):
                    connection.sendall(b"a")
            except OSError:
                return

    def serve(server: socket.socket) -> None:
        while not over.is_set():
            try:
                connection, _ = server.accept()
            except OSError:
                return
            thread = threading.Thread(target=answer, args=(connection,), daemon=True)
            threads.append(thread)
            thread.start()

    threads: list[threading.Thread] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        threads.append(threading.Thread(target=serve, args=(server,), daemon=True))
        threads[0].start()
        try:
            yield server.getsockname()[1]
        finally:
            over.set()
            server.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()


@pytest.mark.parametrize(
    ("scheme", "start"),
    [("http", HEADERS), ("http", BODY), ("http", BODY + PACKET), ("https", HANDSHAKE), ("git", PACKET), ("git", b"")],
)
def test_a_server_that_drips_is_cut_off_at_the_deadline(scheme: str, start: bytes) -> None:
    before = threading.active_count()
    with dripping(start) as port:
        request = LsRemotesRequest(f"{scheme}://127.0.0.1:{port}/r.git", ("main",), SCHEMES, timeout=0.5)
        began = time.monotonic()
        with pytest.raises(GitError, match=r"took longer than 0\.5 s") as caught:
            ls_remotes(request)
        assert time.monotonic() - began < 2.5
    assert caught.value.reason is GitReason.GIT_FAILED
    assert threading.active_count() <= before
