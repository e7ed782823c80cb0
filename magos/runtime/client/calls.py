"""The keyword options of the client's calls."""

from typing import TypedDict

from magos.runtime.client.interner import Interner
from magos.runtime.client.transport import Lane
from magos.runtime.decision import Propagation

__all__ = ["CallOptions", "DeleteOptions", "ListQuery", "WatchQuery", "WriteOptions"]


class CallOptions(TypedDict, total=False):
    """Per-call options: the connection class, and the deadline of the whole exchange in seconds."""

    lane: Lane
    timeout: float


class WriteOptions(CallOptions, total=False):
    """Options of a write: ``subresource`` such as ``status``."""

    subresource: str


class DeleteOptions(CallOptions, total=False):
    """Options of a deletion. ``uid`` and ``resource_version`` are preconditions; a difference is a conflict."""

    uid: str
    resource_version: str
    propagation: Propagation
    grace_seconds: int | None


class ListQuery(CallOptions, total=False):
    """Parameters of a list. ``resource_version`` empty asks for a consistent read; ``limit`` 0 for everything."""

    selector: str
    field_selector: str
    limit: int
    continue_: str
    resource_version: str
    interner: Interner | None


class WatchQuery(CallOptions, total=False):
    """Parameters of a watch; ``timeout_seconds`` is when the server ends it, ``timeout`` bounds only its opening."""

    namespace: str
    selector: str
    field_selector: str
    resource_version: str
    timeout_seconds: int
    interner: Interner | None
