"""The spelling of a repository and of a reference makes no other source of it (spec §6.4, rule 8)."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from magos.api.samesource import same_source
from magos.api.workspace import Source
from magos.git.errors import GitError
from magos.git.url import parse

NAMES = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,6}", fullmatch=True)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
HOSTS = st.sampled_from(["git.example.com", "a_b.internal", "10.0.0.1", "[::1]", "[2001:db8::1]"])
PORTS = st.sampled_from(["", "2222", "8443"])
SCHEMES = {"https": "443", "http": "80", "ssh": "22", "git+ssh": "22", "git": "9418"}


def source(url: str, target: str = "main") -> Source:
    return Source(repo_url=url, target_revision=target)


@st.composite
def spellings(draw: st.DrawFn, host: str, port: str, path: str) -> str:
    """One of the many ways to write one repository."""
    host = draw(st.sampled_from([host, host.upper(), host if host.startswith("[") else f"{host}."]))
    tail = draw(st.sampled_from(["", ".git", "/", ".git/", "//", "/.git", "/."]))
    user = draw(st.sampled_from(["", "git@", "deploy@"]))
    lead = draw(st.sampled_from(["", "/", "~/"]))
    if not port and draw(st.booleans()):
        return f"{user}{host}:{lead}{path}{tail}"
    scheme = draw(st.sampled_from(sorted(SCHEMES)))
    shown = f":{port}" if port else draw(st.sampled_from(["", f":{SCHEMES[scheme]}"]))
    login, home = (user, draw(st.sampled_from(["", "~/", "/"]))) if "ssh" in scheme else ("", "")
    first, _, rest = path.partition("/")
    hidden = f"%{ord(first[0]):02x}{first[1:]}" if draw(st.booleans()) else first
    spelled = scheme.upper() if draw(st.booleans()) else scheme
    return f"{spelled}://{login}{host}{shown}/{home}{hidden}{f'/{rest}' if rest else ''}{tail}"


@given(HOSTS, PORTS, PATHS, st.data())
def test_all_spellings_of_a_repository_are_one_source(host: str, port: str, path: str, data: st.DataObject) -> None:
    assume(not path.endswith("/"))
    one, other = (data.draw(spellings(host, port, path)) for _ in range(2))
    parse(one)  # both are URLs that Git is given as they are
    parse(other)
    assert same_source(source(one), source(other)), (one, other)


@given(st.tuples(HOSTS, PORTS, PATHS), st.tuples(HOSTS, PORTS, PATHS), st.data())
def test_different_repositories_are_never_one_source(
    one: tuple[str, str, str], other: tuple[str, str, str], data: st.DataObject
) -> None:
    assume(one != other)
    first, second = data.draw(spellings(*one)), data.draw(spellings(*other))
    assert not same_source(source(first), source(second)), (first, second)


@given(st.text(max_size=40), st.text(alphabet="aB:/@.[]%~2fFgit", max_size=30))
def test_every_text_equals_itself_and_what_git_takes_for_the_same(text: str, odd: str) -> None:
    for each in (text, odd, f"ssh://{odd}", f"https://{odd}", f"git@host:{odd}"):
        assert same_source(source(each), source(each))
        try:
            shown = str(parse(each))  # without its user
        except GitError:
            continue
        if "%" not in each:
            assert same_source(source(each), source(shown)), (each, shown)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://h/Org/r", "https://h/org/r"),
        ("https://h/org/r", "https://h/org/r2"),
        ("https://h/org/r", "https://h.org/r"),
        ("https://h/a%2Fb", "https://h/a/b"),
        ("https://h:8443/r", "https://h/r"),
        ("ssh://h:2222/r", "h:r"),
        ("/srv/r", "https://srv/r"),
        ("h:~other/r", "h:r"),
        ("ext::sh", "ext::zsh"),
    ],
)
def test_what_may_be_another_repository_is_another_source(one: str, other: str) -> None:
    assert not same_source(source(one), source(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [("file:///srv/r.git", "/srv/r"), ("file://localhost/srv/r/.git", "/srv//r/"), ("ssh://h/a%2Fb", "h:a/b")],
)
def test_local_paths_and_decoded_paths_are_compared_as_they_are_used(one: str, other: str) -> None:
    assert same_source(source(one), source(other))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("main", "refs/heads/main", True),
        ("v1", "refs/tags/v1", True),  # a bare name may be either: hold back
        ("refs/heads/x", "refs/tags/x", False),
        ("main", "Main", False),
        ("main", "heads/main", False),
        ("HEAD", "HEAD", True),
        ("HEAD", "main", False),
        ("1" * 40, "1" * 40, True),
        ("1" * 40, "main", False),
        ("refs/pull/1/head", "refs/pull/1/head", True),
        ("refs/pull/1/head", "pull/1/head", False),
    ],
)
def test_references_are_one_where_both_names_can_lead_to_it(one: str, other: str, same: bool) -> None:
    url = "https://h/r"
    assert same_source(source(url, one), source(url, other)) is same
    assert same_source(source(url, other), source(url, one)) is same


@given(st.from_regex(r"[a-z/]{1,12}", fullmatch=True), st.from_regex(r"[a-z/]{1,12}", fullmatch=True))
def test_two_names_are_one_reference_only_if_one_is_the_full_form_of_the_other(one: str, other: str) -> None:
    related = one == other or {one, other} in (
        {name, f"refs/{kind}/{name}"} for name in (one, other) for kind in ("heads", "tags")
    )
    assert same_source(source("h:r", one), source("h:r", other)) is related
