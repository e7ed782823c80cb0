"""The agent signs logins to the repository's host as the repository's user, and nothing else."""

import base64

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from hypothesis import given
from hypothesis import strategies as st

from magos.git.errors import GitError, GitReason
from magos.git.known_hosts import HostKey
from magos.git.sshagent import AgentSession, Destination
from magos.git.sshkeys import HostIdentity, PrivateKey
from magos.git.sshwire import Reader, pack_integer, pack_string

FAILURE, SUCCESS = b"\x05", b"\x06"
SESSION = b"s" * 32
PEM = serialization.Encoding.PEM
OPENSSH = serialization.PrivateFormat.OpenSSH
PLAIN = serialization.NoEncryption()

RSA = rsa.generate_private_key(65537, 2048)
KEYS: dict[str, Ed25519PrivateKey | ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey] = {
    "ed25519": Ed25519PrivateKey.generate(),
    "nistp256": ec.generate_private_key(ec.SECP256R1()),
    "nistp384": ec.generate_private_key(ec.SECP384R1()),
    "nistp521": ec.generate_private_key(ec.SECP521R1()),
    "rsa": RSA,
}
FORMATS = {
    "OpenSSH": OPENSSH,
    "PKCS #1 or SEC1": serialization.PrivateFormat.TraditionalOpenSSL,
    "PKCS #8": serialization.PrivateFormat.PKCS8,
}
KEY = PrivateKey(KEYS["ed25519"].private_bytes(PEM, OPENSSH, PLAIN).decode())
HOST = PrivateKey(Ed25519PrivateKey.generate().private_bytes(PEM, OPENSSH, PLAIN).decode())
OTHER = PrivateKey(Ed25519PrivateKey.generate().private_bytes(PEM, OPENSSH, PLAIN).decode())


def entry(key: PrivateKey, marker: str | None = None) -> HostKey:
    return HostKey("git.example.com", "ssh-ed25519", base64.b64encode(key.blob).decode(), marker)


def agent(*entries: HostKey) -> AgentSession:
    return AgentSession(KEY, Destination("git", entries or (entry(HOST),)))


def bind(host: PrivateKey = HOST, signed: bytes = SESSION, forwarding: bytes = b"\0") -> bytes:
    signature = host.sign(signed, 0)
    parts = (b"session-bind@openssh.com", host.blob, SESSION, signature)
    return b"\x1b" + b"".join(pack_string(part) for part in parts) + forwarding


def login(  # the parts of a userauth request, RFC 4252 §7
    *,
    session: bytes = SESSION,
    kind: int = 50,
    user: bytes = b"git",
    service: bytes = b"ssh-connection",
    method: bytes = b"publickey",
    signed: int = 1,
    key: PrivateKey = KEY,
    tail: bytes = b"",
) -> bytes:
    head = pack_string(session) + bytes([kind]) + pack_string(user) + pack_string(service) + pack_string(method)
    return head + bytes([signed]) + pack_string(b"ssh-ed25519") + pack_string(key.blob) + tail


def sign(data: bytes, key: PrivateKey = KEY) -> bytes:
    return b"\x0d" + pack_string(key.blob) + pack_string(data) + bytes(4)


def test_a_login_to_the_bound_session_is_signed() -> None:
    session = agent()
    assert session.answer(bind()) == SUCCESS
    answer = session.answer(sign(login()))
    assert answer[:1] == b"\x0e"
    signature = Reader(Reader(answer[1:]).string())
    assert signature.string() == b"ssh-ed25519"
    public = KEYS["ed25519"].public_key()
    assert isinstance(public, Ed25519PublicKey)
    public.verify(signature.string(), login())


def test_a_login_that_names_the_host_key_is_signed_for_that_one_only() -> None:
    method = b"publickey-hostbound-v00@openssh.com"
    session = agent()
    session.answer(bind())
    assert session.answer(sign(login(method=method, tail=pack_string(HOST.blob))))[:1] == b"\x0e"
    assert session.answer(sign(login(method=method, tail=pack_string(OTHER.blob)))) == FAILURE
    assert session.answer(sign(login(method=method))) == FAILURE


@pytest.mark.parametrize(
    "data",
    [
        login(session=b"t" * 32),
        login(kind=51),
        login(user=b"root"),
        login(service=b"ssh-userauth"),
        login(method=b"hostbased"),
        login(signed=0),
        login(key=OTHER),
        login(tail=b"\0"),
        b"anything else, such as the digest of a commit",
    ],
)
def test_nothing_else_is_signed(data: bytes) -> None:
    session = agent()
    session.answer(bind())
    assert session.answer(sign(data)) == FAILURE


def test_nothing_is_signed_before_a_host_has_proved_itself() -> None:
    assert agent().answer(sign(login())) == FAILURE


@pytest.mark.parametrize(
    ("request_", "entries"),
    [
        (bind(OTHER), (entry(HOST),)),
        (bind(HOST), (entry(OTHER),)),
        (bind(HOST), (entry(HOST), entry(HOST, "@revoked"))),
        (bind(HOST), (entry(HOST, "@cert-authority"),)),
        (bind(signed=b"t" * 32), (entry(HOST),)),
        (bind(forwarding=b"\1"), (entry(HOST),)),
    ],
)
def test_another_host_a_revoked_key_and_a_forwarded_agent_are_refused(
    request_: bytes, entries: tuple[HostKey, ...]
) -> None:
    session = agent(*entries)
    assert session.answer(request_) == FAILURE
    assert session.answer(sign(login())) == FAILURE


def test_a_connection_is_bound_once() -> None:
    session = agent()
    assert session.answer(bind()) == SUCCESS
    assert session.answer(bind()) == FAILURE


@given(st.binary(max_size=200))
def test_any_bytes_are_answered(request_: bytes) -> None:
    session = agent()
    answer = session.answer(request_)
    assert answer == FAILURE or (request_ == b"\x0b" and answer[:1] == b"\x0c")


@given(st.binary(max_size=300), st.integers(0, 400))
def test_a_damaged_binding_binds_nothing(noise: bytes, at: int) -> None:
    whole = bind()
    damaged = whole[:at] + noise + whole[at + len(noise) :]
    session = agent()
    if damaged != whole:
        assert session.answer(damaged) == FAILURE
        assert session.answer(sign(login())) == FAILURE


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("form", FORMATS)
def test_every_key_that_openssh_reads_signs_what_openssh_checks(name: str, form: str) -> None:
    original = KEYS[name]
    if form == "PKCS #1 or SEC1" and isinstance(original, Ed25519PrivateKey):
        return  # there is no such format for it
    key = PrivateKey(original.private_bytes(PEM, FORMATS[form], PLAIN).decode())
    for flags in (2, 4):
        identity = HostIdentity(key.blob)
        assert identity.trusted == key.blob
        assert identity.signed(key.sign(b"data", flags), b"data")
        assert not identity.signed(key.sign(b"data", flags), b"date")


def test_a_signature_with_sha_1_is_neither_made_nor_accepted() -> None:
    key = PrivateKey(RSA.private_bytes(PEM, OPENSSH, PLAIN).decode())
    with pytest.raises(ValueError, match="SHA-1"):
        key.sign(b"data", 0)
    old = pack_string(b"ssh-rsa") + pack_string(RSA.sign(b"data", padding.PKCS1v15(), hashes.SHA1()))  # noqa: S303
    assert not HostIdentity(key.blob).signed(old, b"data")


def test_an_ecdsa_signature_is_two_numbers() -> None:
    original = KEYS["nistp256"]
    assert isinstance(original, ec.EllipticCurvePrivateKey)
    key = PrivateKey(original.private_bytes(PEM, OPENSSH, PLAIN).decode())
    blob = Reader(key.sign(b"data", 0))
    assert blob.string() == b"ecdsa-sha2-nistp256"
    numbers = Reader(blob.string())
    r, s = (int.from_bytes(numbers.string(), "big") for _ in range(2))
    original.public_key().verify(encode_dss_signature(r, s), b"data", ec.ECDSA(hashes.SHA256()))


def test_a_key_with_a_passphrase_and_what_is_no_key_say_so_and_show_nothing() -> None:
    locked = KEYS["rsa"].private_bytes(
        PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
    )
    for text in (locked.decode(), "not a key", "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n"):
        with pytest.raises(GitError) as caught:
            PrivateKey(text)
        assert caught.value.reason is GitReason.GIT_AUTHENTICATION_FAILED
        assert "has a passphrase" in caught.value.message
        assert text[:40] not in caught.value.message


@pytest.mark.parametrize(("value", "packed"), [(0, "00000000"), (0x80, "000000020080"), (0x7F, "000000017f")])
def test_numbers_are_packed_as_rfc_4251_shows(value: int, packed: str) -> None:
    assert pack_integer(value).hex() == packed
