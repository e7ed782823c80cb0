"""A mirror of tool releases on loopback, in the vendors' public layout (spec §7.3), signed with a key of its own.

Each mirror makes a new signing key and never writes it to disk. The public key goes, armoured, to the folder that
``MAGOS_RELEASE_KEYS`` names, and the runner verifies this mirror exactly as it verifies any other.
"""

import hashlib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import pysequoia

from magos.api.tool import Distribution
from magos.local.servers.loopback import LoggedHandler, RequestLog, StaticServer, serving
from magos.toolchain.releases import architecture, release


class ReleaseMirror:
    """A running mirror, made by :func:`release_mirror`.

    ``url`` is the value for ``MAGOS_OPENTOFU_MIRROR`` or ``MAGOS_TERRAFORM_MIRROR``, ``keys`` the folder for
    ``MAGOS_RELEASE_KEYS``; ``log`` has the requests that the mirror answered.
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
        """Publish ``program`` as that version for this machine's architecture and return the version's folder.

        Blocks while a tool of about 100 MB is copied and hashed, about one second.
        """
        layout = release(distribution, version, architecture())
        folder = self.folder / version
        folder.mkdir(parents=True, exist_ok=True)
        archive = folder / layout.archive
        # Stored, not compressed: on loopback, compressing 100 MB takes longer than sending them.
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as packed:
            packed.write(program, layout.binary)
        self.sign(folder, layout.checksums, layout.signatures[0])
        return folder

    def sign(self, folder: Path, checksums: str, signature: str) -> None:
        """Write the checksum file of the folder's archives and its detached signature, in place of old ones."""
        lines = []
        for archive in sorted(folder.glob("*.zip")):
            with archive.open("rb") as stream:
                lines.append(f"{hashlib.file_digest(stream, 'sha256').hexdigest()}  {archive.name}\n")
        content = "".join(lines).encode()
        (folder / checksums).write_bytes(content)
        detached = pysequoia.SignatureMode.DETACHED
        (folder / signature).write_bytes(pysequoia.sign(self._key.signer(), content, mode=detached, armor=False))


class _Handler(LoggedHandler, SimpleHTTPRequestHandler):
    """Serves files; each mirror derives a class of its own, with its log."""


@contextmanager
def release_mirror(folder: Path, keys: Path) -> Iterator[ReleaseMirror]:
    """Serve ``folder`` as a mirror for the length of the block; fill it with :meth:`ReleaseMirror.publish`."""
    folder.mkdir(parents=True, exist_ok=True)
    log = RequestLog()
    handler = type("Handler", (_Handler,), {"log": log})
    server = StaticServer(("127.0.0.1", 0), partial(handler, directory=str(folder)))
    with serving(server, "release mirror"):
        yield ReleaseMirror(f"http://127.0.0.1:{server.server_port}", folder, keys, log)
