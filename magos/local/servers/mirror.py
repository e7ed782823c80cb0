"""A mirror of tool releases on loopback, in the vendors' public layout (spec §7.3), signed with a key of its own.

The signing key is made for the occasion and never written; its public half goes, armoured, to the folder that
``MAGOS_RELEASE_KEYS`` is to name. Nothing here weakens the runner's verification: it verifies this mirror as it would
any other.
"""

import hashlib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pysequoia

from magos.local.servers.loopback import RequestLog, Served, StaticServer, serving
from magos.toolchain.releases import Distribution, architecture, release

__all__ = ["ReleaseMirror", "release_mirror"]


class ReleaseMirror:
    """A running mirror; made by :func:`release_mirror`.

    ``url`` is what ``MAGOS_OPENTOFU_MIRROR`` or ``MAGOS_TERRAFORM_MIRROR`` is set to, ``keys`` the folder for
    ``MAGOS_RELEASE_KEYS``.
    """

    def __init__(self, url: str, folder: Path, keys: Path, log: RequestLog) -> None:
        self.url = url
        self.folder = folder
        self.keys = keys
        self.log = log
        self._key = pysequoia.Tsk.generate(user_id="Magos one-machine mode <releases@magos.example>")
        keys.mkdir(parents=True, exist_ok=True)
        (keys / "one-machine-mode.asc").write_text(str(self._key.extract_certificate()))

    def publish(self, program: Path, version: str, distribution: Distribution = Distribution.OPENTOFU) -> Path:
        """Publish ``program`` as that version for this machine's architecture; returns the version's folder.

        Blocks for about a second with a real tool.
        """
        layout = release(distribution, version, architecture())
        folder = self.folder / version
        folder.mkdir(parents=True, exist_ok=True)
        archive = folder / layout.archive
        # Stored, not compressed: on one machine packing and unpacking 100 MB would cost more than it saves.
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as packed:
            packed.write(program, layout.binary)
        self.sign(folder, layout.checksums, layout.signatures[0])
        return folder

    def sign(self, folder: Path, checksums: str, signature: str) -> None:
        """Write the checksum file over the folder's archives and its detached signature, replacing old ones."""
        lines = []
        for archive in sorted(folder.glob("*.zip")):
            with archive.open("rb") as stream:
                lines.append(f"{hashlib.file_digest(stream, 'sha256').hexdigest()}  {archive.name}\n")
        content = "".join(lines).encode()
        (folder / checksums).write_bytes(content)
        detached = pysequoia.SignatureMode.DETACHED
        (folder / signature).write_bytes(pysequoia.sign(self._key.signer(), content, mode=detached, armor=False))


class _Handler(SimpleHTTPRequestHandler):
    def __init__(self, *args: Any, log: RequestLog, **keywords: Any) -> None:
        self._log = log
        super().__init__(*args, **keywords)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        del size
        self._log.add(Served(self.command, self.path, int(code)))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class's name
        """Nothing is printed."""


@contextmanager
def release_mirror(folder: Path, keys: Path) -> Iterator[ReleaseMirror]:
    """Serve ``folder`` as a mirror for the length of the block; fill it with :meth:`ReleaseMirror.publish`."""
    folder.mkdir(parents=True, exist_ok=True)
    log = RequestLog()
    server = StaticServer(("127.0.0.1", 0), partial(_Handler, directory=str(folder), log=log))
    with serving(server, "release mirror"):
        yield ReleaseMirror(f"http://127.0.0.1:{server.server_port}", folder, keys, log)
