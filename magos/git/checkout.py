"""The runner's door: one call from a repository URL to a directory with exactly one commit's files."""

import shutil
from pathlib import Path

import msgspec

from magos.git.credentials import ANONYMOUS, Credentials
from magos.git.errors import GitError, GitReason
from magos.git.url import parse
from magos.ids import GitSHA
from magos.outbound.peers import Peers


class CheckoutRequest(msgspec.Struct, frozen=True):
    """What to check out, and where.

    ``revision`` is the pinned commit; without it ``target_revision`` is resolved. ``destination`` must not exist or be
    empty. ``workdir`` takes packs and, for the time of the call, key files: neither may lie on a shared volume.
    ``timeout`` in seconds bounds all network traffic.
    """

    url: str
    target_revision: str
    destination: Path
    workdir: Path
    revision: GitSHA | None = None
    allowed_schemes: tuple[str, ...] = ("https", "http", "ssh")
    credentials: Credentials = ANONYMOUS
    timeout: float = 600.0
    peers: Peers = Peers()


class Export(msgspec.Struct, frozen=True):
    """What lies in the destination: the commit, the reference it was found by, counts, warnings for the result."""

    revision: GitSHA
    ref: str | None
    files: int
    bytes: int
    warnings: tuple[str, ...]


def checkout(request: CheckoutRequest) -> Export:
    """Fetch and export; on an error the destination is left empty.

    Blocks. Raises ``GitError`` with the reasons of spec §7.6.
    """
    url = parse(request.url)
    request.destination.mkdir(parents=True, exist_ok=True)
    if any(request.destination.iterdir()):
        raise GitError(
            GitReason.GIT_FAILED,
            f"the checkout directory {request.destination} is not empty; every run needs a fresh one",
        )

    from magos.git.deadline import Deadline
    from magos.git.export import export_tree
    from magos.git.fetch import fetch_commit
    from magos.git.remote import Access, open_remote
    from magos.git.stores import Stores
    from magos.git.submodules import FetchedRepository, make_fetcher

    deadline = Deadline(request.timeout, f"fetching {url}")
    access = Access(url, request.credentials, request.allowed_schemes, request.workdir, peers=request.peers)
    try:
        with Stores(request.workdir) as stores:
            store = stores.create()
            with open_remote(access, deadline) as remote:
                found = fetch_commit(remote, store, request.target_revision, request.revision)
            fetcher = make_fetcher(access, stores, deadline)
            written = export_tree(FetchedRepository(url, store), found.sha, request.destination, fetcher)
    except BaseException:
        _empty(request.destination)
        raise
    return Export(found.sha, found.ref, written.files, written.content, written.warnings)


def _empty(directory: Path) -> None:
    """Remove what a failed export left, so that no plan is made from half a tree."""
    for entry in directory.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
