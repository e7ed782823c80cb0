"""The local Git server with its sample repository, used through the runner's own checkout."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from magos.git.checkout import CheckoutRequest, checkout
from magos.git.credentials import Credentials
from magos.git.errors import GitError, GitReason
from magos.ids import GitSHA
from magos.local.servers.gitserver import GitServer, git_server
from magos.local.servers.samplerepo import SampleRepository


@pytest.fixture
def sample(tmp_path: Path) -> SampleRepository:
    return SampleRepository.create(tmp_path / "repositories" / "demo.git", tmp_path / "state")


@pytest.fixture
def server(sample: SampleRepository) -> Iterator[GitServer]:
    with git_server(sample.path.parent) as running:
        yield running


def _request(url: str, tmp_path: Path, revision: GitSHA | None = None, **more: object) -> CheckoutRequest:
    workdir = tmp_path / "work"
    workdir.mkdir(exist_ok=True)
    destination = tmp_path / f"clone-{len(list(tmp_path.glob('clone-*')))}"
    return CheckoutRequest(
        url=url,
        target_revision="main",
        destination=destination,
        workdir=workdir,
        revision=revision,
        credentials=more.get("credentials", Credentials()),  # type: ignore[arg-type]
    )


def test_the_tip_of_main_is_fetched_with_all_environments(
    sample: SampleRepository, server: GitServer, tmp_path: Path
) -> None:
    request = _request(server.clone_url("demo.git"), tmp_path)
    export = checkout(request)
    assert export.revision == sample.head()
    for environment in ("dev", "staging", "prod"):
        assert (request.destination / sample.folder(environment) / "main.tf").is_file()


def test_a_client_reaches_an_older_commit_by_deepening_although_only_tips_are_served(
    sample: SampleRepository, server: GitServer, tmp_path: Path
) -> None:
    first = sample.head()
    for number in range(3):
        sample.release(f"1.1.{number}")
    request = _request(server.clone_url("demo.git"), tmp_path, first)
    assert checkout(request).revision == first
    assert '"1.0.0"' in (request.destination / "environments/dev/main.tf").read_text()


def test_a_missing_commit_is_reported_as_missing(server: GitServer, tmp_path: Path) -> None:
    with pytest.raises(GitError) as caught:
        checkout(_request(server.clone_url("demo.git"), tmp_path, GitSHA("1" * 40)))
    assert caught.value.reason is GitReason.REVISION_NOT_FOUND


def test_a_repository_that_does_not_exist_and_one_outside_the_folder_are_not_found(server: GitServer) -> None:
    for name in ("other.git", "..", "%2e%2e/state", "demo.git/objects"):
        answer = httpx.get(f"{server.url}/{name}/info/refs?service=git-upload-pack")
        assert answer.status_code == 404, name


def test_pushing_is_refused(server: GitServer) -> None:
    answer = httpx.get(f"{server.clone_url('demo.git')}/info/refs?service=git-receive-pack")
    assert answer.status_code == 403


def test_a_server_with_a_login_refuses_other_clients(sample: SampleRepository, tmp_path: Path) -> None:
    with git_server(sample.path.parent, login=("ann", "p:w !")) as server:
        url = server.clone_url("demo.git")
        with pytest.raises(GitError) as caught:
            checkout(_request(url, tmp_path))
        assert caught.value.reason is GitReason.GIT_AUTHENTICATION_FAILED
        export = checkout(_request(url, tmp_path, credentials=Credentials(username="ann", password="p:w !")))
        assert export.revision == sample.head()
    assert {served.status for served in server.log.all()} == {401, 200}
