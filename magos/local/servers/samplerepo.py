"""The bare Git repository of the one-machine mode, made and changed without a git program.

Each change is one commit on ``main`` upon whatever ``main`` is then, so it mixes with commits that somebody pushed to
the repository's path. One writer at a time. Everything here blocks for milliseconds: use a thread from async code.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Self, TypeAlias

from dulwich.objects import Blob, Commit, ObjectID, Tree
from dulwich.refs import Ref
from dulwich.repo import Repo

from magos.errors import MagosError
from magos.ids import GitSHA, git_sha
from magos.local.servers.samplemodule import BROKEN, SHARED, environment_files, slow_file

__all__ = ["SampleRepository"]

_BRANCH: Final = Ref(b"refs/heads/main")
_HEAD: Final = Ref(b"HEAD")
_AUTHOR: Final = b"Magos one-machine mode <demo@magos.example>"
_REGULAR: Final = 0o100644
_FOLDER: Final = 0o040000

_File: TypeAlias = tuple[int, ObjectID]
"""Mode and content of a tree entry."""


class SampleRepository:
    """A bare repository at ``path`` whose environments keep their Terraform state below ``state_folder``.

    That folder is written into the modules and otherwise left alone: it may exist only where they are applied.
    """

    def __init__(self, path: Path, state_folder: Path, environments: Sequence[str]) -> None:
        self.path = path
        self.environments = tuple(environments)
        self._state_folder = state_folder

    @classmethod
    def create(cls, path: Path, state_folder: Path, environments: Sequence[str] = ("dev", "staging", "prod")) -> Self:
        """Make the repository, which must not exist, with a first commit on ``main``: release 1.0.0 everywhere."""
        path.mkdir(parents=True)
        with Repo.init_bare(str(path)) as repo:
            repo.refs.set_symbolic_ref(_HEAD, _BRANCH)
        sample = cls(path, state_folder, environments)
        files = dict(SHARED)
        for name in sample.environments:
            files |= sample._environment(name, "1.0.0")
        sample.commit(files, "Describe the environments")
        return sample

    def state_file(self, environment: str) -> Path:
        """Where the environment's Terraform state is written; the file appears with the first apply."""
        return self._state_folder / environment / "terraform.tfstate"

    def folder(self, environment: str) -> str:
        """The environment's root module, as a Workspace's ``source.path``."""
        return f"environments/{environment}"

    def head(self) -> GitSHA:
        """The commit that ``main`` points at."""
        with Repo(str(self.path)) as repo:
            return git_sha(repo.refs[_BRANCH].decode("ascii"))

    def commit(self, changes: Mapping[str, str | None], message: str) -> GitSHA:
        """Commit files by their paths (None removes one) to ``main`` and return the new commit's full SHA."""
        with Repo(str(self.path)) as repo:
            parents = [ObjectID(repo.refs[_BRANCH])] if _BRANCH in repo.refs else []
            files = _files_of(repo, parents[0]) if parents else {}
            for path, content in changes.items():
                if content is None:
                    files.pop(path, None)
                else:
                    files[path] = (_REGULAR, _stored(repo, Blob.from_string(content.encode())))
            commit = Commit()
            commit.tree = _write_tree(repo, files.items())
            commit.parents = parents
            commit.author = commit.committer = _AUTHOR
            commit.author_time = commit.commit_time = int(time.time())
            commit.author_timezone = commit.commit_timezone = 0
            commit.encoding = b"UTF-8"
            commit.message = message.encode() + b"\n"
            sha = _stored(repo, commit)
            repo.refs[_BRANCH] = sha
            return git_sha(sha.decode("ascii"))

    def release(self, version: str, environments: Iterable[str] | None = None) -> GitSHA:
        """Commit a new release for these environments (default: all); each plans a change to its instances."""
        names = tuple(self.environments if environments is None else environments)
        files: dict[str, str | None] = {}
        for name in names:
            files |= self._environment(name, version)
        return self.commit(files, f"Release {version} to {', '.join(names)}")

    def release_broken(self, version: str, environment: str) -> GitSHA:
        """Commit a new release for all environments, with a module in one of them that cannot be planned."""
        files: dict[str, str | None] = {f"{self.folder(environment)}/broken.tf": BROKEN}
        for name in self.environments:
            files |= self._environment(name, version)
        return self.commit(files, f"Release {version}")

    def break_module(self, environment: str) -> GitSHA:
        """Commit a module that cannot be planned (a reference to an undeclared variable)."""
        return self.commit({f"{self.folder(environment)}/broken.tf": BROKEN}, f"Break {environment}")

    def repair_module(self, environment: str) -> GitSHA:
        """Commit the removal of what :meth:`break_module` and :meth:`slow_down` added."""
        folder = self.folder(environment)
        return self.commit({f"{folder}/broken.tf": None, f"{folder}/slow.tf": None}, f"Repair {environment}")

    def slow_down(self, environment: str, seconds: int) -> GitSHA:
        """Commit a module of which every apply takes at least ``seconds``."""
        return self.commit({f"{self.folder(environment)}/slow.tf": slow_file(seconds)}, f"Slow {environment} down")

    def _environment(self, name: str, release: str) -> dict[str, str]:
        replicas = 3 if name == "prod" else 1
        return environment_files(name, release=release, replicas=replicas, state=self.state_file(name))


def _stored(repo: Repo, item: Blob | Tree | Commit) -> ObjectID:
    repo.object_store.add_object(item)
    return item.id


def _files_of(repo: Repo, commit: ObjectID) -> dict[str, _File]:
    """The files of a commit by path."""
    found = repo[commit]
    if not isinstance(found, Commit):
        raise MagosError(
            f"{repo.path}: main points at {commit.decode()}, which is not a commit; make the repository anew"
        )
    entries = repo.object_store.iter_tree_contents(found.tree)
    return {
        entry.path.decode(): (entry.mode, entry.sha) for entry in entries if entry.path and entry.mode and entry.sha
    }


def _write_tree(repo: Repo, files: Iterable[tuple[str, _File]]) -> ObjectID:
    tree = Tree()
    folders: dict[str, list[tuple[str, _File]]] = {}
    for path, file in files:
        first, _, rest = path.partition("/")
        if rest:
            folders.setdefault(first, []).append((rest, file))
        else:
            tree.add(first.encode(), *file)
    for name, content in folders.items():
        tree.add(name.encode(), _FOLDER, _write_tree(repo, content))
    return _stored(repo, tree)
