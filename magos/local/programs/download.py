"""The official release downloads, tried once with short timeouts.

A download is compared with the SHA-256 that its publisher offers beside it before anything is unpacked. All built-in
sources are HTTPS. A downloader remembers that the network is unreachable, so that a machine without one loses a few
seconds once and not for every program.
"""

import hashlib
import shutil
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import IO, Final

import httpx
import msgspec

from magos.errors import MagosError
from magos.local.programs.recipes import Recipe
from magos.toolchain.releases import architecture

_TIMEOUT: Final = httpx.Timeout(30.0, connect=5.0)
"""In seconds; the short time for a connection is what a machine without a network waits before it builds."""


class DownloadFailed(MagosError):
    """The program cannot be downloaded or does not match its checksum; the text is one line."""


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """Base addresses of the official downloads, without a final slash."""

    kubernetes: str = "https://dl.k8s.io"
    etcd: str = "https://github.com/etcd-io/etcd/releases/download"
    tofu: str = "https://github.com/opentofu/opentofu/releases/download"
    kyverno: str = "https://github.com/kyverno/kyverno/releases/download"


class _Artifact(msgspec.Struct, frozen=True):
    folder: str
    file: str
    checksums: str
    member: str = ""
    """The program's name inside the archive; empty where the file is the program."""


def parse_checksum(text: str, file: str) -> str | None:
    """Return the SHA-256 of ``file`` from a bare digest or from lines ``<hex>  <name>`` (or ``<hex> *<name>``)."""
    for line in text.splitlines():
        digest, _, name = line.strip().partition(" ")
        wanted = not name or name.strip().lstrip("*") == file
        if wanted and len(digest) == 64 and all(letter in "0123456789abcdef" for letter in digest.lower()):
            return digest.lower()
    return None


def _artifact(recipe: Recipe, sources: Sources) -> _Artifact:
    version, arch = recipe.version, architecture()
    match recipe.name:
        case "etcd":
            base = f"etcd-v{version}-linux-{arch}"
            return _Artifact(f"{sources.etcd}/v{version}", f"{base}.tar.gz", "SHA256SUMS", f"{base}/etcd")
        case "tofu":
            file = f"tofu_{version}_linux_{arch}.zip"
            return _Artifact(f"{sources.tofu}/v{version}", file, f"tofu_{version}_SHA256SUMS", "tofu")
        case "kyverno":
            named = "x86_64" if arch == "amd64" else arch
            file = f"kyverno-cli_v{version}_linux_{named}.tar.gz"
            return _Artifact(f"{sources.kyverno}/v{version}", file, "checksums.txt", "kyverno")
        case name:
            return _Artifact(f"{sources.kubernetes}/v{version}/bin/linux/{arch}", name, f"{name}.sha256")


class Downloader:
    """Downloads the programs of recipes; not safe for use by several threads at once."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._unreachable = ""

    def fetch(self, recipe: Recipe, target: Path) -> None:
        """Write the verified program to ``target``; raises ``DownloadFailed``."""
        if self._unreachable:
            raise DownloadFailed(self._unreachable)
        artifact = _artifact(recipe, self._sources)
        try:
            with httpx.Client(timeout=_TIMEOUT, follow_redirects=True) as client:
                listing = client.get(f"{artifact.folder}/{artifact.checksums}").raise_for_status().text
                expected = parse_checksum(listing, artifact.file)
                if expected is None:
                    raise DownloadFailed(f"{artifact.checksums} has no SHA-256 for {artifact.file}")
                with tempfile.TemporaryFile(dir=target.parent) as stream:
                    self._stream(client, artifact, stream, expected)
                    _unpack(artifact, stream, target)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
            self._unreachable = f"{httpx.URL(artifact.folder).host} cannot be reached ({error})"
            raise DownloadFailed(self._unreachable) from error
        except (httpx.HTTPError, OSError, tarfile.TarError, zipfile.BadZipFile, KeyError) as error:
            raise DownloadFailed(" ".join(str(error).split()) or type(error).__name__) from error

    def _stream(self, client: httpx.Client, artifact: _Artifact, stream: IO[bytes], expected: str) -> None:
        digest = hashlib.sha256()
        with client.stream("GET", f"{artifact.folder}/{artifact.file}") as answer:
            for chunk in answer.raise_for_status().iter_bytes():
                digest.update(chunk)
                stream.write(chunk)
        if digest.hexdigest() != expected:
            raise DownloadFailed(f"{artifact.file} has SHA-256 {digest.hexdigest()}, its publisher says {expected}")
        stream.seek(0)


def _unpack(artifact: _Artifact, stream: IO[bytes], target: Path) -> None:
    """Copy the wanted member only: no other path in the archive can lead to a file on disk."""
    with target.open("wb") as out:
        if not artifact.member:
            shutil.copyfileobj(stream, out)
        elif artifact.file.endswith(".zip"):
            with zipfile.ZipFile(stream) as archive, archive.open(artifact.member) as member:
                shutil.copyfileobj(member, out)
        else:
            with tarfile.open(fileobj=stream, mode="r:gz") as tar:
                found = tar.extractfile(artifact.member)
                if found is None:
                    raise DownloadFailed(f"{artifact.file} has no file {artifact.member}")
                with found:
                    shutil.copyfileobj(found, out)
