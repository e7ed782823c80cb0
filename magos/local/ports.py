"""Free ports on 127.0.0.1, for servers that start later than their ports are chosen."""

import itertools
import random
import socket
from pathlib import Path
from typing import Final

from magos.errors import MagosError

_LOWEST_PORT: Final = 10_000
"""Below lie the ports that other programs on a machine usually listen on."""

_CANDIDATES: Final = 1_000
_OUTGOING: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_USUAL_OUTGOING: Final = 32_768
"""The first port that Linux takes for outgoing connections unless an administrator changed it."""


def free_ports(count: int) -> list[int]:
    """Return TCP ports that are free on 127.0.0.1 now; another program may still take one before it is used.

    They lie below the range from which the kernel takes the ports of outgoing connections (ip(7),
    ``ip_local_port_range``) if that leaves room: a control plane opens hundreds of connections before its last process
    listens. Raises ``MagosError`` if there are not enough.
    """
    first_outgoing = int(_OUTGOING.read_text().split()[0]) if _OUTGOING.exists() else _USUAL_OUTGOING
    ports = range(_LOWEST_PORT, max(first_outgoing, 2 * _LOWEST_PORT))
    found = list(itertools.islice(filter(_is_free, random.sample(ports, _CANDIDATES)), count))
    if len(found) < count:
        raise MagosError(
            f"127.0.0.1 has no {count} free ports from {ports.start} to {ports.stop}; end programs that listen there"
        )
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
