"""Live streams of the four kinds: what is there, then every change, as server-sent events (spec §9.2).

A stream never loses anything in silence: where it cannot go on (too slow a client, other rights, an expired token, the
end of the server) it says ``event: resync`` with the reason and ends. The client connects again and begins anew.
"""

from collections.abc import AsyncGenerator, Iterable
from typing import Any

from msgspec import Struct
from starlette.responses import Response

from magos.server.hub import Follower, Frame
from magos.server.kinds import SHOWN, Shown
from magos.server.problems import Problem
from magos.server.resources import BASE, filters, scope_of
from magos.server.sight import Sight, watching
from magos.server.sse import PING, PING_SECONDS, EventStream, event
from magos.server.table import Answer, Call, Handler, Operation

_PIECE = 1 << 16
_SHORTEST = 0.001
"""Seconds of the shortest wait: what rounding leaves of one must not become a loop without an end."""


class Resync(Struct, frozen=True, kw_only=True):
    """Why a stream ends; the client is to connect again."""

    reason: str


def operations() -> list[Operation]:
    """Return the operations that stream the four kinds."""
    return [
        Operation(
            method="GET",
            path=f"{BASE}/{shown.kind.plural}/events",
            handler=_streamer(shown),
            summary=f"Follow {shown.kind.plural}",
            description=(
                'Each event is `{"type": "ADDED, MODIFIED or DELETED", "object": ...}` and its `id` the'
                " resourceVersion. The objects that exist come first, then `event: synced`, then every change."
                " `event: resync` ends a stream that cannot go on: connect again."
            ),
            parameters=filters(shown),
            answer=Answer(description="Server-sent events.", media="text/event-stream"),
            refusals=(400, 403),
        )
        for shown in SHOWN
    ]


def resync(reason: str) -> bytes:
    """Return the last event of a stream that cannot go on."""
    return event("resync", Resync(reason=reason))


def expired(call: Call) -> bool:
    """Tell whether the credential that opened a stream has expired."""
    return call.caller.expires_at is not None and call.caller.expires_at <= call.context.clock.now()


def _streamer(shown: Shown) -> Handler:
    async def handler(call: Call) -> Response:
        scope, hub = scope_of(call, shown), call.hubs[shown.kind.plural]
        right = watching(shown.kind.plural, scope.namespace)
        sight = Sight(call.context.access, call.caller, right, hub.namespaces)
        await sight.look()

        async def chunks() -> AsyncGenerator[bytes, None]:
            with hub.follow(scope) as follower:
                try:
                    async for chunk in _follow(call, follower, sight):
                        yield chunk
                except Problem as problem:  # the rights are gone, or nobody can tell: what follows must not be shown
                    yield resync(problem.text)

        return EventStream(chunks)

    return handler


async def _follow(call: Call, follower: Follower[Any], sight: Sight) -> AsyncGenerator[bytes, None]:
    monotonic = call.context.clock.monotonic
    looked, synced = monotonic(), False
    while not (reason := _over(call, follower)):
        if monotonic() - looked >= PING_SECONDS:
            looked = monotonic()
            if not await sight.look():
                reason = "what you may see has changed"
                break
            yield PING
        if synced:
            frames = follower.changes()
        elif not (frames := follower.initial(_PIECE)):
            synced = True
            yield event("synced", {})
        if chunk := await _shown(frames, sight):
            yield chunk
        elif synced and not frames:
            await follower.wait(max(looked + PING_SECONDS - monotonic(), _SHORTEST))
    yield resync(reason)


def _over(call: Call, follower: Follower[Any]) -> str:
    """Return why the stream cannot go on, empty if it can."""
    if follower.closing:
        return "the server stops"
    if follower.lost:
        return "this client reads too slowly and has missed changes"
    return "the credential has expired" if expired(call) else ""


async def _shown(frames: Iterable[Frame], sight: Sight) -> bytes:
    return b"".join([each.data for each in frames if await sight.sees(each.namespace)])
