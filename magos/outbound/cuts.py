"""Connections that are shut down at a time, also while they are read from.

A time-out of a socket begins anew with every byte, so a server that drips could hold a reader for ever: while it shakes
hands, in its headers, in the middle of a packet. What a fast one has sent can still be read after the cut.
"""

import contextlib
import socket
import threading


class Cuts:
    """The connections of one operation."""

    def __init__(self) -> None:
        self._cuts: list[tuple[threading.Timer, socket.socket]] = []

    def cut(self, connection: socket.socket, seconds: float) -> None:
        """Shut the connection down in ``seconds``; ``release`` must follow."""
        own = connection.dup()  # a TLS layer takes the other's descriptor over
        timer = threading.Timer(seconds, _shut_down, [own])
        timer.daemon = True
        self._cuts.append((timer, own))
        timer.start()

    def now(self) -> None:
        """Shut all connections down at once."""
        for _, own in tuple(self._cuts):
            _shut_down(own)

    def release(self) -> None:
        """Cut no connection any more; those that were cut stay so."""
        for timer, own in self._cuts:
            timer.cancel()
            if timer.ident is not None:  # None: its start was interrupted
                timer.join()
            own.close()
        self._cuts.clear()


def _shut_down(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the other side was faster
        connection.shutdown(socket.SHUT_RDWR)
