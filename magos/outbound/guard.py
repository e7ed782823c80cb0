"""What watches over a connection: the operation that it belongs to."""

import socket
from typing import Protocol

from magos.outbound.peers import Peers


class Guard(Protocol):
    """An operation with an end and a budget."""

    peers: Peers
    """Which addresses may be connected to."""

    def received(self, size: int) -> None:
        """Count ``size`` bytes; raise an error of the operation's own if they are too many or too late."""
        ...

    def remaining(self) -> float:
        """Return the seconds left, more than none."""
        ...

    def cut(self, connection: socket.socket) -> None:
        """Shut ``connection`` down when no time is left."""
        ...
