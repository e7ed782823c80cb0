"""HTTP/1.1 to the API server: the real ``Transport``, on aiohttp.

Rules, in force for every caller and nowhere else:

1. The request's timeout bounds everything: waiting for a connection, retries and their pauses included.
2. ``Retry-After`` with 429 is obeyed for every method (the server did nothing), with 5xx but 504 for reads; at most
   ``RETRIES`` times and only where the pause fits into the timeout. A broken connection is retried for reads only.
   A write whose outcome is unknown is never sent again from here, and none once ``may_send`` says no.
3. 401 makes the credentials be obtained anew, and the request is sent once more.
4. A stream without a byte for ``INACTIVITY_SECONDS`` is dead: the server sends a bookmark every minute.
5. Proxies, cookies, redirects and netrc are not used.
6. Certificates rotate as ``connections`` says.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from magos.errors import MagosError
from magos.runtime.client.config import ConnectionConfig
from magos.runtime.client.connections import Connections
from magos.runtime.client.retries import Attempts
from magos.runtime.client.tls import TlsMaterial
from magos.runtime.client.transport import HttpRequest, HttpResponse, HttpStream, Lane, TransportError
from magos.runtime.clock import Clock, SystemClock

if TYPE_CHECKING:
    import aiohttp

INACTIVITY_SECONDS = 75.0
CONNECT_SECONDS = 10.0

Observer = Callable[[str, str, str], None]
"""Called with code (``<error>`` without an answer), method and host for each request sent."""


def connect(
    config: ConnectionConfig,
    *,
    user_agent: str,
    observer: Observer | None = None,
    clock: Clock | None = None,
    rng: random.Random | None = None,
) -> "HttpTransport":
    """Return a transport; it connects with the first request. ``user_agent`` is ``magos/<version> (<component>)``."""
    return HttpTransport(
        config,
        user_agent,
        observer or (lambda *_: None),
        clock or SystemClock(),
        rng or random.Random(),  # noqa: S311
    )


class HttpTransport:
    """See the module; made by ``connect``."""

    def __init__(
        self, config: ConnectionConfig, user_agent: str, observer: Observer, clock: Clock, rng: random.Random
    ) -> None:
        self._config = config
        self._observer = observer
        self._clock = clock
        self._rng = rng
        self._host = urlsplit(config.server).netloc
        self._connections = Connections(config, user_agent, clock)

    async def request(self, request: HttpRequest) -> HttpResponse:
        """Return the server's answer whatever its status; raise ``TransportError`` where there is none."""
        state = Attempts(request.method == "GET")
        try:
            async with asyncio.timeout(request.timeout):
                return await self._persist(request, state)
        except TimeoutError:
            if state.answer is not None:
                return state.answer
            self._observer("<error>", request.method, self._host)
            message = f"{self._host} did not answer within {request.timeout:g} s"
            raise TransportError(message, sent=state.sent) from None

    async def _persist(self, request: HttpRequest, state: Attempts) -> HttpResponse:
        deadline = self._clock.monotonic() + request.timeout
        while True:
            try:
                response = await self._once(request, state)
            except TransportError as error:
                self._observer("<error>", request.method, self._host)
                pause = state.after_failure(error)
                if pause is None:
                    raise
            else:
                self._observer(str(response.status), request.method, self._host)
                if response.status == 401 and state.first_rejection():
                    self._config.credentials.rejected()
                    continue
                pause = state.after_answer(response)
                if pause is None or self._clock.monotonic() + pause >= deadline:
                    return response
            await asyncio.sleep(pause * self._rng.uniform(1.0, 1.1))

    async def _once(self, request: HttpRequest, state: Attempts) -> HttpResponse:
        async with self._exchange(request, state) as response:
            with _translated(self._host):
                body = await response.read()
            return HttpResponse(status=response.status, headers=_headers(response), body=body)

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncIterator[HttpStream]:
        """Open a stream; leaving the context closes it."""
        async with self._opened(request) as response, aclosing(_chunks(response, self._host)) as chunks:
            yield HttpStream(status=response.status, headers=_headers(response), chunks=chunks)

    @asynccontextmanager
    async def _opened(self, request: HttpRequest) -> AsyncIterator["aiohttp.ClientResponse"]:
        state = Attempts(read=True)
        while True:
            retry = False
            try:
                async with self._exchange(request, state, opening=request.timeout) as response:
                    self._observer(str(response.status), request.method, self._host)
                    if response.status == 401 and state.first_rejection():
                        self._config.credentials.rejected()
                        retry = True
                    else:
                        yield response
            except TransportError:
                self._observer("<error>", request.method, self._host)
                raise
            if not retry:
                return

    async def aclose(self) -> None:
        """Close all connections."""
        await self._connections.aclose()

    @asynccontextmanager
    async def _exchange(
        self, request: HttpRequest, state: Attempts, opening: float | None = None
    ) -> AsyncIterator["aiohttp.ClientResponse"]:
        """Send the request and lend the response until its headers are used or its body is read."""
        state.sent = False
        try:
            pool, token = await self._connections.ready()
        except MagosError as error:
            raise TransportError(str(error), sent=False) from error
        from magos.runtime.client.fencing import fenced

        async with pool.session(request.lane) as session:
            # From here on bytes may leave; a connection that never came about is recognised by ``_translated``.
            state.sent = True
            try:
                with _translated(self._host), fenced(request.may_send):
                    async with asyncio.timeout(opening):
                        response = await session.request(**self._arguments(request, token, pool.material))
            except TransportError as error:
                state.sent = error.sent
                raise
            try:
                yield response
            finally:
                response.close()  # gives back a connection whose body was read, ends any other

    def _arguments(self, request: HttpRequest, token: str, material: TlsMaterial) -> dict[str, Any]:
        import aiohttp
        import yarl

        watch = request.lane is Lane.WATCH
        headers = {"Accept": request.accept, "Accept-Encoding": "identity" if watch else "gzip"}
        if request.content_type:
            headers["Content-Type"] = request.content_type
        if token:
            headers["Authorization"] = f"Bearer {token}"
        query = "&".join(f"{quote(key, safe='')}={quote(value, safe='')}" for key, value in request.query)
        url = f"{self._config.server}{request.path}{'?' if query else ''}{query}"
        return {
            "method": request.method,
            "url": yarl.URL(url, encoded=True),
            "headers": headers,
            "data": request.body or None,
            "allow_redirects": False,
            "server_hostname": material.server_name or None,
            "timeout": aiohttp.ClientTimeout(
                total=None, sock_connect=CONNECT_SECONDS, sock_read=INACTIVITY_SECONDS if watch else None
            ),
        }


async def _chunks(response: "aiohttp.ClientResponse", host: str) -> AsyncGenerator[bytes, None]:
    chunks = response.content.iter_any()
    while True:
        with _translated(host):
            try:
                chunk = await anext(chunks)
            except StopAsyncIteration:
                return
        yield chunk


@contextmanager
def _translated(host: str) -> Iterator[None]:
    """Turn every way in which aiohttp reports "no answer" into a ``TransportError``."""
    import aiohttp

    try:
        yield
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        raise TransportError(f"cannot connect to {host}: {_words(error)}", sent=False) from error
    except TimeoutError as error:
        raise TransportError(f"{host} did not answer in time, or its stream went silent", sent=True) from error
    except (aiohttp.ClientError, OSError) as error:
        raise TransportError(f"the connection to {host} broke: {_words(error)}", sent=True) from error


def _headers(response: "aiohttp.ClientResponse") -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__
