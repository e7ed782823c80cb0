"""The transport against a real TLS server on loopback: retries, lanes, deadlines, streams, rotation."""

import asyncio
import gzip
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme
from aiohttp import web
from blockbuster import blockbuster_ctx

from magos.runtime.client import connections, http
from magos.runtime.client.config import ConnectionConfig
from magos.runtime.client.credentials import Anonymous, Credentials, TokenFile
from magos.runtime.client.http import HttpTransport, connect
from magos.runtime.client.tls import TlsSource
from magos.runtime.client.transport import HttpRequest, Lane, TransportError
from magos.runtime.clock import Clock, SystemClock


@pytest.fixture(autouse=True)
def nothing_blocks_the_loop() -> Iterator[None]:
    with blockbuster_ctx("magos"):
        yield


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Authority:
    """A certificate authority, a server context that asks for client certificates, and client certificates."""

    def __init__(self) -> None:
        self.ca = trustme.CA()
        self.pem = self.ca.cert_pem.bytes()

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ca.issue_cert("127.0.0.1").configure_cert(context)
        context.verify_mode = ssl.CERT_OPTIONAL
        self.ca.configure_trust(context)
        return context

    def client(self, name: str) -> tuple[bytes, bytes]:
        issued = self.ca.issue_cert(f"{name}.test")
        chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
        return chain, issued.private_key_pem.bytes()


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@asynccontextmanager
async def serving(handler: Handler, authority: Authority) -> AsyncIterator[str]:
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=authority.server_context())
    await site.start()
    try:
        host, port = runner.addresses[0][:2]
        yield f"https://{host}:{port}"
    finally:
        await runner.cleanup()


Seen = list[tuple[str, str]]


class SetClock(SystemClock):
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds


@asynccontextmanager
async def connected(
    handler: Handler,
    authority: Authority,
    *,
    credentials: Credentials | None = None,
    tls: TlsSource | None = None,
    seen: Seen | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[HttpTransport]:
    async with serving(handler, authority) as url:
        config = ConnectionConfig(
            server=url, tls=tls or TlsSource(authority=authority.pem), credentials=credentials or Anonymous()
        )

        def observe(code: str, method: str, host: str) -> None:
            assert host == url.removeprefix("https://")
            if seen is not None:
                seen.append((code, method))

        transport = connect(config, user_agent="magos/1.0 (test)", observer=observe, clock=clock)
        try:
            yield transport
        finally:
            await transport.aclose()


def get(path: str = "/x", **more: object) -> HttpRequest:
    return HttpRequest(method="GET", path=path, **more)  # type: ignore[arg-type]


def post(**more: object) -> HttpRequest:
    return HttpRequest(method="POST", path="/x", body=b"{}", content_type="application/json", lane=Lane.WRITE, **more)  # type: ignore[arg-type]


def answers(*responses: web.Response | None) -> Handler:
    """Answer with each response in turn, the last one for ever; None breaks the connection."""
    left = list(responses)

    async def handler(request: web.Request) -> web.StreamResponse:
        await request.read()
        response = left.pop(0) if len(left) > 1 else left[0]
        if response is None:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        return web.Response(status=response.status, headers=response.headers, body=response.body)

    return handler


def busy(status: int, retry_after: str = "0") -> web.Response:
    return web.Response(status=status, headers={"Retry-After": retry_after}, text="busy")


def test_a_request_says_who_we_are_and_what_we_accept(authority: Authority, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("  secret\n")

    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.headers["User-Agent"] == "magos/1.0 (test)"
        assert request.headers["Authorization"] == "Bearer secret"
        assert request.headers["Accept"] == "application/json"
        assert request.headers["Accept-Encoding"] == "gzip"
        assert request.raw_path == "/api/v1/a%2Fb?labelSelector=a%20in%20%28b%2Cc%29&limit=5"
        assert "Content-Type" not in request.headers
        body = gzip.compress(b'{"ok":true}')
        return web.Response(body=body, headers={"Content-Encoding": "gzip", "X-Some-Header": "v"})

    async def main() -> None:
        credentials = TokenFile(token, SystemClock())
        async with connected(handler, authority, credentials=credentials) as transport:
            query = (("labelSelector", "a in (b,c)"), ("limit", "5"))
            response = await transport.request(get("/api/v1/a%2Fb", query=query))
            assert (response.status, response.body) == (200, b'{"ok":true}')
            assert response.headers["x-some-header"] == "v"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("request_", "responses", "status", "codes"),
    [
        (get(), (busy(429), busy(503), web.Response(text="ok")), 200, ["429", "503", "200"]),
        (post(), (busy(429), web.Response(status=201)), 201, ["429", "201"]),
        (post(), (busy(503),), 503, ["503"]),
        (post(), (busy(500),), 500, ["500"]),
        (get(), (busy(504),), 504, ["504"]),
        (get(), (web.Response(status=429),), 429, ["429"]),
        (get(), (busy(429, "60"),), 429, ["429"]),
        (get(), (None, web.Response(text="ok")), 200, ["<error>", "200"]),
        (get(), (web.Response(status=307, headers={"Location": "/y"}),), 307, ["307"]),
    ],
)
def test_what_is_repeated_and_what_is_not(
    authority: Authority,
    request_: HttpRequest,
    responses: tuple[web.Response | None, ...],
    status: int,
    codes: list[str],
) -> None:
    seen: Seen = []

    async def main() -> None:
        async with connected(answers(*responses), authority, seen=seen) as transport:
            assert (await transport.request(request_)).status == status

    asyncio.run(main())
    assert [code for code, _ in seen] == codes


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_write_over_a_connection_that_broke_is_never_sent_again(authority: Authority, method: str) -> None:
    calls: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        await request.read()
        calls.append(request.method)
        if len(calls) > 1:
            assert request.transport is not None
            request.transport.abort()
        return web.Response()

    async def main() -> None:
        write = HttpRequest(method=method, path="/x", body=b"{}", content_type="application/json", lane=Lane.WRITE)
        async with connected(handler, authority) as transport:
            await transport.request(write)
            with pytest.raises(TransportError) as caught:
                await transport.request(write)  # over the kept connection, where repeating would be tempting
            assert caught.value.sent

    asyncio.run(main())
    assert calls == [method, method]


@pytest.mark.parametrize("waits_for", ["a-connection", "a-handshake", "a-busy-server"])
def test_a_write_that_had_to_wait_is_not_sent_once_the_right_to_write_has_ended(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, waits_for: str
) -> None:
    monkeypatch.setitem(connections.CAPS, Lane.WRITE, 1)
    bodies: list[bytes] = []
    leading = True
    arrived, go_on = asyncio.Event(), asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        nonlocal leading
        bodies.append(await request.read())
        arrived.set()
        if waits_for == "a-connection":
            await go_on.wait()
        if waits_for == "a-busy-server":
            leading = False
            return busy(429)
        return web.Response()

    async def main() -> None:
        nonlocal leading
        async with connected(handler, authority) as transport:
            first = asyncio.ensure_future(transport.request(post())) if waits_for == "a-connection" else None
            if first is not None:
                await arrived.wait()
            second = asyncio.ensure_future(transport.request(fenced))
            if waits_for != "a-busy-server":
                await asyncio.sleep(0)
                leading = False
                go_on.set()
            with pytest.raises(TransportError, match="the right to write had ended") as caught:
                await second
            assert not caught.value.sent
            if first is not None:
                assert (await first).status == 200
            # The connection is not lost to the lane, and reads need no right.
            assert (await transport.request(post(timeout=5.0))).status in (200, 429)

    fenced = HttpRequest(
        method="PATCH", path="/x", body=b"fenced", lane=Lane.WRITE, may_send=lambda: leading, timeout=10.0
    )
    asyncio.run(main())
    assert bodies.count(b"fenced") == (1 if waits_for == "a-busy-server" else 0)


def test_the_timeout_bounds_everything_and_a_refusal_beats_silence(authority: Authority) -> None:
    async def hang(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(60)
        return web.Response()

    async def main() -> None:
        async with connected(hang, authority) as transport:
            with pytest.raises(TransportError, match=r"did not answer within 0\.2 s") as caught:
                await transport.request(post(timeout=0.2))
            assert caught.value.sent
        async with connected(answers(busy(429)), authority) as transport:
            assert (await transport.request(get(timeout=0.35))).status == 429

    asyncio.run(main())


def test_no_connection_means_nothing_was_sent(authority: Authority) -> None:
    async def main() -> None:
        stranger = TlsSource(authority=trustme.CA().cert_pem.bytes())
        async with connected(answers(web.Response()), authority, tls=stranger) as transport:
            with pytest.raises(TransportError, match="certificate") as caught:
                await transport.request(post())
            assert not caught.value.sent
        config = ConnectionConfig(server="http://127.0.0.1:1", tls=TlsSource(), credentials=Anonymous())
        unreachable = connect(config, user_agent="magos/1.0 (test)")
        with pytest.raises(TransportError, match="cannot connect") as caught:
            await unreachable.request(get())
        assert not caught.value.sent
        with pytest.raises(TransportError, match="cannot connect"):
            async with unreachable.stream(get(lane=Lane.WATCH)):
                pass
        await unreachable.aclose()

    asyncio.run(main())


def test_certificates_unusable_from_the_start_are_said_to_be_so(authority: Authority) -> None:
    async def main() -> None:
        tls = TlsSource(authority=authority.pem, certificate=authority.client("x")[0], key=b"not a key")
        async with connected(answers(web.Response()), authority, tls=tls) as transport:
            with pytest.raises(TransportError, match="certificate and key") as caught:
                await transport.request(get())
            assert not caught.value.sent

    asyncio.run(main())


def test_proxies_of_the_environment_are_not_used(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")

    async def main() -> None:
        async with connected(answers(web.Response(text="direct")), authority) as transport:
            assert (await transport.request(get())).body == b"direct"

    asyncio.run(main())


def test_a_rejected_token_is_read_again_and_tried_once_more(authority: Authority, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    seen: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers["Authorization"])
        return web.Response(status=200 if seen[-1] == "Bearer new" else 401)

    async def main() -> None:
        credentials = TokenFile(token, SystemClock())
        async with connected(handler, authority, credentials=credentials) as transport:
            assert (await transport.request(post())).status == 401
            token.write_text("new")
            assert (await transport.request(post())).status == 200
            token.write_text("old")
            credentials.rejected()
            async with transport.stream(get(lane=Lane.WATCH)) as stream:
                assert stream.status == 401

    asyncio.run(main())
    assert seen == ["Bearer old"] * 3 + ["Bearer new"] + ["Bearer old"] * 2


def test_lanes_do_not_starve_each_other(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connections.CAPS, Lane.EVENTS, 1)
    entered: list[str] = []
    arrived = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        if request.path == "/slow":
            entered.append(request.path)
            arrived.set()
            await asyncio.sleep(60)
        return web.Response(text="quick")

    async def main() -> None:
        async with connected(handler, authority) as transport:
            slow = [
                asyncio.ensure_future(transport.request(get("/slow", lane=Lane.EVENTS, timeout=5.0))) for _ in range(3)
            ]
            await arrived.wait()
            lease = await transport.request(get("/lease", lane=Lane.LEASE, timeout=2.0))
            assert lease.body == b"quick"
            assert len(entered) == 1  # the cap of the lane holds
            for task in slow:
                task.cancel()
            await asyncio.gather(*slow, return_exceptions=True)

    asyncio.run(main())


async def streamed(request: web.Request, *chunks: bytes, end: str) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for chunk in chunks:
        await response.write(chunk)
    if end == "silence":
        await asyncio.sleep(60)
    if end == "abort":
        assert request.transport is not None
        request.transport.abort()
    return response


@pytest.mark.parametrize("end", ["clean", "silence", "abort"])
def test_a_stream_ends_cleanly_or_says_that_it_broke(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr(http, "INACTIVITY_SECONDS", 0.3)

    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.headers["Accept-Encoding"] == "identity"
        return await streamed(request, b"one\n", b"two\n", end=end)

    async def main() -> None:
        received, broken = b"", False
        async with connected(handler, authority) as transport, transport.stream(get(lane=Lane.WATCH)) as stream:
            try:
                async for chunk in stream.chunks:
                    received += chunk
            except TransportError:
                broken = True
        assert received == b"one\ntwo\n"
        assert broken == (end != "clean")

    asyncio.run(main())


def test_a_refused_stream_hands_its_answer_to_the_caller(authority: Authority) -> None:
    async def main() -> None:
        async with connected(answers(busy(429, "7")), authority) as transport:
            async with transport.stream(get(lane=Lane.WATCH)) as stream:
                body = b"".join([chunk async for chunk in stream.chunks])
            assert (stream.status, stream.headers["retry-after"], body) == (429, "7", b"busy")

    asyncio.run(main())


def test_an_error_of_the_reader_is_not_taken_for_one_of_the_connection(authority: Authority) -> None:
    async def main() -> None:
        async with connected(answers(web.Response(text="x")), authority) as transport:
            with pytest.raises(TimeoutError):
                async with transport.stream(get(lane=Lane.WATCH)):
                    raise TimeoutError

    asyncio.run(main())


def test_rotated_certificates_serve_new_requests_while_old_streams_go_on(authority: Authority, tmp_path: Path) -> None:
    clock = SetClock()
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    release = asyncio.Event()

    def install(name: str) -> None:
        pem, private = authority.client(name)
        certificate.write_bytes(pem)
        key.write_bytes(private)

    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        peer = request.transport.get_extra_info("peercert")
        name = str(peer["subjectAltName"][0][1])
        if request.path == "/watch":
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"begin ")
            await release.wait()
            await response.write(name.encode())
            return response
        return web.Response(text=name)

    async def main() -> None:
        install("first")
        tls = TlsSource(authority=authority.pem, certificate=certificate, key=key)
        async with connected(handler, authority, tls=tls, clock=clock) as transport:
            async with transport.stream(get("/watch", lane=Lane.WATCH)) as stream:
                assert await anext(stream.chunks) == b"begin "
                assert (await transport.request(get())).body == b"first.test"
                install("second")
                assert (await transport.request(get())).body == b"first.test"
                clock.seconds += 300
                assert (await transport.request(get())).body == b"second.test"
                release.set()
                assert [chunk async for chunk in stream.chunks] == [b"first.test"]
            clock.seconds += 300
            key.write_bytes(b"half-way through a rotation")
            assert (await transport.request(get())).body == b"second.test"
            install("third")
            clock.seconds += 10
            assert (await transport.request(get())).body == b"third.test"

    asyncio.run(main())


@pytest.mark.skipif(sys.platform != "linux", reason="the options are those of Linux")
def test_sockets_notice_a_dead_peer_within_half_a_minute() -> None:
    made = connections._socket((socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", 1)))
    with made:
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        idle, interval, probes, unacknowledged = (
            made.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT)
        )
        assert idle + interval * probes <= 30
        assert unacknowledged <= 30_000


def test_one_connection_serves_request_after_request(authority: Authority) -> None:
    peers: set[object] = set()

    async def handler(request: web.Request) -> web.StreamResponse:
        await request.read()
        assert request.transport is not None
        peers.add(request.transport.get_extra_info("peername"))
        return web.Response(status=204 if request.method == "POST" else 200)

    async def main() -> None:
        async with connected(handler, authority) as transport:
            for lane in (Lane.WRITE, Lane.LEASE):
                for _ in range(5):
                    await transport.request(get(lane=lane))
                    await transport.request(HttpRequest(method="POST", path="/x", body=b"{}", lane=lane))

    asyncio.run(main())
    assert len(peers) == 2
