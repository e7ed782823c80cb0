"""Fetches over SSH on behalf of ``git``: the login is this process's, the conversation is git's.

``git`` starts a small program instead of ``ssh``. That hands its streams and its arguments to this process, which
starts the real client if they ask for a fetch, and nothing else: no shell, no push, no forwarding. The client can log
in to the repository's host and port only. It does so through an agent in this process that answers the clients that
this process started, which are out of everybody's reach. Host keys come with its command line, not from a file.
"""

import contextlib
import os
import secrets
import select
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

import msgspec

from magos.api.repositorysecret import DEFAULT_USERNAME
from magos.git.credentials import Credentials
from magos.git.known_hosts import HostKey, key_alias, keys_of_host, trusted_entries
from magos.git.service import Service, abstract_socket, peer, same_user
from magos.git.ssh import SSHFiles, ssh_arguments
from magos.git.sshcommand import UploadPack, read_command
from magos.git.sshprocess import SSHProgram
from magos.git.url import RepoURL, Scheme
from magos.outbound.connect import connect, permitted
from magos.outbound.peers import Peers

if TYPE_CHECKING:
    from magos.git.sshagent import AgentSession

_MOST_CLIENTS: Final = 16
_LONGEST_REQUEST: Final = 64 * 1024
_LONGEST_SECONDS: Final = 3600.0
_AGENT: Final = "agent"
_PROTOCOLS: Final = frozenset({"version=0", "version=1", "version=2"})
_FAILED: Final = 255
_PRINTER: Final = '/usr/bin/printf "%%s\\n"'
_UNQUOTED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.*?!,:[]|+/=_-@ ")


class _Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    nonce: str
    arguments: tuple[str, ...]
    protocol: str = ""


class _Answer(msgspec.Struct, frozen=True):
    code: int
    message: str = ""


@contextmanager
def ssh_relay(url: RepoURL, credentials: Credentials, directory: Path, peers: Peers) -> Iterator[str]:
    """Yield the address to give to ``magos.git.gitprograms`` as long as fetches are served.

    ``directory`` must be private and empty; only the agent's socket goes there. Raises ``GitError`` if key or host keys
    cannot be used.
    """
    relay = _Relay(url, credentials, directory, peers)
    try:
        yield relay.address
    finally:
        relay.end()


class _Relay:
    def __init__(self, url: RepoURL, credentials: Credentials, directory: Path, peers: Peers) -> None:
        self._url = url
        self._peers = peers
        self._directory = directory
        self._entries = trusted_entries(credentials.known_hosts)
        self._check_own_host = not (credentials.insecure_ignore_host_key and url.scheme is Scheme.SSH)
        self._lock = threading.Lock()
        self._running: dict[int, int] = {}
        """The clients by PID, with descriptors that tell for certain whether the PID is still theirs."""
        self._logins: set[int] = set()
        """The PIDs of those that may use the key."""
        self._deadline = monotonic() + _LONGEST_SECONDS
        self._nonce = secrets.token_hex(16)
        key = credentials.ssh_private_key if url.scheme is Scheme.SSH else None
        self._agent = self._open_agent(key) if key else None
        self._program = SSHProgram()
        name = f"magos-git-{secrets.token_hex(8)}"
        self._service = Service(abstract_socket(name, socket.SOCK_SEQPACKET), self._serve, _MOST_CLIENTS)
        self.address = f"{name} {self._nonce}"

    def end(self) -> None:
        """End the clients, then everything that serves them."""
        with self._lock:
            for pidfd in self._running.values():
                _kill(pidfd)
        self._service.end()
        if self._agent is not None:
            self._agent.end()
            (self._directory / _AGENT).unlink(missing_ok=True)
        self._program.close()

    def _serve(self, connection: socket.socket) -> None:
        if not same_user(connection):
            return
        connection.settimeout(10)
        content, descriptors, _, _ = socket.recv_fds(connection, _LONGEST_REQUEST, 3)
        try:
            answer = self._answer(connection, content, descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        connection.send(msgspec.json.encode(answer))

    def _answer(self, connection: socket.socket, content: bytes, descriptors: Sequence[int]) -> _Answer:
        try:
            request = msgspec.json.decode(content, type=_Request)
        except msgspec.DecodeError:
            return _Answer(_FAILED, "the request cannot be read")
        if not secrets.compare_digest(request.nonce.encode(), self._nonce.encode()) or len(descriptors) != 3:
            return _Answer(_FAILED, "the request is not from this run")
        try:
            wanted = read_command(request.arguments)
        except ValueError as error:
            return _Answer(_FAILED, f"magos: ssh refused: {error}")
        try:
            address = self._address(wanted)
        except OSError as error:
            return _Answer(_FAILED, f"magos: cannot reach {wanted.host}: {error.strerror or error}")
        arguments = self._arguments(wanted, request.protocol, address)
        try:
            return _Answer(self._run(connection, arguments, descriptors, may_log_in=self._is_own(wanted)))
        except OSError as error:
            return _Answer(_FAILED, f"magos: the OpenSSH client (ssh) cannot be started: {error.strerror}")

    def _is_own(self, wanted: UploadPack) -> bool:
        """Tell whether the fetch is from the repository's host and port as the repository's user."""
        origin = self._url.origin
        here = origin.scheme is Scheme.SSH and (wanted.host, wanted.port) == (origin.host, origin.port)
        return here and wanted.user == (self._url.user or DEFAULT_USERNAME)

    def _address(self, wanted: UploadPack) -> str:
        """Return an address of the server that may be connected to: the client itself would ask for it again."""
        seconds = max(self._deadline - monotonic(), 0.001)
        found = permitted(wanted.host, wanted.port, seconds, self._peers)
        if len(found) == 1:
            return str(found[0][1][0])
        with connect(wanted.host, wanted.port, seconds, self._peers) as connection:
            return str(connection.getpeername()[0])

    def _arguments(self, wanted: UploadPack, protocol: str, address: str) -> list[str]:
        own = self._is_own(wanted)
        check = self._check_own_host or not own
        null = Path(os.devnull)
        name, *options = ssh_arguments(SSHFiles(null, None), check_host_key=check)
        # Of an option that is given twice the first counts.
        first = {
            "HostName": address,
            "HostKeyAlias": key_alias(self._entries, wanted.host, wanted.port),
            "UserKnownHostsFile": os.devnull,
            "IdentityAgent": _AGENT if own and self._agent is not None else "none",
            "IdentitiesOnly": "no" if own and self._agent is not None else "yes",
            "EscapeChar": "none",
        }
        if check:
            first["KnownHostsCommand"] = _known_hosts_command(keys_of_host(self._entries, wanted.host, wanted.port))
        if wanted.key_file is not None:
            first["IdentityFile"] = wanted.key_file
        if protocol in _PROTOCOLS:
            first["SetEnv"] = f"GIT_PROTOCOL={protocol}"
        target = f"{wanted.user}@{wanted.host}" if wanted.user else wanted.host
        given = [f"-o{option}={value}" for option, value in first.items()]
        return [name, *given, *options, "-p", str(wanted.port), "--", target, wanted.command]

    def _run(
        self, connection: socket.socket, arguments: Sequence[str], streams: Sequence[int], *, may_log_in: bool
    ) -> int:
        """Run the client until it has ended, the other side has gone or time is up; return its exit code."""
        with self._lock:  # the agent asks for the client's PID under the same lock
            process = self._program.start(arguments, streams, self._directory)
            pidfd = os.pidfd_open(process.pid)
            self._running[process.pid] = pidfd
            if may_log_in:
                self._logins.add(process.pid)
        try:
            waiting = max(self._deadline - monotonic(), 0.0)
            ended, _, _ = select.select([pidfd, connection.fileno()], [], [], waiting)
            if pidfd not in ended:
                _kill(pidfd)
            return _ended(pidfd)
        finally:
            with self._lock:
                del self._running[process.pid]
                self._logins.discard(process.pid)
                process.returncode = 0  # the stage reaps all its children, this one perhaps among them
                os.close(pidfd)

    def _open_agent(self, key: str) -> Service:
        from magos.git.sshagent import AgentSession, Destination
        from magos.git.sshkeys import PrivateKey

        private = PrivateKey(key)
        origin = self._url.origin
        keys = keys_of_host(self._entries, origin.host, origin.port) if self._check_own_host else None
        destination = Destination(self._url.user or DEFAULT_USERNAME, keys)

        def serve(connection: socket.socket) -> None:
            if self._is_own_client(connection):
                _converse(connection, AgentSession(private, destination))

        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        folder = os.open(self._directory, os.O_PATH | os.O_DIRECTORY)
        try:
            listener.bind(f"/proc/self/fd/{folder}/{_AGENT}")  # a path of any length
        finally:
            os.close(folder)
        listener.listen()
        return Service(listener, serve, _MOST_CLIENTS)

    def _is_own_client(self, connection: socket.socket) -> bool:
        pid, _ = peer(connection)
        with self._lock:
            # A descriptor that can be read means that the client has ended, and its PID may be another's.
            return pid in self._logins and not select.select([self._running[pid]], [], [], 0)[0]


def _converse(connection: socket.socket, session: "AgentSession") -> None:
    from magos.git.sshagent import LONGEST_MESSAGE

    connection.settimeout(60)
    with connection.makefile("rwb") as stream:
        while len(head := stream.read(4)) == 4:
            size = int.from_bytes(head, "big")
            if not 0 < size <= LONGEST_MESSAGE:
                return
            answer = session.answer(stream.read(size))
            stream.write(len(answer).to_bytes(4, "big") + answer)
            stream.flush()


def _kill(pidfd: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)


def _ended(pidfd: int) -> int:
    """Wait for the child and return its exit code; 0 if somebody else has reaped it: git sees by its output."""
    with contextlib.suppress(ChildProcessError):
        result = os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
        if result is not None:
            return result.si_status if result.si_code == os.CLD_EXITED else _FAILED
    return 0


def _known_hosts_command(entries: Sequence[HostKey]) -> str:
    """Return a KnownHostsCommand (ssh_config(5)) that prints ``entries``; its words need no quoting but quotes."""
    lines = (entry.line() for entry in entries)
    return " ".join([_PRINTER, *(f'"{line}"' for line in lines if _UNQUOTED.issuperset(line))])
