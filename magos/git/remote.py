"""One repository on a server: list its references, fetch packs from it, and say in our words what went wrong.

The module imports the Git library and is itself imported lazily.
"""

import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import msgspec
from dulwich.client import GitClient
from dulwich.errors import (
    ApplyDeltaError,
    ChecksumMismatch,
    GitProtocolError,
    HangupException,
    NotGitRepository,
    ObjectFormatException,
)
from dulwich.object_store import DiskObjectStore
from dulwich.objects import ObjectID
from dulwich.pack import UnresolvedDeltas

from magos.git.budget import Budget
from magos.git.credentials import Credentials
from magos.git.daemon import DaemonClient
from magos.git.deadline import Deadline
from magos.git.errors import GitError, GitReason
from magos.git.http import SmartHTTPClient
from magos.git.local import LocalClient
from magos.git.openssh import ssh_client
from magos.git.packs import IncomingPack
from magos.git.peek import KINDS, Peek
from magos.git.ssh import explain
from magos.git.stores import Stores
from magos.git.url import RepoURL, Scheme, check_scheme
from magos.git.wire import Wire
from magos.ids import is_git_sha
from magos.outbound.peers import Peers

_CONTENT = b"tree:0"
"""The filter that leaves out all directories and files (git-rev-list(1))."""
_CORRUPT = (ChecksumMismatch, ObjectFormatException, ApplyDeltaError, UnresolvedDeltas, zlib.error)


class Access(msgspec.Struct, frozen=True):
    """How to reach one repository. ``workdir`` is where private files and packs may go (default: the system's).

    ``budget`` bounds what may be received; those who belong to one checkout share it.
    """

    url: RepoURL
    credentials: Credentials
    allowed_schemes: tuple[str, ...]
    workdir: Path | None = None
    budget: Budget = msgspec.field(default_factory=Budget)
    peers: Peers = Peers()


class WantRefused(GitError):
    """The server did not send the wanted objects; ``definitive`` if it says that it does not have them."""

    def __init__(self, message: str, *, definitive: bool) -> None:
        super().__init__(GitReason.GIT_FAILED, message)
        self.definitive = definitive


class _Enough(Exception):
    """All that was asked is known; the rest of the pack is not read."""


class _EmptyWalker:
    """Tells the server that we have nothing: every fetch stands for itself.

    A server may therefore base nothing on objects of ours, although like every client of Git's we offer to take thin
    packs (gitprotocol-capabilities(5)): some servers insist on that.
    """

    def __init__(self) -> None:
        self.shallow: set[ObjectID] = set()

    def __next__(self) -> None:
        return None

    def ack(self, sha: ObjectID) -> None:
        """Take note of nothing: there is nothing in common."""

    def nak(self) -> None:
        """Take note of nothing."""


class Remote:
    """A repository that can be asked. Every method may raise ``GitError``; not for two threads at once."""

    def __init__(self, access: Access, client: GitClient, path: str, wire: Wire) -> None:
        self.access = access
        self._client = client
        self._path = path
        self._wire = wire
        self._deadline = wire.deadline
        self._log: Callable[[], str] | None = None

    def read_log_from(self, log: Callable[[], str]) -> None:
        """Take explanations of failures from the SSH client's log."""
        self._log = log

    def list_named(self, names: Sequence[str]) -> dict[str, str]:
        """Return name -> object ID of these references, and as ``<tag>^{}`` what annotated tags among them point to.

        What else the server sends is not kept.
        """
        with self._wire.only(names):
            return self.list_refs(names)

    def list_refs(self, prefixes: Sequence[str]) -> dict[str, str]:
        """Return name -> object ID of the references with these prefixes; ``<tag>^{}`` gives the commit of a tag."""
        try:
            result = self._client.get_refs(self._path.encode(), ref_prefix=[prefix.encode() for prefix in prefixes])
        except Exception as error:  # noqa: BLE001  # the translation re-raises what is not the server's
            self._raise(error)
        self._check_format(result.object_format)
        advertised = {
            name.decode("utf-8", "surrogateescape"): value.decode("ascii", "replace")
            for name, value in result.refs.items()
            if value is not None
        }
        for name, value in advertised.items():
            if not is_git_sha(value):
                raise GitError(
                    GitReason.GIT_FAILED,
                    f"{self.access.url} advertises {name[:80]!r} with {value[:80]!r}, which is no object ID;"
                    " check the URL and the server",
                )
        return advertised

    def fetch(self, wants: Sequence[str], depth: int | None, store: DiskObjectStore) -> None:
        """Add the wanted objects and ``depth`` generations (``None``: all) to ``store``.

        Raises ``WantRefused`` if the server breaks off without an explanation that is final.
        """
        pack = IncomingPack(store, self.access.budget, self.access.url, self._deadline.check)
        try:
            self._receive(wants, depth, pack.write)
            pack.commit()
        except Exception as error:  # noqa: BLE001  # the translation re-raises what is not the server's
            pack.discard()
            self._raise(error, fetching=True)

    def peek(self, wants: Sequence[str], depth: int | None, seen: Peek) -> None:
        """Fetch until ``seen`` knows what the wanted objects are, or all that the server sends is there.

        Files and directories are left out where the server can do that. Raises like ``fetch``.
        """
        with Stores(self.access.workdir) as stores:
            store = stores.create()
            pack = IncomingPack(store, self.access.budget, self.access.url, self._deadline.check)

            def write(data: bytes) -> int:
                size = pack.write(data)
                seen.feed(data)
                if seen.done:
                    raise _Enough
                return size

            try:
                self._receive(wants, depth, write, without=_CONTENT if self._client.protocol_version == 2 else None)
                pack.commit()
                while (sha := seen.missing()) is not None and ObjectID(sha.encode()) in store:
                    number, content = store.get_raw(ObjectID(sha.encode()))
                    seen.learn(sha, KINDS[number], content)
            except _Enough:
                pack.discard()
            except Exception as error:  # noqa: BLE001  # the translation re-raises what is not the server's
                pack.discard()
                self._raise(error, fetching=True)

    def _receive(
        self, wants: Sequence[str], depth: int | None, write: Callable[[bytes], int], *, without: bytes | None = None
    ) -> None:
        wanted = [ObjectID(want.encode()) for want in wants]
        result = self._client.fetch_pack(
            self._path.encode(),
            lambda _refs, depth=None: wanted,  # noqa: ARG005  # the library passes depth by name
            _EmptyWalker(),
            self._checked(write),
            progress=lambda _message: self._deadline.check(),
            depth=depth,
            ref_prefix=[b"HEAD"],
            filter_spec=without,
        )
        self._check_format(result.object_format)

    def _checked(self, write: Callable[[bytes], int]) -> Callable[[bytes], int]:
        def checked(data: bytes) -> int:
            self._deadline.check()
            return write(data)

        return checked

    def _check_format(self, object_format: str | None) -> None:
        if object_format not in {None, "sha1"}:
            raise GitError(
                GitReason.GIT_FAILED,
                f"{self.access.url} uses the object format {object_format}, which is not supported;"
                " use a SHA-1 repository",
            )

    def _raise(self, error: Exception, *, fetching: bool = False) -> NoReturn:
        """Raise what ``error`` means to a user."""
        url = self.access.url
        if isinstance(error, GitError):
            raise error
        if self.access.budget.spent is not None:  # by another channel, which closed this one
            raise self.access.budget.spent from error
        if self._deadline.expired():
            raise self._deadline.error() from error
        if isinstance(error, _CORRUPT):
            raise GitError(GitReason.GIT_FAILED, f"{url} sent a corrupt pack ({error}); try again") from error
        if isinstance(error, NotGitRepository):
            raise GitError(GitReason.GIT_FAILED, f"{url} is not a Git repository; check the URL") from error
        if isinstance(error, GitProtocolError | ValueError | AssertionError | LookupError | EOFError):
            explained = explain(url, self.access.credentials, self._log()) if self._log else None
            text = str(error).strip() or "the connection was closed"
            wants = "not our ref" in text or (explained is not None and "not our ref" in explained.message)
            if fetching and (wants or explained is None):
                definitive = "not our ref" in text and self._client.protocol_version == 2
                raise WantRefused(f"{url} refused to send the commit: {text}", definitive=definitive) from error
            raise explained or GitError(GitReason.GIT_FAILED, _broken(url, error, text)) from error
        if isinstance(error, OSError):
            raise GitError(
                GitReason.GIT_FAILED, f"cannot reach {url}: {error}; check the network and the URL"
            ) from error
        raise error


@contextmanager
def open_remote(access: Access, deadline: Deadline) -> Iterator[Remote]:
    """Yield the repository behind ``access``; private files are gone and processes ended afterwards.

    Raises ``GitError``, SchemeNotAllowed first of all.
    """
    url = access.url
    check_scheme(url, access.allowed_schemes)
    wire = Wire(url, deadline, access.budget, access.peers)
    private = Path(tempfile.mkdtemp(prefix="git-", dir=access.workdir))  # mode 0700
    try:
        if url.scheme is Scheme.SSH:
            with ssh_client(wire, access.credentials, private) as (client, log):
                remote = Remote(access, client, url.path, wire)
                remote.read_log_from(log)
                yield remote
            return
        other = _client(access, wire)
        try:
            yield Remote(access, other, url.path if url.scheme is not Scheme.FILE else _existing(url), wire)
        finally:
            other.close()
    finally:
        deadline.release()
        shutil.rmtree(private)


def _client(access: Access, wire: Wire) -> GitClient:
    url = access.url
    if url.scheme is Scheme.FILE:
        return LocalClient(thin_packs=False, quiet=True)
    if url.scheme is Scheme.GIT:
        return DaemonClient(wire)
    return SmartHTTPClient(wire, access.credentials, access.allowed_schemes)


def _existing(url: RepoURL) -> str:
    if not Path(url.path).is_dir():
        raise GitError(GitReason.GIT_FAILED, f"{url} does not exist on this machine; check the path")
    return url.path


def _broken(url: RepoURL, error: Exception, text: str) -> str:
    if isinstance(error, HangupException) or not isinstance(error, GitProtocolError):
        return f"{url} broke off or does not speak the Git protocol ({text}); check the URL and the server"
    return f"{url}: {text}; check the URL and the server"
