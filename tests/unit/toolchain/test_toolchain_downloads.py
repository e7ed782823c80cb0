"""A mirror may send what it likes: a download stops at its size, its talk and its time, and never leaves HTTPS."""

import base64
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from magos.bounds import HTTP_HEAD, HTTP_REDIRECTS, TOOL_ARCHIVE, TOOL_TALK, TOOL_TEXT
from magos.folder import Folder
from magos.local.servers.loopback import serving
from magos.toolchain import install
from magos.toolchain.download import Downloads
from magos.toolchain.errors import ToolError, ToolReason

_OK = b"HTTP/1.1 200 OK\r\n"


class Requests:
    """What was asked, head by head, and where."""

    def __init__(self) -> None:
        self.heads: list[bytes] = []
        self.url = ""


@contextmanager
def answering(*answers: bytes, again: bytes = b"") -> Iterator[Requests]:
    """Answer request after request with these bytes, the last for ever, each followed by ``again`` without end."""
    requests = Requests()
    lock = threading.Lock()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            connection: socket.socket = self.request
            with suppress(OSError):
                head = b""
                while b"\r\n\r\n" not in head:
                    head += connection.recv(65536)
                with lock:
                    requests.heads.append(head)
                    answer = answers[min(len(requests.heads), len(answers)) - 1]
                connection.sendall(answer)
                while again:
                    connection.sendall(again * (65536 // len(again) + 1))

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Handler)
    requests.url = f"http://127.0.0.1:{server.server_address[1]}/tofu"
    with serving(server, "mirror"):
        yield requests


def failure(url: str, target: Path, largest: int = 1000, seconds: float = 60.0) -> str:
    with pytest.raises(ToolError) as caught:
        Downloads(seconds).get(url, target, largest)
    assert caught.value.reason is ToolReason.TOOL_DOWNLOAD_FAILED
    assert not target.exists() or target.stat().st_size <= largest
    return caught.value.message


FLOODS = {
    "interim responses": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "chunk headers": (_OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1;" + b"y" * 60_000 + b"\r\n0\r\n"),
    "trailers": (_OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n", b"X: y\r\n"),
}


@pytest.mark.parametrize("kind", FLOODS)
def test_what_comes_beside_the_file_has_an_end(kind: str, tmp_path: Path) -> None:
    first, again = FLOODS[kind]
    with answering(first, again=again) as mirror:
        message = failure(mirror.url, tmp_path / "f", largest=10 * TOOL_TALK.limit)
    assert mirror.url in message


def test_bound_tool_talk(tmp_path: Path) -> None:
    with answering(_OK + b"Transfer-Encoding: chunked\r\n\r\n", again=b"1;" + b"y" * 60_000 + b"\r\nx\r\n") as mirror:
        assert "more than 4 MiB beside the file" in failure(mirror.url, tmp_path / "f", largest=2**40)


def test_bound_http_head(tmp_path: Path) -> None:
    line = b"X: " + b"y" * 60_000 + b"\r\n"
    fits = HTTP_HEAD.limit // len(line) - 1
    with answering(_OK + line * fits + b"Content-Length: 2\r\n\r\nok") as mirror:
        Downloads(60).get(mirror.url, tmp_path / "f", 1000)
    with answering(_OK + line * (fits + 2) + b"\r\n") as mirror:
        assert "256 KiB of headers" in failure(mirror.url, tmp_path / "f")


def test_bound_http_redirects(tmp_path: Path) -> None:
    away = b"HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n"
    last = _OK + b"Content-Length: 2\r\n\r\nok"
    with answering(*[away] * HTTP_REDIRECTS.limit, last) as mirror:
        Downloads(60).get(mirror.url, tmp_path / "f", 1000)
    with answering(*[away] * (HTTP_REDIRECTS.limit + 1), last) as mirror:
        assert "more than 5 redirects" in failure(mirror.url, tmp_path / "f")


@pytest.mark.parametrize("status", [b"302 Found\r\nLocation: /other", b"500 Sorry", b"404 No"])
def test_the_body_of_a_redirect_or_an_error_is_not_read(status: bytes, tmp_path: Path) -> None:
    first = b"HTTP/1.1 " + status + b"\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n"
    with answering(first, again=b"x") as mirror:
        failure(mirror.url, tmp_path / "f")


def test_bound_tool_text(tmp_path: Path) -> None:
    with answering(_OK + b"\r\n", again=b"x" * 65536) as mirror:
        message = failure(mirror.url, tmp_path / "f", largest=TOOL_TEXT.limit)
    assert f"larger than {TOOL_TEXT.limit:,} bytes" in message


def test_bound_tool_archive(tmp_path: Path) -> None:
    """Announced is as bad as sent, and a cached one is measured before it is copied."""
    cached = tmp_path / "cached"
    with cached.open("wb") as file:
        file.truncate(TOOL_ARCHIVE.limit + 1)
    copies = tmp_path / "copies"
    copies.mkdir()
    with Folder.at(tmp_path) as cache:
        assert not install.copy_regular(cache, "cached", copies, TOOL_ARCHIVE.limit)
    assert not list(copies.iterdir())
    with answering(_OK + b"Content-Length: %d\r\n\r\n" % (TOOL_ARCHIVE.limit + 1), again=b"x") as mirror:
        message = failure(mirror.url, tmp_path / "f", largest=TOOL_ARCHIVE.limit)
    assert f"larger than {TOOL_ARCHIVE.limit:,} bytes" in message


def test_what_is_compressed_is_refused_before_it_is_inflated(tmp_path: Path) -> None:
    with answering(_OK + b"Content-Encoding: gzip\r\n\r\n", again=b"x") as mirror:
        assert "compresses" in failure(mirror.url, tmp_path / "f")


def test_a_mirror_that_talks_on_ends_at_the_time(tmp_path: Path) -> None:
    with answering(b"", again=b"HTTP/1.1 100 Continue\r\n\r\n") as mirror:
        failure(mirror.url, tmp_path / "f", seconds=0.2)


def test_a_redirect_from_https_to_http_is_refused() -> None:
    from magos.toolchain.download import redirected

    assert redirected("https://a.example/x", "https://b.example/y", "").url == "https://b.example/y"
    with pytest.raises(ToolError, match="from https to another scheme"):
        redirected("https://a.example/x", "http://a.example/x", "")
    with pytest.raises(ToolError, match="no http or https URL"):
        redirected("http://a.example/x", "file:///etc/passwd", "")


def test_user_name_and_password_of_the_url_go_to_its_own_origin_only(tmp_path: Path) -> None:
    login = b"Authorization: Basic " + base64.b64encode(b"u:p@ss")
    with answering(_OK + b"Content-Length: 2\r\n\r\nok") as other:
        away = b"HTTP/1.1 302 Found\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % other.url.encode()
        with answering(away) as mirror:
            Downloads(60).get(mirror.url.replace("//", "//u:p%40ss@"), tmp_path / "f", 1000)
        assert login.lower() in mirror.heads[0].lower()
        assert b"authorization" not in other.heads[0].lower()


def test_the_proxy_gets_the_login_of_its_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(_OK + b"Content-Length: 2\r\n\r\nok") as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.replace("//", "//u:p%40ss@"))
        Downloads(60).get("http://releases.invalid/tofu", tmp_path / "f", 1000)
    assert b"proxy-authorization: basic " + base64.b64encode(b"u:p@ss").lower() in proxy.heads[0].lower()
