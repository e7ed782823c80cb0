"""What lists and watches are decoded to."""

from enum import StrEnum
from typing import Generic, TypeVar

from msgspec import Struct

from magos.api.meta import ObjectMeta, Resource
from magos.runtime.apistatus import Status

__all__ = ["ListPage", "Undecodable", "WatchEvent", "WatchType"]

R = TypeVar("R", bound=Resource)


class Undecodable(Struct, frozen=True, gc=False, kw_only=True):
    """An object that does not fit our type: as much of its metadata as is readable, and what is wrong."""

    metadata: ObjectMeta
    problem: str


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
