"""Who may be connected to is decided by the address, for every transport, and no message tells the address."""

import ipaddress
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from magos.git.errors import GitError, GitReason
from magos.git.lsremote import LsRemotesRequest, ls_remotes
from magos.outbound.connect import connect, permitted
from magos.outbound.peers import PeerDenied, Peers, parse_networks
from magos.toolchain.download import Downloads
from magos.toolchain.errors import ToolError
from tests.unit.toolchain.test_toolchain_downloads import answering

NO_LOOPBACK = Peers(denied=parse_networks("127.0.0.0/8, ::1"))


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "169.254.1.1", "fe80::1", "fe80::1%eth0", "fd00:ec2::254", "::ffff:169.254.169.254",
     "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "100.100.100.200", "0.0.0.0", "::"],
)  # fmt: skip
def test_metadata_services_and_neighbours_on_the_link_are_denied_in_every_spelling(address: str) -> None:
    assert not Peers().permits(address)
    plain = ipaddress.ip_address(address.partition("%")[0])
    assert Peers(allowed=parse_networks(str(plain))).permits(address), "an administrator may permit them"


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "10.0.0.1", "192.168.1.1", "fd00::1", "140.82.121.3"])
def test_loopback_and_private_networks_are_permitted_until_they_are_denied(address: str) -> None:
    assert Peers().permits(address)
    assert not Peers(denied=parse_networks("0.0.0.0/0,::/0")).permits(address)


def inside(address: Any) -> Any:
    """The IPv4 address that an IPv6 one stands for (RFC 4291 §2.5.5.2, RFC 3056, RFC 6052), None if there is none."""
    if address.version == 4:
        return None
    if address in ipaddress.ip_network("64:ff9b::/96"):
        return ipaddress.IPv4Address(address.packed[12:])
    return address.ipv4_mapped or address.sixtofour


@given(st.ip_addresses(), st.ip_addresses())
@example(ipaddress.ip_address("::ffff:0:0"), ipaddress.ip_address("0.0.0.0"))
@example(ipaddress.ip_address("2002::"), ipaddress.ip_address("0.0.0.0"))
@example(ipaddress.ip_address("64:ff9b::"), ipaddress.ip_address("0.0.0.0"))
def test_what_is_allowed_wins_and_what_is_denied_stays_denied(first: Any, second: Any) -> None:
    denied = Peers(denied=parse_networks(str(first)))
    assert not denied.permits(str(first))
    both = Peers(denied=denied.denied, allowed=parse_networks(str(second)))
    assert both.permits(str(second))
    assert both.permits(str(first)) == (second in (first, inside(first)))


@pytest.mark.parametrize("text", ["10.0.0.0/33", "host.example", "10.0.0.1/8", "1,"])
def test_a_list_of_networks_names_the_part_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not an address or a network"):
        parse_networks(text)


def test_a_list_of_networks_may_have_blanks_and_be_empty() -> None:
    assert parse_networks(" ,") == ()
    assert len(parse_networks(" 10.0.0.0/8 , fd00::/8")) == 2


def test_a_name_is_judged_by_what_it_resolves_to(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = ["169.254.169.254", "127.0.0.1"]

    def look_up(_host: str, port: int, **options: Any) -> Any:
        if options.get("flags"):
            raise socket.gaierror(socket.EAI_NONAME, "not numeric")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    assert permitted("mixed.invalid", 80, 60, Peers()) == [(socket.AF_INET, ("127.0.0.1", 80))]
    with pytest.raises(PeerDenied, match="MAGOS_DENIED_PEERS") as caught:
        connect("mixed.invalid", 80, 60, NO_LOOPBACK)
    assert "127.0.0.1" not in str(caught.value)
    assert "169.254" not in str(caught.value)


@contextmanager
def listening() -> Iterator[socket.socket]:
    """A server of which a test can say that nobody has connected to it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server
        with pytest.raises(BlockingIOError):
            server.accept()


def refused(url: str, peers: Peers, folder: Path) -> str:
    request = LsRemotesRequest(url, ("main",), ("http", "git", "ssh"), workdir=folder, peers=peers)
    with pytest.raises(GitError) as caught:
        ls_remotes(request)
    assert caught.value.reason is GitReason.GIT_FAILED
    return caught.value.message


@pytest.mark.parametrize("scheme", ["http", "git", "ssh"])
def test_no_transport_connects_to_a_denied_peer(scheme: str, tmp_path: Path) -> None:
    with listening() as server:
        url = f"{scheme}://127.0.0.1:{server.getsockname()[1]}/r.git"
        message = refused(url, NO_LOOPBACK, tmp_path)
    assert "denied" in message
    assert "MAGOS_ALLOWED_PEERS" in message
    assert list(tmp_path.iterdir()) == []


def test_a_download_does_not_connect_to_a_denied_peer(tmp_path: Path) -> None:
    with listening() as server, pytest.raises(ToolError, match="MAGOS_ALLOWED_PEERS"):
        Downloads(60, NO_LOOPBACK).get(f"http://127.0.0.1:{server.getsockname()[1]}/f", tmp_path / "f", 1000)


@pytest.mark.parametrize("peers", [Peers(denied=parse_networks("127.0.0.2")), Peers()])
def test_a_redirect_into_the_network_tells_nothing_about_what_is_there(peers: Peers, tmp_path: Path) -> None:
    away = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.2:1/info/refs\r\nContent-Length: 0\r\n\r\n"
    with answering(away) as server:
        message = refused(server.url, peers, tmp_path)
        assert server.url in message
    assert "127.0.0.2" not in message
    assert "refused" not in message
    assert "denied" not in message


def test_an_answer_that_is_no_git_tells_nothing_of_what_it_is(tmp_path: Path) -> None:
    with answering(b"HTTP/1.1 200 OK\r\nContent-Type: application/internal\r\nContent-Length: 0\r\n\r\n") as server:
        message = refused(server.url, Peers(), tmp_path)
    assert "did not answer as a Git server" in message
    assert "internal" not in message


@pytest.mark.parametrize("location", ["ftp://internal.example/x", "http://u:p@internal.example/x"])
def test_a_refused_redirect_does_not_name_its_target(location: str, tmp_path: Path) -> None:
    away = b"HTTP/1.1 302 Found\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % location.encode()
    with answering(away) as server:
        request = LsRemotesRequest(server.url, ("main",), ("http",), workdir=tmp_path)
        with pytest.raises(GitError) as caught:
            ls_remotes(request)
    assert "internal" not in caught.value.message


def test_what_a_proxy_connects_to_is_the_administrators_to_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        Downloads(60, NO_LOOPBACK).get("http://releases.invalid/tofu", tmp_path / "f", 1000)
    assert (tmp_path / "f").read_bytes() == b"ok"
