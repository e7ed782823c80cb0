"""An SSH agent with one key that logs in as one user at one host (draft-ietf-sshm-ssh-agent, OpenSSH PROTOCOL.agent).

The key stays in this process. It signs nothing but logins: to a session that the connection was bound to beforehand
(``session-bind@openssh.com``), of which the server proved with its host key that it takes part, and only if that key is
one of the host's. So a signature is useless elsewhere, and the agent cannot be forwarded.
"""

import base64
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from magos.git.known_hosts import HostKey
from magos.git.sshkeys import HostIdentity, PrivateKey
from magos.git.sshwire import Reader, pack_string

LONGEST_MESSAGE: Final = 64 * 1024

_FAILURE: Final = b"\x05"
_SUCCESS: Final = b"\x06"
_REQUEST_IDENTITIES: Final = 11
_IDENTITIES_ANSWER: Final = b"\x0c"
_SIGN_REQUEST: Final = 13
_SIGN_RESPONSE: Final = b"\x0e"
_EXTENSION: Final = 27
_SESSION_BIND: Final = b"session-bind@openssh.com"
_USERAUTH_REQUEST: Final = 50
_METHODS: Final = (b"publickey", b"publickey-hostbound-v00@openssh.com")


class Destination(msgspec.Struct, frozen=True):
    """Where the key may log in: as ``user``, at a host with one of ``host_keys``; None accepts every host key."""

    user: str
    host_keys: Sequence[HostKey] | None

    def accepts(self, identity: HostIdentity) -> bool:
        """Tell whether known hosts list what the server proved to be, and do not revoke it."""
        if self.host_keys is None:
            return True
        trusted = base64.b64encode(identity.trusted).decode()
        markers = {entry.marker for entry in self.host_keys if entry.key == trusted}
        wanted = "@cert-authority" if identity.certified else None
        return wanted in markers and "@revoked" not in markers


class _Bound(msgspec.Struct, frozen=True):
    session: bytes
    host_key: bytes


class AgentSession:
    """One connection to the agent: requests in, answers out, both without their length."""

    def __init__(self, key: PrivateKey, destination: Destination) -> None:
        self._key = key
        self._destination = destination
        self._bound: _Bound | None = None

    def answer(self, request: bytes) -> bytes:
        """Return the answer to ``request``; whatever is malformed or not granted fails alike."""
        try:
            return self._answer(Reader(request))
        except ValueError:
            return _FAILURE

    def _answer(self, request: Reader) -> bytes:
        handlers: dict[int, Callable[[Reader], bytes]] = {
            _REQUEST_IDENTITIES: self._identities,
            _SIGN_REQUEST: self._sign,
            _EXTENSION: self._extend,
        }
        handler = handlers.get(request.byte())
        return handler(request) if handler else _FAILURE

    def _identities(self, request: Reader) -> bytes:
        request.end()
        return _IDENTITIES_ANSWER + (1).to_bytes(4, "big") + pack_string(self._key.blob) + pack_string(b"")

    def _extend(self, request: Reader) -> bytes:
        if request.string() != _SESSION_BIND or self._bound is not None:  # a second one means a forwarded agent
            return _FAILURE
        host_key, session, signature = request.string(), request.string(), request.string()
        forwarding = request.byte()
        request.end()
        identity = HostIdentity(host_key)
        if forwarding or not identity.signed(signature, session) or not self._destination.accepts(identity):
            return _FAILURE
        self._bound = _Bound(session, host_key)
        return _SUCCESS

    def _sign(self, request: Reader) -> bytes:
        blob, data, flags = request.string(), request.string(), request.integer()
        request.end()
        if blob != self._key.blob or not self._is_login(Reader(data)):
            return _FAILURE
        return _SIGN_RESPONSE + pack_string(self._key.sign(data, flags))

    def _is_login(self, data: Reader) -> bool:
        """Tell whether ``data`` is a request to log in at the bound session (RFC 4252 §7)."""
        if self._bound is None:
            return False
        session, kind = data.string(), data.byte()
        user, service, method = data.string(), data.string(), data.string()
        has_signature, _algorithm, key = data.byte(), data.string(), data.string()
        if method == _METHODS[1] and data.string() != self._bound.host_key:
            return False
        data.end()
        return (
            session == self._bound.session
            and kind == _USERAUTH_REQUEST
            and user == self._destination.user.encode()
            and service == b"ssh-connection"
            and method in _METHODS
            and has_signature == 1
            and key == self._key.blob
        )
