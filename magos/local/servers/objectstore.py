"""An S3-compatible server on loopback for the one-machine mode and for tests: SeaweedFS in a single process.

Its data outlive it: stopped or killed, it can be started again on the same folder, also by another process, on other
ports. Requests to S3 need the keys of an identity. The server's inner ports need none, so every user of this machine
can reach what it stores; it is made for logs of samples and tests.
"""

import http.client
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
import msgspec
from msgspec import Struct

from magos.local.ports import free_ports
from magos.local.processes import ChildProcess, ProcessSpec, start
from magos.privatefile import write_private

READY_SECONDS: Final = 60.0
"""A start takes about three seconds on an idle machine."""

_PROBE_SECONDS: Final = 5.0
_STOP_SECONDS: Final = 1.0
"""Asked to end, the server writes its data out within milliseconds and then waits for ever for its own streams."""

_ADMIN: Final = "magos"
_IDENTITIES: Final = "identities.json"


class Identity(Struct, frozen=True, kw_only=True):
    """Who may use the server, and for what: actions such as ``Read:bucket``, ``Write:bucket`` or ``Admin``."""

    name: str
    access_key: str
    secret_key: str
    actions: tuple[str, ...]


class _Ports(Struct, frozen=True):
    master: int
    master_grpc: int
    volume: int
    volume_grpc: int
    filer: int
    filer_grpc: int
    s3: int
    s3_grpc: int


class ObjectStore:
    """A server with its data below ``folder``; :func:`object_store` runs one for the length of a block.

    Its keys are drawn when the folder is new and kept in it (mode 0600), so that a later server has the same ones.
    """

    def __init__(self, folder: Path, *, identities: Collection[Identity] = ()) -> None:
        self.folder = folder
        self.admin = _admin(folder / _IDENTITIES, identities)
        self._ports = _Ports(*free_ports(8))
        self._child: ChildProcess | None = None

    @property
    def port(self) -> int:
        """The port of S3 on 127.0.0.1; it stays the same over restarts of this object's server."""
        return self._ports.s3

    @property
    def endpoint(self) -> str:
        """The URL of S3, as in ``MAGOS_LOGS_S3_ENDPOINT``. Buckets are part of the path."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def access_key(self) -> str:
        """The access key ID of an identity that may do everything."""
        return self.admin.access_key

    @property
    def secret_key(self) -> str:
        """The secret access key that belongs to ``access_key``."""
        return self.admin.secret_key

    @property
    def process(self) -> ProcessSpec:
        """How the server is started, for who keeps it running by other means than :meth:`start`."""
        return ProcessSpec(
            name="object store",
            argv=[str(Path(sys.executable).parent / "weed"), *self._arguments()],
            log_file=self.folder / "weed.log",
            # Nothing of the caller's: weed would make an administrator of AWS_ACCESS_KEY_ID, and read the home folder.
            env={"HOME": str(self.folder), "PATH": "/usr/bin:/bin"},
            cwd=self.folder,
        )

    async def start(self) -> None:
        """Start the server and return when objects can be written and read; raises ``ProcessFailed``."""
        (self.folder / "data").mkdir(parents=True, exist_ok=True)
        self._child = await start(self.process)
        try:
            await self._child.wait_until_ready(self.is_ready, READY_SECONDS)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """End the server in order; nothing happens if it does not run."""
        await self._end(signal.SIGTERM)

    async def kill(self) -> None:
        """End the server at once, as a crash does; :meth:`start` starts it again on the same data and port."""
        await self._end(signal.SIGKILL)

    async def is_ready(self) -> bool:
        """Return whether objects can be written and read now: S3 answers some seconds before its volumes do."""
        return await anyio.to_thread.run_sync(self._probe)

    async def _end(self, number: signal.Signals) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.send_signal(number)
        with anyio.CancelScope(shield=True):  # completes even if the caller is cancelled
            await child.stop(_STOP_SECONDS)
            await anyio.to_thread.run_sync(self._remove_sockets)

    def _remove_sockets(self) -> None:
        """Remove what a killed server leaves: it puts sockets into this folder whatever it is told."""
        for name, port in msgspec.structs.asdict(self._ports).items():
            Path(f"/tmp/seaweedfs-{name.replace('_', '-')}-{port}.sock").unlink(missing_ok=True)  # noqa: S108

    def _probe(self) -> bool:
        requests = (
            (self._ports.s3, "GET", "/healthz"),
            (self._ports.filer, "PUT", "/ready"),
            (self._ports.filer, "GET", "/ready"),
        )
        return all(_succeeds(port, method, path) for port, method, path in requests)

    def _arguments(self) -> list[str]:
        ports, data = self._ports, self.folder / "data"
        options = {
            "ip": "127.0.0.1",
            "ip.bind": "127.0.0.1",
            "dir": data,
            "master.port": ports.master,
            "master.port.grpc": ports.master_grpc,
            "master.telemetry": "false",
            # Alone, it elects itself: the pause is only a delay of the start.
            "master.electionTimeout": "200ms",
            "master.heartbeatInterval": "50ms",
            "master.volumeSizeLimitMB": 64,
            "volume.port": ports.volume,
            "volume.port.grpc": ports.volume_grpc,
            "volume.max": 1000,
            "volume.minFreeSpace": "0",
            "volume.preStopSeconds": 0,
            "filer": "true",
            "filer.port": ports.filer,
            "filer.port.grpc": ports.filer_grpc,
            "filer.localSocket": f"/tmp/seaweedfs-filer-{ports.filer}.sock",  # noqa: S108
            "s3": "true",
            "s3.port": ports.s3,
            "s3.port.grpc": ports.s3_grpc,
            "s3.localSocket": f"/tmp/seaweedfs-s3-{ports.s3}.sock",  # noqa: S108
            "s3.port.iceberg": 0,
            "s3.port.lance": 0,
            "s3.iam": "false",
            "s3.autoCreateBucket": "false",
            "s3.config": self.folder / _IDENTITIES,
        }
        return ["-logtostderr=true", "server", *(f"-{name}={value}" for name, value in options.items())]


@asynccontextmanager
async def object_store(folder: Path, *, identities: Collection[Identity] = ()) -> AsyncIterator[ObjectStore]:
    """Run a server with its data below ``folder`` for the length of the block; it is ready when the block begins."""
    store = ObjectStore(folder, identities=identities)
    await store.start()
    try:
        yield store
    finally:
        await store.stop()


def _succeeds(port: int, method: str, path: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PROBE_SECONDS)
    try:
        connection.request(method, path, body=b"ready" if method == "PUT" else None)
        return 200 <= connection.getresponse().status < 300
    except (OSError, http.client.HTTPException):
        return False  # it does not listen yet
    finally:
        connection.close()


def _admin(path: Path, others: Collection[Identity]) -> Identity:
    """Write who may use the server, and return the identity that may do everything: that of the file if it has one."""
    admin = _stored_admin(path) or Identity(
        name=_ADMIN,
        access_key=secrets.token_hex(10),
        secret_key=secrets.token_hex(20),
        actions=("Admin", "Read", "List", "Write", "Tagging"),
    )
    identities = tuple(_entry(identity) for identity in (admin, *others))
    write_private(path, msgspec.json.encode(_Identities(identities)))
    return admin


def _stored_admin(path: Path) -> Identity | None:
    if not path.exists():
        return None
    for entry in msgspec.json.decode(path.read_bytes(), type=_Identities).identities:
        if entry.name == _ADMIN:
            [keys] = entry.credentials
            return Identity(
                name=entry.name, access_key=keys.access_key, secret_key=keys.secret_key, actions=entry.actions
            )
    return None


class _Keys(Struct, frozen=True, rename="camel"):
    access_key: str
    secret_key: str


class _Entry(Struct, frozen=True):
    name: str
    credentials: tuple[_Keys, ...]
    actions: tuple[str, ...]


class _Identities(Struct, frozen=True):
    identities: tuple[_Entry, ...]


def _entry(identity: Identity) -> _Entry:
    return _Entry(identity.name, (_Keys(identity.access_key, identity.secret_key),), identity.actions)
