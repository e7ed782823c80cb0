"""The sample repository: what each change commits."""

from pathlib import Path

import pytest
from dulwich.object_store import tree_lookup_path
from dulwich.objects import Blob, Commit, ObjectID
from dulwich.repo import Repo

from magos.ids import GitSHA
from magos.local.servers.samplerepo import SampleRepository


def _file(sample: SampleRepository, commit: GitSHA, path: str) -> str:
    """Return a file of a commit; KeyError if it has none at that path."""
    with Repo(str(sample.path)) as repo:
        found = repo[ObjectID(commit.encode())]
        assert isinstance(found, Commit)
        _, sha = tree_lookup_path(repo.__getitem__, found.tree, path.encode())
        blob = repo[sha]
        assert isinstance(blob, Blob)
        return blob.data.decode()


def test_each_change_is_one_commit_on_top_of_the_last_and_changes_only_its_files(tmp_path: Path) -> None:
    sample = SampleRepository.create(tmp_path / "demo.git", tmp_path / "state")
    first = sample.head()
    released = sample.release("2.0.0", ["dev"])
    broken = sample.break_module("prod")
    slow = sample.slow_down("dev", 5)
    last = sample.repair_module("prod")
    with Repo(str(sample.path)) as repo:
        history = [entry.commit.id.decode() for entry in repo.get_walker()]
    assert history == [last, slow, broken, released, first]
    assert sample.head() == last
    assert "no_such_variable" in _file(sample, broken, "environments/prod/broken.tf")
    with pytest.raises(KeyError):
        _file(sample, last, "environments/prod/broken.tf")
    assert "sleep 5" in _file(sample, last, "environments/dev/slow.tf")
    assert '"2.0.0"' in _file(sample, last, "environments/dev/main.tf")
    assert '"1.0.0"' in _file(sample, last, "environments/prod/main.tf")


def test_a_broken_release_changes_every_environment_and_breaks_one(tmp_path: Path) -> None:
    sample = SampleRepository.create(tmp_path / "demo.git", tmp_path / "state")
    commit = sample.release_broken("1.1.0", "staging")
    for environment in sample.environments:
        assert '"1.1.0"' in _file(sample, commit, f"{sample.folder(environment)}/main.tf")
    assert "no_such_variable" in _file(sample, commit, "environments/staging/broken.tf")
    with pytest.raises(KeyError):
        _file(sample, commit, "environments/dev/broken.tf")


def test_the_state_lies_outside_the_clone_under_a_path_that_survives_quoting(tmp_path: Path) -> None:
    odd = tmp_path / 'state "${x}" %{y} \\ é'
    sample = SampleRepository.create(tmp_path / "demo.git", odd, ["dev"])
    text = _file(sample, sample.head(), "environments/dev/versions.tf")
    assert 'state \\"$${x}\\" %%{y} \\\\ é/dev/terraform.tfstate"' in text
    assert sample.state_file("dev") == odd / "dev" / "terraform.tfstate"
