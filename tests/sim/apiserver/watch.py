"""One open watch: what was committed since its version, then everything as it happens, bookmarks in between."""

import asyncio
import random
from collections import deque
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any

import anyio
import msgspec

from magos.runtime.client.transport import TransportError
from tests.sim.apiserver import problems
from tests.sim.apiserver.reads import partial_object
from tests.sim.apiserver.resources import Json, ResourceType
from tests.sim.apiserver.selectors import Matcher
from tests.sim.apiserver.store import Change, Store

__all__ = ["Watch", "WatchRequest"]

BOOKMARK_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class WatchRequest:
    """What a client asked for."""

    resource: ResourceType
    namespace: str
    wanted: Matcher
    version: str
    seconds: float
    bookmarks: bool
    partial: bool


class Watch:
    """A stream of event lines. The methods besides ``chunks`` are what an adversary does to it."""

    def __init__(self, request: WatchRequest, store: Store, rng: random.Random) -> None:
        self.request = request
        self.lossy = False
        self.held = False
        self._store = store
        self._rng = rng
        self._lines: deque[bytes] = deque()
        self._wake = asyncio.Event()
        self._over = False
        self._broken = False
        self._silent = False
        self._close: Callable[[], None] = lambda: None

    def open(self) -> None:
        """Queue what the version asks for and follow the store from here on."""
        request = self.request
        if request.version in ("", "0"):
            for item in self._store.items(request.resource, request.namespace):
                if request.wanted(item):
                    self._push("ADDED", item)
        else:
            try:
                missed = self._store.since(request.resource, int(request.version))
            except problems.Problem as problem:
                self._fail(problem)
                return
            for change in missed:
                self._see(change)
        self._close = self._store.subscribe(self._see)

    def close(self) -> None:
        """Stop following the store."""
        self._close()
        self._over = True
        self._wake.set()

    def end(self) -> None:
        """End the stream cleanly, as the server does at its timeout; a stream that lost events ends with 410."""
        if self.lossy:
            self.expire()
            return
        self.close()

    def expire(self) -> None:
        """Send a 410 inside the stream and end it."""
        self._fail(problems.expired())

    def fail(self, code: int, reason: str) -> None:
        """Send another error inside the stream and end it."""
        self._fail(problems.Problem(code, reason, f"injected {reason}"))

    def disconnect(self) -> None:
        """Break the connection; a stream that lost events is told 410 first."""
        if self.lossy:
            self.expire()
            return
        self._broken = True
        self.close()

    def silence(self) -> None:
        """Become half-open: nothing arrives any more, and no end either."""
        self._silent = True
        self.lossy = False
        self._wake.set()

    def hold(self) -> None:
        """Deliver nothing for now: what the client knows grows old."""
        self.held = True

    def release(self) -> None:
        """Deliver what was held back, in its order."""
        self.held = False
        self._wake.set()

    def repeat(self) -> None:
        """Send the events queued so far, or a current object, a second time."""
        if self._over:
            return
        if self._lines:
            self._lines.extend(tuple(self._lines))
        else:
            items = [i for i in self._store.items(self.request.resource) if self._mine(i)]
            if items:
                self._push("MODIFIED", self._rng.choice(items))
        self._wake.set()

    def garble(self) -> None:
        """Send an object that no type can hold; its version is that of no stored object."""
        metadata = {"name": "garbled", "namespace": self.request.namespace or "default", "resourceVersion": "1"}
        self._lines.append(_line("MODIFIED", {"metadata": {**metadata, "uid": 7}}))
        self._wake.set()

    def bookmark(self) -> None:
        """Send a bookmark at the current version."""
        # A stream that is over follows the store no more: a bookmark on it would be a lie.
        if self._over or self.lossy or self._silent or not self.request.bookmarks:
            return
        resource = self.request.resource
        metadata = {"resourceVersion": str(self._store.version), "creationTimestamp": None}
        body = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata, "spec": {}}
        self._lines.append(_line("BOOKMARK", body))
        self._wake.set()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the stream in chunks cut anywhere."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self.request.seconds
        next_bookmark = loop.time() + BOOKMARK_SECONDS * self._rng.uniform(0.8, 1.0)
        while True:
            while self._lines and not self._silent and not self.held:
                taken = b"".join(self._lines)
                self._lines.clear()
                cut = self._rng.randrange(len(taken)) if self._rng.random() < 0.2 else 0
                for piece in (taken[:cut], taken[cut:]):
                    if piece:
                        yield piece
            if self._over and not self._silent:
                break
            if self._silent:
                await asyncio.Event().wait()  # half-open: only the client can end it
            self._wake.clear()
            with anyio.move_on_after(max(0.0, min(end, next_bookmark) - loop.time())):
                await self._wake.wait()
            if loop.time() >= next_bookmark:
                next_bookmark += BOOKMARK_SECONDS
                self.bookmark()
            if loop.time() >= end and not self._over:
                self.bookmark()
                self.end()
        if self._broken:
            raise TransportError("the connection was reset", sent=True)

    def _see(self, change: Change) -> None:
        if change.resource != self.request.resource.resource or self._over or self.lossy or self._silent:
            return
        before = change.old is not None and self._mine(change.old)
        after = change.new is not None and self._mine(change.new)
        if after and change.new is not None:
            self._push("MODIFIED" if before else "ADDED", change.new)
        elif before and change.old is not None:
            metadata = {**change.old["metadata"], "resourceVersion": str(change.version)}
            last = {**change.old, "metadata": metadata}
            self._push("DELETED", last)

    def _mine(self, item: Json) -> bool:
        namespace = self.request.namespace
        return (not namespace or item["metadata"].get("namespace") == namespace) and self.request.wanted(item)

    def _push(self, kind: str, item: Json) -> None:
        self._lines.append(_line(kind, partial_object(item) if self.request.partial else item))
        self._wake.set()

    def _fail(self, problem: problems.Problem) -> None:
        self._lines.append(_line("ERROR", problem.status))
        self.close()


def _line(kind: str, item: Any) -> bytes:
    return msgspec.json.encode({"type": kind, "object": item}) + b"\n"
