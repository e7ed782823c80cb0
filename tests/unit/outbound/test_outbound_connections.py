"""Connections to hosts that others name end in time, whatever name server and addresses do."""

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from magos.bounds import ADDRESSES, NAME_LOOKUPS
from magos.outbound import connect as connecting
from magos.outbound.connect import connect, look_up
from magos.outbound.peers import Peers


class NameServer:
    """Stands for the system's look-up: names that never answer, and names with many addresses."""

    def __init__(self) -> None:
        self.silent = threading.Event()
        self.asked: list[str] = []
        self.addresses: list[Any] = []

    def __call__(self, host: str, _port: int, **options: Any) -> Any:
        if options.get("flags"):
            raise socket.gaierror(socket.EAI_NONAME, "not numeric")
        self.asked.append(host)
        if host == "silent.invalid":
            self.silent.wait(20)
        if not self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return self.addresses


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServer]:
    server = NameServer()
    monkeypatch.setattr(socket, "getaddrinfo", server)
    yield server
    server.silent.set()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def entry(port: int) -> Any:
    return socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)


@pytest.mark.usefixtures("names")
def test_a_name_that_is_never_resolved_costs_the_time_that_it_was_given() -> None:
    with pytest.raises(TimeoutError, match=r"silent\.invalid"):
        look_up("silent.invalid", 443, 0.05)


@pytest.mark.usefixtures("names")
def test_an_unknown_name_is_reported_in_the_words_of_the_system() -> None:
    with pytest.raises(socket.gaierror, match="unknown"):
        connect("missing.invalid", 443, 20, Peers())


def test_bound_name_lookups(names: NameServer) -> None:
    for _ in range(NAME_LOOKUPS.limit):
        with pytest.raises(TimeoutError):
            look_up("silent.invalid", 443, 0.001)
    asked = len(names.asked)
    with pytest.raises(TimeoutError, match="too many names"):
        look_up("silent.invalid", 443, 0.05)
    assert len(names.asked) == asked, "no thread more was started"
    names.silent.set()
    names.addresses = [entry(443)]
    assert look_up("fine.invalid", 443, 60) == [(socket.AF_INET, ("127.0.0.1", 443))]


def test_bound_addresses(names: NameServer, listener: socket.socket) -> None:
    dead = entry(1)
    names.addresses = [dead] * (ADDRESSES.limit - 1) + [entry(listener.getsockname()[1])]
    connect("many.invalid", 443, 60, Peers()).close()
    names.addresses.insert(0, dead)
    with pytest.raises(ConnectionRefusedError):
        connect("many.invalid", 443, 60, Peers())


def test_all_addresses_of_a_name_share_the_time(names: NameServer, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    class Silent(socket.socket):
        """Waits for as long as it may, in no time."""

        def connect(self, _address: Any) -> None:
            nonlocal now
            now += self.gettimeout() or 1000.0
            raise TimeoutError("timed out")

    names.addresses = [entry(1)] * ADDRESSES.limit
    monkeypatch.setattr(connecting, "monotonic", lambda: now)
    monkeypatch.setattr(socket, "socket", Silent)
    with pytest.raises(TimeoutError):
        connect("silent-addresses.invalid", 443, 60, Peers())
    assert now == 60


def test_an_address_in_figures_needs_no_look_up(listener: socket.socket) -> None:
    with connect("127.0.0.1", listener.getsockname()[1], 60, Peers()) as connection:
        assert connection.gettimeout() is not None
