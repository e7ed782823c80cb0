"""Repositories and servers shared by the Git tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from magos.git.checkout import CheckoutRequest, Export, checkout
from magos.git.credentials import ANONYMOUS, Credentials
from magos.git.errors import GitError
from magos.ids import GitSHA
from tests.e2e.git.servers import HTTPServer, Repository, SSHServer, http_server, ssh_server

SCHEMES = ("https", "http", "ssh", "git", "file")


class Clones:
    """Checks out into fresh directories and makes sure that nothing private stays behind."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0
        self.last = folder

    def __call__(
        self, url: str, target: str = "trunk", revision: str | None = None, credentials: Credentials = ANONYMOUS
    ) -> Export:
        """Check out; the tree is ``last``."""
        self.count += 1
        self.last = self.folder / f"tree-{self.count}"
        workdir = self.folder / f"private-{self.count}"
        workdir.mkdir()
        request = CheckoutRequest(
            url=url,
            target_revision=target,
            destination=self.last,
            workdir=workdir,
            revision=GitSHA(revision) if revision else None,
            allowed_schemes=SCHEMES,
            credentials=credentials,
            timeout=60,
        )
        try:
            return checkout(request)
        finally:
            assert list(workdir.iterdir()) == [], "keys and packs are removed at the end"

    def fails(self, url: str, target: str = "trunk", revision: str | None = None, **options: Credentials) -> GitError:
        """Return the error; the tree is empty."""
        with pytest.raises(GitError) as caught:
            self(url, target, revision, **options)
        assert not self.last.exists() or list(self.last.iterdir()) == []
        return caught.value

    def read(self, name: str) -> str:
        """Return the content of a file of the last tree."""
        return (self.last / name).read_text()


@pytest.fixture
def clone(tmp_path: Path) -> Clones:
    folder = tmp_path / "clones"
    folder.mkdir()
    return Clones(folder)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "srv"
    folder.mkdir()
    return folder


@pytest.fixture
def repository(root: Path) -> Repository:
    return Repository(root, "app.git")


@pytest.fixture
def history(repository: Repository) -> list[str]:
    """Six commits on ``trunk``, oldest first; ``main.tf`` holds the number of the commit."""
    return [repository.commit({"main.tf": str(number)}) for number in range(6)]


@pytest.fixture
def server(root: Path) -> Iterator[HTTPServer]:
    with http_server(root) as running:
        yield running


@pytest.fixture(scope="session")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SSHServer]:
    with ssh_server(tmp_path_factory.mktemp("sshd")) as running:
        yield running
