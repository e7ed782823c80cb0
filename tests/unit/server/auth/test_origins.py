"""A login leads back to this server and nowhere else."""

from urllib.parse import urljoin, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magos.server.auth.origins import is_loopback_http, return_path

ELSEWHERE = [
    "",
    "//evil.com",
    "///evil.com",
    "/\\evil.com",
    "\\/evil.com",
    "/\t/evil.com",
    "/\n/evil.com",
    "/ /evil.com",
    "https://evil.com",
    "javascript:alert(1)",
    "evil.com",
    "/x\r\nSet-Cookie: a=b",
    "/\x00",
    "/\u2215evil.com",
    "/login",
    "/login?return=/login",
    "/logout",
    "/" + "a" * 3000,
]


@pytest.mark.parametrize("text", ELSEWHERE)
def test_a_return_path_that_leads_elsewhere_leads_home(text: str) -> None:
    assert return_path(text) == "/"


@pytest.mark.parametrize("text", ["/", "/workspaces", "/workspaces/a/b?tab=runs#x", "/a?u=https://evil.com//"])
def test_a_local_path_is_kept(text: str) -> None:
    assert return_path(text) == text


@given(st.text(alphabet=st.sampled_from("/\\.:@?#%\t\n aehlpt2f5c"), max_size=12))
def test_whatever_is_given_stays_on_this_host(text: str) -> None:
    path = return_path(f"/{text}")
    assert urlsplit(urljoin("https://magos.example.com/login", path)).netloc == "magos.example.com"
    assert urlsplit(f"https://magos.example.com{path}").netloc == "magos.example.com"


def test_programs_are_answered_on_this_machine_only() -> None:
    for url in ("http://127.0.0.1:8000/cb", "http://localhost/cb", "http://[::1]:9/"):
        assert is_loopback_http(url)
    for url in (
        "https://127.0.0.1/",
        "http://127.0.0.1.evil.com/",
        "http://127.0.0.1@evil.com/",
        "http://evil.com/",
        "http://localhost:x/",
        "http://127.0.0.1/#x",
        "",
    ):
        assert not is_loopback_http(url)
