"""Git: repositories whose branches move, are forced back and disappear, and what their commits do when they run."""

import asyncio
import hashlib
from dataclasses import dataclass, field

from magos.git.errors import GitReason
from magos.reconcilers.refwatcher.machine import Failure
from magos.reconcilers.refwatcher.schedule import Listing, Poll

__all__ = ["Commit", "Git", "Repository"]


@dataclass(frozen=True, kw_only=True)
class Commit:
    """One commit. ``content`` is what it makes of the infrastructure; it fails where the Workspace is listed."""

    sha: str
    content: str
    plan_fails: frozenset[str] = frozenset()
    apply_fails: frozenset[str] = frozenset()


@dataclass
class Repository:
    """Branches and all commits that were ever pushed, in their order."""

    url: str
    branches: dict[str, str] = field(default_factory=dict)
    commits: dict[str, Commit] = field(default_factory=dict)
    reachable: bool = True


class Git:
    """All repositories of the world."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.listings: dict[str, int] = {}

    async def listing(self, poll: Poll) -> Listing:
        """Answer RefWatcher's question for all the references it asks about."""
        url = poll.key.url
        self.listings[url] = self.listings.get(url, 0) + 1
        await asyncio.sleep(0.2)
        if not self.repository(url).reachable:
            failure = Failure(GitReason.GIT_FAILED, f"{url} does not answer")
            return Listing(results=dict.fromkeys(poll.targets, failure), seconds=0.2)
        found = {target: self.resolve(url, target) for target in poll.targets}
        nobody = Failure(GitReason.REVISION_NOT_FOUND, "no such reference")
        return Listing(results={target: sha or nobody for target, sha in found.items()}, seconds=0.2)

    def repository(self, url: str) -> Repository:
        """Return the repository, an empty one if there was none."""
        return self.repositories.setdefault(url, Repository(url))

    def push(
        self,
        url: str,
        branch: str = "main",
        *,
        content: str = "",
        plan_fails: frozenset[str] = frozenset(),
        apply_fails: frozenset[str] = frozenset(),
    ) -> str:
        """Put a new commit on a branch and return its SHA; equal content makes an empty plan."""
        repository = self.repository(url)
        number = len(repository.commits) + 1
        sha = hashlib.sha1(f"{url}#{number}".encode(), usedforsecurity=False).hexdigest()
        commit = Commit(sha=sha, content=content or sha, plan_fails=plan_fails, apply_fails=apply_fails)
        repository.commits[sha] = commit
        repository.branches[branch] = sha
        return sha

    def force(self, url: str, branch: str, sha: str) -> None:
        """Move a branch to any commit there is, as a forced push does."""
        repository = self.repository(url)
        if sha not in repository.commits:
            raise ValueError(f"{url} has no commit {sha}")
        repository.branches[branch] = sha

    def delete(self, url: str, branch: str) -> None:
        """Remove a branch."""
        self.repository(url).branches.pop(branch, None)

    def resolve(self, url: str, revision: str) -> str | None:
        """Return the commit that a target revision names, None if nobody can tell."""
        repository = self.repositories.get(url)
        if repository is None or not repository.reachable:
            return None
        if revision in repository.commits:
            return revision
        return repository.branches.get("main" if revision == "HEAD" else revision.removeprefix("refs/heads/"))

    def commit(self, url: str, sha: str) -> Commit | None:
        """Return a commit by its SHA."""
        repository = self.repositories.get(url)
        return None if repository is None or not repository.reachable else repository.commits.get(sha)
