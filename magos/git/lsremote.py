"""Which commit a target revision means: one resolver for the runner and the RefWatcher (spec §6.7).

Order, first match wins, whatever the repository's default branch is: a full SHA as it is; ``refs/heads/<target>``;
``refs/tags/<target>``; the target verbatim if it starts with ``refs/`` or is ``HEAD``. Annotated tags mean the commit
they point to. A branch and a tag of one name therefore always give the branch.

Branches and ``HEAD`` are commits, Git lets them be nothing else. What other references are is looked up in the objects
themselves (``magos.git.tags``).
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from magos.git.budget import POLL, Budget
from magos.git.credentials import ANONYMOUS, Credentials
from magos.git.errors import GitError, GitReason
from magos.git.peek import Tip
from magos.git.tags import Tags, commit_of
from magos.git.url import RepoURL, parse
from magos.ids import GitSHA, git_sha, is_git_sha
from magos.outbound.peers import Peers

if TYPE_CHECKING:
    from magos.git.remote import Remote

_PEELED = "^{}"
_SHORT = re.compile(r"[0-9a-fA-F]{4,39}")
_ANY_CASE = re.compile(r"[0-9a-fA-F]{40}")


class Resolution(msgspec.Struct, frozen=True):
    """``ref`` is the reference that matched (``None`` for a full SHA), ``sha`` its commit."""

    ref: str | None
    sha: GitSHA


class LsRemoteRequest(msgspec.Struct, frozen=True):
    """One question to one repository; ``timeout`` in seconds bounds the whole of it."""

    url: str
    target_revision: str
    allowed_schemes: tuple[str, ...]
    credentials: Credentials = ANONYMOUS
    timeout: float = 60.0
    workdir: Path | None = None
    peers: Peers = Peers()


class LsRemotesRequest(msgspec.Struct, frozen=True):
    """One question about many target revisions of one repository; ``timeout`` in seconds bounds the whole of it.

    ``tags`` is what is known from earlier questions, and learns from this one.
    """

    url: str
    targets: tuple[str, ...]
    allowed_schemes: tuple[str, ...]
    credentials: Credentials = ANONYMOUS
    timeout: float = 10.0
    workdir: Path | None = None
    peers: Peers = Peers()
    tags: Tags = msgspec.field(default_factory=Tags)


def candidates(target: str) -> tuple[str, ...]:
    """Return the references that ``target`` may mean, best first; empty for a full SHA."""
    if is_git_sha(target):
        return ()
    verbatim = (target,) if target.startswith("refs/") or target == "HEAD" else ()
    return (f"refs/heads/{target}", f"refs/tags/{target}", *verbatim)


def resolve(target: str, advertised: Mapping[str, str], url: RepoURL) -> Resolution:
    """Return what ``target`` means among the advertised references (name -> ID, ``<name>^{}`` for peeled tags).

    Pure; of a tag it is what the server says. Raises ``GitError`` (RevisionNotFound) naming ``url`` and ``target``.
    """
    if is_git_sha(target):
        return Resolution(None, GitSHA(target))
    for name in candidates(target):
        found = advertised.get(name + _PEELED) or advertised.get(name)
        if found is not None:
            return Resolution(name, git_sha(found))
    raise GitError(GitReason.REVISION_NOT_FOUND, f"{url} has no {_what(target)}")


def ls_remote(request: LsRemoteRequest) -> Resolution:
    """Ask the server what the target revision means now. Blocks up to ``timeout`` seconds.

    A full SHA is answered without asking. Raises ``GitError`` with the reasons of spec §14.1.
    """
    url = parse(request.url)
    if is_git_sha(request.target_revision):
        return Resolution(None, GitSHA(request.target_revision))

    from magos.git.deadline import Deadline
    from magos.git.remote import Access, open_remote

    deadline = Deadline(request.timeout, f"asking {url} for its references")
    access = Access(url, request.credentials, request.allowed_schemes, request.workdir, Budget(POLL), request.peers)
    with open_remote(access, deadline) as remote:
        return resolve_one(remote, request.target_revision)


def ls_remotes(request: LsRemotesRequest) -> dict[str, Resolution | GitError]:
    """Ask the server once what each target revision means now. Blocks up to ``timeout`` seconds.

    A target that means nothing has its RevisionNotFound as value. Raises ``GitError`` if nothing can be said at all.
    """
    url = parse(request.url)

    from magos.git.deadline import Deadline
    from magos.git.remote import Access, open_remote

    deadline = Deadline(request.timeout, f"asking {url} for its references")
    access = Access(url, request.credentials, request.allowed_schemes, request.workdir, Budget(POLL), request.peers)
    with open_remote(access, deadline) as remote:
        return resolve_all(remote, request.targets, request.tags)


def resolve_all(remote: "Remote", targets: Sequence[str], tags: Tags) -> dict[str, Resolution | GitError]:
    """Ask for the references, and for the objects behind tags that ``tags`` does not know.

    A target that gives no commit has its error as value; if only the objects cannot be had, those targets have it that
    need them. Raises ``GitError`` if nothing can be said at all.
    """
    wanted = tuple(dict.fromkeys(name for target in targets for name in candidates(target)))
    advertised = remote.list_named(wanted) if wanted else {}
    found = {target: _resolved(target, advertised, remote.access.url) for target in targets}
    behind = {
        target: advertised.get(each.ref, each.sha)
        for target, each in found.items()
        if isinstance(each, Resolution) and each.ref is not None and not _is_branch(each.ref)
    }
    try:
        tips = tags.tips(remote, behind.values()) if behind else {}
    except GitError as error:
        return found | dict.fromkeys(behind, error)
    for target, sha in behind.items():
        found[target] = _followed(found[target], tips[sha], remote.access.url)
    return found


def resolve_one(remote: "Remote", target: str) -> Resolution:
    """Ask what ``target`` means now. Raises ``GitError``."""
    found = resolve_all(remote, (target,), Tags())[target]
    if isinstance(found, GitError):
        raise found
    return found


def _is_branch(ref: str) -> bool:
    return ref == "HEAD" or ref.startswith("refs/heads/")


def _followed(found: Resolution | GitError, tip: Tip, url: RepoURL) -> Resolution | GitError:
    if isinstance(found, GitError) or found.ref is None:
        return found
    try:
        return Resolution(found.ref, commit_of(tip, found.ref, url))
    except GitError as error:
        return error


def _resolved(target: str, advertised: Mapping[str, str], url: RepoURL) -> Resolution | GitError:
    try:
        return resolve(target, advertised, url)
    except GitError as error:
        return error


def list_candidates(remote: "Remote", target: str) -> dict[str, str]:
    """Return the advertised references that can matter for ``target``."""
    return remote.list_named(candidates(target))


def _what(target: str) -> str:
    named = f"branch or tag {target!r}"
    if _ANY_CASE.fullmatch(target):
        return f"{named}; a commit ID is written in lower case: {target.lower()}"
    if _SHORT.fullmatch(target):
        return f"{named}; if it is a short commit ID, use the full SHA (40 digits)"
    if target == "HEAD":
        return "HEAD: it points to a branch that does not exist; name a branch in targetRevision"
    if target.startswith("refs/"):
        return f"reference {target!r}; correct targetRevision"
    return f"{named}; correct targetRevision"
