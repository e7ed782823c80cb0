"""A release mirror on loopback that serves really signed archives."""

import hashlib
import io
import stat
import threading
import zipfile
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pysequoia
import pytest

BINARY = b"#!/bin/sh\necho tool\n"


class Signer:
    """An OpenPGP key of this test run."""

    def __init__(self, name: str, validity_seconds: int | None = None) -> None:
        self._secret = pysequoia.Tsk.generate(name, validity_seconds=validity_seconds)
        self.cert = self._secret.extract_certificate()

    def expiring(self, when: datetime) -> pysequoia.Cert:
        """The public key as it was before its owner let it live longer: it ends at ``when``."""
        return self.cert.set_expiration(when, self._secret.certifier())

    def sign(self, content: bytes) -> bytes:
        return pysequoia.sign(self._secret.signer(), content, mode=pysequoia.SignatureMode.DETACHED, armor=False)


class Mirror:
    """Path -> bytes, or a status to answer with; counts the requests."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.failures: dict[str, list[int]] = {}
        self.requests: Counter[str] = Counter()
        self.url = ""

    def publish(self, directory: str, name: str, version: str, signer: Signer | None, **options: object) -> bytes:
        """Publish ``name`` ``version``; returns the archive."""
        archive = options.get("archive") or make_zip({name: (BINARY, 0o755)})
        assert isinstance(archive, bytes)
        sums = f"{hashlib.sha256(archive).hexdigest()}  {name}_{version}_linux_amd64.zip\n".encode()
        self.files[f"/{directory}/{name}_{version}_linux_amd64.zip"] = archive
        self.files[f"/{directory}/{name}_{version}_SHA256SUMS"] = sums
        if signer is not None:
            suffix = options.get("suffix", "sig" if name == "terraform" else "gpgsig")
            self.files[f"/{directory}/{name}_{version}_SHA256SUMS.{suffix}"] = signer.sign(sums)
        return archive


def make_zip(entries: dict[str, tuple[bytes, int]]) -> bytes:
    """Return a zip archive of name -> (content, Unix mode with or without file type)."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, (content, mode) in entries.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (mode if stat.S_IFMT(mode) else stat.S_IFREG | mode) << 16
            archive.writestr(info, content)
    return buffer.getvalue()


@pytest.fixture(scope="session")
def signer() -> Signer:
    return Signer("Release <release@example.org>")


@pytest.fixture(scope="session")
def stranger() -> Signer:
    return Signer("Somebody else <else@example.org>")


@pytest.fixture
def keys(tmp_path: Path, signer: Signer) -> Path:
    folder = tmp_path / "keys"
    folder.mkdir()
    (folder / "any name").write_text(str(signer.cert))
    (folder / "..data").mkdir()  # a mounted Secret has such entries
    return folder


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    content = Mirror()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content.requests[self.path] += 1
            failures = content.failures.get(self.path)
            status = failures.pop(0) if failures else (200 if self.path in content.files else 404)
            body = content.files[self.path] if status == 200 else b"<html>sorry</html>"
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Keep quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        content.url = f"http://user:hunter22@127.0.0.1:{server.server_port}"
        yield content
        server.shutdown()
        thread.join()
