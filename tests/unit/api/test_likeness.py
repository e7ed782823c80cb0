"""Hints about repository Secrets whose URL is written differently (F55)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magos.api.likeness import credentials_hint, likeness

SAME = (
    "https://host/org/r",
    "https://Host/org/r/",
    "https://host/org/r.git",
    "https://host/Org/R.git/",
    "https://user@host/org/r",
    "https://user:pass@host:8443/org/r",
    "http://host/org/r",
    "ssh://git@host:22/org/r.git",
    "git+ssh://git@host/org/r",
    "git@host:org/r.git",
    "host:/org/r",
)
OTHERS = (
    "https://host/org/r2",
    "https://host/org",
    "https://host/org/r/sub",
    "https://other/org/r",
    "https://host.org/r",
    "https://host",
    "/org/r",
    "file:///org/r",
    "",
)


@pytest.mark.parametrize("url", SAME)
def test_spellings_of_one_repository_are_alike(url: str) -> None:
    assert likeness(url) == likeness(SAME[0]) == "host/org/r"


@pytest.mark.parametrize("url", OTHERS)
def test_other_repositories_are_not(url: str) -> None:
    assert likeness(url) != likeness(SAME[0])


def test_an_address_of_ipv6_keeps_its_brackets() -> None:
    assert likeness("ssh://git@[2001:db8::1]:22/r.git") == likeness("[2001:DB8::1]:r") == "[2001:db8::1]/r"


@given(st.text(), st.text(alphabet="abc:@/.[]", max_size=20))
def test_every_text_has_a_likeness_and_none_shows_userinfo(text: str, odd: str) -> None:
    for each in (text, odd, f"https://{odd}", f"https://u:secret@host/{odd}"):
        assert isinstance(likeness(each), str)
    assert "secret" not in likeness(f"https://u:secret@host/{odd}")


def test_nothing_similar_is_no_hint_and_many_are_counted() -> None:
    assert credentials_hint(()) == ""
    assert "did you mean Secret a? " in credentials_hint(("a",))
    assert "Secret a, b, c and 2 more?" in credentials_hint(("a", "b", "c", "d", "e"))
