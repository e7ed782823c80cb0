"""Servers on loopback end with their block and remember their requests."""

from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import httpx
import pytest

from magos.local.servers.loopback import LoggedHandler, RequestLog, Served, StaticServer, serving


class _Handler(LoggedHandler, SimpleHTTPRequestHandler):
    log = RequestLog()


def test_requests_are_logged_and_not_printed_and_the_port_is_closed_after_the_block(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("text")
    server = StaticServer(("127.0.0.1", 0), partial(_Handler, directory=str(tmp_path)))
    url = f"http://127.0.0.1:{server.server_port}"
    with serving(server, "files"):
        assert httpx.get(f"{url}/file?x=1").text == "text"
        assert httpx.get(f"{url}/other").status_code == 404
    assert _Handler.log.all() == [Served("GET", "/file?x=1", 200), Served("GET", "/other", 404)]
    assert capsys.readouterr() == ("", "")
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)
