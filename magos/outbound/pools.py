"""Connection pools of the HTTP library whose connections are counted byte by byte and do not outlive the operation.

Counting stands at the connection, before anything is parsed: status lines, interim responses, headers, chunk headers,
trailers and bodies that are not read all count. The head of a response, which is kept whole, has a limit of its own.
"""

import io
import socket
from http.client import HTTPResponse
from typing import Any

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import ConnectTimeoutError, NameResolutionError, NewConnectionError, ProtocolError

from magos.bounds import HTTP_HEAD
from magos.outbound.connect import connect
from magos.outbound.guard import Guard
from magos.outbound.peers import Peers, parse_networks


def pools_with(guard: Guard) -> dict[str, type[HTTPConnectionPool]]:
    """Return the classes of connection pools whose connections ``guard`` watches over."""

    class Response(HTTPResponse):
        def __init__(self, sock: socket.socket, *arguments: Any, **options: Any) -> None:
            super().__init__(sock, *arguments, **options)
            self._source = _Counted(self.fp.detach(), guard)
            self.fp = io.BufferedReader(self._source)

        def begin(self) -> None:
            self._source.allow(HTTP_HEAD.limit)
            super().begin()
            self._source.allow(None)

    class Plain(HTTPConnection):
        response_class = Response

        def _new_conn(self) -> socket.socket:
            return _connected(self, self._dns_host, guard)

    class Secure(HTTPSConnection):
        response_class = Response

        def _new_conn(self) -> socket.socket:
            return _connected(self, self._dns_host, guard)

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = Secure

    return {"http": PlainPool, "https": SecurePool}


def _connected(connection: HTTPConnection, host: str, guard: Guard) -> socket.socket:
    """Return a socket that is cut at the end of the operation, or raise as the HTTP library does."""
    try:
        # which proxy there is, and what it connects to, is the administrator's to say
        peers = guard.peers if connection.proxy is None else Peers(allowed=parse_networks("0.0.0.0/0,::/0"))
        opened = connect(host, connection.port, guard.remaining(), peers)
    except socket.gaierror as error:
        raise NameResolutionError(connection.host, connection, error) from error
    except TimeoutError as error:
        raise ConnectTimeoutError(connection, f"connection to {connection.host} timed out") from error
    except OSError as error:
        raise NewConnectionError(connection, f"Failed to establish a new connection: {error}") from error
    guard.cut(opened)
    return opened


class _Counted(io.RawIOBase):
    """Reads from ``source``, counts, and refuses more than ``allow`` allows."""

    def __init__(self, source: Any, guard: Guard) -> None:
        self._source = source
        self._guard = guard
        self._allowed: int | None = None

    def allow(self, size: int | None) -> None:
        """Let only ``size`` more bytes through; ``None``: any number."""
        self._allowed = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        size: int | None = self._source.readinto(buffer)
        if size:
            self._guard.received(size)
            if self._allowed is not None:
                self._allowed -= size
                if self._allowed < 0:
                    raise ProtocolError(f"more than {HTTP_HEAD.limit // 1024} KiB of headers")
        return size

    def fileno(self) -> int:
        number: int = self._source.fileno()
        return number

    def close(self) -> None:
        if not self.closed:
            self._source.close()
        super().close()
