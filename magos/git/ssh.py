"""The SSH transport: the OpenSSH client with a private key file, checked host keys and no other configuration.

Nothing of the user's or the system's SSH configuration, agent or known hosts is used, so the result depends on the
repository Secret and the image alone. The OpenSSH client refuses to run for a UID without a passwd entry; the runner
image has one for its UID, and elsewhere the error says so.
"""

import os
import re
from pathlib import Path

import msgspec

from magos.git.credentials import CredentialKind, Credentials
from magos.git.errors import GitError, GitReason
from magos.git.known_hosts import trusted_lines
from magos.git.url import RepoURL
from magos.masking.message import cleared, compose
from magos.privatefile import write_private

_NULL = os.devnull
_OFFERED_KEY = re.compile(r"^debug1: Server host key: (\S+) (SHA256:\S+)", re.MULTILINE)
_NO_USER = re.compile(r"No user exists for uid (\d+)")
_UNREACHABLE = re.compile(
    r"Could not resolve hostname|Connection (?:refused|timed out|reset|closed)|No route to host|Network is unreachable"
    r"|kex_exchange_identification|Timeout, server|banner exchange",
)


class SSHFiles(msgspec.Struct, frozen=True):
    """The files of one connection, all 0600 in a private directory; ``key`` is ``None`` without a key."""

    known_hosts: Path
    key: Path | None

    @classmethod
    def write(cls, directory: Path, credentials: Credentials) -> "SSHFiles":
        """Write key and host keys into ``directory``, which must be private and outside clone and volume."""
        known_hosts = directory / "known_hosts"
        write_private(known_hosts, trusted_lines(credentials.known_hosts).encode())
        key = None
        if credentials.ssh_private_key:
            key = directory / "key"
            write_private(key, repair_key(credentials.ssh_private_key).encode())
        return cls(known_hosts, key)


def repair_key(text: str) -> str:
    """Return a private key as OpenSSH reads it: LF line ends and exactly one at the end."""
    return text.replace("\r\n", "\n").replace("\r", "\n").strip() + "\n"


def ssh_arguments(files: SSHFiles, *, check_host_key: bool = True) -> list[str]:
    """Return the ``ssh`` command up to, and without, port and host."""
    options = {
        "BatchMode": "yes",
        "StrictHostKeyChecking": "yes" if check_host_key else "no",
        "UserKnownHostsFile": str(files.known_hosts) if check_host_key else _NULL,
        "GlobalKnownHostsFile": _NULL,
        "UpdateHostKeys": "no",
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
        "IdentityFile": str(files.key) if files.key else "none",
        "PreferredAuthentications": "publickey",
        "ClearAllForwardings": "yes",
        "ConnectTimeout": "20",
        "ServerAliveInterval": "15",
        "ServerAliveCountMax": "4",
    }
    return ["ssh", "-F", _NULL, "-x", "-T", *(f"-o{name}={value}" for name, value in options.items())]


def explain(url: RepoURL, credentials: Credentials, log: str) -> GitError | None:
    """Return what the log of the OpenSSH client says went wrong, or ``None`` if the cause lies elsewhere."""
    if match := _NO_USER.search(log):
        return GitError(
            GitReason.GIT_FAILED,
            f"cannot connect to {url}: the OpenSSH client needs a passwd entry for UID {match[1]};"
            " use the runner image or add the entry",
        )
    changed = "REMOTE HOST IDENTIFICATION HAS CHANGED" in log
    if changed or "Host key verification failed" in log or "REVOKED HOST KEY" in log:
        offered = _OFFERED_KEY.search(log)
        key = f"{offered[1]} {offered[2]}" if offered else "unknown"
        state = "has changed" if changed else "is not known"
        return GitError(
            GitReason.UNKNOWN_HOST_KEY,
            f"the SSH host key of {host_and_port(url)} {state}: {key};"
            " compare the fingerprint with the server's and add the key under known_hosts of the repository Secret",
        )
    if "Permission denied" in log or "invalid format" in log or "error in libcrypto" in log:
        kind = CredentialKind.SSH_KEY if credentials.ssh_private_key else CredentialKind.NONE
        unreadable = "invalid format" in log or "error in libcrypto" in log or "incorrect passphrase" in log
        cause = "the key cannot be read (not a private key, or it has a passphrase)" if unreadable else "refused"
        return GitError(
            GitReason.GIT_AUTHENTICATION_FAILED,
            compose(
                "{host} did not accept {kind} for {url}: {cause};"
                " check the repository Secret: its label, its sshPrivateKey, its repoURL (equal to that of the spec)",
                host=url.host,
                kind=cleared(kind),
                url=url,
                cause=cleared(cause),
            ),
        )
    if match := _UNREACHABLE.search(log):
        return GitError(GitReason.GIT_FAILED, f"cannot reach {url}: {match[0]}; check the network and the URL")
    remote = _last_line(log)
    return GitError(GitReason.GIT_FAILED, f"{url}: {remote}; check the URL") if remote else None


def host_and_port(url: RepoURL) -> str:
    """Return the server as ``known_hosts`` names it (sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT")."""
    return url.host if url.origin.port == 22 else f"[{url.host}]:{url.origin.port}"


def _last_line(log: str) -> str:
    """Return the most telling line that is not debugging output: an ERROR or fatal line if there is one."""
    noise = ("debug1:", "OpenSSH_", "Authenticated to", "Transferred:", "Bytes per second")
    lines = [line.strip() for line in log.splitlines() if line.strip() and not line.startswith(noise)]
    telling = [line for line in lines if line.startswith(("ERROR:", "fatal:", "remote:"))]
    return (telling or lines or [""])[-1].rstrip(".")[:300]
