"""What of Git passes to the repository's origin: every spelling of a fetch, and nothing that is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magos.git.fetchpath import FetchPath, Step
from magos.git.gitprograms import ORIGIN, PROXY, remote_command
from magos.git.known_hosts import HostKey, keys_of_host
from magos.git.sshcommand import read_command

REFS, PACK = "/info/refs?service=git-upload-pack", "/git-upload-pack"
HERE = {ORIGIN: "https git.example.com 443", PROXY: "http://127.0.0.1:7/word"}
UPLOAD = "git-upload-pack '/team/app.git'"


@pytest.mark.parametrize(
    "url",
    [
        "https://git.example.com/team/app.git",
        "https://git.example.com:443/team/app.git",
        "https://GIT.Example.COM/team/app.git",
        "https://robot@git.example.com/team/app.git",
        "https://oauth2:word@git.example.com/team/app.git",
    ],
)
def test_every_spelling_of_the_origin_goes_through_the_proxy(url: str) -> None:
    command, extra = remote_command("origin", url, HERE)
    assert command[-2:] == ["origin", "http://127.0.0.1:7/word/team/app.git"]
    assert "http.proxy=" in command, "a proxy of the network knows nothing of this address"
    assert extra == {"GIT_ALLOW_PROTOCOL": "http"}


@pytest.mark.parametrize(
    "url",
    [
        "https://git.example.com:8443/team/app.git",
        "http://git.example.com/team/app.git",
        "https://git.example.com.evil.org/team/app.git",
        "https://git.example.com@evil.org/team/app.git",
        "https://evil.org/https://git.example.com/",
    ],
)
def test_another_origin_is_asked_as_if_we_were_not_there(url: str) -> None:
    command, extra = remote_command("origin", url, HERE)
    assert command == ["git", f"remote-{url.partition(':')[0]}", "origin", url]
    assert extra == {}


@pytest.mark.parametrize("url", ["ssh://git.example.com/x", "ext::sh -c id", "/etc", "https:///x", "--upload-pack=x"])
def test_the_remote_helper_takes_web_urls_only(url: str) -> None:
    with pytest.raises(ValueError, match="http"):
        remote_command("origin", url, HERE)


@pytest.mark.parametrize("path", ["/app.git", "/team/app", "/~user/app.git", "/a%20b/c.git", "/a/b/c/d.git", ""])
def test_a_fetch_is_one_in_every_repository(path: str) -> None:
    assert FetchPath.parse(path + REFS) == FetchPath(path, Step.REFS) if path else True
    assert FetchPath.parse(f"/x{path}{PACK}").target == f"/x{path}{PACK}"


@pytest.mark.parametrize(
    "target",
    [
        "/app.git/info/refs",
        "/app.git/info/refs?service=git-receive-pack",
        "/app.git/info/refs?service=git-upload-pack&x=1",
        "/app.git/git-receive-pack",
        "/app.git/git-upload-pack?x=1",
        "/app.git/HEAD",
        "/app.git/objects/info/packs",
        "/app.git/info/lfs/objects/batch",
        "/api/v4/user",
        f"/api/v4/user?x={REFS}",
        f"/api/v4/user%3Fx{REFS}",
        f"/api/v4/user%23{REFS}",
        f"/x/../api/v4/user{REFS}",
        f"/x/%2e%2E/api/v4/user{REFS}",
        f"/x/./y{REFS}",
        f"/x%2Fy{REFS}",
        f"/x\\y{REFS}",
        f"/x%5Cy{REFS}",
        f"/x%0d%0aHost:%20y{REFS}",
        f"/x y{REFS}",
        f"//evil.org@{'x' * 5000}{REFS}",
        REFS,
        "",
    ],
)
def test_nothing_else_is_a_fetch(target: str) -> None:
    with pytest.raises(ValueError, match=r"path is too long|only fetching"):
        FetchPath.parse(target)


@given(st.text(max_size=80), st.sampled_from([REFS, PACK, ""]))
def test_what_passes_cannot_be_read_in_two_ways(text: str, suffix: str) -> None:
    try:
        path = FetchPath.parse(text + suffix)
    except ValueError:
        return
    assert path.target == text + suffix
    assert path.repository.startswith("/")
    assert not set(path.repository) & set("?#\\ \r\n")
    assert not {".", ".."} & set(path.repository.split("/"))


def test_a_fetch_over_ssh_is_understood_as_git_asks_for_it() -> None:
    wanted = read_command(["-o", "SendEnv=GIT_PROTOCOL", "-p", "7999", "git@Git.Example.com", UPLOAD])
    assert (wanted.host, wanted.port, wanted.user, wanted.command) == ("git.example.com", 7999, "git", UPLOAD)
    assert read_command(["[::1]", UPLOAD]).host == "::1"
    with_key = read_command(["-i", "/tmp/key", "-o", "StrictHostKeyChecking=no", "git@h", UPLOAD])  # noqa: S108
    assert with_key.key_file == "/tmp/key"  # noqa: S108
    quoted = "git-upload-pack 'it'\\''s\\!'"
    assert read_command(["h", "git-upload-pack 'it'\\''s here'"]).command == "git-upload-pack 'it'\\''s here'"
    assert quoted != UPLOAD


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["git@h"],
        ["git@h", "git-receive-pack '/x'"],
        ["git@h", "id"],
        ["git@h", f"{UPLOAD}; id"],
        ["git@h", f"{UPLOAD}\nid"],
        ["git@h", "git-upload-pack '/x''$(id)'"],
        ["git@h", "git-upload-pack /x"],
        ["git@h", "git-upload-pack --strict '/x'"],
        ["git@h", UPLOAD, "more"],
        ["-A", "git@h", UPLOAD],
        ["-L", "1:h:2", "git@h", UPLOAD],
        ["-o", "ProxyCommand=id", "git@h", UPLOAD],
        ["-oProxyCommand=id", "git@h", UPLOAD],
        ["-p", "0", "git@h", UPLOAD],
        ["-p", "70000", "git@h", UPLOAD],
        ["-i", "key", "git@h", UPLOAD],
        ["-F", "/tmp/config", "git@h", UPLOAD],  # noqa: S108
        ["git@-oProxyCommand=id", UPLOAD],
        ["git@h x", UPLOAD],
        ["--", "-oProxyCommand=id", UPLOAD],
    ],
)
def test_everything_else_over_ssh_is_refused(arguments: list[str]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read_command(arguments)


def hosts(pattern: str) -> HostKey:
    return HostKey(pattern, "ssh-ed25519", "x")


@pytest.mark.parametrize(
    ("pattern", "host", "port", "listed"),
    [
        ("git.example.com", "git.example.com", 22, True),
        ("Git.Example.com", "git.example.com", 22, True),
        ("a,git.example.com", "git.example.com", 22, True),
        ("*.example.com", "git.example.com", 22, True),
        ("*.example.com,!git.example.com", "git.example.com", 22, False),
        ("!git.example.com", "git.example.com", 22, False),
        ("gi?.example.com", "git.example.com", 22, True),
        ("[git.example.com]:7999", "git.example.com", 7999, True),
        ("[git.example.com]:7999", "git.example.com", 22, False),
        ("[git.example.com]:7998", "git.example.com", 7999, False),
        ("git.example.com", "git.example.com", 7999, True),
        ("evil.org", "git.example.com", 22, False),
        ("|1|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|3988QV0VE8wmZL7suNrYQLITLCg=", "192.168.1.61", 22, True),
        ("|1|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|3988QV0VE8wmZL7suNrYQLITLCg=", "192.168.1.62", 22, False),
        ("|1|broken", "git.example.com", 22, False),
        ("|1|%%%|%%%", "git.example.com", 22, False),
    ],
)
def test_the_keys_of_a_host_are_found_as_ssh_finds_them(pattern: str, host: str, port: int, listed: bool) -> None:
    assert bool(keys_of_host([hosts(pattern)], host, port)) is listed
