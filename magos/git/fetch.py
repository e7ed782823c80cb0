"""Fetch exactly one commit with its tree, and as little history as the server lets us.

First the commit itself is asked for, with depth 1. A server that serves only the tips of its references refuses that
(protocol v0, or v2 with a strict policy); then the target reference is fetched deeper and deeper until the commit is
there. Never is another commit taken instead.
"""

from dulwich.object_store import DiskObjectStore
from dulwich.objects import Commit, ObjectID

from magos.git.errors import GitError, GitReason
from magos.git.lsremote import Resolution, candidates, list_candidates, resolve_one
from magos.git.remote import Remote, WantRefused
from magos.ids import GitSHA, is_git_sha

_DEPTHS: tuple[int | None, ...] = (1, 32, 512, None)
_MOST_TIPS = 2_000


def fetch_commit(remote: Remote, store: DiskObjectStore, target: str, pinned: GitSHA | None) -> Resolution:
    """Bring ``pinned``, or else what ``target`` means now, into ``store`` and return what was fetched.

    The returned ``sha`` equals ``pinned`` if that is given, and the object of that ID is a commit whose content was
    hashed on arrival. Raises ``GitError``; RevisionNotFound names URL, target and SHA.
    """
    if pinned is not None:
        wanted = Resolution(None, pinned)
    elif is_git_sha(target):
        wanted = Resolution(None, GitSHA(target))
    else:
        wanted = resolve_one(remote, target)
    try:
        remote.fetch([wanted.sha], 1, store)
    except WantRefused as error:
        if error.definitive:
            raise _not_found(remote, target, wanted.sha) from error
        _deepen(remote, store, target, wanted.sha)
    _verify(remote, store, target, wanted.sha)
    return wanted


def _deepen(remote: Remote, store: DiskObjectStore, target: str, sha: GitSHA) -> None:
    tips = _tips(remote, target, sha)
    refusal: WantRefused | None = None
    for depth in _DEPTHS if tips else ():
        try:
            remote.fetch(tips, depth, store)
            refusal = None
        except WantRefused as error:  # a server without shallow fetches sends only everything
            refusal = error
        if ObjectID(sha.encode()) in store:
            return
    if refusal is not None:
        raise GitError(GitReason.GIT_FAILED, refusal.message) from refusal
    raise _not_found(remote, target, sha)


def _tips(remote: Remote, target: str, sha: GitSHA) -> list[str]:
    """Return what to start from: the target reference, or all branches and tags if the target is a SHA itself."""
    if not is_git_sha(target):
        refs = list_candidates(remote, target)
        return [refs[name] for name in candidates(target) if name in refs][:1]
    refs = remote.list_refs(["refs/heads/", "refs/tags/"])
    named = {name: value for name, value in refs.items() if name.startswith(("refs/heads/", "refs/tags/"))}
    exact = [value for value in named.values() if value == sha]
    return exact[:1] or sorted({value for name, value in named.items() if not name.endswith("^{}")})[:_MOST_TIPS]


def _verify(remote: Remote, store: DiskObjectStore, target: str, sha: GitSHA) -> None:
    key = ObjectID(sha.encode())
    if key not in store:
        raise _not_found(remote, target, sha)
    found = store[key]
    if not isinstance(found, Commit):
        kind = found.type_name.decode()
        raise GitError(
            GitReason.REVISION_NOT_FOUND,
            f"{remote.access.url}: {sha} is a {kind}, not a commit; use the ID of a commit in targetRevision",
        )
    if found.sha().hexdigest() != sha:
        raise GitError(GitReason.GIT_FAILED, f"{remote.access.url} sent other content for commit {sha}; try again")


def _not_found(remote: Remote, target: str, sha: GitSHA) -> GitError:
    place = "" if target == sha else f" at or behind {target!r}"
    return GitError(
        GitReason.REVISION_NOT_FOUND,
        f"{remote.access.url} has no commit {sha}{place}; was it removed by a forced push? Correct targetRevision"
        " or wait for the next revision",
    )
