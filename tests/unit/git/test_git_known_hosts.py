"""SSH host keys, key files and credentials that do not leak."""

import stat
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from magos.git.credentials import Credentials
from magos.git.errors import GitError, GitReason
from magos.git.known_hosts import fingerprint, image_host_keys, key_alias, parse_known_hosts, trusted_lines
from magos.git.ssh import SSHFiles, explain, repair_key, ssh_arguments
from magos.git.submodules import credentials_for, declared_urls
from magos.git.url import parse

PUBLISHED = {
    ("github.com", "ssh-ed25519"): "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU",
    ("github.com", "ecdsa-sha2-nistp256"): "SHA256:p2QAMXNIC1TJYWeIOttrVc98/R1BUFWu3/LiyKgUfQM",
    ("github.com", "ssh-rsa"): "SHA256:uNiVztksCsDhcc0u9e8BujQXVUpKZIDTMczCvj3tD2s",
    ("gitlab.com", "ssh-ed25519"): "SHA256:eUXGGm1YGsMAS7vkcx6JOJdOGHPem5gQp4taiCfCLB8",
    ("gitlab.com", "ecdsa-sha2-nistp256"): "SHA256:HbW3g8zUjNSksFbqTiUWPWg2Bq1x8xdGUrliXFzSnUw",
    ("gitlab.com", "ssh-rsa"): "SHA256:ROQFvPThGrW4RuWLoL9tq9I9zJ42fK4XywyRtbOz/EQ",
    ("bitbucket.org", "ssh-ed25519"): "SHA256:ybgmFkzwOSotHTHLJgHO0QN8L0xErw6vd0VhFA9m3SM",
    ("bitbucket.org", "ecdsa-sha2-nistp256"): "SHA256:FC73VB6C4OQLSCrjEayhMp9UMxS97caD/Yyi2bhW/J0",
    ("bitbucket.org", "ssh-rsa"): "SHA256:46OSHA1Rmj8E8ERTC6xkNcmGOw9oFxYr0WF6zWW8l1E",
    ("ssh.dev.azure.com", "ssh-rsa"): "SHA256:ohD8VZEXGWo6Ez8GSEJQ9WpafgLFsOfLOtGGQCQo6Og",
    ("codeberg.org", "ssh-ed25519"): "SHA256:mIlxA9k46MmM6qdJOdMnAQpzGxF4WIVVL+fj+wZbw0g",
    ("codeberg.org", "ecdsa-sha2-nistp256"): "SHA256:T9FYDEHELhVkulEKKwge5aVhVTbqCW0MIRwAfpARs/E",
    ("codeberg.org", "ssh-rsa"): "SHA256:6QQmYi4ppFS4/+zSZ5S4IU+4sa6rwvQ4PbhCtPEBekQ",
}
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"


def test_the_shipped_host_keys_have_the_published_fingerprints() -> None:
    entries = parse_known_hosts(image_host_keys())
    assert {(entry.hosts, entry.key_type): fingerprint(entry.key) for entry in entries} == PUBLISHED


def test_the_secret_adds_to_the_image_list() -> None:
    text = trusted_lines(f"# mine\r\n[git.example.org]:7999 {KEY} comment here\r\n")
    assert "github.com ssh-ed25519" in text
    assert f"\n[git.example.org]:7999 {KEY}\n" in text


@pytest.mark.parametrize("line", ["host", "host ssh-rsa", "host ssh-rsa ????", f"host ssh-rsa {KEY.split()[1]}"])
def test_a_line_that_is_no_host_key_is_named(line: str) -> None:
    with pytest.raises(GitError, match="line 2") as caught:
        trusted_lines(f"h {KEY}\n{line}\n")
    assert caught.value.reason is GitReason.GIT_FAILED


@given(st.text())
def test_any_text_is_parsed_or_refused_as_value_error(text: str) -> None:
    try:
        entries = parse_known_hosts(text)
    except ValueError:
        return
    assert parse_known_hosts("\n".join(entry.line() for entry in entries)) == entries


@given(st.sampled_from(["\n", "\r\n", "\r"]), st.sampled_from(["", "\n", "\r\n", "\n\n"]))
def test_a_private_key_is_repaired_to_line_feeds_and_one_final_newline(newline: str, end: str) -> None:
    body = ["-----BEGIN OPENSSH PRIVATE KEY-----", "b3BlbnNzaC1r", "-----END OPENSSH PRIVATE KEY-----"]
    assert repair_key(newline.join(body) + end) == "\n".join(body) + "\n"


def test_key_files_are_private_and_the_client_takes_nothing_from_the_system(tmp_path: Path) -> None:
    files = SSHFiles.write(tmp_path, Credentials(ssh_private_key="key\r\n"))
    assert files.key is not None
    assert {stat.S_IMODE(path.stat().st_mode) for path in (files.key, files.known_hosts)} == {0o600}
    command = " ".join(ssh_arguments(files))
    assert command.startswith("ssh -F /dev/null ")
    for option in ("StrictHostKeyChecking=yes", "IdentitiesOnly=yes", "BatchMode=yes", f"IdentityFile={files.key}"):
        assert f"-o{option}" in command


@given(st.text(min_size=9), st.text(min_size=9))
def test_credentials_never_show_their_values(first: str, second: str) -> None:
    credentials = Credentials(ssh_private_key=first, username=second, password=first, ca_bundle=second)
    assert repr(credentials) == str(credentials) == "Credentials(set: ssh_private_key, username, password, ca_bundle)"
    assert f"{credentials!r}" == f"{credentials}"


def test_a_password_alone_goes_with_the_user_git_and_a_key_wins() -> None:
    assert Credentials(password="p").basic_auth() == ("git", "p")
    assert Credentials(username="u", password="p").basic_auth() == ("u", "p")
    assert Credentials(username="u").basic_auth() is None
    assert Credentials(ssh_private_key="k", password="p").basic_auth() is None
    with pytest.raises(GitError, match="line break"):
        Credentials(password="p\n").basic_auth()


@pytest.mark.parametrize(
    ("url", "same"),
    [
        ("https://h/other.git", True),
        ("https://h:443/other.git", True),
        ("http://h/other.git", False),
        ("https://h:8443/other.git", False),
        ("https://evil.h/other.git", False),
        ("git@h:other", False),
    ],
)
def test_a_submodule_gets_the_login_only_on_the_same_origin(url: str, same: bool) -> None:
    credentials = Credentials(username="u", password="p", ca_bundle="c", insecure_ignore_host_key=True)
    given_away = credentials_for(parse(url), parse("https://h/app.git"), credentials)
    assert (given_away == credentials) is same
    if not same:
        assert given_away == Credentials(ca_bundle="c")


def test_submodule_declarations_are_read() -> None:
    text = b'[submodule "net"]\n\tpath = modules/net/\n\turl = ../net.git\n[submodule "x"]\n\tpath = x\n\turl = https://h/x\n'
    assert declared_urls(text) == {b"modules/net": "../net.git", b"x": "https://h/x"}


@pytest.mark.parametrize(
    ("log", "reason", "words"),
    [
        ("No user exists for uid 65532\n", GitReason.GIT_FAILED, "UID 65532"),
        (
            "debug1: Server host key: ssh-ed25519 SHA256:abc\nHost key verification failed.\n",
            GitReason.UNKNOWN_HOST_KEY,
            "[h]:7999 is not known: ssh-ed25519 SHA256:abc",
        ),
        ("git@h: Permission denied (publickey).\n", GitReason.GIT_AUTHENTICATION_FAILED, "access without credentials"),
        ("ssh: connect to host h port 1: Connection refused\n", GitReason.GIT_FAILED, "Connection refused"),
        ("debug1: x\nERROR: Repository not found.\nremote closed\n", GitReason.GIT_FAILED, "Repository not found"),
    ],
)
def test_the_log_of_the_ssh_client_becomes_a_reason(log: str, reason: GitReason, words: str) -> None:
    error = explain(parse("ssh://git@h:7999/x"), Credentials(), log)
    assert error is not None
    assert error.reason is reason
    assert words in error.message
    assert explain(parse("ssh://git@h:7999/x"), Credentials(), "debug1: all well\n") is None


def test_credentials_are_plain_data() -> None:
    assert msgspec.structs.replace(Credentials(), password="p") == Credentials(password="p")


@pytest.mark.parametrize(
    ("known", "alias"),
    [
        ("git.example.com", "git.example.com"),
        ("[git.example.com]:2222", "[git.example.com]:2222"),
        ("git.example.com,[git.example.com]:2222", "[git.example.com]:2222"),
        ("other.example.com", "[git.example.com]:2222"),
    ],
)
def test_a_host_on_another_port_goes_by_the_name_its_key_is_known_under(known: str, alias: str) -> None:
    entries = parse_known_hosts(f"{known} {KEY}\n")
    assert key_alias(entries, "git.example.com", 2222) == alias
    assert key_alias(entries, "git.example.com", 22) == "git.example.com"
