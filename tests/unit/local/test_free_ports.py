"""Ports for servers that start later than they are chosen."""

import socket
from pathlib import Path

from magos.local.controlplane import free_ports


def test_free_ports_are_none_that_the_kernel_gives_to_outgoing_connections() -> None:
    first_outgoing = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert max(ports) < max(first_outgoing, 20_000)


def test_a_port_that_somebody_listens_on_is_not_free() -> None:
    ports = free_ports(200)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", ports[0]))
        listening.listen()
        assert all(ports[0] not in free_ports(500) for _ in range(20))
