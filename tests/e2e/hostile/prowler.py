"""A program that got hold of a container of a runner pod: searches all it can read, and asks whom it can reach.

Run inside the container as its user while the stage works. Standard input: a JSON object with ``forms`` (what to look
for, in hexadecimal, by the name of the secret) and ``deeds`` (what to try); for ``sockets`` also ``others`` (who
listened on this machine before); for ``proxy`` and ``relay`` the ``variables`` that the tool was given and
``repository`` (the path of a private repository). Prints a JSON object on one line: for each secret what was ``found``
and where, how much was searched, and what became of the deeds.
"""

import http.client
import json
import os
import socket
import stat
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

SKIPPED = ("/proc", "/sys", "/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/opt")
CHUNK = 1 << 20
FETCH = "git-upload-pack"

asked = json.load(sys.stdin)
forms = {name: [bytes.fromhex(form) for form in listed] for name, listed in asked["forms"].items()}
found: dict[str, set[str]] = {name: set() for name in forms}
searched: dict[str, int] = {}
deeds: dict[str, str] = {}


def note(kind: str, place: str, content: bytes) -> None:
    searched[kind] = searched.get(kind, 0) + 1
    for name, listed in forms.items():
        if any(form in content for form in listed):
            found[name].add(f"{kind} {place}")


def chunks(path: Path) -> Iterator[bytes]:
    before = b""
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield before + chunk
            before = chunk[-512:]


def files() -> None:
    for folder, names, here in os.walk("/"):
        names[:] = [name for name in names if not os.path.join(folder, name).startswith(SKIPPED)]  # noqa: PTH118
        for name in here:
            path = Path(folder, name)
            try:
                if stat.S_ISREG(path.stat().st_mode):
                    for chunk in chunks(path):
                        note("file", str(path), chunk)
                    unpack(path)
            except OSError:
                continue


def unpack(path: Path) -> None:
    """Look into an archive, as a plan file is one."""
    try:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                note("file", str(path), archive.read(name))
    except (zipfile.BadZipFile, NotImplementedError):
        return  # not one


def processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]  # noqa: PTH208


def memory(pid: int) -> None:
    with Path(f"/proc/{pid}/maps").open() as maps, Path(f"/proc/{pid}/mem").open("rb", 0) as mem:
        for line in maps:
            span, mode, *_ = line.split()
            begin, end = (int(part, 16) for part in span.split("-"))
            if not mode.startswith("rw"):
                continue
            for start in range(begin, end, CHUNK):
                try:
                    mem.seek(start)
                    note("memory", str(pid), mem.read(min(CHUNK + 512, end - start)))
                except (OSError, ValueError, OverflowError):
                    break


def proc() -> None:
    note("environ", "self", Path("/proc/self/environ").read_bytes())
    for number in os.listdir("/proc/self/fd"):  # noqa: PTH208
        descriptor = Path(f"/proc/self/fd/{number}")
        if int(number) > 2 and descriptor.exists() and stat.S_ISREG(descriptor.stat().st_mode):
            for chunk in chunks(descriptor):
                note("descriptor", f"self/{number}", chunk)
    for pid in processes():
        for name in ("environ", "cmdline"):
            try:
                note(name, str(pid), Path(f"/proc/{pid}/{name}").read_bytes())
            except OSError:
                searched[f"{name} refused"] = searched.get(f"{name} refused", 0) + 1
        try:
            memory(pid)
        except OSError:
            searched["memory refused"] = searched.get("memory refused", 0) + 1
        try:
            for entry in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
                path = Path(f"/proc/{pid}/fd/{entry}")
                if stat.S_ISREG(path.stat().st_mode):
                    for chunk in chunks(path):
                        note("descriptor", f"{pid}/{entry}", chunk)
        except OSError:
            continue


def listeners() -> Iterator[tuple[int, int, tuple[str, int] | str]]:
    """Family, kind and address of all that began to listen since the test began: this container's, as far as known."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, _, state, _, _, _, owner, *_ = line.split()
        port = int(local.partition(":")[2], 16)
        if state == "0A" and int(owner) == os.getuid() and str(port) not in asked["others"]:
            yield socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", port)
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        _, _, _, flags, kind, _, _, *name = line.split(maxsplit=7)
        if int(flags, 16) & 0x10000 and name and name[0][0] == "@" and name[0] not in asked["others"]:
            yield socket.AF_UNIX, int(kind, 16), "\0" + name[0][1:]
    for folder, names, here in os.walk("/"):
        names[:] = [name for name in names if not os.path.join(folder, name).startswith(SKIPPED)]  # noqa: PTH118
        for path in (Path(folder, name) for name in here):
            if path.is_socket():
                yield socket.AF_UNIX, socket.SOCK_STREAM, str(path)


def sockets() -> None:
    """Ask everybody who listens, in the words of a browser and of a client of an SSH agent."""
    for family, kind, address in listeners():
        for said in (b"GET / HTTP/1.0\r\n\r\n", b"\0\0\0\x01\x0b"):
            answer = b""
            try:
                with socket.socket(family, kind) as talk:
                    talk.settimeout(2)
                    talk.connect(address)
                    talk.sendall(said)
                    while chunk := talk.recv(CHUNK):
                        answer += chunk
            except OSError:
                searched["refused by socket"] = searched.get("refused by socket", 0) + 1
            note("socket", repr(address), answer)


def variable(name: str) -> str:
    """A variable of the tool: whatever the tool starts knows it."""
    return str(asked["variables"][name])


def request(deed: str, method: str, path: str, body: bytes = b"", **headers: str) -> None:
    base = urlsplit(variable("MAGOS_GIT_PROXY"))
    prefix = "" if deed == "without the path" else base.path
    connection = http.client.HTTPConnection(base.hostname or "", base.port, timeout=20)
    connection.request(method, prefix + path, body or None, headers)
    response = connection.getresponse()
    try:
        content = response.read()
    except http.client.IncompleteRead as error:
        content = b"broken off: " + error.partial
    note("answer", deed, b"\n".join(f"{name}: {value}".encode() for name, value in response.getheaders()) + content)
    deeds[deed] = f"{response.status} {content[:60]!r}"


def proxy() -> None:
    deeds["origin"] = variable("MAGOS_GIT_ORIGIN")
    repository = asked["repository"]
    receive = "application/x-git-receive-pack-request"
    request("fetch", "GET", f"{repository}/info/refs?service={FETCH}")
    request("without the path", "GET", f"{repository}/info/refs?service={FETCH}")
    request("refs for push", "GET", f"{repository}/info/refs?service=git-receive-pack")
    request("push", "POST", f"{repository}/git-receive-pack", b"0000", **{"Content-Type": receive})
    request("dumb", "GET", f"{repository}/HEAD")
    request("dumb refs", "GET", f"{repository}/info/refs")
    request("lfs", "POST", f"{repository}/info/lfs/objects/batch", b"{}")
    request("api", "GET", "/api/v4/personal_access_tokens/self")
    request("api in disguise", "GET", f"/api/v4/user%3f/info/refs?service={FETCH}")
    request("api by dots", "GET", f"/x/%2e%2e/api/info/refs?service={FETCH}")
    request("echo", "GET", f"/echo/info/refs?service={FETCH}")
    request("put", "PUT", f"{repository}/info/refs?service={FETCH}", b"x")


def ssh(deed: str, *arguments: str, nonce: str = "", wait: bool = True) -> socket.socket:
    name, own = variable("MAGOS_GIT_RELAY").split()
    stage = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    stage.settimeout(30)
    stage.connect(f"\0{name}")
    ends = [os.pipe() for _ in range(3)]
    text = json.dumps({"nonce": nonce or own, "arguments": arguments, "protocol": ""}).encode()
    socket.send_fds(stage, [text], [ends[0][0], ends[1][1], ends[2][1]])
    os.close(ends[1][1])
    os.close(ends[2][1])
    if not wait:
        deeds[deed] = repr(os.read(ends[1][0], 100))
        return stage
    os.write(ends[0][1], b"0000")
    os.close(ends[0][1])
    output = b"".join(iter(lambda: os.read(ends[1][0], CHUNK), b""))
    errors = b"".join(iter(lambda: os.read(ends[2][0], CHUNK), b""))
    answer = stage.recv(CHUNK)
    note("answer", deed, output + errors + answer)
    deeds[deed] = f"{output[:60]!r} {errors[-200:]!r} {answer!r}"
    return stage


def agent() -> None:
    """Ask the agent as a client does that was not started by the stage."""
    for path in Path("/").glob("*/access-*/agent"):
        with socket.socket(socket.AF_UNIX) as talk:
            talk.settimeout(20)
            talk.connect(str(path))
            try:
                talk.sendall(b"\0\0\0\x01\x0b")
                deeds["agent"] = repr(talk.recv(100))
            except OSError as error:
                deeds["agent"] = type(error).__name__


def relay() -> None:
    repository = asked["repository"]
    user, host, port, other = (asked[name] for name in ("user", "host", "port", "other"))
    target = f"{user}@{host}"
    agent()
    ssh("fetch", "-p", port, target, f"{FETCH} '{repository}'")
    ssh("push", "-p", port, target, f"git-receive-pack '{repository}'")
    ssh("shell", "-p", port, target, "id")
    ssh("two commands", "-p", port, target, f"{FETCH} '{repository}'; id")
    ssh("quoted", "-p", port, target, f"{FETCH} '{repository}''$(id)'")
    ssh("forward", "-A", "-p", port, target, f"{FETCH} '{repository}'")
    ssh("option", "-o", "ProxyCommand=id", "-p", port, target, f"{FETCH} '{repository}'")
    ssh("another port", "-p", other, target, f"{FETCH} '{repository}'")
    ssh("another user", "-p", port, f"nobody@{host}", f"{FETCH} '{repository}'")
    ssh("without the word", "-p", port, target, f"{FETCH} '{repository}'", nonce="0" * 32)
    talk = ssh("client that waits", "-p", port, target, f"{FETCH} '{repository}'", wait=False)
    clients = [pid for pid in processes() if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ssh\0")]
    deeds["clients"] = str(len(clients))
    for pid in clients:
        for name in ("mem", "environ", "maps"):
            attempt(f"{name} of the client", Path(f"/proc/{pid}/{name}").read_bytes)
        attempt("fd of the client", list, Path(f"/proc/{pid}/fd").iterdir())
    proc()
    talk.close()


def attempt(deed: str, act: Callable[..., object], *arguments: object) -> None:
    try:
        act(*arguments)
    except OSError as error:
        deeds[deed] = type(error).__name__
    else:
        deeds[deed] = "done"


for deed in asked["deeds"]:
    globals()[deed]()
places = {name: sorted(listed) for name, listed in found.items()}
print(json.dumps({"found": places, "searched": searched, "deeds": deeds}))
