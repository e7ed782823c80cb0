"""What stands between browsers, Magos and Dex; and bounded requests to a provider (spec §9.2)."""

import asyncio
from collections.abc import AsyncIterator, Callable

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from magos.server.auth.dex import METHODS, DexProxy, rest_of
from magos.server.auth.fetching import LARGEST, Refused, Unanswered, fetch_object, http_client, no_cookies
from magos.server.problems import Problem
from tests.unit.server.auth.world import BASE, request, settings

DEX = "http://dex.magos:5556/dex"
Answer = Callable[[httpx.Request], httpx.Response]


class _Body(httpx.AsyncByteStream):
    """A body that comes from the network and not out of memory."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._content


def through(answer: Answer, path: str, **options: object) -> tuple[httpx.Response, list[httpx.Request]]:
    """Ask for a path below /dex; return the answer and what Dex was asked."""
    seen: list[httpx.Request] = []

    def dex(asked: httpx.Request) -> httpx.Response:
        seen.append(asked)
        made = answer(asked)
        headers = made.headers.multi_items()
        return httpx.Response(made.status_code, headers=headers, stream=_Body(made.content))

    async def main() -> httpx.Response:
        known = settings(MAGOS_DEX_URL=DEX)
        assert known.dex is not None
        async with httpx.AsyncClient(transport=httpx.MockTransport(dex), cookies=no_cookies()) as client:
            proxy = DexProxy(known, known.dex, client)
            app = Starlette(
                routes=[Route("/dex/{rest:path}", proxy.handle, methods=list(METHODS))],
                exception_handlers={Problem: _answer},
            )
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=BASE) as browser:
                return await browser.request(str(options.pop("method", "GET")), path, **options)  # type: ignore[arg-type]

    return asyncio.run(main()), seen


async def _answer(asked: Request, error: Exception) -> Response:
    del asked
    assert isinstance(error, Problem)
    return Response(error.text, status_code=error.status)


def test_our_cookies_and_hop_headers_stay_here() -> None:
    def dex(_asked: httpx.Request) -> httpx.Response:
        headers = [
            ("set-cookie", "magos_session=forged"),
            ("set-cookie", "theirs=1"),
            ("connection", "x-private"),
            ("x-private", "1"),
            ("location", f"{DEX}/auth/github?x=1"),
        ]
        return httpx.Response(302, headers=headers)

    headers = {
        "cookie": "magos_session=s; theirs=2; magos_csrf=c; magos_oidc=o; magos_login=l",
        "x-forwarded-for": "1.2.3.4",
        "x-csrf-token": "c",
        "te": "trailers",
    }
    answer, seen = through(dex, "/dex/auth?client_id=magos", headers=headers)
    assert str(seen[0].url) == f"{DEX}/auth?client_id=magos"
    assert seen[0].headers["cookie"] == "theirs=2"
    assert seen[0].headers["x-forwarded-for"] == "127.0.0.1"
    assert seen[0].headers["host"] == "dex.magos:5556"
    assert not {"te", "x-csrf-token"} & set(seen[0].headers)
    assert answer.headers.get_list("set-cookie") == ["theirs=1"]
    assert answer.headers["location"] == f"{BASE}/dex/auth/github?x=1"
    assert "x-private" not in answer.headers


def test_the_discovery_document_names_what_browsers_reach() -> None:
    document = {
        "issuer": DEX,
        "token_endpoint": f"{DEX}/token",
        "other": "http://dex.magos:5556/dexter",
        "list": ["RS256"],
    }
    answer, _ = through(lambda _: httpx.Response(200, json=document), "/dex/.well-known/openid-configuration")
    assert answer.json() == {
        "issuer": f"{BASE}/dex",
        "token_endpoint": f"{BASE}/dex/token",
        "other": "http://dex.magos:5556/dexter",
        "list": ["RS256"],
    }


def test_bodies_are_passed_on_and_bounded() -> None:
    answer, seen = through(
        lambda asked: httpx.Response(200, content=asked.content), "/dex/token", method="POST", content=b"a=b"
    )
    assert (answer.content, seen[0].method) == (b"a=b", "POST")
    answer, seen = through(lambda _: httpx.Response(200), "/dex/token", method="POST", content=b"x" * (LARGEST + 1))
    assert (answer.status_code, seen) == (413, [])


def test_a_dex_that_is_down_is_502() -> None:
    def down(asked: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=asked)

    assert through(down, "/dex/auth")[0].status_code == 502


@pytest.mark.parametrize(
    "path", ["/dex/../admin", "/dex/%2e%2e/admin", "/dex/%252e%252e/x", "/dex/a\\..\\b", "/dexter", "/dex/%00", "/x"]
)
def test_no_path_leads_out_of_dex(path: str) -> None:
    with pytest.raises(Problem) as raised:
        rest_of(request(path=path))
    assert raised.value.status == 400


def fetch(answer: Answer, form: dict[str, str] | None = None) -> object:
    async def main() -> object:
        async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
            return await fetch_object(client, "https://issuer.example.com/x", form)

    return asyncio.run(main())


def test_only_small_json_objects_are_taken_from_a_provider() -> None:
    assert fetch(lambda _: httpx.Response(200, json={"a": 1})) == {"a": 1}
    huge = b'{"a":"' + b"x" * LARGEST + b'"}'
    bad = (
        httpx.Response(200, json=[1]),
        httpx.Response(200, content=b"<html>"),
        httpx.Response(200, content=huge),
        httpx.Response(302, headers={"location": "http://169.254.169.254/"}),
        httpx.Response(404),
        httpx.Response(500),
    )
    for answer in bad:
        with pytest.raises(Unanswered):
            fetch(lambda _, answer=answer: answer)  # type: ignore[misc]


def test_a_refused_code_is_told_from_a_provider_that_is_down_and_shows_nothing() -> None:
    with pytest.raises(Refused) as refused:
        fetch(lambda _: httpx.Response(400, json={"error": "invalid_grant"}), {"code": "secret-code"})
    with pytest.raises(Unanswered) as down:
        fetch(lambda _: httpx.Response(503), {"code": "secret-code"})
    for text in (str(refused.value), str(down.value)):
        assert "secret-code" not in text


def test_a_cookie_of_one_person_is_not_sent_for_the_next() -> None:
    async def main() -> list[str | None]:
        seen: list[str | None] = []

        def dex(asked: httpx.Request) -> httpx.Response:
            seen.append(asked.headers.get("cookie"))
            return httpx.Response(200, headers={"set-cookie": "theirs=secret"})

        made = http_client("")
        async with made, httpx.AsyncClient(transport=httpx.MockTransport(dex), cookies=made.cookies.jar) as client:
            for _ in range(2):
                await client.get(f"{DEX}/auth")
        return seen

    assert asyncio.run(main()) == [None, None]
