"""Repository URLs: what is accepted, what is refused, what is shown."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from magos.git.errors import GitError, GitReason
from magos.git.url import RepoURL, Scheme, check_scheme, parse, relative_to, strip_userinfo

HOSTS = st.sampled_from(["example.org", "EXAMPLE.org", "127.0.0.1", "[::1]", "[2001:DB8::1]", "a_b.internal"])
PORTS = st.one_of(st.none(), st.integers(min_value=1, max_value=65535))
USERS = st.one_of(st.none(), st.from_regex(r"[a-z][a-z0-9._]{0,8}", fullmatch=True))
PATHS = st.from_regex(r"(/[A-Za-z0-9._~]{1,8}){1,4}(\.git)?", fullmatch=True)
SCHEMES = st.sampled_from(["https", "http", "ssh", "git+ssh", "git", "HTTPS", "SSH"])


@given(SCHEMES, HOSTS, PORTS, USERS, PATHS)
def test_the_parts_of_a_url_are_found_and_userinfo_is_never_shown(
    scheme: str, host: str, port: int | None, user: str | None, path: str
) -> None:
    user = user if "ssh" in scheme.lower() else None
    text = f"{scheme}://" + (f"{user}@" if user else "") + host + (f":{port}" if port else "") + path
    url = parse(text)
    assert url.scheme == {"git+ssh": "ssh"}.get(scheme.lower(), scheme.lower())
    assert (url.port, url.user, url.path) == (port, user, path)
    assert "@" not in str(url)
    again = parse(str(url))
    assert (again.origin, again.path) == (url.origin, url.path)


@given(USERS, st.sampled_from(["example.org", "[::1]"]), st.from_regex(r"/?[a-z][a-z/.]{0,12}", fullmatch=True))
def test_the_scp_form_is_ssh_with_the_path_as_written(user: str | None, host: str, path: str) -> None:
    url = parse((f"{user}@" if user else "") + f"{host}:{path}")
    assert (url.scheme, url.user, url.path, url.scp) == (Scheme.SSH, user, path, True)
    assert url.origin.port == 22


@given(st.text(max_size=60))
@example("https://[::1")
@example("https://example.org:99999/x")
@example("ssh://-oProxyCommand=x/y")
@example("a@-oProxyCommand=x:y")
@example("ssh://%2doProxyCommand@h/y")
@example("http://h\u2028/x")
@example("ssh://h/a%0ab")
@example("ssh://h/%00")
def test_any_text_is_a_safe_url_or_a_git_error(text: str) -> None:
    try:
        url = parse(text)
    except GitError:
        return
    assert not url.host.startswith("-")
    assert not (url.user or "").startswith("-")
    assert not any(ord(character) <= 32 for character in url.host + (url.user or "") + url.path)
    assert url.path


@pytest.mark.parametrize(
    "text",
    [
        "ext::sh -c x",
        "ext::sh",
        "fd::17/x",
        "http::https://example.org/x",
        "ftp://example.org/x",
        "ext://x/y",
        "s3://b/k",
    ],
)
def test_remote_helpers_and_other_schemes_are_not_supported(text: str) -> None:
    with pytest.raises(GitError) as caught:
        parse(text)
    assert caught.value.reason in {GitReason.SCHEME_NOT_ALLOWED, GitReason.GIT_FAILED}
    if " " not in text:
        assert caught.value.reason is GitReason.SCHEME_NOT_ALLOWED


@pytest.mark.parametrize("scheme", ["https", "http", "ssh"])
def test_a_password_in_the_url_is_refused_and_not_repeated(scheme: str) -> None:
    with pytest.raises(GitError, match="repository Secret") as caught:
        parse(f"{scheme}://me:hunter22@example.org/x.git")
    assert "hunter22" not in caught.value.message
    assert "me@" not in caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        "https://ghp_hunter22@example.org/x.git",
        "http://hunter22@example.org:8080/x.git",
        "https://@hunter22@example.org/x.git",
        "git://hunter22@example.org/x.git",
        "file://hunter22@localhost/x.git",
        "HTTPS://hunter22%40@example.org/x.git",
        "https://me:hunter22@hunter22@example.org/x.git",
        "https://me:hunter22/x@example.org/x.git",
    ],
)
def test_a_user_name_that_may_be_a_token_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(GitError, match="repository Secret") as caught:
        parse(text)
    assert "hunter22" not in caught.value.message


@pytest.mark.parametrize("text", ["git@example.org:x.git", "ssh://deploy@example.org/x.git", "git+ssh://git@h/x"])
def test_ssh_keeps_its_user_name(text: str) -> None:
    assert parse(text).user in {"git", "deploy"}


@pytest.mark.parametrize(
    "text",
    ["", "-x", "https://example.org", "https://example.org/", "https:///x", "https://example.org/x?y", "relative/path",
     "https://example.org/x#y", "https://exa mple.org/x", "https://example.org:0/x", "file://host/x", "file:///",
     "ssh://h/a%0ab", "h:-x", "x" * 2049, "https://ex\u00e4mple.org/x"],
)  # fmt: skip
def test_what_is_no_repository_url_fails_before_any_connection(text: str) -> None:
    with pytest.raises(GitError):
        parse(text)


@pytest.mark.parametrize(
    ("text", "scheme"),
    [("/srv/x.git", "file"), ("file:///srv/x.git", "file"), ("git@h:x", "ssh"), ("git+ssh://h/x", "ssh"),
     ("git://h/x", "git"), ("http://h/x", "http")],
)  # fmt: skip
def test_only_allowed_scheme_classes_pass(text: str, scheme: str) -> None:
    url = parse(text)
    check_scheme(url, (scheme,))
    with pytest.raises(GitError, match="allowed: https") as caught:
        check_scheme(url, ("https",))
    assert caught.value.reason is GitReason.SCHEME_NOT_ALLOWED
    assert "MAGOS_ALLOWED_GIT_SCHEMES" in caught.value.message


def test_an_origin_has_an_effective_port() -> None:
    assert parse("https://h/x").origin == parse("https://H:443/y").origin
    assert parse("ssh://h/x").origin == parse("ssh://u@H:22/y").origin
    assert parse("https://h/x").origin != parse("http://h/x").origin
    assert parse("https://h/x").origin != parse("https://h:8443/x").origin
    assert str(parse("https://h:443/x").origin) == "https://h"
    assert str(parse("ssh://[::1]:7999/x").origin) == "ssh://[::1]:7999"


@pytest.mark.parametrize(
    ("base", "reference", "result"),
    [
        ("https://h/org/app.git", "../net.git", "https://h/org/net.git"),
        ("https://h/org/app.git/", "../net.git", "https://h/org/net.git"),
        ("https://h/org/app", "./sub", "https://h/org/app/sub"),
        ("https://h:8443/org/app", "../../other/net", "https://h:8443/other/net"),
        ("git@h:org/app.git", "../net.git", "h:org/net.git"),
        ("ssh://git@h:7999/org/app.git", "../net.git", "ssh://h:7999/org/net.git"),
        ("/srv/org/app", "../net", "file:///srv/org/net"),
        ("https://h/org/app", "https://elsewhere/x", "https://elsewhere/x"),
        ("https://h/org/app", "https://org@elsewhere/x", "https://elsewhere/x"),
        ("https://h/org/app", "ssh://git@elsewhere/x", "ssh://elsewhere/x"),
    ],
)
def test_relative_submodule_urls_resolve_against_their_repository(base: str, reference: str, result: str) -> None:
    assert str(relative_to(parse(base), reference)) == result


@pytest.mark.parametrize(
    "reference", ["../../../x", "../..", "./../../..", "../a b", "ext::sh", "https://me:hunter22@h/x", "git://me@h/x"]
)
def test_a_submodule_url_cannot_climb_above_its_host(reference: str) -> None:
    with pytest.raises(GitError):
        relative_to(parse("https://h/org/app"), reference)


@given(st.sampled_from(["https://h/a/b.git", "git@h:a/b", "ssh://h/a/b"]), st.lists(st.sampled_from(["..", ".", "x"])))
def test_a_relative_submodule_url_keeps_its_origin(base: str, steps: list[str]) -> None:
    url = parse(base)
    try:
        result: RepoURL = relative_to(url, "./" + "/".join(steps))
    except GitError:
        return
    assert result.origin == url.origin
    assert ".." not in result.path.split("/")


@given(st.text(), st.text(alphabet="abc:%$@ ", max_size=10))
@example("", "me:se@cret")
def test_userinfo_is_stripped_from_any_text(before: str, userinfo: str) -> None:
    shown = strip_userinfo(f"{before}https://{userinfo.replace(' ', '')}@example.org/x")
    assert shown.endswith("https://example.org/x")
