"""What holds for every request: headers of safety, bounded bodies, a line in the log, and one form of refusal.

All of it works on ASGI messages, so that streams stay streams.
"""

import time
from collections.abc import Mapping
from urllib.parse import parse_qsl

import structlog
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from magos.errors import MagosError
from magos.server.problems import Problem
from magos.server.refusals import Render, answer_to, as_json
from magos.server.table import CALLER

LARGEST_BODY = 1 << 16
"""Bytes of a request's body: the largest that is needed has a few hundred."""

SECURITY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
        " form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with none at all, browsers send `Origin: null` with forms
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

_SHOWN = frozenset({"namespace", "projectRef", "limit", "cursor", "uid", "phase"})
"""Parameters of the query whose values may be logged; of all others, such as ``access_token``, only the name is."""

_LONGEST = 512
_PROBES = frozenset({"/healthz", "/readyz"})

_log = structlog.get_logger(__name__)


class SafeHeaders:
    """Adds headers to every answer; one that a route sets itself stays, but for those of safety."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, with_headers)


class RequestLog:
    """Writes a line for each request when its answer has ended, without tokens and without secrets of the query."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 0
        began = time.monotonic()

        async def seen(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, seen)
        finally:
            path = scope["path"]
            write = _log.debug if path in _PROBES and status == 200 else _log.info
            write(
                "request",
                method=scope["method"],
                path=path[:_LONGEST],
                query=_loggable(scope.get("query_string", b"")),
                status=status,
                seconds=round(time.monotonic() - began, 3),
                caller=scope.get(CALLER, ""),
                client=(scope.get("client") or ("",))[0],
            )


def _loggable(query: bytes) -> str:
    try:
        pairs = parse_qsl(query.decode("ascii", "replace"), keep_blank_values=True, max_num_fields=50)
    except ValueError:
        return "(too many parameters)"
    return "&".join(f"{key[:50]}={value if key in _SHOWN else '...'}" for key, value in pairs)[:_LONGEST]


class BoundedBody:
    """Refuses a body of more than ``LARGEST_BODY`` bytes, whatever its headers say."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        size = 0

        async def bounded() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > LARGEST_BODY:
                raise _too_large()
            return message

        if scope["type"] == "http" and _announced(scope) > LARGEST_BODY:
            raise _too_large()
        await self._app(scope, bounded, send)


class Refusals:
    """Answers what a route raises: a ``Problem`` as it is, trouble of others as 503, anything else as 500, logged."""

    def __init__(self, app: ASGIApp, render: Render | None = None) -> None:
        self._app = app
        self._render = render

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        begun = False

        async def seen(message: Message) -> None:
            nonlocal begun
            begun = begun or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, seen)
        except Exception as error:
            if scope["type"] != "http":
                raise
            problem = answer_to(error, scope["path"][:_LONGEST])
            if begun:  # too late for another answer: the connection is closed, so that nobody takes a part for all
                raise Aborted(str(error)) from error
            request = Request(scope)
            response = _rendered(self._render, request, problem)
            await response(scope, receive, send)


class Aborted(MagosError):
    """An answer that had begun could not be ended."""


def _rendered(render: Render | None, request: Request, problem: Problem) -> Response:
    page = render(request, problem) if render is not None else None
    return as_json(problem) if page is None else page


def _announced(scope: Scope) -> int:
    text = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    return int(text[:20]) if text[:20].isdigit() else 0


def _too_large() -> Problem:
    return Problem(413, f"the body has more than {LARGEST_BODY} bytes")
