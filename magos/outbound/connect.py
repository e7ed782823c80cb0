"""Connect to a host by name within a time: the look-up of the name and all of its addresses included.

The system's look-up knows no time-out of the caller's, and a name may have any number of addresses, each of which may
stay silent. So a look-up runs in a thread that is left alone when the time is up, and the addresses share the time.
"""

import socket
import threading
from time import monotonic
from typing import Any

from magos.bounds import ADDRESSES, NAME_LOOKUPS
from magos.outbound.peers import PeerDenied, Peers

_CONNECT_SECONDS = 20.0

Address = tuple[socket.AddressFamily, Any]
"""Family and socket address of a TCP server."""

_lookups = threading.BoundedSemaphore(NAME_LOOKUPS.limit)


def look_up(host: str, port: int, seconds: float) -> list[Address]:
    """Return the first addresses of ``host``. Raises ``OSError``: unknown, or not known within ``seconds``."""
    try:
        return _resolve(host, port, socket.AI_NUMERICHOST)
    except socket.gaierror:
        return _Lookup(host, port).wait(seconds)


def permitted(host: str, port: int, seconds: float, peers: Peers) -> list[Address]:
    """Return the first addresses of ``host`` that ``peers`` permits. Raises ``OSError``: ``PeerDenied`` for none."""
    found = look_up(host, port, seconds)
    addresses = [(family, address) for family, address in found if peers.permits(address[0])]
    if found and not addresses:
        raise PeerDenied(
            f"connections to {host} are denied (MAGOS_DENIED_PEERS and what is denied by default;"
            " an administrator may permit them with MAGOS_ALLOWED_PEERS)"
        )
    return addresses


def connect(host: str, port: int, seconds: float, peers: Peers) -> socket.socket:
    """Return a connection to the first permitted address of ``host`` that answers.

    Raises ``OSError`` after ``seconds`` at most. The connection has a time-out of what is left of them.
    """
    end = monotonic() + seconds
    failure: OSError = OSError(f"{host} has no address")
    for family, address in permitted(host, port, seconds, peers):
        left = end - monotonic()
        if left <= 0:
            raise TimeoutError(f"{host} did not answer in time") from failure
        connection = socket.socket(family, socket.SOCK_STREAM)
        try:
            connection.settimeout(min(left, _CONNECT_SECONDS))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.connect(address)
        except OSError as error:
            connection.close()
            failure = error
        except BaseException:
            connection.close()
            raise
        else:
            return connection
    raise failure


class _Lookup:
    """One look-up in a thread of its own; the thread ends when the system answers, whether somebody waits or not."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._done = threading.Event()
        self._found: list[Address] = []
        self._failure: OSError | UnicodeError | None = None

    def wait(self, seconds: float) -> list[Address]:
        if not _lookups.acquire(timeout=seconds):
            raise TimeoutError(f"too many names are being looked up; {self._host} had to wait too long")
        try:
            threading.Thread(target=self._run, name="name look-up", daemon=True).start()
        except BaseException:
            _lookups.release()
            raise
        if not self._done.wait(seconds):
            raise TimeoutError(f"the name {self._host} was not resolved in time")
        if self._failure is not None:
            raise self._failure if isinstance(self._failure, OSError) else OSError(str(self._failure))
        return self._found

    def _run(self) -> None:
        try:
            self._found = _resolve(self._host, self._port)
        except (OSError, UnicodeError) as error:
            self._failure = error
        finally:
            _lookups.release()
            self._done.set()


def _resolve(host: str, port: int, flags: int = 0) -> list[Address]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return [(family, address) for family, _, _, _, address in found[: ADDRESSES.limit]]
