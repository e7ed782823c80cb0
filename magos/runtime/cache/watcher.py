"""Keeping up with one kind of object: which call to make next, decided without making any.

The machine knows three phases::

    EMPTY    --list page-->  LISTING   --last page-->  WATCHING  --event, bookmark, clean end-->  WATCHING
    LISTING  --page expired--> EMPTY (whole list)      WATCHING  --410, too large version, refusal--> EMPTY

1. The first list is consistent (no resourceVersion), so that a new process never acts on a state older than the one its
   predecessor acted on. So is every other list.
2. A watch starts at the version of the list and resumes from the last version seen in an event or a bookmark. A broken
   connection and a clean end never cause a list.
3. An error means the same as an HTTP status on opening and as an ERROR event inside a stream that began with 200.
4. Failures back off from ``FIRST`` to at most ``LONGEST`` seconds with jitter; a 410 after progress lists at once.
5. A watch that ends within ``SHORT`` seconds without an event is a failure, even if the server closed it;
   ``PATIENCE`` of those in a row, or of server errors, lead to a list.
6. So do ``SILENCES`` watches in a row that were open for longer than a server ever keeps silent and brought nothing, no
   bookmark either: a server that was restored from a backup is behind our version and has nothing to say about it.
"""

import random
from enum import StrEnum
from typing import Any, Generic, TypeAlias, TypeVar

from msgspec import Struct

from magos.api.meta import Resource
from magos.runtime.client.client import PAGE_SIZE
from magos.runtime.client.errors import ApiError
from magos.runtime.client.watchevents import ListPage, Undecodable, WatchEvent, WatchType
from magos.runtime.resourceversion import is_older

R = TypeVar("R", bound=Resource)

FIRST = 0.8
LONGEST = 30.0
SHORT = 1.0
PATIENCE = 4
QUIET = 60.0
SILENCES = 2
WATCH_SECONDS = (300, 600)


class Phase(StrEnum):
    """What the machine has."""

    EMPTY = "empty"
    LISTING = "listing"
    WATCHING = "watching"


class ListCall(Struct, frozen=True, kw_only=True):
    """Wait ``delay`` seconds, then ask for a page; ``limit`` 0 asks for everything."""

    delay: float
    limit: int
    continue_: str


class WatchCall(Struct, frozen=True, kw_only=True):
    """Wait ``delay`` seconds, then watch with bookmarks; the server is to end it after ``timeout_seconds``."""

    delay: float
    resource_version: str
    timeout_seconds: int


Action: TypeAlias = ListCall | WatchCall


class Listed(Struct, Generic[R], frozen=True, kw_only=True):
    """A complete, consistent list."""

    items: tuple[R, ...]
    undecodable: tuple[Undecodable, ...]
    resource_version: str


class Watcher(Generic[R]):
    """``action`` returns the next call; one of the other methods takes its outcome."""

    def __init__(self, rng: random.Random) -> None:
        self.phase = Phase.EMPTY
        self.resource_version = ""
        self._rng = rng
        self._failures = 0
        self._strikes = 0
        self._delay = 0.0
        self._paged = True
        self._continue = ""
        self._items: list[R] = []
        self._undecodable: list[Undecodable] = []
        self._silences = 0
        self._progress = False
        self._heard = False
        self._error: ApiError | None = None

    def action(self) -> Action:
        """Return the call that is due next."""
        if self.phase is Phase.WATCHING:
            self._progress, self._heard, self._error = False, False, None
            return WatchCall(
                delay=self._delay,
                resource_version=self.resource_version,
                timeout_seconds=self._rng.randint(*WATCH_SECONDS),
            )
        return ListCall(delay=self._delay, limit=PAGE_SIZE if self._paged else 0, continue_=self._continue)

    def listed(self, page: ListPage[R]) -> Listed[R] | None:
        """Take in a page; return the whole list with the last one."""
        self._items += page.items
        self._undecodable += page.undecodable
        self._continue, self._delay = page.continue_, 0.0
        if page.continue_:
            self.phase = Phase.LISTING
            return None
        whole = Listed(
            items=tuple(self._items),
            undecodable=tuple(self._undecodable),
            resource_version=page.resource_version,
        )
        self._forget_pages()
        self._paged = True
        self.phase, self.resource_version = Phase.WATCHING, page.resource_version
        return whole

    def list_failed(self, error: ApiError) -> None:
        """Ask for the same page again after a while; begin anew, without pages, if the page expired."""
        if error.transient and not error.too_large_resource_version:
            self._back_off(error)
            return
        expired = bool(self._continue) and error.gone
        self._restart()
        self._paged = not expired
        if expired and not self._failures:
            self._failures, self._delay = 1, 0.0
        else:
            self._back_off(error)

    def events(self, batch: tuple[WatchEvent[R], ...]) -> tuple[WatchEvent[R], ...]:
        """Return the part of a batch that is to be applied; after an ERROR event ``over`` is true."""
        accepted: list[WatchEvent[R]] = []
        for event in batch:
            if event.type is WatchType.ERROR:
                self._error = _from_status(event)
                break
            accepted.append(event)
            self._heard = True
            if event.resource_version and not is_older(event.resource_version, self.resource_version):
                self.resource_version = event.resource_version
            if event.type is not WatchType.BOOKMARK:
                self._progress = True
        return tuple(accepted)

    @property
    def over(self) -> bool:
        """True once the stream carried an ERROR event: nothing behind it counts."""
        return self._error is not None

    def ended(self, error: ApiError | None, lasted: float) -> ApiError | None:
        """Take in the end of a watch that was open for ``lasted`` seconds; return the failure if it was one."""
        error = self._error or error
        if self._progress or lasted >= SHORT:
            self._failures = self._strikes = 0
        if self._is_mute(lasted):
            self._restart()
        if error is None:
            if self._progress or lasted >= SHORT:
                self._delay = 0.0
                return None
            error = ApiError(f"the watch ended after {lasted:.3f} s without an event")
            self._strike(error)
        elif error.gone or error.too_large_resource_version:
            self._restart()
            self._back_off(error, at_once=not self._failures)
        elif error.transient:
            if error.status in (0, 429):
                self._back_off(error)
            else:
                self._strike(error)
        else:
            self._restart()
            self._back_off(error)
        return error

    def _is_mute(self, lasted: float) -> bool:
        """Count a watch that brought nothing; tell whether there have been too many of them."""
        if self._heard:
            self._silences = 0
        elif lasted >= QUIET:
            self._silences += 1
        return self._silences >= SILENCES

    def _strike(self, error: ApiError) -> None:
        self._strikes += 1
        if self._strikes >= PATIENCE:
            self._restart()
        self._back_off(error)

    def _back_off(self, error: ApiError, *, at_once: bool = False) -> None:
        self._failures += 1
        if at_once:
            self._delay = 0.0
            return
        base = min(LONGEST / 2, FIRST * 2 ** min(self._failures - 1, 10))
        self._delay = max(base * self._rng.uniform(1.0, 2.0), error.retry_after or 0.0)

    def _restart(self) -> None:
        self.phase, self.resource_version, self._strikes, self._silences = Phase.EMPTY, "", 0, 0
        self._forget_pages()

    def _forget_pages(self) -> None:
        self._continue, self._items, self._undecodable = "", [], []


def _from_status(event: WatchEvent[Any]) -> ApiError:
    status = event.status
    words = f"{status.reason}: {status.message}" if status else "an ERROR event without a Status"
    return ApiError(f"the watch was ended by the server: {words}", answer=status)
