"""Runs the OpenSSH client for the Git library.

The module imports the Git library and is itself imported lazily.
"""

import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from dulwich.client import SSHGitClient, SSHVendor, SubprocessWrapper
from dulwich.protocol import Protocol

from magos.git.budget import Budget
from magos.git.credentials import DEFAULT_USERNAME, Credentials
from magos.git.deadline import Deadline
from magos.git.errors import GitError, GitReason
from magos.git.ssh import SSHFiles, ssh_arguments
from magos.git.url import RepoURL

__all__ = ["ssh_client"]


@contextmanager
def ssh_client(
    url: RepoURL, credentials: Credentials, private: Path, deadline: Deadline, budget: Budget
) -> Iterator[tuple[SSHGitClient, Path]]:
    """Yield a client and the log that explains its failures; files go to ``private``, processes end with the block."""

    def received(size: int) -> None:
        deadline.check()
        budget.received(size, url)

    files = SSHFiles.write(private, credentials)
    vendor = _OpenSSH(files, deadline, check_host_key=not credentials.insecure_ignore_host_key)
    client = _Client(
        url.host,
        received,
        port=url.port,
        username=url.user or DEFAULT_USERNAME,
        vendor=vendor,
        quiet=True,
    )
    try:
        yield client, files.stderr
    finally:
        vendor.end_all()  # first, because closing a connection waits for its process
        client.close()


class _Client(SSHGitClient):
    """Counts what arrives, and closes its connections, also those that broke off before the conversation began."""

    def __init__(self, host: str, received: Callable[[int], None], **options: Any) -> None:
        super().__init__(host, **options)
        self._received = received
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
            self._received(len(data))
            return data

        packets.read = read
        return opened


class _OpenSSH(SSHVendor):
    """Runs the OpenSSH client; its log goes to a file because a full pipe would stop it."""

    def __init__(self, files: SSHFiles, deadline: Deadline, *, check_host_key: bool) -> None:
        self._files = files
        self._deadline = deadline
        self._arguments = ssh_arguments(files, check_host_key=check_host_key)
        self._running: list[tuple[subprocess.Popen[bytes], threading.Timer]] = []

    def end_all(self) -> None:
        """End and reap every client that still runs."""
        for process, timer in self._running:
            timer.cancel()
            _kill(process)
            process.wait()
            timer.join()

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
        arguments += ["-p", str(port or 22), "--", f"{username}@{host}", command.decode()]
        with self._files.stderr.open("ab") as log:
            try:
                process = subprocess.Popen(
                    arguments, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
                )
            except FileNotFoundError:
                raise GitError(
                    GitReason.GIT_FAILED,
                    "the OpenSSH client (ssh) is not installed; use the runner image or install it",
                ) from None
        timer = threading.Timer(self._deadline.remaining(), _kill, [process])
        timer.daemon = True
        timer.start()
        self._running.append((process, timer))
        return SubprocessWrapper(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
