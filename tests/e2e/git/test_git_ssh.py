"""SSH with the real OpenSSH on both sides: keys, host keys, ports, and what the module download may reach."""

import os
import shlex
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trustme

from magos.git.credentials import Credentials
from magos.git.errors import GitReason
from magos.git.gitaccess import git_access
from magos.git.lsremote import LsRemoteRequest, ls_remote
from magos.git.ssh import SSHFiles, explain, ssh_arguments
from magos.git.url import parse
from magos.local.ports import free_ports
from magos.outbound.peers import Peers
from tests.e2e.git.conftest import SCHEMES, Clones
from tests.e2e.git.servers import HTTPServer, Repository, SSHServer, git, http_server, ssh_server


@pytest.fixture(scope="session")
def old_sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SSHServer]:
    """A server that drops GIT_PROTOCOL, so speaks v0 and serves the tips of references only."""
    with ssh_server(tmp_path_factory.mktemp("old-sshd"), accept_env=False) as running:
        yield running


@pytest.fixture
def access(sshd: SSHServer) -> Credentials:
    return Credentials(ssh_private_key=sshd.private_key, known_hosts=sshd.host_key)


def test_a_repository_behind_a_port_is_fetched_with_the_key_of_the_secret(
    clone: Clones, repository: Repository, sshd: SSHServer, access: Credentials, history: list[str]
) -> None:
    url = sshd.url(repository.bare)
    assert clone(url, credentials=access).revision == history[5]
    assert clone(url, "trunk", history[2], credentials=access).revision == history[2]
    assert ls_remote(LsRemoteRequest(url, "trunk", SCHEMES, access)).sha == history[5]


@pytest.mark.parametrize("repair", ["crlf", "no-newline", "cr"])
def test_a_key_with_damaged_line_ends_is_repaired(
    clone: Clones, repository: Repository, sshd: SSHServer, history: list[str], repair: str
) -> None:
    key = {
        "crlf": sshd.private_key.replace("\n", "\r\n"),
        "no-newline": sshd.private_key.rstrip("\n"),
        "cr": sshd.private_key.replace("\n", "\r"),
    }[repair]
    credentials = Credentials(ssh_private_key=key, known_hosts=sshd.host_key)
    assert clone(sshd.url(repository.bare), credentials=credentials).revision == history[5]


def test_an_unknown_host_key_is_told_with_type_fingerprint_and_advice(
    clone: Clones, repository: Repository, sshd: SSHServer
) -> None:
    error = clone.fails(sshd.url(repository.bare), credentials=Credentials(ssh_private_key=sshd.private_key))
    assert error.reason is GitReason.UNKNOWN_HOST_KEY
    assert f"[127.0.0.1]:{sshd.port} is not known: ssh-ed25519 {sshd.fingerprint}" in error.message
    assert "known_hosts" in error.message


def test_a_changed_host_key_is_refused(
    clone: Clones, repository: Repository, sshd: SSHServer, old_sshd: SSHServer
) -> None:
    other = old_sshd.host_key.replace(str(old_sshd.port), str(sshd.port))
    credentials = Credentials(ssh_private_key=sshd.private_key, known_hosts=other)
    error = clone.fails(sshd.url(repository.bare), credentials=credentials)
    assert error.reason is GitReason.UNKNOWN_HOST_KEY
    assert "has changed" in error.message
    assert sshd.fingerprint in error.message


def test_checking_can_be_switched_off_for_one_repository_only_by_its_secret(
    clone: Clones, repository: Repository, sshd: SSHServer, history: list[str]
) -> None:
    credentials = Credentials(ssh_private_key=sshd.private_key, insecure_ignore_host_key=True)
    assert clone(sshd.url(repository.bare), credentials=credentials).revision == history[5]


def test_a_missing_wrong_or_unreadable_key_is_an_authentication_failure(
    clone: Clones, repository: Repository, sshd: SSHServer, old_sshd: SSHServer
) -> None:
    url = sshd.url(repository.bare)
    for key, words in (
        (None, "access without credentials"),
        (old_sshd.private_key, "the SSH key of the repository Secret"),
        ("not a key", "cannot be read"),
    ):
        credentials = Credentials(ssh_private_key=key, known_hosts=sshd.host_key)
        error = clone.fails(url, credentials=credentials)
        assert error.reason is GitReason.GIT_AUTHENTICATION_FAILED, error
        assert words in error.message


def test_a_missing_repository_and_a_closed_port_are_git_failures(
    clone: Clones, root: Path, sshd: SSHServer, access: Credentials
) -> None:
    missing = clone.fails(sshd.url(root / "nothing.git"), credentials=access)
    assert missing.reason is GitReason.GIT_FAILED
    assert "nothing.git" in missing.message
    port = free_ports(1)[0]
    closed = clone.fails(f"ssh://git@127.0.0.1:{port}/x", credentials=access)
    assert closed.reason is GitReason.GIT_FAILED
    assert "refused" in closed.message


def test_a_server_that_refuses_commits_behind_its_tips_is_deepened_to_the_pinned_one(
    clone: Clones, repository: Repository, old_sshd: SSHServer
) -> None:
    credentials = Credentials(ssh_private_key=old_sshd.private_key, known_hosts=old_sshd.host_key)
    shas = [repository.commit({"main.tf": str(number)}, push=False) for number in range(40)]
    git(repository.work, "tag", "-a", "-m", "x", "v1", shas[20])
    repository.push()
    url = old_sshd.url(repository.bare)
    for target, revision, expected in (
        ("trunk", shas[30], 30), ("trunk", shas[2], 2), ("v1", None, 20), (shas[5], None, 5),
    ):  # fmt: skip
        assert clone(url, target, revision, credentials=credentials).revision == shas[expected]
        assert clone.read("main.tf") == str(expected)


def test_a_commit_of_another_branch_is_not_behind_the_target_reference(
    clone: Clones, repository: Repository, old_sshd: SSHServer, history: list[str]
) -> None:
    credentials = Credentials(ssh_private_key=old_sshd.private_key, known_hosts=old_sshd.host_key)
    git(repository.work, "checkout", "-q", "-b", "side", history[0])
    side = repository.commit({"main.tf": "side"})
    repository.commit({"main.tf": "tip"})
    url = old_sshd.url(repository.bare)
    error = clone.fails(url, "trunk", side, credentials=credentials)
    assert error.reason is GitReason.REVISION_NOT_FOUND
    assert clone.fails(url, "nope", side, credentials=credentials).reason is GitReason.REVISION_NOT_FOUND
    assert clone(url, side, credentials=credentials).revision == side, "a full SHA as target looks at every branch"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can run the client under a UID without passwd entry")
def test_a_uid_without_passwd_entry_is_told_as_the_cause(tmp_path: Path) -> None:
    files = SSHFiles(tmp_path / "known_hosts", None)
    done = subprocess.run(
        [*ssh_arguments(files), "127.0.0.1"], user=54321, capture_output=True, text=True, check=False, cwd="/"
    )
    error = explain(parse("ssh://git@127.0.0.1/x"), Credentials(), done.stderr)
    assert error is not None
    assert "UID 54321" in error.message


class Modules:
    """Runs ``git ls-remote`` as the module download would."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0

    def __call__(self, url: str, repository: str, credentials: Credentials) -> subprocess.CompletedProcess[str]:
        self.count += 1
        private = self.folder / f"access-{self.count}"
        private.mkdir(mode=0o700)
        path = os.environ["PATH"]
        with git_access(
            parse(repository), credentials, ("https", "http", "ssh"), private, search_path=path, peers=Peers()
        ) as environment:
            assert not any("hunter22" in value or "PRIVATE" in value for value in environment.values())
            # Neither a key nor host keys nor authorities that somebody could read or exchange.
            assert {entry.name for entry in private.iterdir()} <= {"agent", "programs"}
            return subprocess.run(
                ["git", "ls-remote", url],
                env={"PATH": path, "HOME": str(private), **environment},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )


@pytest.fixture
def modules(tmp_path: Path) -> Modules:
    return Modules(tmp_path)


def test_module_download_gets_the_password_on_the_repository_origin_only(
    modules: Modules, root: Path, server: HTTPServer
) -> None:
    for name in ("app.git", "mods.git"):
        Repository(root, name).commit({"main.tf": ""})
    server.login = ("alice", "hunter22")
    login = Credentials(username="alice", password="hunter22")
    repository = f"{server.url}/app.git"
    assert modules(f"{server.url}/mods.git", repository, login).returncode == 0
    with http_server(root) as other:
        other.login = ("alice", "hunter22")
        refused = modules(f"{other.url}/app.git", repository, login)
        assert refused.returncode != 0
        assert {authorization for _, authorization in other.seen} == {None}
        server.redirects["/away"] = f"{other.url}/app.git"
        assert modules(f"{server.url}/away", repository, login).returncode != 0
        assert {authorization for _, authorization in other.seen} == {None}
    assert modules(f"{server.url}/mods.git", repository, Credentials()).returncode != 0, "and never asks"


def test_module_download_trusts_the_ca_bundle_for_the_repository_origin_only(
    modules: Modules, root: Path, repository: Repository
) -> None:
    repository.commit({"main.tf": ""})
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    login = Credentials(username="alice", password="hunter22", ca_bundle=authority.cert_pem.bytes().decode())
    with http_server(root, context) as server, http_server(root, context) as other:
        server.login = ("alice", "hunter22")
        trusted = modules(f"{server.url}/app.git", f"{server.url}/app.git", login)
        assert trusted.returncode == 0, trusted.stderr
        refused = modules(f"{other.url}/app.git", f"{server.url}/app.git", login)
        assert "certificate" in refused.stderr
        assert other.seen == []


def test_module_download_gets_the_key_on_the_repository_host_and_port_only(
    modules: Modules, repository: Repository, sshd: SSHServer, old_sshd: SSHServer, history: list[str]
) -> None:
    both = f"{sshd.host_key}\n{old_sshd.host_key}"
    access = Credentials(ssh_private_key=sshd.private_key, known_hosts=both)
    mine = modules(sshd.url(repository.bare), sshd.url(repository.bare), access)
    assert mine.returncode == 0, mine.stderr
    assert history[5] in mine.stdout
    key_of_other = Credentials(ssh_private_key=old_sshd.private_key, known_hosts=both)
    other_port = modules(old_sshd.url(repository.bare), sshd.url(repository.bare), key_of_other)
    assert "Permission denied" in other_port.stderr
    unknown = modules(
        sshd.url(repository.bare), sshd.url(repository.bare), Credentials(ssh_private_key=sshd.private_key)
    )
    assert "Host key verification failed" in unknown.stderr


def nobody_serves(access: Mapping[str, str]) -> bool:
    """Tell whether neither thread nor socket is left of ``access``."""
    relay = "@" + access["MAGOS_GIT_RELAY"].split()[0]
    threads = [thread.name for thread in threading.enumerate() if thread.name.startswith("service")]
    return relay not in Path("/proc/net/unix").read_text() and not threads


def test_the_proxy_ends_with_the_block_although_somebody_is_connected(
    tmp_path: Path, repository: Repository, server: HTTPServer
) -> None:
    repository.commit({"main.tf": ""})
    url = parse(f"{server.url}/app.git")
    with socket.socket() as talk:
        login = Credentials(username="alice", password="hunter22")
        with git_access(url, login, ("http",), tmp_path, search_path=os.environ["PATH"], peers=Peers()) as access:
            address = ("127.0.0.1", urlsplit(access["MAGOS_GIT_PROXY"]).port or 0)
            talk.connect(address)
            talk.sendall(b"GET /")
            assert not nobody_serves(access)
        assert nobody_serves(access)
    with socket.socket() as probe:
        assert probe.connect_ex(address) != 0


def test_the_relay_ends_with_the_block_in_the_middle_of_a_fetch(
    tmp_path: Path, repository: Repository, sshd: SSHServer, access: Credentials
) -> None:
    repository.commit({"main.tf": ""})
    url = sshd.url(repository.bare)
    with git_access(parse(url), access, ("ssh",), tmp_path, search_path=os.environ["PATH"], peers=Peers()) as variables:
        arguments = ["-p", str(sshd.port), f"{sshd.user}@127.0.0.1", f"git-upload-pack '{repository.bare}'"]
        fetch = subprocess.Popen(
            [*shlex.split(variables["GIT_SSH_COMMAND"]), *arguments],
            env={**os.environ, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert fetch.stdout is not None
        assert len(fetch.stdout.read(4)) == 4, "the server has begun to answer"
        assert not nobody_serves(variables)
    with fetch:
        assert fetch.wait(20) != 0
    assert nobody_serves(variables)
    assert list(tmp_path.glob("agent")) == []


def test_module_download_uses_no_other_protocol_and_no_configuration(modules: Modules, repository: Repository) -> None:
    refused = modules(str(repository.bare), "https://example.org/x", Credentials())
    assert "not allowed" in refused.stderr
    refused = modules("ext::sh -c true", "https://example.org/x", Credentials())
    assert refused.returncode != 0
