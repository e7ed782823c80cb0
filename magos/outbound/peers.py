"""Which peers may be connected to, by the address that a connection goes to and not by its name. Pure.

A user who may name a repository or a mirror could otherwise have a controller or a runner ask the cloud's metadata
service or a neighbour on the link. Loopback is permitted unless it is denied: a machine of one's own serves there.
"""

import ipaddress

import msgspec

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
"""IPv4 addresses behind a translator (RFC 6052 §2.1)."""


class PeerDenied(OSError):
    """All addresses of a host are denied; the text names the host and the settings, never an address."""


def parse_networks(text: str) -> tuple[Network, ...]:
    """Return the networks of a list separated by commas, such as ``10.0.0.0/8,fd00::/8,192.0.2.7``.

    Raises ``ValueError`` that names the part that is none.
    """
    networks: list[Network] = []
    for part in text.split(","):
        if name := part.strip():
            try:
                networks.append(ipaddress.ip_network(name))
            except ValueError:
                raise ValueError(f"{name!r} is not an address or a network such as 10.0.0.0/8 or fd00::/8") from None
    return tuple(networks)


DENIED_BY_DEFAULT = parse_networks(
    "169.254.0.0/16,fe80::/10,"  # the link: metadata services of most clouds, and neighbours
    "fd00:ec2::254,fd20:ce::254,"  # metadata services over IPv6 (AWS, Google Cloud)
    "100.100.100.200,192.0.0.192,"  # metadata services elsewhere (Alibaba Cloud, Oracle Cloud)
    "0.0.0.0/8,::"  # this host by an address that no rule for loopback covers
)


class Peers(msgspec.Struct, frozen=True):
    """What an administrator denies beside ``DENIED_BY_DEFAULT``, and what is permitted whatever is denied."""

    denied: tuple[Network, ...] = ()
    allowed: tuple[Network, ...] = ()

    def permits(self, address: str) -> bool:
        """Tell whether ``address``, in figures, may be connected to; IPv4 inside IPv6 is judged as IPv4 as well."""
        forms = _forms(address)
        if any(form in network for form in forms for network in self.allowed):
            return True
        return not any(form in network for form in forms for network in (*DENIED_BY_DEFAULT, *self.denied))


def _forms(address: str) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    own = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(own, ipaddress.IPv4Address):
        return [own]
    inner = own.ipv4_mapped or own.sixtofour
    if inner is None and own in _TRANSLATED:
        inner = ipaddress.IPv4Address(int(own) & 0xFFFFFFFF)
    return [own] if inner is None else [own, inner]
