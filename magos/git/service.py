"""A small server inside this process: a thread that accepts, a thread a connection, and an end that leaves neither."""

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Callable
from time import monotonic
from typing import Final

_END_SECONDS: Final = 2.0


class Service:
    """Serves ``listener``, which it closes, with at most ``most`` connections at a time; more are closed at once.

    ``serve`` gets a connection that is closed when it returns. What it raises as ``OSError`` or ``ValueError`` ends
    that connection and nothing else: the other side is not trusted to keep to the protocol.
    """

    def __init__(self, listener: socket.socket, serve: Callable[[socket.socket], None], most: int) -> None:
        self._listener = listener
        self._serve = serve
        self._most = most
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._ended = False
        self._threads: list[threading.Thread] = []
        self._acceptor = threading.Thread(target=self._accept, name="service", daemon=True)
        self._acceptor.start()

    def end(self) -> None:
        """Accept no more connections, cut every open one and wait for the threads, two seconds at most."""
        with self._lock:
            self._ended = True
            for connection in self._open:
                with contextlib.suppress(OSError):  # it was closed by the other side
                    connection.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept, which closing does not
        until = monotonic() + _END_SECONDS
        self._acceptor.join(_END_SECONDS)
        self._listener.close()
        for thread in self._threads:
            thread.join(max(until - monotonic(), 0.0))

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # the end, or a client that has gone
                if self._ended:
                    return
                continue
            with self._lock:
                if self._ended or len(self._open) >= self._most:
                    connection.close()
                    continue
                self._open.add(connection)
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            thread = threading.Thread(target=self._run, args=(connection,), name="service-client", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _run(self, connection: socket.socket) -> None:
        try:
            self._serve(connection)
        except (OSError, ValueError):
            return  # the client broke off or broke the protocol
        finally:
            with self._lock:
                self._open.discard(connection)
                connection.close()


def abstract_socket(name: str, kind: socket.SocketKind) -> socket.socket:
    """Return a socket that listens at ``name`` in the abstract namespace (unix(7)): it leaves no file to exchange."""
    listener = socket.socket(socket.AF_UNIX, kind)
    try:
        listener.bind(f"\0{name}")
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener


def peer(connection: socket.socket) -> tuple[int, int]:
    """Return PID and UID of the process that connected."""
    size = struct.calcsize("3i")
    pid, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return pid, uid


def same_user(connection: socket.socket) -> bool:
    """Tell whether a process of this user connected."""
    return peer(connection)[1] == os.geteuid()
