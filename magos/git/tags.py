"""Which commit a tag means: the object that its reference names is asked for once, and remembered by its ID.

What a server announces does not tell: some announce no peeled tags, and a tag may point to a file or a directory.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from magos.bounds import GIT_TAGS_KNOWN
from magos.git.errors import GitError, GitReason
from magos.git.peek import Kind, Peek, Tip
from magos.ids import GitSHA, git_sha

if TYPE_CHECKING:
    from magos.git.remote import Remote

_DEPTHS: tuple[int | None, ...] = (1, None)


class Tags:
    """What the objects behind tags are, per repository; any thread may ask. The least recently used are forgotten."""

    def __init__(self, limit: int = GIT_TAGS_KNOWN.limit) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, str], Tip] = OrderedDict()

    def __len__(self) -> int:
        """Return how many objects are known."""
        return len(self._known)

    def tips(self, remote: "Remote", ids: Iterable[str]) -> dict[str, Tip]:
        """Return what each object is in the end; asks the server once for all that are not known.

        Raises ``GitError`` if the server does not send one of them.
        """
        url, wanted = str(remote.access.url), set(ids)
        with self._lock:
            found = {each: self._known[url, each] for each in wanted if (url, each) in self._known}
            for each in found:
                self._known.move_to_end((url, each))
        unknown = sorted(wanted - set(found))
        if unknown:
            found |= _ask(remote, unknown)
            with self._lock:
                self._known.update({(url, each): found[each] for each in unknown})
                while len(self._known) > self._limit:
                    self._known.popitem(last=False)
        return found


def commit_of(tip: Tip, ref: str, url: object) -> GitSHA:
    """Return the commit. Raises ``GitError`` (RevisionNotFound) that says what ``ref`` is instead."""
    if tip.kind is Kind.COMMIT:
        return git_sha(tip.sha)
    what = "a damaged tag" if tip.kind is Kind.TAG else f"a tag of a {tip.kind}" if tip.annotated else f"a {tip.kind}"
    raise GitError(
        GitReason.REVISION_NOT_FOUND,
        f"{url}: {ref} is {what}, not a commit ({tip.sha}); let it point to a commit, or correct targetRevision",
    )


def _ask(remote: "Remote", ids: list[str]) -> dict[str, Tip]:
    """Fetch as little as the server lets us; the transfer is broken off once all is known."""
    from magos.git.remote import WantRefused

    refusal: WantRefused | None = None
    for depth in _DEPTHS:
        peek = Peek(ids)
        try:
            remote.peek(ids, depth, peek)
        except WantRefused as error:  # a server without shallow fetches sends only everything
            refusal = error
            continue
        found = peek.tips()
        missing = [each for each in ids if each not in found]
        if not missing:
            return found
        raise GitError(
            GitReason.GIT_FAILED,
            f"{remote.access.url} did not send {missing[0]}, which it announces; check the server",
        )
    if refusal is None:
        raise AssertionError("no depth was tried")
    raise GitError(GitReason.GIT_FAILED, refusal.message) from refusal
