"""The HTTP client of the API server: the server's words, the way out, and a token that goes nowhere else."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from magos.api.names import JobType
from magos.cli.api import Api
from magos.cli.failures import NotAllowed, NotFound
from magos.errors import ConfigurationError, MagosError
from tests.unit.explain.objects import RUN

URL = "https://magos.example"
Handler = Callable[[httpx.Request], httpx.Response]


def _api(handler: Handler) -> Api:
    return Api(URL, "t0ken", transport=httpx.MockTransport(handler), login="kubectl magos login")


def _answering(status: int, **options: Any) -> Api:
    return _api(lambda _: httpx.Response(status, **options))


@pytest.mark.parametrize(
    ("status", "options", "kind", "words"),
    [
        (401, {"json": {"error": "authentication required"}}, NotAllowed, "authentication required; run kubectl magos"),
        (403, {"json": {"error": "ada may not get workspaces in x"}}, NotAllowed, "ada may not get workspaces in x"),
        (404, {"json": {"error": "run is not known"}}, NotFound, "run is not known"),
        (429, {"json": {"error": "slowly"}, "headers": {"Retry-After": "60"}}, MagosError, "slowly; try again in 60 s"),
        (503, {"json": {"error": "history temporarily unavailable"}}, MagosError, "503: history temporarily unavail"),
        (502, {"text": "<h1>Bad\nGateway</h1>"}, MagosError, "answered with 502: <h1>Bad Gateway</h1>"),
        (500, {}, MagosError, "Internal Server Error"),
        (302, {"headers": {"Location": "https://evil.example/"}}, MagosError, "redirects to https://evil.example/"),
        (200, {"text": "<html>"}, MagosError, "is not one of a Magos API server"),
    ],
)
def test_a_refusal_has_the_words_of_the_server_and_the_way_out(
    status: int, options: dict[str, Any], kind: type[MagosError], words: str
) -> None:
    with _answering(status, **options) as api, pytest.raises(kind) as refused:
        api.whoami()
    assert type(refused.value) is kind
    assert words in str(refused.value)
    assert URL in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate"), "is not trusted"),
        (httpx.ConnectError("Name or service not known"), "cannot be reached: Name or service"),
        (httpx.ReadTimeout(""), "did not answer in time (ReadTimeout)"),
    ],
)
def test_a_server_that_does_not_answer_is_told_in_plain_words(error: httpx.HTTPError, words: str) -> None:
    def fail(_: httpx.Request) -> httpx.Response:
        raise error

    with _api(fail) as api, pytest.raises(MagosError, match=URL) as refused:
        api.whoami()
    assert words in str(refused.value)
    with _api(fail) as api, pytest.raises(MagosError, match=URL):
        list(api.log("a", "b", RUN, JobType.PLAN))


def test_the_token_is_sent_to_the_server_and_a_redirect_is_not_followed() -> None:
    seen: list[httpx.Request] = []

    def redirect(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(307, headers={"Location": "https://evil.example/"})

    with _api(redirect) as api, pytest.raises(MagosError):
        api.whoami()
    assert [(each.url.host, each.headers["Authorization"]) for each in seen] == [("magos.example", "Bearer t0ken")]


def test_names_cannot_lead_to_another_route() -> None:
    seen: list[str] = []

    def take(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.raw_path.decode())
        return httpx.Response(200, json={"items": []})

    with _api(take) as api:
        api.runs("../../auth", "a/b?c=d", limit=5, cursor="x&y")
        with pytest.raises(ValueError, match="is not a run ID"):
            list(api.log("a", "b", "../x", JobType.PLAN))
    assert seen == ["/apis/magosproject.io/v1alpha1/workspaces/..%2F..%2Fauth/a%2Fb%3Fc%3Dd/runs?limit=5&cursor=x%26y"]


def test_a_log_that_is_refused_has_the_words_of_the_server() -> None:
    refusal = {"error": "the log was given up: too large"}
    with _answering(404, json=refusal) as api, pytest.raises(NotFound, match="given up: too large"):
        list(api.log("a", "b", RUN, JobType.APPLY))


@pytest.mark.parametrize(
    "address", ["magos.example", "ftp://magos", "https://", "https://user:pw@magos", "https://m?x=1"]
)
def test_an_address_that_is_none_is_wrong_usage(address: str) -> None:
    with pytest.raises(ConfigurationError, match="has to be like"):
        Api(address)


def test_authorities_that_cannot_be_read_are_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        Api(URL, ca_file=str(tmp_path / "nothing"))
    (tmp_path / "bad").write_text("no certificate")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        Api(URL, ca_file=str(tmp_path / "bad"))
