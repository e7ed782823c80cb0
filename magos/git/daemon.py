"""The ``git://`` transport, bounded in time and size.

The module imports the Git library and is itself imported lazily.
"""

from collections.abc import Callable
from typing import IO

from dulwich.client import TCPGitClient
from dulwich.protocol import Protocol

from magos.git.wire import Wire
from magos.outbound.connect import connect

_SOCKET_SECONDS = 60.0


class DaemonClient(TCPGitClient):
    """The ``git://`` client for one repository, bounded in time and size."""

    def __init__(self, wire: Wire) -> None:
        self._address = (wire.url.host, wire.url.origin.port)
        super().__init__(*self._address, quiet=True)
        self._wire = wire
        self._connections: list[Protocol] = []

    def close(self) -> None:
        """Close the connections, also those that broke off before the conversation began."""
        for connection in self._connections:
            connection.close()

    def _connect(
        self, cmd: bytes, path: str | bytes, protocol_version: int | None = None
    ) -> tuple[Protocol, Callable[[], bool], IO[bytes] | None]:
        connection = connect(*self._address, self._wire.remaining(), self._wire.peers)
        self._wire.cut(connection)
        connection.settimeout(min(_SOCKET_SECONDS, self._wire.remaining()))
        reader, writer = connection.makefile("rb"), connection.makefile("wb", 0)

        def close() -> None:
            reader.close()
            writer.close()
            connection.close()

        def read(size: int) -> bytes:
            data = reader.read(size)
            self._wire.received(len(data))
            return data

        packets = Protocol(self._wire.reader(read), writer.write, close)
        target = path.encode() if isinstance(path, str) else path
        version = 2 if protocol_version is None else protocol_version
        host = b"host=" + self._address[0].encode()
        packets.send_cmd(b"git-" + cmd, target, host, *([b"", b"version=%d" % version] if version else []))
        self._connections.append(packets)
        return packets, lambda: False, None
