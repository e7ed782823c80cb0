"""Submodules: where they come from and who may be sent the repository's credentials.

A submodule is fetched at its recorded commit or the run fails. Its URL is resolved against the repository that names
it; it gets the credentials only if it shares scheme, host and port with the top repository.
"""

from collections.abc import Callable
from io import BytesIO

import msgspec
from dulwich.config import ConfigFile, parse_submodules
from dulwich.object_store import DiskObjectStore

from magos.bounds import GITMODULES, SUBMODULES
from magos.git.credentials import Credentials
from magos.git.deadline import Deadline
from magos.git.errors import GitError, GitReason
from magos.git.fetch import fetch_commit
from magos.git.paths import TreePath, display
from magos.git.remote import Access, open_remote
from magos.git.stores import Stores
from magos.git.url import RepoURL, relative_to
from magos.ids import GitSHA


class FetchedRepository(msgspec.Struct, frozen=True):
    """Where a tree came from."""

    url: RepoURL
    store: DiskObjectStore


Fetcher = Callable[[FetchedRepository, TreePath, str, GitSHA], FetchedRepository]
"""Fetches a submodule: the repository that names it, its path, its URL as written, its recorded commit."""


def declared_urls(gitmodules: bytes) -> dict[bytes, str]:
    """Return path -> URL of a ``.gitmodules`` file (gitmodules(5)). Raises ``ValueError`` if it cannot be read.

    Like Git's own reader of this file it opens no other, whatever the file includes.
    """
    if len(gitmodules) > GITMODULES.limit:
        raise ValueError(f"it has more than {GITMODULES.limit // 1024} KiB")
    config = ConfigFile.from_file(BytesIO(gitmodules), expand_includes=False)
    return {path.strip(b"/"): url.decode() for path, url, _name in parse_submodules(config)}


def credentials_for(url: RepoURL, top: RepoURL, credentials: Credentials) -> Credentials:
    """Return what may be sent to ``url``: everything on the top repository's origin, no login anywhere else."""
    return credentials if url.origin == top.origin else credentials.without_login()


def make_fetcher(top: Access, stores: Stores, deadline: Deadline) -> Fetcher:
    """Return a fetcher that keeps what it fetches in ``stores``."""

    def fetch(parent: FetchedRepository, path: TreePath, reference: str, sha: GitSHA) -> FetchedRepository:
        if len(stores) > SUBMODULES.limit:
            raise GitError(
                GitReason.GIT_FAILED, f"{top.url} has more than {SUBMODULES.limit} submodules; vendor them or split it"
            )
        try:
            url = relative_to(parent.url, reference)
            credentials = credentials_for(url, top.url, top.credentials)
            access = msgspec.structs.replace(top, url=url, credentials=credentials)
            store = stores.create()
            with open_remote(access, deadline) as remote:
                fetch_commit(remote, store, sha, sha)
        except GitError as error:
            raise GitError(error.reason, f"submodule {display(path)}: {error.message}") from error
        return FetchedRepository(url, store)

    return fetch
