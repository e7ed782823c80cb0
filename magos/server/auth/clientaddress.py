"""The address that failed logins are counted by. A header counts only as far as trusted proxies wrote it."""

import ipaddress
from collections.abc import Sequence

from starlette.requests import Request

from magos.server.auth.settings import Network

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
UNKNOWN = "unknown"


def client_address(request: Request, trusted: Sequence[Network]) -> str:
    """Return the client's IPv4 address or IPv6 network of 64 bits, of which one client has all addresses.

    Behind trusted proxies it is the right-most address of ``X-Forwarded-For`` that none of them has: what stands to the
    left of it, the client can have written.
    """
    address = _parsed(request.client.host) if request.client else None
    if address is None:
        return UNKNOWN
    forwarded = ",".join(request.headers.getlist("x-forwarded-for")).split(",")
    while forwarded and _is_trusted(address, trusted):
        before = _parsed(forwarded.pop().strip())
        if before is None:
            break
        address = before
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address.packed, 64), strict=False))
    return str(address)


def _is_trusted(address: _Address, trusted: Sequence[Network]) -> bool:
    return any(address.version == network.version and address in network for network in trusted)


def _parsed(text: str) -> _Address | None:
    try:
        address = ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address
