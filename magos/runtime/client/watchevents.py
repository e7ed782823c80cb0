"""What lists and watches are decoded to."""

from enum import StrEnum
from typing import Any, Generic, TypeVar

from msgspec import Struct

from magos.api.meta import Kind, ObjectMeta, Resource
from magos.runtime.client.errors import Status
from magos.runtime.decision import Unreadable

R = TypeVar("R", bound=Resource)


class Undecodable(Struct, frozen=True, gc=False, kw_only=True):
    """An object that does not fit our type: as much of its metadata as is readable, and what is wrong.

    ``whole`` tells whether all of the metadata is; otherwise a label that is not there may only be unreadable.
    """

    metadata: ObjectMeta
    problem: str
    whole: bool = True

    def unreadable(self, kind: Kind[Any]) -> Unreadable:
        """Return the error for a reader of the object."""
        return Unreadable(kind.ref(self.metadata.namespace, self.metadata.name), self.problem)


class WatchType(StrEnum):
    """``type`` of a watch event; ``UNKNOWN`` stands for every type that we do not know."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    ERROR = "ERROR"
    UNKNOWN = "UNKNOWN"


class WatchEvent(Struct, Generic[R], frozen=True, kw_only=True):
    """One event of a watch.

    ``object`` is set for ADDED, MODIFIED and DELETED unless the object was ``undecodable``; ``status`` for ERROR.
    ``resource_version`` is set wherever the event carried one, also for bookmarks and undecodable objects.
    """

    type: WatchType
    object: R | None = None
    resource_version: str = ""
    undecodable: Undecodable | None = None
    status: Status | None = None


class ListPage(Struct, Generic[R], frozen=True, kw_only=True):
    """One page of a list in the order of the server (by key); ``continue_`` is empty on the last page."""

    items: tuple[R, ...]
    resource_version: str = ""
    continue_: str = ""
    undecodable: tuple[Undecodable, ...] = ()

    def complete(self, kind: Kind[Any]) -> tuple[R, ...]:
        """Return the items; raise ``Unreadable`` if one is missing among them because it could not be decoded.

        A list with a hole in it looks like a list without the object: no list is the safer answer.
        """
        if self.undecodable:
            raise self.undecodable[0].unreadable(kind)
        return self.items
