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


def test_an_older_commit_is_fetched_exactly_though_only_tips_are_given_out(
    sample: SampleRepository, server: GitServer, tmp_path: Path
) -> None:
    first = sample.head()
    for number in range(3):
        sample.release(f"1.1.{number}")
    request = _request(server.clone_url("demo.git"), tmp_path, first)
    assert checkout(request).revision == first
    assert '"1.0.0"' in (request.destination / "environments/dev/main.tf").read_text()


def test_a_commit_that_does_not_exist_is_reported_as_that(server: GitServer, tmp_path: Path) -> None:
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


def test_a_login_is_demanded_and_accepted(sample: SampleRepository, tmp_path: Path) -> None:
    with git_server(sample.path.parent, login=("ann", "p:w !")) as server:
        url = server.clone_url("demo.git")
        with pytest.raises(GitError) as caught:
            checkout(_request(url, tmp_path))
        assert caught.value.reason is GitReason.GIT_AUTHENTICATION_FAILED
        export = checkout(_request(url, tmp_path, credentials=Credentials(username="ann", password="p:w !")))
        assert export.revision == sample.head()
    assert {served.status for served in server.log.all()} == {401, 200}


def test_each_change_is_one_commit_upon_the_last_and_touches_only_what_it_says(
    sample: SampleRepository, server: GitServer, tmp_path: Path
) -> None:
    seen = [sample.head(), sample.release("2.0.0", ["dev"]), sample.break_module("prod"), sample.slow_down("dev", 5)]
    seen.append(sample.repair_module("prod"))
    assert len(set(seen)) == 5
    assert sample.head() == seen[-1]
    url = server.clone_url("demo.git")
    broken, last = _request(url, tmp_path, seen[2]), _request(url, tmp_path, seen[4])
    checkout(broken)
    checkout(_replaced(last, tmp_path / "last"))
    assert (broken.destination / "environments/prod/broken.tf").exists()
    assert not (tmp_path / "last" / "environments/prod/broken.tf").exists()
    assert "sleep 5" in (tmp_path / "last" / "environments/dev/slow.tf").read_text()
    assert '"2.0.0"' in (tmp_path / "last" / "environments/dev/main.tf").read_text()
    assert '"1.0.0"' in (tmp_path / "last" / "environments/prod/main.tf").read_text()


def test_the_state_lies_outside_the_clone_under_a_path_that_survives_quoting(tmp_path: Path) -> None:
    odd = tmp_path / 'state "${x}" %{y} \\ é'
    sample = SampleRepository.create(tmp_path / "r" / "demo.git", odd, ["dev"])
    with git_server(sample.path.parent) as server:
        request = _request(server.clone_url("demo.git"), tmp_path)
        checkout(request)
    text = (request.destination / "environments/dev/versions.tf").read_text()
    assert 'state \\"$${x}\\" %%{y} \\\\ é/dev/terraform.tfstate"' in text
    assert sample.state_file("dev") == odd / "dev" / "terraform.tfstate"


def _replaced(request: CheckoutRequest, destination: Path) -> CheckoutRequest:
    import msgspec

    return msgspec.structs.replace(request, destination=destination)
