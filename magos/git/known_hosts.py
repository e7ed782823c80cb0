"""SSH host keys: the list of the image, the additions of a repository Secret, and fingerprints.

The format is the one of ssh(1), "SSH_KNOWN_HOSTS FILE FORMAT": ``[@marker] hosts type base64``. Both lists count: a key
found in either is trusted for its host.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable
from fnmatch import fnmatchcase
from importlib import resources
from pathlib import Path

import msgspec

from magos.git.errors import GitError, GitReason

IMAGE_LIST = Path("/etc/magos/ssh_known_hosts")
"""Where an image keeps its list; without that file the list shipped with the package counts."""

_MARKERS = ("@cert-authority", "@revoked")


class HostKey(msgspec.Struct, frozen=True):
    """One line: ``hosts`` as written (comma list, may be hashed), key type and the base64 key."""

    hosts: str
    key_type: str
    key: str
    marker: str | None = None

    def line(self) -> str:
        """Return the line in the format of the file, without comment."""
        return " ".join(part for part in (self.marker, self.hosts, self.key_type, self.key) if part)


def parse_known_hosts(text: str) -> list[HostKey]:
    """Return the entries of ``text``; blank lines and ``#`` comments are skipped, CRLF is accepted.

    Raises ``ValueError`` naming the line that is no entry, because a key that is silently ignored looks like a bug of
    the server.
    """
    entries = []
    for number, raw in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), start=1):
        fields = raw.split()
        if not fields or fields[0].startswith("#"):
            continue
        marker = fields.pop(0) if fields[0] in _MARKERS else None
        if len(fields) < 3 or not _is_key(fields[1], fields[2]):
            raise ValueError(f"line {number} is not '<hosts> <key type> <base64 key>'")
        entries.append(HostKey(fields[0], fields[1], fields[2], marker))
    return entries


def fingerprint(key: str) -> str:
    """Return the fingerprint of a base64 key as OpenSSH prints it: ``SHA256:`` and unpadded base64."""
    digest = hashlib.sha256(base64.b64decode(key)).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def image_host_keys() -> str:
    """Return the text of the image's list of public forges (spec §7.2)."""
    if IMAGE_LIST.is_file():
        return IMAGE_LIST.read_text()
    return resources.files("magos.git").joinpath("ssh_known_hosts").read_text()


def trusted_lines(additional: str | None) -> str:
    """Return the file content that SSH checks against: the image's list and the Secret's ``known_hosts``.

    Raises ``GitError`` (GitFailed) if the Secret's part cannot be read.
    """
    try:
        extra = parse_known_hosts(additional or "")
    except ValueError as error:
        raise GitError(
            GitReason.GIT_FAILED,
            f"the repository Secret's known_hosts cannot be read: {error}; use the output of ssh-keyscan",
        ) from error
    return "\n".join([image_host_keys().rstrip("\n"), *(entry.line() for entry in extra)]) + "\n"


def trusted_entries(additional: str | None) -> list[HostKey]:
    """Return the entries of ``trusted_lines``; raises the same error."""
    return parse_known_hosts(trusted_lines(additional))


def keys_of_host(entries: Iterable[HostKey], host: str, port: int) -> list[HostKey]:
    """Return the entries that ssh(1) may consult for ``host`` and ``port``, revoked keys and authorities included.

    For another port than 22 these are the ones for ``[host]:port`` and the ones for the host alone.
    """
    names = [host] if port == 22 else [f"[{host}]:{port}", host]
    return [entry for entry in entries if any(_names_host(entry.hosts, name) for name in names)]


def key_alias(entries: Iterable[HostKey], host: str, port: int) -> str:
    """Return the name under which ssh(1) looks for the keys of ``host``: without the port if only that is known."""
    if port == 22:
        return host
    named = f"[{host}]:{port}"
    bare = any(_names_host(entry.hosts, host) for entry in entries)
    return host if bare and not any(_names_host(entry.hosts, named) for entry in entries) else named


def _names_host(hosts: str, name: str) -> bool:
    if hosts.startswith("|"):
        return _is_hash_of(hosts, name)
    patterns = hosts.lower().split(",")
    # Brackets are literal in this format but not for fnmatch.
    matching = [each for each in patterns if fnmatchcase(name, each.removeprefix("!").replace("[", "[[]"))]
    return bool(matching) and not any(each.startswith("!") for each in matching)


def _is_hash_of(hashed: str, name: str) -> bool:
    """Tell whether ``|1|salt|hash`` stands for ``name`` (sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT")."""
    try:
        _, version, salt, expected = hashed.split("|")
        digest = hmac.digest(base64.b64decode(salt), name.encode(), "sha1")
        return version == "1" and hmac.compare_digest(digest, base64.b64decode(expected))
    except ValueError:  # binascii.Error is one
        return False


def _is_key(key_type: str, key: str) -> bool:
    """Tell whether ``key`` is base64 of a key blob that begins with its own type (RFC 4253 §6.6)."""
    try:
        blob = base64.b64decode(key, validate=True)
    except (binascii.Error, ValueError):
        return False
    length = int.from_bytes(blob[:4], "big")
    return blob[4 : 4 + length] == key_type.encode() and len(blob) > 4 + length
