"""Ports for servers that start later than they are chosen."""

import socket
from pathlib import Path

import pytest

from magos.local.ports import free_ports


def test_free_ports_lie_outside_the_range_for_outgoing_connections() -> None:
    first_outgoing = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert max(ports) < max(first_outgoing, 20_000)


def test_a_port_with_a_listener_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    taken, free = free_ports(2)
    monkeypatch.setattr("magos.local.ports.random.sample", lambda *_: [taken, free])
    assert free_ports(1) == [taken]
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", taken))
        listening.listen()
        assert free_ports(1) == [free]
