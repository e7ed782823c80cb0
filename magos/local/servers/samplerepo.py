"""The bare Git repository of the one-machine mode, made and changed with dulwich, without a git program.

Each change is one commit on top of the present ``main``, so commits that a user pushes to the repository's path stay.
Only one writer at a time. Every call blocks for milliseconds: call it in a thread from async code.
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

_BRANCH: Final = Ref(b"refs/heads/main")
_HEAD: Final = Ref(b"HEAD")
_AUTHOR: Final = b"Magos one-machine mode <demo@magos.example>"
_REGULAR: Final = 0o100644
_FOLDER: Final = 0o040000

_File: TypeAlias = tuple[int, ObjectID]
"""Mode and content of a file in a tree."""


class SampleRepository:
    """A bare repository at ``path`` whose environments keep their Terraform state below ``state_folder``.

    The modules name that folder as their backend's; nothing here opens it, and it need not exist on this machine.
    """

    def __init__(self, path: Path, state_folder: Path, environments: Sequence[str]) -> None:
        self.path = path
        self.environments = tuple(environments)
        self._state_folder = state_folder

    @classmethod
    def create(cls, path: Path, state_folder: Path, environments: Sequence[str] = ("dev", "staging", "prod")) -> Self:
        """Make the repository with a first commit, release 1.0.0 in every environment; ``path`` must not exist."""
        path.mkdir(parents=True)
        with Repo.init_bare(str(path)) as repo:
            repo.refs.set_symbolic_ref(_HEAD, _BRANCH)
        sample = cls(path, state_folder, environments)
        sample.commit(SHARED | sample._release("1.0.0", sample.environments), "Describe the environments")
        return sample

    def state_file(self, environment: str) -> Path:
        """Return the file of the environment's Terraform state; the first apply writes it."""
        return self._state_folder / environment / "terraform.tfstate"

    def folder(self, environment: str) -> str:
        """Return the folder of the environment's root module, as in a Workspace's ``source.path``."""
        return f"environments/{environment}"

    def head(self) -> GitSHA:
        """Return the commit that ``main`` points at."""
        with Repo(str(self.path)) as repo:
            return git_sha(repo.refs[_BRANCH].decode("ascii"))

    def commit(self, changes: Mapping[str, str | None], message: str) -> GitSHA:
        """Commit files by path to ``main`` (None removes the file) and return the commit's full SHA."""
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
        """Commit a new release for these environments (default: all), which changes their instances."""
        names = tuple(self.environments if environments is None else environments)
        return self.commit(self._release(version, names), f"Release {version} to {', '.join(names)}")

    def release_broken(self, version: str, environment: str) -> GitSHA:
        """Commit a new release for all environments, with a file in one of them that fails every plan."""
        files: dict[str, str | None] = {f"{self.folder(environment)}/broken.tf": BROKEN}
        return self.commit(files | self._release(version, self.environments), f"Release {version}")

    def break_module(self, environment: str) -> GitSHA:
        """Commit a file that fails every plan of the environment: it refers to an undeclared variable."""
        return self.commit({f"{self.folder(environment)}/broken.tf": BROKEN}, f"Break {environment}")

    def repair_module(self, environment: str) -> GitSHA:
        """Commit the removal of the files that :meth:`break_module` and :meth:`slow_down` added."""
        folder = self.folder(environment)
        return self.commit({f"{folder}/broken.tf": None, f"{folder}/slow.tf": None}, f"Repair {environment}")

    def slow_down(self, environment: str, seconds: int) -> GitSHA:
        """Commit a file that makes every apply of the environment last at least ``seconds``."""
        return self.commit({f"{self.folder(environment)}/slow.tf": slow_file(seconds)}, f"Slow {environment} down")

    def _release(self, version: str, environments: Iterable[str]) -> dict[str, str | None]:
        files: dict[str, str | None] = {}
        for name in environments:
            replicas = 3 if name == "prod" else 1
            files |= environment_files(name, release=version, replicas=replicas, state=self.state_file(name))
        return files


def _stored(repo: Repo, item: Blob | Tree | Commit) -> ObjectID:
    repo.object_store.add_object(item)
    return item.id


def _files_of(repo: Repo, commit: ObjectID) -> dict[str, _File]:
    """Return the files of a commit by path."""
    found = repo[commit]
    if not isinstance(found, Commit):
        raise MagosError(f"main of {repo.path} points at {commit.decode()}, not at a commit; reset it to a commit")
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
