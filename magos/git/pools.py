"""Connection pools of the HTTP transport whose connections do not outlive the deadline.

The module imports the HTTP library and is itself imported lazily.
"""

import socket

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from magos.git.deadline import Deadline

__all__ = ["pools_with"]


def pools_with(deadline: Deadline) -> dict[str, type[HTTPConnectionPool]]:
    """Return the classes of connection pools whose connections are cut at the deadline."""

    class Plain(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            connection = super()._new_conn()
            deadline.cut(connection)
            return connection

    class Secure(HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            connection = super()._new_conn()
            deadline.cut(connection)
            return connection

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = Secure

    return {"http": PlainPool, "https": SecurePool}
