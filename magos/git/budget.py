"""How much one operation may receive, whatever the transport and the protocol version: a server may send without end.

Content is what goes into packs; talk is everything else on every channel: references, acknowledgements, progress,
diagnostics of the transport, headers. All repositories of a checkout, submodules included, share one budget.
"""

import threading

import msgspec

from magos.bounds import GIT_CONTENT, GIT_INFLATED, GIT_OBJECT, GIT_OBJECTS, GIT_TAGS, GIT_TALK
from magos.git.errors import GitError, GitReason

_MIB = 1024**2


class BudgetLimits(msgspec.Struct, frozen=True):
    """Bytes of packs, objects in them, bytes of one object and of all once they are inflated, and bytes of talk.

    A tree of the largest permitted size fits several times; what exceeds the limits is history, which only servers
    send that cannot serve a single commit.
    """

    content: int = GIT_CONTENT.limit
    objects: int = GIT_OBJECTS.limit
    talk: int = GIT_TALK.limit
    object: int = GIT_OBJECT.limit
    inflated: int = GIT_INFLATED.limit


POLL = BudgetLimits(content=GIT_TAGS.limit, object=GIT_TAGS.limit, inflated=4 * GIT_TAGS.limit)
"""For who only asks what references mean."""


class Budget:
    """Counts what arrives and raises ``GitError`` (GitFailed) where it is too much.

    ``received`` may be called by several threads, one for each channel. ``spent`` is the error that ended the budget,
    for a thread whose channel was closed because another's had brought too much.
    """

    def __init__(self, limits: BudgetLimits | None = None) -> None:
        self.spent: GitError | None = None
        self._limits = limits or BudgetLimits()
        self._lock = threading.Lock()
        self._received = 0
        self._content = 0
        self._objects = 0
        self._inflated = 0

    def received(self, size: int, source: object) -> None:
        """Count ``size`` bytes of any kind from ``source``."""
        with self._lock:
            self._received += size
            excess = self._received - self._content > self._limits.talk
        if excess:
            raise self._end(
                f"{source} sent more than {self._limits.talk // _MIB} MiB of references and messages; check the URL and"
                " the server, or remove references that are not needed"
            )

    def packed(self, size: int, source: object) -> None:
        """Count ``size`` bytes of what was received as content."""
        with self._lock:
            self._content += size
        if self._content > self._limits.content:
            raise self._too_much(source, f"{self._limits.content // _MIB:,} MiB")

    def announced(self, objects: int, source: object) -> None:
        """Count the objects that a pack says it holds."""
        self._objects += objects
        if self._objects > self._limits.objects:
            raise self._too_much(source, f"{self._limits.objects:,} objects")

    def declared(self, size: int, source: object, *, beside: int = 0) -> None:
        """Count an object of ``size`` bytes that will be inflated; ``beside`` is what has to be held with it."""
        if size + beside > self._limits.object:
            raise self._end(
                f"{source} sends an object of {_mib(size + beside)} MiB, more than {_mib(self._limits.object)} MiB;"
                " keep large files out of the repository"
            )
        self._inflated += size
        if self._inflated > self._limits.inflated:
            raise self._too_much(source, f"{_mib(self._limits.inflated)} MiB, inflated,")

    def _too_much(self, source: object, limit: str) -> GitError:
        return self._end(
            f"{source} sent more than {limit} of history; let the server serve single commits"
            " (uploadpack.allowReachableSHA1InWant, shallow fetches), or split the repository"
        )

    def _end(self, message: str) -> GitError:
        self.spent = GitError(GitReason.GIT_FAILED, message)
        return self.spent


def _mib(size: int) -> str:
    return f"{-(-size // _MIB):,}"
