"""The ``git://`` transport with time-outs on its socket and a count of what arrives.

The module imports the Git library and is itself imported lazily.
"""

import socket
from collections.abc import Callable
from typing import IO

from dulwich.client import TCPGitClient
from dulwich.protocol import Protocol

from magos.git.budget import Budget
from magos.git.deadline import Deadline
from magos.git.url import RepoURL

__all__ = ["DaemonClient"]

_CONNECT_SECONDS = 20.0
_SOCKET_SECONDS = 60.0


class DaemonClient(TCPGitClient):
    """The ``git://`` client for one repository, bounded in time and size."""

    def __init__(self, url: RepoURL, deadline: Deadline, budget: Budget) -> None:
        self._repo = url
        self._address = (url.host, url.origin.port)
        super().__init__(*self._address, quiet=True)
        self._deadline = deadline
        self._budget = budget
        self._connections: list[Protocol] = []

    def close(self) -> None:
        """Close the connections, also those that broke off before the conversation began."""
        for connection in self._connections:
            connection.close()

    def _connect(
        self, cmd: bytes, path: str | bytes, protocol_version: int | None = None
    ) -> tuple[Protocol, Callable[[], bool], IO[bytes] | None]:
        connection = socket.create_connection(self._address, timeout=min(_CONNECT_SECONDS, self._deadline.remaining()))
        self._deadline.cut(connection)
        connection.settimeout(min(_SOCKET_SECONDS, self._deadline.remaining()))
        reader, writer = connection.makefile("rb"), connection.makefile("wb", 0)

        def close() -> None:
            reader.close()
            writer.close()
            connection.close()

        def read(size: int) -> bytes:
            self._deadline.check()  # what a fast sender has on the way can be read after the cut, too
            data = reader.read(size)
            self._budget.received(len(data), self._repo)
            return data

        packets = Protocol(read, writer.write, close)
        target = path.encode() if isinstance(path, str) else path
        version = 2 if protocol_version is None else protocol_version
        host = b"host=" + self._address[0].encode()
        packets.send_cmd(b"git-" + cmd, target, host, *([b"", b"version=%d" % version] if version else []))
        self._connections.append(packets)
        return packets, lambda: False, None
