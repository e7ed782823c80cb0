"""Runs the OpenSSH client for the Git library.

The module imports the Git library and is itself imported lazily.
"""

import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from dulwich.client import SSHGitClient, SSHVendor, SubprocessWrapper
from dulwich.protocol import Protocol

from magos.api.repositorysecret import DEFAULT_USERNAME
from magos.bounds import SSH_FILES, SSH_MEMORY
from magos.git.credentials import Credentials
from magos.git.diagnostics import Diagnostics
from magos.git.errors import GitError, GitReason
from magos.git.known_hosts import HostKey, key_alias, trusted_entries
from magos.git.ssh import SSHFiles, ssh_arguments
from magos.git.wire import Wire
from magos.outbound.connect import connect, permitted

_LAST_WORDS_SECONDS = 2.0
"""How long a client that has closed its output may take to say why; it ends at once unless the server holds it up."""

_CONFINED = (
    f"ulimit -c 0; ulimit -f {SSH_FILES.limit // 512}; ulimit -d {SSH_MEMORY.limit // 1024}"  # blocks and KiB
    '; exec "$0" "$@"'
)


def confined(arguments: list[str]) -> list[str]:
    """Return the command that runs ``arguments`` so that it writes no file and holds bounded memory (setrlimit(2))."""
    return ["sh", "-c", _CONFINED, *arguments]


@contextmanager
def ssh_client(wire: Wire, credentials: Credentials, private: Path) -> Iterator[tuple[SSHGitClient, Callable[[], str]]]:
    """Yield a client and what returns the log that explains its failures.

    Files go to ``private``, processes end with the block.
    """
    url = wire.url
    files = SSHFiles.write(private, credentials)
    entries = trusted_entries(credentials.known_hosts)
    vendor = _OpenSSH(files, wire, entries, check_host_key=not credentials.insecure_ignore_host_key)
    client = _Client(
        url.host,
        wire,
        port=url.port,
        username=url.user or DEFAULT_USERNAME,
        vendor=vendor,
        quiet=True,
    )
    try:
        yield client, vendor.log
    finally:
        vendor.end_all()  # first, because closing a connection waits for its process
        client.close()


class _Client(SSHGitClient):
    """Counts what arrives, and closes its connections, also those that broke off before the conversation began."""

    def __init__(self, host: str, wire: Wire, **options: Any) -> None:
        super().__init__(host, **options)
        self._wire = wire
        self._connections: list[Protocol] = []

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    def _connect(
        self, cmd: bytes, path: str | bytes, protocol_version: int | None = None
    ) -> tuple[Protocol, Callable[[], bool], IO[bytes] | None]:
        opened = super()._connect(cmd, path, protocol_version)
        packets = opened[0]
        self._connections.append(packets)
        read_all = packets.read

        def read(size: int) -> bytes:
            data = read_all(size)
            self._wire.received(len(data))
            return data

        packets.read = self._wire.reader(read)
        return opened


class _OpenSSH(SSHVendor):
    """Runs the OpenSSH client; a thread reads its log, because a full pipe would stop it and a file would grow."""

    def __init__(self, files: SSHFiles, wire: Wire, entries: Sequence[HostKey], *, check_host_key: bool) -> None:
        self._wire = wire
        self._arguments = ssh_arguments(files, check_host_key=check_host_key)
        self._entries = entries
        self._diagnostics = Diagnostics(wire.received)
        self._running: list[tuple[subprocess.Popen[bytes], threading.Timer]] = []

    def log(self) -> str:
        """Return the log so far, the last words of a client that is ending included."""
        return self._diagnostics.text(min(_LAST_WORDS_SECONDS, self._wire.remaining()))

    def end_all(self) -> None:
        """End and reap every client that still runs."""
        for process, timer in self._running:
            timer.cancel()
            _kill(process)
            process.wait()
            timer.join()
        self._diagnostics.close()

    def run_command(  # noqa: PLR0913, PLR0917  # the library's signature
        self,
        host: str,
        command: bytes,
        username: str | None = None,
        port: int | None = None,
        password: str | None = None,  # noqa: ARG002
        key_filename: str | None = None,  # noqa: ARG002
        ssh_command: str | None = None,  # noqa: ARG002
        protocol_version: int | None = None,
    ) -> SubprocessWrapper:
        """Start ``command`` on ``host``."""
        arguments = [*self._arguments, "-oLogLevel=DEBUG1"]  # the level that names the host key's fingerprint
        if protocol_version != 0:
            arguments.append("-oSetEnv=GIT_PROTOCOL=version=2")
        arguments += self._pinned(host, port or 22)
        arguments += ["-p", str(port or 22), "--", f"{username}@{host}", command.decode()]
        if shutil.which(arguments[0]) is None:
            raise GitError(
                GitReason.GIT_FAILED, "the OpenSSH client (ssh) is not installed; use the runner image or install it"
            )
        process = self._diagnostics.start(confined(arguments))
        timer = threading.Timer(self._wire.remaining(), _kill, [process])
        timer.daemon = True
        timer.start()
        self._running.append((process, timer))
        return SubprocessWrapper(process)

    def _pinned(self, host: str, port: int) -> list[str]:
        """Return the options that make the client connect to an address we have judged, and check the name's keys."""
        try:
            addresses = permitted(host, port, self._wire.remaining(), self._wire.peers)
            address = addresses[0][1] if len(addresses) == 1 else self._answering(host, port)
        except OSError as error:
            cause = error.strerror or str(error)
            raise GitError(
                GitReason.GIT_FAILED, f"cannot reach {self._wire.url}: {cause}; check the network and the URL"
            ) from error
        return [f"-oHostName={address[0]}", f"-oHostKeyAlias={key_alias(self._entries, host, port)}"]

    def _answering(self, host: str, port: int) -> Any:
        """Return the first address that answers: the client itself would try one only."""
        with connect(host, port, self._wire.remaining(), self._wire.peers) as connection:
            return connection.getpeername()


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
